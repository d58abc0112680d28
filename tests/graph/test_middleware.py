"""The memory as a middleware of `create_agent`, beside LangChain's own middleware.

The turns themselves are tested with both entries, see the fixture `entry`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    hook_config,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import InjectedToolCallId
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite
from pydantic import BaseModel
from typing_extensions import TypedDict

from ebbtide import (
    DiskArchive,
    EbbtideMiddleware,
    SessionNotFoundError,
    Settings,
    SettingsError,
    commands,
    erase,
)
from ebbtide.graph.other_middleware import is_summary, warn_of_summariser
from ebbtide.memory.messages import text
from tests.agents import SUMMARY, THREAD, Talk, referenced
from tests.doubles import ScriptedModel, add, call, together
from tests.graph.test_budget import tokens
from tests.test_complaints import orphans

BLOCK = "---STATE---\nGoal: ship\n---END STATE---"


class Sum(BaseModel):
    """A sum."""

    value: int


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    """Return a checkpointer on a file."""
    with SqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as kept:
        yield kept


def made(root: Path, saver: Any, answers: Any, *others: Any, **options: Any) -> Talk:
    """Return an agent whose middleware are the memory and, after it, others."""
    model = ScriptedModel(answers=answers, structured=[SUMMARY] * 9)
    archive = DiskArchive(root / "archive", durable=False)
    ours = EbbtideMiddleware(archive=archive, settings=options.pop("settings", None))
    before = options.pop("before", ())
    after = options.pop("after", ())
    options = {"tools": [add], "checkpointer": saver, **options}
    middleware = [*before, ours, *others, *after]
    agent: Any = create_agent(model, middleware=middleware, **options)
    return Talk(agent, model, archive)


def beside(other: Any, *, first: bool) -> dict[str, Any]:
    """Return the option of `made` that puts another middleware before or after the memory."""
    return {"before" if first else "after": [other]}


def gone_once(asked: list[Any], what: Any, result: Any) -> Any:
    """Return a result, but fail the first time that anything is asked for."""
    asked.append(what)
    if len(asked) == 1:
        raise ConnectionError("gone")
    return result


def lineage(chat: Talk, state: dict[str, Any]) -> list[list[str]]:
    """Return by turn the kinds of the messages that a state sees."""
    return [[m.type for m in turn.messages] for turn in chat.turns(state)]


def results(state: dict[str, Any]) -> list[str]:
    """Return the names of the tools whose results are in the messages."""
    return [str(m.name) for m in state["messages"] if isinstance(m, ToolMessage)]


BOTH = together(call("effort_status"), call("add", a=1, b=2), call("open_effort", name="sums"))


def test_the_request_has_all_tools_and_one_system_message(tmp_path: Path, saver: Any) -> None:
    """Blocks of a system message stay as they are, after the memory's own instructions."""
    blocks: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    chat = made(tmp_path, saver, ["yes"], system_prompt=SystemMessage(blocks))

    state = chat.say("hi")

    assert [m.type for m in chat.last] == ["system", "human", "human"]
    assert chat.last[0].content[1:] == blocks
    assert chat.model.sent[0].tool_names[-2:] == ["read_log", "add"]
    assert tokens(chat.model.sent[0]) <= state["memory"]["context_report"]["total"] + 1


def approved(chat: Talk, *decisions: dict[str, Any]) -> dict[str, Any]:
    """Resume an interrupted run with what a person decided."""
    found: dict[str, Any] = chat.agent.invoke(Command(resume={"decisions": [*decisions]}), THREAD)
    return found


