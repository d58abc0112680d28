"""The agent inside something larger: a parent graph, a chain, an application with its tools."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import END, MessagesState
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from ebbtide import MemoryState, Settings, commands
from ebbtide.memory.messages import text
from tests.agents import THREAD, inside, talk, unnumbered
from tests.doubles import approve, call, together
from tests.test_complaints import orphans


@tool
def effort_of(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Tell which effort is active, and what was asked."""
    return f"{state['memory']['active_effort']}: {state['messages'][0].text}"


@tool
def where(runtime: ToolRuntime) -> str:
    """Tell which turn of which thread it is, and the id of the call."""
    thread = runtime.config["configurable"]["thread_id"]
    return f"turn {runtime.state['memory']['turn']} of {thread}, {runtime.tool_call_id}"


@tool
def remember(fact: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a fact in the application's store."""
    store.put(("facts",), "last", {"fact": fact})
    return "kept"


@tool
def commanded(words: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Answer with a command, as a tool does that also changes the state."""
    return Command(update={"messages": [ToolMessage(words, tool_call_id=call_id)]})


def test_tool_reads_the_state(tmp_path: Path) -> None:
    """A tool with InjectedState sees the state of the agent."""
    script = [call("open_effort", name="a"), call("effort_of"), "x"]
    chat = talk(tmp_path, script, tools=[effort_of])

    state = chat.say("which?")

    assert state["messages"][-2].text == "a: which?"


def test_tool_has_the_runtime(tmp_path: Path) -> None:
    """A tool with ToolRuntime has state, configuration and the id of its call."""
    chat = talk(tmp_path, [call("where"), "there"], tools=[where])

    state = chat.say("where?")

    assert state["messages"][-2].text == "turn 1 of t, call_1_where"


def test_tool_uses_the_store(tmp_path: Path) -> None:
    """A tool with InjectedStore has the store that the agent was compiled with."""
    store = InMemoryStore()
    chat = talk(tmp_path, [call("remember", fact="3600 s"), "ok"], tools=[remember], store=store)

    state = chat.say("remember it")

    kept = store.get(("facts",), "last")
    assert kept is not None
    assert kept.value == {"fact": "3600 s"}
    assert state["messages"][-2].text == "kept"


def test_tool_answers_with_a_command(tmp_path: Path) -> None:
    """A result inside a Command is the call's result, in the context as in the archive."""
    chat = talk(tmp_path, [call("commanded", words="done"), "fine"], tools=[commanded])

    state = chat.say("do it")

    (turn,) = chat.turns(state)
    assert [m.text for m in chat.last[-1:]] == ["done"]
    assert [m.type for m in turn.messages] == ["human", "ai", "tool", "ai"]


LONG = "The refresh token expires after 3600 seconds, and nobody renews it. "


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("schema", [MessagesState])
def test_each_prompt_begins_with_the_one_before(tmp_path: Path, schema: Any) -> None:
    """In a graph that hands over messages alone too the context is the one of the agent alone."""
    settings = Settings(context_budget=4_000)
    alone = talk(tmp_path / "alone", lambda _: LONG * 6, settings=settings)
    chat = talk(tmp_path / "in", lambda _: LONG * 6, settings=settings, checkpointer=None)
    outer = inside(chat, schema)

    for turn in range(1, 12):
        alone.say(f"{turn}: {LONG * 8}")
        shown = commands.show_context(outer, THREAD, f"{turn}: {LONG * 8}").messages
        outer.invoke({"messages": f"{turn}: {LONG * 8}"}, THREAD)
        assert [m.text for m in shown] == [m.text for m in chat.last]

    told = [[unnumbered(one.text) for one in it.model.sent] for it in (alone, chat)]
    prompts = [[m.text for m in one.messages] for one in chat.model.sent]
    assert told[0] == told[1]
    stable = sum(now[: len(old)] == old for old, now in pairwise(prompts))
    assert 5 < stable < 10


@tool
def fill_the_cart(what: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Put something into the cart."""
    done = ToolMessage("bought", tool_call_id=call_id)
    return Command(update={"messages": [done], "cart": [what]})


@tool
def fill_it_twice(what: str, call_id: Annotated[str, InjectedToolCallId]) -> list[Command[Any]]:
    """Put something into the cart, as a tool does that returns a list."""
    done = ToolMessage("bought", tool_call_id=call_id)
    return [Command(update={"messages": [done]}), Command(update={"cart": [what]})]


@pytest.mark.parametrize("filling", [fill_the_cart, fill_it_twice])
def test_a_key_that_the_state_has_not(
    tmp_path: Path, filling: BaseTool, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the command is applied, and a warning names the key."""
    chat = talk(tmp_path, [call(filling.name, what="tea"), "done"], tools=[filling])

    state = chat.say("buy tea")

    assert [message.text for message in state["messages"][-2:]] == ["bought", "done"]
    assert "keys that the state has not: cart" in caplog.text


@tool
def go_to(node: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Go to a node of the agent's graph."""
    return Command(goto=node, update={"messages": [ToolMessage("gone", tool_call_id=call_id)]})


@pytest.mark.parametrize("node", ["call_model", END, "nowhere"])
def test_a_tool_goes_to_no_node_of_the_agent(tmp_path: Path, node: str) -> None:
    """Its update holds, and the turn goes on with the model."""
    chat = talk(tmp_path, [call("go_to", node=node), "there", "yes"], tools=[go_to])

    state = chat.say("go")

    assert [message.text for message in state["messages"][-2:]] == ["gone", "there"]
    assert chat.said(chat.say("and now?")) == ["go", "and now?"]


@tool(return_direct=True)
def say_it(words: str) -> str:
    """Answer for the model."""
    return words


@pytest.mark.usefixtures("entry")
async def test_a_tool_that_answers_directly_ends_the_turn(tmp_path: Path) -> None:
    """Its result is the answer, unless another tool is called beside it; the turn is done."""
    both = together(call("say_it", words="tea"), call("where"))
    script = [call("say_it", words="one"), call("say_it", words="two"), both, "three"]
    chat = talk(tmp_path, script, tools=[say_it, where])

    states = [chat.say("first"), await chat.agent.ainvoke({"messages": "second"}, THREAD)]
    states.append(chat.say("third"))

    assert [state["messages"][-1].text for state in states] == ["one", "two", "three"]
    assert [turn.status for turn in chat.turns(states[-1])] == ["done"] * 3
    assert orphans(chat.last) == 0


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_what_ran_beside_a_tool_that_waits_is_kept(tmp_path: Path, way: str) -> None:
    """With a new message instead of an answer the call that waits has no result; the others do."""
    both = together(call("approve", what="pay"), call("where"), call("open_effort", name="a"))
    chat = talk(tmp_path, [both, "so be it"], tools=[approve, where])
    chat.say("pay")

    state = await chat.say_by(way, "Forget it")

    broken, _ = chat.turns(state)
    results = {m.name: text(m) for m in broken.messages if m.type == "tool"}
    assert results["where"] == "turn 1 of t, call_2_where"
    assert "No result was kept" in results["approve"]
    assert ("opened" in results["open_effort"], [*state["memory"]["open_efforts"]]) == (True, ["a"])
    assert orphans(chat.last) == 0


def test_two_tools_wait_for_their_answers(tmp_path: Path) -> None:
    """Two calls that interrupt are resumed together, each with its own answer by a mapping."""
    both = together(call("approve", what="build"), call("approve", what="deploy"))
    chat = talk(tmp_path, [both, "finished"], tools=[approve])
    waiting = chat.say("release")["__interrupt__"]
    answers = {one.id: f"{one.value} it" for one in waiting}

    state = chat.agent.invoke(Command(resume=answers), THREAD)

    results = [message.text for message in state["messages"] if message.type == "tool"]
    assert sorted(results) == ["build: build it", "deploy: deploy it"]
    assert state["messages"][-1].text == "finished"
    assert chat.turns(state)[0].status == "done"


OPENING = call("open_effort", name="a")


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
async def test_a_tool_waits_inside_a_larger_graph(tmp_path: Path, schema: Any) -> None:
    """Resumed there, the turn goes on where it was, and each call has one result."""
    both = together(call("approve", what="pay"), call("where"), OPENING)
    chat = talk(tmp_path, [both, "paid"], tools=[approve, where], checkpointer=None)
    outer = inside(chat, schema)
    waiting = await outer.ainvoke({"messages": "pay"}, THREAD)

    state = await outer.ainvoke(Command(resume="yes"), THREAD)

    said = [message.text for message in state["messages"] if message.type == "tool"]
    assert [one.value for one in waiting["__interrupt__"]] == ["pay"]
    assert (len(said), "pay: yes" in said, state["messages"][-1].text) == (3, True, "paid")
    assert [one.id for one in commands.efforts(outer, THREAD).efforts] == ["a"]
    assert orphans(chat.last) == 0
