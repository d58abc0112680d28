"""The plan of the middleware's turns, of whose room nothing is known before their first request."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import EbbtideMiddleware, Settings
from ebbtide.nodes.turn.state import unpacked
from tests.agents import THREAD, archive_in
from tests.doubles import ScriptedModel, Sent, call

FIRST = Settings(context_budget=8_000)
LONG = "The gate of the north yard is green. " * 40


@tool
def look_up(topic: str) -> str:
    """Look a topic up in the handbook of the yard, which has a page for each gate and siding."""
    return f"The page of {topic}: {LONG}"


@tool
def note(words: str) -> str:
    """Write words into the notebook of the yard."""
    return words


class Requests(AgentMiddleware[Any, Any, Any]):
    """Changes each request by a function of it and the number of the user's message."""

    def __init__(self, change: Callable[[ModelRequest[Any], int], ModelRequest[Any]]) -> None:
        """Change no request yet."""
        super().__init__()
        self.change, self.said = change, 0

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Send the changed request."""
        return handler(self.change(request, self.said))


def talked(
    root: Path, turns: int, change: Any = None, contexts: Any = None
) -> tuple[list[tuple[str, int]], list[Sent]]:
    """Say so much; return why and after which turn the plan was made, and the request.

    They are those of the last call of each turn.
    """
    changing = Requests(change or (lambda request, _: request))
    model = ScriptedModel(answers=[])
    agent: Any = create_agent(
        model,
        [look_up, note],
        system_prompt="Be kind.",
        checkpointer=InMemorySaver(),
        middleware=[changing, EbbtideMiddleware(archive=archive_in(root), settings=FIRST)],
    )
    made, sent = [], []
    for number in range(1, turns + 1):
        changing.said = number
        model.answers = [
            *model.sent,
            call("look_up", topic=f"gate {number}"),
            f"Gate {number}. {LONG}",
        ]
        words = {"messages": f"How is gate {number}?"}
        state = agent.invoke(words, THREAD, context=contexts(number) if contexts else None)
        plan: Any = unpacked(state)["plan"]
        made.append((plan["why"], plan["after_turn"]))
        sent.append(model.sent[-1])
    return made, sent


def keeps_prefix(one: Sent, two: Sent) -> bool:
    """Tell whether a request begins with all bytes of another one."""
    contents = [[(m.type, m.content) for m in sent.messages] for sent in (one, two)]
    return one.tools == two.tools and contents[1][: len(contents[0])] == contents[0]


def test_second_turn_keeps_the_prefix_of_the_first(tmp_path: Path) -> None:
    """The plan of the first turn is for the room of its first request."""
    made, sent = talked(tmp_path, 3)

    assert made == [("new", 0)] * 3
    assert all(keeps_prefix(one, two) for one, two in pairwise(sent))


def test_tools_that_change_between_turns(tmp_path: Path) -> None:
    """The plan changes with the request that has them, which has no cached prefix, and once."""
    made, sent = talked(
        tmp_path,
        4,
        lambda request, turn: request.override(tools=request.tools[: 1 if turn < 2 else 2]),
    )

    assert made == [("new", 0), *[("settings", 1)] * 3]
    assert keeps_prefix(sent[1], sent[2])
    assert keeps_prefix(sent[2], sent[3])


@pytest.mark.parametrize("budget", [7_000, 9_000])
def test_budget_of_a_run(tmp_path: Path, budget: int) -> None:
    """A larger or smaller one changes the plan in its run, and no more in the next."""
    contexts = lambda turn: {"context_budget": budget} if turn > 1 else None  # noqa: E731

    made, sent = talked(tmp_path, 4, contexts=contexts)

    assert made == [("new", 0), *[("settings", 1)] * 3]
    assert keeps_prefix(sent[1], sent[2])


@pytest.mark.thorough
def test_messages_that_are_added_to_each_request(tmp_path: Path) -> None:
    """What another middleware adds to one request shortens that one, and is no new setting."""

    def adding(request: ModelRequest[Any], turn: int) -> ModelRequest[Any]:
        hint = HumanMessage(f"Today is day {turn}. " * turn, id=f"hint-{turn}")
        return request.override(messages=[*request.messages, hint])

    made, _ = talked(tmp_path, 16, adding, contexts=lambda _: {"ambient_window": 0})

    assert {why for why, _ in made} == {"new", "high-water"}