REJECTED = {"type": "reject", "message": "no"}
EDITED = {"type": "edit", "edited_action": {"name": "add", "args": {"a": 2, "b": 2}}}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("decision", "said"), [({"type": "approve"}, "3"), (REJECTED, "no"), (EDITED, "4")]
)
def test_a_person_decides(
    tmp_path: Path, saver: Any, *, first: bool, decision: dict[str, Any], said: str
) -> None:
    """A call waits for a person, before or after those of memory tools; each is answered once."""
    asking = HumanInTheLoopMiddleware({"add": True})
    chat = made(tmp_path, saver, [BOTH, "so be it"], **beside(asking, first=first))
    waiting = chat.say("go")

    state = approved(chat, decision)

    assert waiting["__interrupt__"]
    assert [m.text.endswith(said) for m in state["messages"] if m.name == "add"] == [True]
    assert (state["memory"]["active_effort"], orphans(chat.last)) == ("sums", 0)
    assert lineage(chat, state) == [["human", "ai", "tool", "tool", "tool", "ai"]]


OTHER = {"type": "edit", "edited_action": {"name": "open_effort", "args": {"name": "other"}}}


@pytest.mark.parametrize(
    ("decision", "opened", "said"),
    [
        ({"type": "approve"}, ["sums"], '"effort_id":"sums"'),
        (REJECTED, [], "no"),
        (OTHER, ["other"], '"effort_id":"other"'),
    ],
)
def test_a_person_decides_about_a_memory_tool(
    tmp_path: Path, saver: Any, decision: dict[str, Any], opened: list[str], said: str
) -> None:
    """It waits as well, and runs as decided, once."""
    asking = HumanInTheLoopMiddleware({"open_effort": True})
    script = [call("open_effort", name="sums"), "so be it"]
    chat = made(tmp_path, saver, script, asking)
    waiting = chat.say("go")

    state = approved(chat, decision)

    (result,) = (m.text for m in state["messages"] if m.type == "tool")
    assert (waiting["memory"]["open_efforts"], result.endswith((said, said + "}"))) == ({}, True)
    assert [*state["memory"]["open_efforts"]] == opened


def test_a_person_who_is_asked_too_late_is_told(tmp_path: Path, saver: Any) -> None:
    """What decides about memory tools stands after the memory; else they have run by then."""
    asking = HumanInTheLoopMiddleware({"open_effort": True})
    script = [call("open_effort", name="sums"), "never", "yes"]
    chat = made(tmp_path, saver, script, before=[asking])
    chat.say("go")

    with pytest.raises(SettingsError, match="put EbbtideMiddleware before"):
        approved(chat, REJECTED)

    assert chat.said(chat.say("and now?")) == ["go", "and now?"]


def test_an_interrupted_run_goes_on_in_another_process(tmp_path: Path, saver: Any) -> None:
    """What the agent is made of is not known there before the model is called; nothing is lost."""
    asking = HumanInTheLoopMiddleware({"add": True})
    closing = together(call("close_effort"), call("add", a=1, b=2))
    made(tmp_path, saver, [call("open_effort", name="a"), "open"], asking).say("open a")
    made(tmp_path, saver, [closing], asking).say("close it and add")
    there = made(tmp_path, saver, [call("close_effort"), "closed"], asking)

    state = approved(there, {"type": "approve"})

    assert (referenced(state), orphans(there.last)) == ({"a": 2}, 0)
    assert len(there.turns(state)) == 2


def test_calls_are_tried_again(tmp_path: Path, saver: Any) -> None:
    """A model and a tool that fail once are asked again, and the turn is kept once."""
    asked: list[str] = []

    @tool
    def look_up(what: str) -> str:
        """Look something up."""
        return str(gone_once(asked, what, "found"))

    retries = [
        ModelRetryMiddleware(max_retries=2, initial_delay=0.01, jitter=False),
        ToolRetryMiddleware(max_retries=2, initial_delay=0.01, jitter=False),
    ]
    script = [ConnectionError("busy"), call("look_up", what="x"), "It was found."]
    chat = made(tmp_path, saver, script, *retries, tools=[look_up])

    state = chat.say("go")

    assert (asked, state["messages"][-1].text) == (["x", "x"], "It was found.")
    assert lineage(chat, state) == [["human", "ai", "tool", "ai"]]


