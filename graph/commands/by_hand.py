"""The memory tools by hand, each as a turn.

A command is a turn of its own: the command is its user message, the tool's call and result stand in
it, and a line that no model wrote is its answer. So its events are archived with it, once, and a
thread that is rebuilt from the archive, forked or taken back treats it like any other turn; the
model sees what the user did. Events that waited in the state for the next turn would be lost with
the checkpoints, and the effort that was closed would claim the turn that told of it.

The tool first runs on a copy of the state: if it fails, nothing was changed. Then the whole turn is
written in one step, and the agent's own nodes end it. Whatever is killed between is a turn that was
left unfinished with its answer there: it is ended by resuming, or by the next message.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.base import BaseStore

from ...memory.errors import CommandError
from ...memory.settings import Settings
from ...nodes.begin_turn import begin_turn
from ...nodes.run_tools import run_tools
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.settling import ToolCommand, answering, calling, question
from ...nodes.turn.state import AgentState, MemoryState
from ..build import one
from ..middleware import middleware_of
from .threads import Agent, newest_config, on_a_thread, opened, parts_with_saver


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did: the turn that it is, the tool's result, the banners of the turn."""

    turn: int
    result: dict[str, Any]
    banners: tuple[str, ...]


def order(
    agent: Agent, config: RunnableConfig, what: ToolCommand, context: object = None
) -> CommandResult:
    """Run a tool by hand, as a turn.

    Raises `CommandError` if the tool does, `TurnRunningError` if a turn is not finished, and what a
    turn raises. No turn of the thread may run meanwhile.
    """
    parts = parts_with_saver(agent)
    found = opened(agent, config, agent.get_state(config), context).at_rest().values
    values = {**found, "messages": [*found.get("messages", []), question(what)]}
    ran = _rehearsal(parts, agent.store, what).invoke(
        values, newest_config(config), context=cast("Any", context)
    )
    result = _result(ran)
    agent.update_state(config, _ended(agent, ran, result), as_node=_answering(agent))
    state = agent.invoke(
        None, newest_config(config), context=cast("Any", context), durability="sync"
    )
    memory = state["memory"]
    return CommandResult(memory["turn"], result, tuple(memory["banners"]))


def _answering(agent: Agent) -> str:
    """Return the node after which a turn with an answer ends."""
    hooks = (name for name in agent.builder.nodes if name.endswith(".after_model"))
    return next(hooks, "call_model")


def _rehearsal(parts: AgentParts, store: BaseStore | None, what: ToolCommand) -> Any:
    """Return a graph that only runs the tool on a copy of the state."""
    graph = StateGraph(AgentState, context_schema=Settings)
    graph.add_node("begin_turn", one(begin_turn, parts))
    graph.add_node("call_model", lambda _: {"messages": [calling(what)]})
    graph.add_node("run_tools", one(run_tools, parts))
    graph.add_edge(START, "begin_turn")
    graph.add_edge("begin_turn", "call_model")
    graph.add_edge("call_model", "run_tools")
    return graph.compile(checkpointer=False, store=store)


def _result(ran: dict[str, Any]) -> dict[str, Any]:
    """Return what the tool answered; its error is raised."""
    message = ran["messages"][-1]
    if not isinstance(message, ToolMessage):
        raise TypeError(f"a tool answers with its result, not {type(message).__name__}")
    result: dict[str, Any] = json.loads(message.text)
    if "error" in result:
        raise CommandError(result["error"])
    return result


def _ended(agent: Agent, ran: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the update that holds the whole turn."""
    kept = {key: ran[key] for key in MemoryState.__annotations__ if key in ran}
    if middleware_of(agent):
        kept["jump_to"] = "end"
    # Not an `Overwrite`, whose messages would stay plain data on their way over a server's API.
    all_before = RemoveMessage(REMOVE_ALL_MESSAGES)
    return {**kept, "messages": [all_before, *ran["messages"], answering(result)]}


def open_effort(
    agent: Agent, config: RunnableConfig, name: str, goal: str = "", *, context: object = None
) -> CommandResult:
    """Begin an effort and make it active."""
    return order(agent, config, opening(name, goal), context)


aopen_effort = on_a_thread(open_effort)


def close_effort(
    agent: Agent, config: RunnableConfig, effort_id: str | None = None, *, context: object = None
) -> CommandResult:
    """Conclude an effort, the active one by default; the model that summarises is called."""
    return order(agent, config, closing(effort_id), context)


aclose_effort = on_a_thread(close_effort)


def switch_effort(
    agent: Agent, config: RunnableConfig, effort_id: str = "", *, context: object = None
) -> CommandResult:
    """Make another open effort the active one; without a name none is, and all stay open."""
    return order(agent, config, _named("switch", effort_id), context)


aswitch_effort = on_a_thread(switch_effort)


def reopen_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Go on with a concluded effort."""
    return order(agent, config, _named("reopen", effort_id), context)


areopen_effort = on_a_thread(reopen_effort)


def expand_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, turns: str = "", *, context: object = None
) -> CommandResult:
    """Show the raw log of a concluded effort in the context; `turns` such as "3-5,8"."""
    return order(agent, config, expanding(effort_id, turns), context)


aexpand_effort = on_a_thread(expand_effort)


def collapse_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Take the raw log of an expanded effort out of the context."""
    return order(agent, config, _named("collapse", effort_id), context)


acollapse_effort = on_a_thread(collapse_effort)


def opening(name: str, goal: str) -> ToolCommand:
    """Return the order to open an effort.

    >>> opening("auth bug", "sign-in works").said
    '/open auth bug: sign-in works'
    """
    said = f"/open {name}: {goal}" if goal else f"/open {name}"
    return ToolCommand(said, "open_effort", {"name": name, "goal": goal})


def closing(effort_id: str | None) -> ToolCommand:
    """Return the order to close an effort, None for the active one."""
    arguments: dict[str, Any] = {"effort_id": effort_id} if effort_id else {}
    return ToolCommand(f"/close {effort_id or ''}".strip(), "close_effort", arguments)


def expanding(effort_id: str, turns: str) -> ToolCommand:
    """Return the order to expand an effort, all of it or some turns."""
    arguments = {"effort_id": effort_id, "turns": turns}
    return ToolCommand(f"/expand {effort_id} {turns}".strip(), "expand_effort", arguments)


def _named(verb: str, effort_id: str) -> ToolCommand:
    return ToolCommand(f"/{verb} {effort_id}".strip(), f"{verb}_effort", {"effort_id": effort_id})
