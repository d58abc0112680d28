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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from ...memory.errors import CommandError
from ...memory.settings import Settings
from ...nodes.begin_turn import begin_turn
from ...nodes.persist import persist
from ...nodes.run_tools import run_tools
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.settling import ToolCommand, answering, calling, question
from ...nodes.turn.state import AgentState, unpacked
from ...nodes.turn.values import running
from ..build import one
from ..middleware import middleware_of
from .look import resting
from .threads import Agent, handed_over, holder, newest_config, node_of, on_a_thread, write


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did: the turn that it is, the tool's result, the banners of the turn."""

    turn: int
    result: dict[str, Any]
    banners: tuple[str, ...]


def _order(
    agent: Agent, config: RunnableConfig, what: ToolCommand, context: object = None
) -> CommandResult:
    """Run a tool by hand, as a turn; of a graph around the agent no other node runs.

    Raises `CommandError` if the tool does, `TurnRunningError` if a turn is not finished, and what a
    turn raises. No turn of the thread may run meanwhile.
    """
    thread = resting(agent, config, context)
    here = _Here(agent, config, thread.parts, context)
    said = [*thread.values.get("messages", []), question(what)]
    ran = here.run(
        {**thread.values, "messages": said},
        begin_turn=one(begin_turn, thread.parts),
        call_model=lambda _: {"messages": [calling(what)]},
        run_tools=one(run_tools, thread.parts),
    )
    result = _result(ran)
    memory = here.end(ran, answering(result))["memory"]
    return CommandResult(memory["turn"], result, tuple(memory["banners"]))


@dataclass(frozen=True, slots=True)
class _Here:
    """A thread of an agent, or of the graph around it, in which a turn is made by hand."""

    agent: Agent
    config: RunnableConfig
    parts: AgentParts
    context: Any

    def run(self, values: Mapping[str, Any], **nodes: Any) -> dict[str, Any]:
        """Run nodes one after the other on a copy of the state, where the agent stands."""
        graph: Any = StateGraph(AgentState, context_schema=Settings)
        graph.add_sequence([*nodes.items()]).add_edge(START, next(iter(nodes)))
        path, _ = holder(self.agent)
        for name in reversed(path.split("|") if path else ()):
            inner, graph = graph, StateGraph(AgentState, context_schema=Settings)
            graph.add_node(name, inner.compile()).add_edge(START, name)
        whole = graph.compile(checkpointer=False, store=self.agent.store)
        found: dict[str, Any] = whole.invoke(
            values, newest_config(self.config), context=self.context
        )
        return found

    def end(self, ran: Mapping[str, Any], answer: AIMessage) -> dict[str, Any]:
        """Write the turn with its answer, let it end, and return the state after it."""
        agent, config = self.agent, self.config
        whole = {**ran, "messages": [*ran["messages"], answer]}
        memory = {"memory": ran["memory"]} if "memory" in agent.channels else {}
        if not node_of(agent):
            jump = {"jump_to": "end"} if middleware_of(agent) else {}
            # Not an `Overwrite`, whose messages would stay plain data on their way over a server's
            # API.
            said = [RemoveMessage(REMOVE_ALL_MESSAGES), *whole["messages"]]
            agent.update_state(config, {**memory, **jump, "messages": said}, _answering(agent))
            ended: dict[str, Any] = agent.invoke(
                None, newest_config(config), context=self.context, durability="sync"
            )
            return ended
        there = {one.id for one in agent.get_state(config).values.get("messages", ())}
        said = [one for one in running(unpacked(whole)) if one.id not in there]
        if handed_over(agent):  # killed in between, the next message ends the turn
            config = write(agent, config, {**memory, "messages": said})
        ended = self.run(whole, persist=one(persist, self.parts))
        memory = {key: Overwrite(ended[key]) for key in memory}
        write(agent, config, {**memory, "messages": said})
        return ended


def _answering(agent: Agent) -> str:
    """Return the node after which a turn with an answer ends."""
    hooks = (name for name in agent.builder.nodes if name.endswith(".after_model"))
    return next(hooks, "call_model")


def _result(ran: dict[str, Any]) -> dict[str, Any]:
    """Return what the tool answered; its error is raised."""
    message = ran["messages"][-1]
    if not isinstance(message, ToolMessage):
        raise TypeError(f"a tool answers with its result, not {type(message).__name__}")
    result: dict[str, Any] = json.loads(message.text)
    if "error" in result:
        raise CommandError(result["error"])
    return result


def open_effort(
    agent: Agent, config: RunnableConfig, name: str, goal: str = "", *, context: object = None
) -> CommandResult:
    """Begin an effort and make it active."""
    return _order(agent, config, _opening(name, goal), context)


aopen_effort = on_a_thread(open_effort)


def close_effort(
    agent: Agent, config: RunnableConfig, effort_id: str | None = None, *, context: object = None
) -> CommandResult:
    """Conclude an effort, the active one by default; the model that summarises is called."""
    return _order(agent, config, _closing(effort_id), context)


aclose_effort = on_a_thread(close_effort)


def switch_effort(
    agent: Agent, config: RunnableConfig, effort_id: str = "", *, context: object = None
) -> CommandResult:
    """Make another open effort the active one; without a name none is, and all stay open."""
    return _order(agent, config, _named("switch", effort_id), context)


aswitch_effort = on_a_thread(switch_effort)


def reopen_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Go on with a concluded effort."""
    return _order(agent, config, _named("reopen", effort_id), context)


areopen_effort = on_a_thread(reopen_effort)


def expand_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, turns: str = "", *, context: object = None
) -> CommandResult:
    """Show the raw log of a concluded effort in the context; `turns` such as "3-5,8"."""
    return _order(agent, config, _expanding(effort_id, turns), context)


aexpand_effort = on_a_thread(expand_effort)


def collapse_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Take the raw log of an expanded effort out of the context."""
    return _order(agent, config, _named("collapse", effort_id), context)


acollapse_effort = on_a_thread(collapse_effort)


def _opening(name: str, goal: str) -> ToolCommand:
    """Return the order to open an effort.

    >>> _opening("auth bug", "sign-in works").said
    '/open auth bug: sign-in works'
    """
    said = f"/open {name}: {goal}" if goal else f"/open {name}"
    return ToolCommand(said, "open_effort", {"name": name, "goal": goal})


def _closing(effort_id: str | None) -> ToolCommand:
    """Return the order to close an effort, None for the active one."""
    arguments: dict[str, Any] = {"effort_id": effort_id} if effort_id else {}
    return ToolCommand(f"/close {effort_id or ''}".strip(), "close_effort", arguments)


def _expanding(effort_id: str, turns: str) -> ToolCommand:
    """Return the order to expand an effort, all of it or some turns."""
    arguments = {"effort_id": effort_id, "turns": turns}
    return ToolCommand(f"/expand {effort_id} {turns}".strip(), "expand_effort", arguments)


def _named(verb: str, effort_id: str) -> ToolCommand:
    return ToolCommand(f"/{verb} {effort_id}".strip(), f"{verb}_effort", {"effort_id": effort_id})
