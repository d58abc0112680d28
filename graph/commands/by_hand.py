"""The memory tools by hand, each as a turn.

The command is the turn's user message, the tool's call and result stand in it, and a line that no
model wrote is its answer. So its events are archived with it, once, whether the thread is rebuilt,
forked or taken back, and the model sees what the user did.

The tool first runs on a copy of the state: if it fails, nothing was changed. Then the whole turn is
written in one step, and the agent's own nodes end it. If it is killed between, the turn is ended by
resuming, or by the next message.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from ...memory.errors import CommandError
from ...nodes.begin_turn import begin_turn
from ...nodes.persist import BY_HAND, persist
from ...nodes.run_tools import run_tools
from ...nodes.turn.langchain_messages import cleaned
from ...nodes.turn.state import unpacked
from ...nodes.turn.values import running
from ...prompts.loader import render
from ..build import Node
from ..middleware import EbbtideMiddleware
from .threads import Agent, Thread, newest_config, on_a_thread, resting


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

    Raises `CommandError` if the tool does, `TurnRunningError` if a turn is not finished, and what a
    turn raises.
    """
    thread = resting(agent, config, context)
    asked = HumanMessage(command, id=str(uuid4()))
    tool = command.split(maxsplit=1)[0].removeprefix("/") + "_effort"
    call = {"name": tool, "args": arguments, "id": f"call_{uuid4().hex}"}
    calling = AIMessage("", tool_calls=[call], response_metadata=BY_HAND, id=str(uuid4()))
    ran = thread.rehearse(
        {**thread.values, "messages": [*thread.values.get("messages", []), asked]},
        begin_turn=Node(thread.parts, begin_turn),
        call_model=lambda _: {"messages": [cleaned(calling)]},
        run_tools=Node(thread.parts, run_tools),
    )
    result: dict[str, Any] = json.loads(ran["messages"][-1].text)
    if "error" in result:
        raise CommandError(result["error"])
    text = render("by_hand", status=result["status"], effort=result.get("effort_id", "no effort"))
    answer = AIMessage(text, response_metadata=BY_HAND, id=str(uuid4()))
    end = _end_inside if thread.place.node else _end
    memory = end(thread, {**ran, "messages": [*ran["messages"], answer]})["memory"]
    return CommandResult(memory["turn"], result, tuple(memory["banners"]))


def _end(thread: Thread, whole: Mapping[str, Any]) -> dict[str, Any]:
    """Write a turn with its answer, let the agent end it, and return the state after it."""
    agent = thread.place.given
    jump = {"jump_to": "end"} if isinstance(thread.place.memory, EbbtideMiddleware) else {}
    # Not an `Overwrite`, whose messages would stay plain data on their way over a server's API.
    replacing = [RemoveMessage(REMOVE_ALL_MESSAGES), *whole["messages"]]
    update = {"memory": whole["memory"], **jump, "messages": replacing}
    hooks = (name for name in agent.builder.nodes if name.endswith(".after_model"))
    last = next(hooks, "call_model")  # the node after which a turn with an answer ends
    agent.update_state(thread.config, update, last)
    config = newest_config(thread.config)
    return dict(agent.invoke(None, config, context=thread.context, durability="sync"))


def _end_inside(thread: Thread, whole: Mapping[str, Any]) -> dict[str, Any]:
    """End a turn of an agent in a larger graph, of which no other node may run."""
    place, config, has_memory = thread.place, thread.config, "memory" in thread.place.given.channels
    messages = place.given.get_state(config).values.get("messages", ())
    ids = {message.id for message in messages}
    new = [message for message in running(unpacked(whole)) if message.id not in ids]
    if place.has_memory:  # killed in between, the next message ends the turn
        config = place.write(config, {"memory": whole["memory"], "messages": new})
    ended = thread.rehearse(whole, persist=Node(thread.parts, persist))
    memory = {"memory": Overwrite(ended["memory"])} if has_memory else {}
    place.write(config, {**memory, "messages": new})
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