@pytest.mark.parametrize("first", [True, False])
def test_a_limit_of_calls_ends_the_turn(tmp_path: Path, saver: Any, *, first: bool) -> None:
    """Rounds of memory tools count as calls of the model, and the turn is kept as it ended."""
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")
    script = [call("open_effort", name="a"), call("effort_status"), "next"]
    chat = made(tmp_path, saver, script, **beside(limit, first=first))

    ended = chat.say("go")
    state = chat.say("and now?")

    assert (len(chat.model.sent), "limit" in ended["messages"][-1].text) == (3, True)
    assert [kinds[-1] for kinds in lineage(chat, state)] == ["ai", "ai"]
    assert state["memory"]["active_effort"] == "a"


@pytest.mark.parametrize("limited", ["add", "open_effort"])
def test_a_limit_of_calls_of_a_tool_is_kept(tmp_path: Path, saver: Any, limited: str) -> None:
    """A call beyond it is not run, a memory tool's neither, and each call has one result."""
    limit = ToolCallLimitMiddleware(tool_name=limited, run_limit=1)
    asked = [call("add", a=1, b=2), call("open_effort", name="a"), call("open_effort", name="b")]
    script = [*asked, call("add", a=3, b=4), "done", "next"]
    chat = made(tmp_path, saver, script, limit)

    ended = chat.say("go")
    chat.say("and now?")

    results = [message for message in ended["messages"] if message.type == "tool"]
    assert [message.status for message in results].count("error") == 1
    assert (len(results), orphans(chat.last)) == (4, 0)
    assert [*ended["memory"]["open_efforts"]] == ["a", "b"][: 1 + (limited == "add")]


def test_the_block_is_in_no_stream_of_another_model(tmp_path: Path, saver: Any) -> None:
    """A model that takes over streams its answer without the state block as well."""
    other = ScriptedModel(answers=[f"Here.\n\n{BLOCK}"])
    chat = made(tmp_path, saver, [ConnectionError("gone")], ModelFallbackMiddleware(other))

    stream: Any = chat.agent.stream({"messages": "go"}, THREAD, stream_mode="messages")

    assert "".join(str(chunk.text) for chunk, _ in stream) == "Here."
    assert chat.agent.get_state(THREAD).values["memory"]["anchor"] == {"Goal": "ship"}


ANSWERING = together(call("open_effort", name="sums"), call("Sum", value=3))


@pytest.mark.parametrize("answer", [call("Sum", value=3), ANSWERING])
def test_structured_output_by_a_tool(tmp_path: Path, saver: Any, answer: AIMessage) -> None:
    """It ends the turn, beside calls of memory tools too, and the next prompt is well-formed."""
    script = [call("effort_status"), answer, call("Sum", value=4)]
    chat = made(tmp_path, saver, script, response_format=ToolStrategy(Sum))

    first = chat.say("add")
    state = chat.say("add one")

    assert (first["structured_response"], state["structured_response"]) == (
        Sum(value=3),
        Sum(value=4),
    )
    assert [turn.status for turn in chat.turns(state)] == ["done", "done"]
    assert [orphans(sent.messages) for sent in chat.model.sent] == [0, 0, 0]
    assert tokens(chat.model.sent[-1]) == state["memory"]["context_report"]["total"]


def test_rounds_end_with_structured_output_too(tmp_path: Path, saver: Any) -> None:
    """A model that goes on calling after the last round is stopped with words."""
    script = [call("effort_status"), call("Sum", value="three")]
    settings = Settings(max_tool_rounds=1)
    chat = made(tmp_path, saver, script, response_format=ToolStrategy(Sum), settings=settings)

    state = chat.say("add")

    assert (state.get("structured_response"), len(chat.model.sent)) == (None, 2)
    assert "limit of 1" in state["messages"][-1].text


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_structured_output_of_the_provider(tmp_path: Path, way: str) -> None:
    """Memory tools are called before it, and the answer is kept as it was written."""
    script = [call("open_effort", name="sums"), json.dumps({"value": 3})]
    chat = made(tmp_path, InMemorySaver(), script, response_format=ProviderStrategy(Sum))

    state = await chat.say_by(way, "add")

    assert (state["structured_response"], state["memory"]["active_effort"]) == (
        Sum(value=3),
        "sums",
    )
    assert text(chat.turns(state)[0].messages[-1]) == '{"value": 3}'


