"""The commands that change a thread: window, undo, restore, anchor, and tools by hand."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from ...memory.anchor import ANCHOR_TOKENS, limited, newest
from ...memory.errors import (
    AnswerError,
    CommandError,
    SessionNotFoundError,
    SettingsError,
    StateError,
    TipNotFoundError,
)
from ...memory.messages import fenced
from ...memory.questions import Asks, Question
from ...memory.record import Record, Tip
from ...memory.settings import Settings, resolve
from ...memory.tokens import fit_end
from ...memory.transcript import transcript
from ...nodes.begin_turn import begin_turn
from ...nodes.llm.calls import drive
from ...nodes.persist import BY_HAND, persist
from ...nodes.run_tools import run_tools
from ...nodes.turn.arrivals import divided, unarchived
from ...nodes.turn.langchain_messages import cleaned
from ...nodes.turn.recovery import settle, state_at
from ...nodes.turn.state import TurnState, unpacked
from ...nodes.turn.values import running, sealed, tip_of
from ...prompts.loader import render
from ..build import Node
from ..middleware import EbbtideMiddleware
from .look import next_context
from .threads import (
    Agent,
    Thread,
    newest_config,
    on_a_thread,
    place_of,
    resting,
    thread_at,
    tip_named,
)

_log = logging.getLogger("ebbtide.anchor")


def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive, or the one that is named.

    Returns its new config. A turn that was cut short behind the newest one is archived first. Other
    keys of a graph around the agent stay as they are. Raises `SessionNotFoundError` if the archive
    holds no such session, `SettingsError` if there is no such branch, or no agent of Ebbtide's.
    """
    place, asked = place_of(agent), newest_config(config)
    parts = place.parts
    archive = parts.archive
    try:
        owner = place.owner(config)
        thread = thread_at(agent, asked)
        # Elsewhere it would become the newest branch, in the place of what is to be restored.
        if thread.unfinished and tip_of(thread.state) == (archive.newest(thread.owner) or Tip()):
            _keep(thread)
    except (StateError, TipNotFoundError):  # what restoring mends
        owner = place.named(config)
    tip = archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    if branch is not None:
        tip = tip_named(archive, owner, branch)
    state = state_at(archive, owner, tip, parts.settings.messages_window + 1)
    written = place.seed(asked, sealed(state, {}, archive))
    return {**written, "configurable": {**asked["configurable"], **written["configurable"]}}


