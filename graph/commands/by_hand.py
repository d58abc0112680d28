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
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from ...memory.errors import CommandError
from ...memory.settings import Settings
from ...nodes.begin_turn import begin_turn
from ...nodes.persist import BY_HAND, persist
from ...nodes.run_tools import run_tools
from ...nodes.turn.langchain_messages import cleaned
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.state import AgentState, unpacked
from ...nodes.turn.values import running
from ...prompts.loader import render
from ..build import Node
from ..middleware import middleware_of
from .threads import (
    Agent,
    handed_over,
    holder,
    newest_config,
    node_of,
    on_a_thread,
    resting,
    write,
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did: the turn that it is, the tool's result, the banners of the turn."""

    turn: int
    result: dict[str, Any]
    banners: tuple[str, ...]


def _order(
    agent: Agent,
    config: RunnableConfig,
    command: str,
    arguments: Mapping[str, Any],
    context: object,
) -> CommandResult:
    """Run the tool of a command such as `/open auth-bug`, as a turn that begins with it.

    Of a graph around the agent no other node runs. Raises `CommandError` if the tool does,
    `TurnRunningError` if a turn is not finished, and what a turn raises. No turn of the thread may
    run meanwhile.
    """
    thread = resting(agent, config, context)
    turn = _TurnByHand(agent, config, thread.parts, context)
    asked = HumanMessage(command, id=str(uuid4()))
    call = _call(command.split(maxsplit=1)[0].removeprefix("/") + "_effort", arguments)
    ran = turn.run(
        {**thread.values, "messages": [*thread.values.get("messages", []), asked]},
        begin_turn=Node(thread.parts, begin_turn),
        call_model=lambda _: {"messages": [call]},
        run_tools=Node(thread.parts, run_tools),
    )
    result = _result(ran)
    memory = turn.end(ran, _answer(result))["memory"]
    return CommandResult(memory["turn"], result, tuple(memory["banners"]))


def _call(tool: str, arguments: Mapping[str, Any]) -> AIMessage:
    """Return the call of a tool, as a model would make it."""
    call = {"name": tool, "args": arguments, "id": f"call_{uuid4().hex}"}
    return cleaned(AIMessage("", tool_calls=[call], response_metadata=BY_HAND, id=str(uuid4())))


def _result(ran: dict[str, Any]) -> dict[str, Any]:
    """Return what the tool answered; its error is raised."""
    message = ran["messages"][-1]
    if not isinstance(message, ToolMessage):
        raise TypeError(f"a tool answers with its result, not {type(message).__name__}")
    result: dict[str, Any] = json.loads(message.text)
    if "error" in result:
        raise CommandError(result["error"])
    return result


def _answer(result: dict[str, Any]) -> AIMessage:
    """Return the answer that ends the turn: what was done to which effort."""
    text = render("by_hand", status=result["status"], effort=result.get("effort_id", "no effort"))
    return AIMessage(text, response_metadata=BY_HAND, id=str(uuid4()))


@dataclass(frozen=True, slots=True)
class _TurnByHand:
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
        return dict(whole.invoke(values, newest_config(self.config), context=self.context))

    def end(self, ran: Mapping[str, Any], answer: AIMessage) -> dict[str, Any]:
        """Write the turn with its answer, let it end, and return the state after it."""
        agent, config = self.agent, self.config
        whole = {**ran, "messages": [*ran["messages"], answer]}
        memory = {"memory": ran["memory"]} if "memory" in agent.channels else {}
        if not node_of(agent):
            jump = {"jump_to": "end"} if middleware_of(agent) else {}
            # Not an `Overwrite`, whose messages would stay plain data on their way over a server's
            # API.
            replacing = [RemoveMessage(REMOVE_ALL_MESSAGES), *whole["messages"]]
            hooks = (name for name in agent.builder.nodes if name.endswith(".after_model"))
            last = next(hooks, "call_model")  # the node after which a turn with an answer ends
            agent.update_state(config, {**memory, **jump, "messages": replacing}, last)
            ended: dict[str, Any] = agent.invoke(
                None, newest_config(config), context=self.context, durability="sync"
            )
            return ended
        known = {message.id for message in agent.get_state(config).values.get("messages", ())}
        new = [message for message in running(unpacked(whole)) if message.id not in known]
        if handed_over(agent):  # killed in between, the next message ends the turn
            config = write(agent, config, {**memory, "messages": new})
        ended = self.run(whole, persist=Node(self.parts, persist))
        memory = {key: Overwrite(ended[key]) for key in memory}
        write(agent, config, {**memory, "messages": new})
        return ended


def open_effort(
    agent: Agent, config: RunnableConfig, name: str, goal: str = "", *, context: object = None
) -> CommandResult:
    """Begin an effort and make it active."""
    command = f"/open {name}: {goal}" if goal else f"/open {name}"
    return _order(agent, config, command, {"name": name, "goal": goal}, context)


def close_effort(
    agent: Agent, config: RunnableConfig, effort_id: str | None = None, *, context: object = None
) -> CommandResult:
    """Conclude an effort, the active one by default; the model that summarises is called."""
    arguments = {"effort_id": effort_id} if effort_id else {}
    return _order(agent, config, f"/close {effort_id or ''}".strip(), arguments, context)


def switch_effort(
    agent: Agent, config: RunnableConfig, effort_id: str = "", *, context: object = None
) -> CommandResult:
    """Make another open effort the active one; without a name none is, and all stay open."""
    command = f"/switch {effort_id}".strip()
    return _order(agent, config, command, {"effort_id": effort_id}, context)


def reopen_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Go on with a concluded effort."""
    command = f"/reopen {effort_id}".strip()
    return _order(agent, config, command, {"effort_id": effort_id}, context)


def expand_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, turns: str = "", *, context: object = None
) -> CommandResult:
    """Show the raw log of a concluded effort in the context; `turns` such as "3-5,8"."""
    command = f"/expand {effort_id} {turns}".strip()
    return _order(agent, config, command, {"effort_id": effort_id, "turns": turns}, context)


def collapse_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Take the raw log of an expanded effort out of the context."""
    command = f"/collapse {effort_id}".strip()
    return _order(agent, config, command, {"effort_id": effort_id}, context)


aopen_effort = on_a_thread(open_effort)
aclose_effort = on_a_thread(close_effort)
aswitch_effort = on_a_thread(switch_effort)
areopen_effort = on_a_thread(reopen_effort)
aexpand_effort = on_a_thread(expand_effort)
acollapse_effort = on_a_thread(collapse_effort)