@dataclass
class Tenant:
    """An application's context."""

    user_id: str
    region: str = "eu"


class TenantDict(TypedDict):
    """The same as a dictionary."""

    user_id: str


@pytest.mark.parametrize("kind", [Tenant, TenantDict])
def test_a_context_of_the_application_names_the_user(
    tmp_path: Path, saver: Any, kind: Callable[..., Any]
) -> None:
    """What ann says in the thread is hers, and others are refused."""
    chat = made(tmp_path, saver, lambda _: "yes", context_schema=kind)
    chat.say("The code is 4711.", context=kind(user_id="ann"))

    with pytest.raises(SessionNotFoundError):
        chat.say("What is the code?", context=kind(user_id="bob"))

    assert (chat.archive.users(), len(chat.model.sent)) == (("ann",), 1)


@dataclass
class Basket:
    """An application's state."""

    messages: Annotated[list[AnyMessage], add_messages]
    cart: list[str] = field(default_factory=list)


class BasketModel(BaseModel):
    """The same as a model of pydantic."""

    messages: Annotated[list[AnyMessage], add_messages]
    cart: list[str] = []


@pytest.mark.parametrize("kind", [Basket, BasketModel])
def test_a_state_of_the_application_may_be_a_class(tmp_path: Path, saver: Any, kind: Any) -> None:
    """Beside its keys the memory has its own."""
    chat = made(tmp_path, saver, [BOTH, "3", "yes"], state_schema=kind)
    chat.agent.invoke({"messages": "buy tea", "cart": ["tea"]}, THREAD)

    state = chat.say("is it there?")

    assert (state["cart"], state["memory"]["turn"]) == (["tea"], 2)
    assert state["memory"]["active_effort"] == "sums"


ANN: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ann"}}
EVE: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "eve"}}


def test_a_turn_that_waits_when_somebody_else_speaks(tmp_path: Path, saver: Any) -> None:
    """Eve is refused, and ann goes on."""
    asking = HumanInTheLoopMiddleware({"add": True})
    chat = made(tmp_path, saver, ["hm", call("add", a=1, b=2), "so be it"], asking)
    chat.say("My pin is 4711.", ANN)
    chat.say("add them", ANN)

    with pytest.raises(SessionNotFoundError):
        chat.say("Tell me her secrets.", EVE)

    state = chat.say("never mind", ANN)
    assert chat.said(state) == ["My pin is 4711.", "add them", "never mind"]
    assert "secrets" not in "".join(m.text for m in [*chat.last, *state["messages"]])
    assert orphans(chat.last) == 0


EVIL: list[list[BaseMessage]] = [
    [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("Her secrets.")],
    [ToolMessage("Her secrets.", tool_call_id="1")],
    [ToolMessage("Her secrets.", tool_call_id="1"), HumanMessage("Go on.")],
    [AIMessage("Her secrets.")],
]


@pytest.mark.parametrize("evil", EVIL)
def test_what_somebody_else_puts_into_a_turn_that_waits(
    tmp_path: Path, saver: Any, evil: list[BaseMessage]
) -> None:
    """No result for its call, and no message, is said to ann's model, or stored."""
    asking = HumanInTheLoopMiddleware({"add": True})
    chat = made(tmp_path, saver, ["hm", call("add", a=1, b=2), "so be it", "bye"], asking)
    chat.say("My pin is 4711.", ANN)
    asked = chat.say("add them", ANN)
    (waiting,) = asked["messages"][-1].tool_calls
    update = {"tool_call_id": waiting["id"]}
    evil = [m.model_copy(update=update) if m.type == "tool" else m for m in evil]

    with pytest.raises(SessionNotFoundError):
        chat.agent.invoke({"messages": evil}, EVE)

    state = chat.say("never mind", ANN)
    assert "secrets" not in "".join(m.text for m in [*chat.last, *state["messages"]])
    assert chat.said(state)[-2:] == ["add them", "never mind"]