def _changeable(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread at rest; raises `SettingsError` if nothing of its memory is kept."""
    if not place_of(agent).has_memory:
        raise SettingsError(
            "the graph around the agent keeps messages alone: mix MemoryState into its state, with "
            "an agent of create_memory_agent in it"
        )
    return resting(agent, config, context)


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread keeps in its context; 0 is all, None the settings'.

    It counts where a run sets none itself. It goes back with time travel, and a thread that is
    rebuilt from the archive has that of its last turn. Raises `SettingsError` if it is out of
    range, `TurnRunningError` if a turn is not finished.
    """
    window = None
    if turns is not None:
        window = resolve({"ambient_window": turns}, Settings()).ambient_window
    thread = _changeable(agent, config)
    # Written even if it is the same: a state that `config` names becomes the newest.
    thread.place.write(config, thread.changed(window=window))


def undo(agent: Agent, config: RunnableConfig) -> int:
    """Make the state before the last turn the newest of the thread; return its turn, 0 for none.

    The turn stays where it is, in the archive and in the checkpoints; what is said next begins a
    branch beside it. A turn that is not finished is archived as aborted and left behind. Raises
    `CommandError` if there is no turn, or no older checkpoint to go back to.
    """
    thread, older = thread_at(agent, config), agent.get_state(config)
    if not thread.turn:
        raise CommandError("there is no turn to undo")
    while True:
        place = {**config.get("configurable", {}), **older.config["configurable"]}
        before = thread_at(agent, {**config, "configurable": place})
        if older.next or before.unfinished:  # the thread's first state is before any turn
            precedes = older.parent_config is None and not older.values.get("messages")
        else:
            precedes = before.turn < thread.turn
        if precedes:
            break
        parent = older.parent_config
        # A checkpoint that was deleted is named by the one after it, but empty.
        if not parent or (older := agent.get_state(parent)).created_at is None:
            raise CommandError(
                f"turn {thread.turn} cannot be undone: the thread has no checkpoint from before "
                "it, since it was rebuilt from the archive, something was erased, or none was kept"
            )
    _keep(thread)
    thread.place.write(older.config, {})
    return before.state.get("turn", 0)


def _keep(thread: Thread) -> None:
    """Archive what there is of an unfinished turn, so that none of its messages is lost."""
    if not unarchived(thread.state):
        return
    state, archive = thread.state, thread.parts.archive
    arrived = divided(state)
    settled = settle(state, thread.owner, arrived, archive)
    if arrived.new:
        begun = cast("TurnState", {**state, **settled, "turn": settled["persisted"] + 1})
        unanswered = replace(arrived, last=None, unfinished=arrived.new, new=[])
        settle(begun, thread.owner, unanswered, archive)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The anchor as it is now, and where it is from: "none" if nothing gave one, the old stays."""

    anchor: Mapping[str, str]
    source: Literal["block", "model", "none"]


def rebuild_anchor(
    agent: Agent, config: RunnableConfig, *, model: bool = False, context: object = None
) -> Rebuilt:
    """Set the anchor to the newest complete block in the turns that the context shows.

    With `model` the model is asked for one first; if it fails or answers without a block, the
    newest block is taken. It goes back with time travel; a thread that is rebuilt from the archive
    has the last one that a turn wrote. Raises `CommandError` if anchors are off, `TurnRunningError`
    if a turn is not finished.
    """
    thread = _changeable(agent, config, context)
    if thread.settings.anchor == "off":
        raise CommandError("anchors are off (setting anchor), so there is none to rebuild")
    shown = next_context(thread).parts
    turns = {part.turn for part in shown if part.name == "turns" and part.turn is not None}
    records = thread.view.turns(sorted(turns))
    answer = ""
    if model and records:
        try:
            answer = drive(_anchor_of(thread, records), thread.parts.models)
        except AnswerError as error:
            _log.warning("the model gave no anchor: %s", error)
    written = newest(answer)
    fields = written or _newest_block(records)
    if fields is None:
        return Rebuilt(thread.state.get("anchor", {}), "none")
    anchor = limited(fields, ANCHOR_TOKENS, thread.parts.count)
    if update := thread.changed(anchor=anchor, view=None):
        thread.place.write(config, update)
    return Rebuilt(anchor, "model" if written else "block")


def _newest_block(records: Sequence[Record]) -> dict[str, str] | None:
    """Return the newest complete state block that the model said in these turns, else None."""
    messages = (message for turn in reversed(records) for message in reversed(turn.messages))
    answers = (message["data"] for message in messages if message["type"] == "ai")
    blocks = (newest(answer.get("content", "")) for answer in answers)
    return next(filter(None, blocks), None)


def _anchor_of(thread: Thread, records: Sequence[Record]) -> Asks[str]:
    """Ask for an anchor of these turns; of a log that is too long the end stays."""
    count, instructions = thread.parts.count, render("rebuild_anchor", limit=ANCHOR_TOKENS)
    empty, log = Question("anchor", instructions, fenced("conversation", "")), transcript(records)
    end = log[fit_end(log, empty.log_room(thread.settings.context_budget, count), count) :]
    answer: str = yield replace(empty, log=fenced("conversation", end))
    return answer


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

    The command is the turn's user message, the tool's call and result stand in it, and a line that
    no model wrote is its answer. So its events are archived with it, once, whether the thread is
    rebuilt, forked or taken back, and the model sees what the user did. The tool first runs on a
    copy of the state: if it fails, nothing was changed. Then the whole turn is written in one step,
    and the agent's own nodes end it, at the next message if it is killed between. Raises
    `CommandError` if the tool does, `TurnRunningError` if a turn is not finished.
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
    place, config = thread.place, thread.config
    messages = place.given.get_state(config).values.get("messages", ())
    ids = {message.id for message in messages}
    new = [message for message in running(unpacked(whole)) if message.id not in ids]
    if place.has_memory:  # killed in between, the next message ends the turn
        config = place.write(config, {"memory": whole["memory"], "messages": new})
    ended = thread.rehearse(whole, persist=Node(thread.parts, persist))
    memory = {"memory": Overwrite(ended["memory"])} if "memory" in place.given.channels else {}
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


arestore = on_a_thread(restore)
aset_window = on_a_thread(set_window)
aundo = on_a_thread(undo)
arebuild_anchor = on_a_thread(rebuild_anchor)
aopen_effort = on_a_thread(open_effort)
aclose_effort = on_a_thread(close_effort)
aswitch_effort = on_a_thread(switch_effort)
areopen_effort = on_a_thread(reopen_effort)
aexpand_effort = on_a_thread(expand_effort)
acollapse_effort = on_a_thread(collapse_effort)
