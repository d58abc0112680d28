"""A model whose window is smaller than the budget: it caps the budget, and overflow is acted on."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

import tests.agents
from ebbtide.memory.tokens import exact
from tests.agents import THREAD, archive_in, talk
from tests.doubles import ScriptedModel

pytestmark = pytest.mark.usefixtures("entry")

WINDOW = 8_192
LONG = "the quick brown fox jumps over the lazy dog " * 60


class Provider:
    """Answers what fits into its window, and refuses the rest."""

    def __init__(self, window: int = WINDOW) -> None:
        """Take the window in tokens of text."""
        self.window, self.refused, self.sizes = window, 0, list[int]()

    def __call__(self, messages: list[BaseMessage]) -> str:
        """Answer, or raise as LangChain's adapters do."""
        self.sizes.append(sum(exact(str(message.text)) for message in messages))
        if self.sizes[-1] > self.window:
            self.refused += 1
            raise ContextOverflowError("maximum context length exceeded")
        return "Yes."


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_context_that_is_too_long(tmp_path: Path, way: str) -> None:
    """Complaint row 32: it is cut to 0.8 of its size and sent once more; no turn fails."""
    provider = Provider()
    chat = talk(tmp_path, provider)

    states = [await chat.say_by(way, f"Fact {number}: {LONG}") for number in range(20)]

    assert provider.refused == 1  # the smaller size holds from then on
    last: dict[str, Any] = states[-1]["messages"][-1].response_metadata["ebbtide"]
    assert last["total"] <= last["budget"]
    assert [len(chat.said(state)) for state in states] == [*range(1, 21)]


def test_context_that_is_too_long_twice(tmp_path: Path) -> None:
    """It is sent once more and no oftener; the turn stays as it was and can be resumed."""
    provider = Provider(window=100)
    chat = talk(tmp_path, provider)

    with pytest.raises(ContextOverflowError):
        chat.say("Hello.")

    assert provider.refused == 2
    provider.window = WINDOW
    assert chat.agent.invoke(None, THREAD)["messages"][-1].text == "Yes."


def test_next_run_after_a_context_that_is_too_long_twice(tmp_path: Path) -> None:
    """It begins with a smaller size than the last that was refused; so a tiny window is found."""
    provider = Provider()
    chat = talk(tmp_path, provider)
    for number in range(12):
        chat.say(f"Fact {number}: {LONG}")
    provider.window, provider.sizes = 3_000, []

    with pytest.raises(ContextOverflowError):
        chat.say("Which facts?")
    state = chat.say("Which facts are there?")

    assert provider.sizes == sorted({*provider.sizes}, reverse=True)
    assert state["bookkeeping"]["limit"]["tokens"] >= state["memory"]["context_report"]["total"]
    provider.sizes = []
    chat.say("Thanks.")
    assert len(provider.sizes) == 1


def test_instructions_that_grew_after_a_refusal(tmp_path: Path) -> None:
    """What is remembered is never less than they need."""
    made: dict[str, Any] = {"archive": archive_in(tmp_path), "checkpointer": InMemorySaver()}
    short, long = (
        tests.agents.ENTRIES[tests.agents.entry](ScriptedModel(answers=answers), tools=own, **made)
        for answers, own in ((Provider(3_000), []), (lambda _: "Yes.", [*map(tool_of, range(9))]))
    )
    asked: list[Any] = [{"messages": f"Fact {number}: {LONG}"} for number in range(12)]
    for words in asked[:10]:
        short.invoke(words, THREAD)

    reports = [long.invoke(words, THREAD)["memory"]["context_report"] for words in asked[10:]]

    assert all(report["total"] <= report["budget"] < 16_000 for report in reports)


def tool_of(number: int) -> StructuredTool:
    """Return a tool with a long description."""
    return StructuredTool.from_function(len, name=f"tool_{number}", description=LONG[:2_000])


class Named(ScriptedModel):
    """A model with a name."""

    model_name: str = "small"


@pytest.mark.thorough
def test_smaller_size_is_the_models(tmp_path: Path) -> None:
    """What a provider refused is remembered for its model alone."""
    provider = Provider()
    made: dict[str, Any] = {"archive": archive_in(tmp_path), "checkpointer": InMemorySaver()}
    small, large = (
        tests.agents.ENTRIES[tests.agents.entry](Named(answers=answers, model_name=name), **made)
        for name, answers in (("small", provider), ("large", lambda _: "Yes."))
    )
    asked: list[Any] = [{"messages": f"Fact {number}: {LONG}"} for number in range(22)]

    budgets = [
        agent.invoke(words, THREAD)["memory"]["context_report"]["budget"]
        for agent, words in zip([*[small] * 20, large, small], asked, strict=True)
    ]

    assert provider.refused == 1
    assert budgets[0] == budgets[20] > budgets[19] == budgets[21]