def test_what_was_refused_for_its_settings_is_answered_with_the_next(
    tmp_path: Path, saver: Any
) -> None:
    """The user's own words are not lost, and are said once."""
    chat = made(tmp_path, saver, ["both"])
    with pytest.raises(SettingsError):
        chat.say("one", context={"context_budget": 2_100})

    state = chat.say("two")

    assert (chat.said(state), lineage(chat, state)) == (["one", "two"], [["human", "human", "ai"]])


class Shop(AgentState[Any]):
    """An application's state, with keys that the memory has as well."""

    cart: list[str]
    turn: str


@tool
def buy(what: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Put something into the cart."""
    done = ToolMessage("bought", tool_call_id=tool_call_id)
    return Command(update={"cart": [what], "turn": "theirs", "messages": [done]})


def test_keys_of_the_application_are_its_own(tmp_path: Path, saver: Any) -> None:
    """Commands of tools reach them, erasing leaves them, and the memory takes none for its own."""
    script = [call("buy", what="tea"), "bought", "yes", "no"]
    chat = made(tmp_path, saver, script, tools=[buy], state_schema=Shop)
    chat.agent.invoke({"messages": "buy tea", "cart": [], "turn": "mine"}, THREAD)
    state = chat.say("is it there?")

    report = erase(chat.agent, THREAD, 1)

    after = chat.say("and now?")
    assert (state["cart"], state["turn"], state["memory"]["turn"]) == (["tea"], "theirs", 2)
    assert "'cart', 'turn'" in report.not_erased[-1]
    assert (after["cart"], after["turn"], after["memory"]["turn"]) == (["tea"], "theirs", 3)


def summarising(keep: int) -> SummarizationMiddleware:
    """Return LangChain's summariser, which leaves so many messages."""
    short = ScriptedModel(answers=lambda _: "They talked.")
    return SummarizationMiddleware(short, trigger=("messages", 4), keep=("messages", keep))


def adding(rounds: int) -> Callable[[list[Any]], AIMessage | str]:
    """Return the answers of a model that adds so often in each turn."""
    numbers = count(1)

    def answer(_: list[Any]) -> AIMessage | str:
        number = next(numbers)
        made = {"name": "add", "args": {"a": number, "b": 0}, "id": str(number)}
        return AIMessage("", tool_calls=[made]) if number % (rounds + 1) else "Done."

    return answer


@pytest.mark.thorough
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("keep", [1, 3])
def test_turn_that_is_summarised_in_the_state(
    tmp_path: Path, saver: Any, *, first: bool, keep: int
) -> None:
    """It stays whole on the wire and in the archive; the newest summary stands beside it."""
    chat = made(tmp_path, saver, adding(4), **beside(summarising(keep), first=first))

    states = [chat.say(f"Question {number}.") for number in range(3)]

    for at, sent in enumerate(chat.model.sent):
        said = [str(message.text) for message in sent.messages]
        assert f"Question {at // 5}." in said
        assert said.count(str(at)) == bool(at % 5)  # the result of the call before
        assert orphans(sent.messages) == 0
    assert "They talked." in chat.model.sent[4].text
    kinds = [[kind for kind in turn if kind != "human"] for turn in lineage(chat, states[-1])]
    assert kinds == [["ai", "tool"] * 4 + ["ai"]] * 3
    assert [turn.count("human") for turn in lineage(chat, states[-1])] == [2, 2, 2]
    assert [chat.said(states[-1])[at] for at in (0, 2, 4)] == [f"Question {n}." for n in range(3)]
    assert [m.text for m in states[-1]["messages"]][-1] == "Done."


@pytest.mark.parametrize("first", [True, False])
def test_summariser_is_warned_of(
    tmp_path: Path, saver: Any, caplog: pytest.LogCaptureFixture, *, first: bool
) -> None:
    """Once, when it summarises beside the memory; not for what it left on a thread before."""
    warn_of_summariser.cache_clear()
    alone: Any = create_agent(
        ScriptedModel(answers=lambda _: "Noted."), middleware=[summarising(1)], checkpointer=saver
    )
    for words in ("one", "two", "three"):
        alone.invoke({"messages": words}, THREAD)
    adopting = made(tmp_path, saver, lambda _: "Noted.")
    state = adopting.say("four")
    before = [*caplog.records]

    chat = made(tmp_path, saver, lambda _: "Noted.", **beside(summarising(1), first=first))
    for words in ("five", "six", "seven"):
        chat.say(words)

    assert any(map(is_summary, state["messages"]))
    (warning,) = caplog.records
    assert (before, "remove SummarizationMiddleware" in warning.getMessage()) == ([], True)


@pytest.mark.parametrize("keep", [1, 3])
def test_question_that_is_taken_away_in_another_process(
    tmp_path: Path, saver: Any, keep: int
) -> None:
    """A turn that was summarised before a call that failed is whole where it goes on."""
    rounds = [call("add", a=number, b=0) for number in (7, 8)]
    script = [*rounds, OSError("no network")]
    with pytest.raises(OSError, match="no network"):
        made(tmp_path, saver, script, before=[summarising(keep)]).say("go")

    there = made(tmp_path, saver, ["Done."], before=[summarising(keep)])
    left = there.agent.get_state(THREAD).values["messages"]
    state = there.agent.invoke(None, THREAD)

    said = [str(message.text) for message in there.model.sent[0].messages]
    assert "go" not in [message.text for message in left]
    assert [said.count(words) for words in ("go", "7", "8")] == [1] * 3
    assert there.said(state)[0] == "go"
    kinds = [[kind for kind in turn if kind != "human"] for turn in lineage(there, state)]
    assert kinds == [["ai", "tool"] * 2 + ["ai"]]


class Guard(AgentMiddleware[Any, Any, Any]):
    """Refuses a run before it is begun."""

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Refuse what is rude."""
        del runtime
        if "rude" not in state["messages"][-1].text:
            return None
        return {"messages": [AIMessage("I refuse.")], "jump_to": "end"}


def test_a_run_that_another_middleware_ends_is_a_turn(tmp_path: Path, saver: Any) -> None:
    """What was said and how it was refused is archived, and the thread goes on."""
    chat = made(tmp_path, saver, ["one", "three"], before=[Guard()])

    states = [chat.say(words) for words in ("hello", "rude", "sorry")]

    assert states[1]["messages"][-1].text == "I refuse."
    assert chat.said(states[-1]) == ["hello", "rude", "sorry"]
    assert lineage(chat, states[-1]) == [["human", "ai"]] * 3


class AsJson(AgentMiddleware[Any, Any, Any]):
    """Writes the messages anew, as JSON, after each call."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Overwrite them, as a client does."""
        del runtime
        return {"messages": Overwrite([one.model_dump() for one in state["messages"]])}


@pytest.mark.parametrize("first", [True, False])
def test_messages_that_are_overwritten_as_json(tmp_path: Path, saver: Any, *, first: bool) -> None:
    """LangGraph keeps them as they were written, in an input too."""
    chat = made(tmp_path, saver, ["one", "two"], **beside(AsJson(), first=first))

    given: Any = {"messages": Overwrite([{"role": "user", "content": "hello"}])}
    chat.agent.invoke(given, THREAD)
    state = chat.say("bye")

    assert chat.said(state) == ["hello", "bye"]
    assert lineage(chat, state) == [["human", "ai"]] * 2


@pytest.mark.parametrize("prompt", ["word " * 2_000])
def test_a_budget_below_the_floor_is_refused(tmp_path: Path, saver: Any, prompt: str) -> None:
    """What the application sends in any case is known with the first call, which it stops."""
    settings = Settings(context_budget=2_400)
    chat = made(tmp_path, saver, ["never"], settings=settings, system_prompt=prompt)

    with pytest.raises(SettingsError, match="below the floor"):
        chat.say("hi")

    assert chat.model.sent == []


async def test_the_asynchronous_path_is_the_same(tmp_path: Path) -> None:
    """With an asynchronous checkpointer a conversation leaves what a synchronous one leaves."""
    script = [BOTH, f"3\n\n{BLOCK}", call("close_effort"), "closed"]
    with SqliteSaver.from_conn_string(str(tmp_path / "a.sqlite")) as saver:
        chat = made(tmp_path / "a", saver, [*script])
        states = [chat.say(words) for words in ("go", "close")]
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "b.sqlite")) as asaver:
        there = made(tmp_path / "b", asaver, [*script])
        given: Any = [{"messages": [("user", words)]} for words in ("go", "close")]
        astates = [await there.agent.ainvoke(one, THREAD) for one in given]
        shown = await commands.ashow_context(there.agent, THREAD, "next")

    keys = ("turn", "summaries", "banners", "anchor", "context_report")
    assert [astates[-1]["memory"].get(key) for key in keys] == [
        states[-1]["memory"].get(key) for key in keys
    ]
    assert lineage(there, astates[-1]) == lineage(chat, states[-1])
    assert shown.turn == 3


async def test_all_of_it_in_an_asynchronous_run(tmp_path: Path) -> None:
    """Approval, redaction, retries, limits, structured output and own schemas work together."""
    asked: list[int] = []

    @tool
    def add_up(a: int, b: int) -> int:
        """Add two numbers."""
        return int(gone_once(asked, a, a + b))

    others = [
        PIIMiddleware("email", strategy="redact"),
        HumanInTheLoopMiddleware({"add_up": True}),
        ModelRetryMiddleware(max_retries=2, initial_delay=0.01, jitter=False),
        ToolRetryMiddleware(max_retries=2, initial_delay=0.01, jitter=False),
        ModelCallLimitMiddleware(run_limit=9),
    ]
    both = together(call("open_effort", name="sums"), call("add_up", a=1, b=2))
    script = [ConnectionError("busy"), both, call("Sum", value=3)]
    own: Any = {"tools": [add_up], "response_format": ToolStrategy(Sum), "state_schema": Shop}
    given: Any = {"messages": "I am ann@example.com. Add.", "cart": ["tea"]}
    resume: Any = Command(resume={"decisions": [{"type": "approve"}]})

    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as saver:
        chat = made(tmp_path, saver, script, *others, context_schema=Tenant, **own)
        waiting = await chat.agent.ainvoke(given, THREAD, context=Tenant("ann"))
        state = await chat.agent.ainvoke(resume, THREAD, context=Tenant("ann"))

    (turn,) = chat.turns(state)
    assert waiting["__interrupt__"]
    assert (asked, state["structured_response"], state["cart"]) == ([1, 1], Sum(value=3), ["tea"])
    assert (turn.status, text(turn.messages[0])) == ("done", "I am [REDACTED_EMAIL]. Add.")
    assert state["memory"]["active_effort"] == "sums"
    assert chat.archive.users() == ("ann",)


def test_another_agent_of_the_same_process_is_not_confused(tmp_path: Path) -> None:
    """One middleware in two agents: each is sent its own prompt and tools."""
    archive = DiskArchive(tmp_path / "archive", durable=False)
    models = [ScriptedModel(answers=["a"] * 2), ScriptedModel(answers=["b"] * 2)]
    ours = EbbtideMiddleware(archive=archive)
    agents: list[Any] = [
        create_agent(model, [add][:at], system_prompt=f"Agent {at}.", middleware=[ours])
        for at, model in enumerate(models)
    ]

    for agent in [*agents, *agents]:
        agent.invoke({"messages": "hi"})

    assert [{sent.tool_names[-1] for sent in model.sent} for model in models] == [
        {"read_log"},
        {"add"},
    ]
    assert [model.sent[-1].text.count(f"Agent {at}.") for at, model in enumerate(models)] == [1, 1]
