"""The commands that change a thread: window, undo, restore, anchor, and memory tools by hand."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
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
    TipNotFoundError,
)
from ...memory.fences import Fences, marked
from ...memory.questions import Asks, Question
from ...memory.record import Record, Tip
from ...memory.settings import Settings, resolve
from ...memory.tokens import fit_end
from ...memory.transcript import transcript
from ...nodes.begin_turn import begin_turn
from ...nodes.persist import BY_HAND, persist
from ...nodes.run_tools import run_tools
from ...nodes.turn.arrivals import split_messages, unarchived
from ...nodes.turn.langchain_messages import cleaned
from ...nodes.turn.recovery import commit_unfinished, state_at
from ...nodes.turn.state import unpacked, updated
from ...nodes.turn.values import repacked, running, tip_of
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
_restore_log = logging.getLogger("ebbtide.archive")


def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> RunnableConfig:
    """Rebuild a thread's state from a branch of the archive, by default its newest.

    Returns the new config. An unfinished turn of the newest branch is archived first. Other keys of
    a graph around the agent stay as they are. Raises `SessionNotFoundError` if the archive has no
    such session, `SettingsError` if there is no such branch or no agent of Ebbtide's.
    """
    place, latest = place_of(agent), newest_config(config)
    archive, settings, owner = place.parts.archive, place.parts.settings, place.owner(config)
    try:
        thread = thread_at(agent, latest)
        # On another branch, archiving would make that the newest and restore it instead.
        if thread.unfinished and tip_of(thread.state) == (archive.newest(thread.owner) or Tip()):
            _archive_unfinished(thread)
    except TipNotFoundError as error:  # restoring mends such a state
        _restore_log.info("the state of the thread is not archived: %s", error)
    tip = archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    if branch is not None:
        tip = tip_named(archive, owner, branch)
    state = state_at(archive, owner, tip, settings.messages_window + 1)
    new_config = place.seed(latest, repacked(state))
    configurable = {**latest["configurable"], **new_config["configurable"]}
    return {**new_config, "configurable": configurable}


def _changeable(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread at rest; raises `SettingsError` if the graph's state has no memory."""
    if not place_of(agent).has_memory:
        raise SettingsError(
            "the graph around the agent keeps messages alone: mix MemoryState into its state, with "
            "an agent of create_memory_agent in it"
        )
    return resting(agent, config, context)


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread has in its context: 0 for all, None for the settings'.

    A run's own setting overrides it. It goes back with time travel; a thread rebuilt from the
    archive has the window of its last turn. Raises `SettingsError` if it is out of range,
    `TurnRunningError` if a turn is not finished.
    """
    window = None
    if turns is not None:
        window = resolve({"ambient_window": turns}, Settings()).ambient_window
    thread = _changeable(agent, config)
    # Written even if unchanged: an older state that `config` names becomes the newest.
    thread.place.write(config, thread.changed(window=window))


def undo(agent: Agent, config: RunnableConfig) -> int:
    """Go back to the state before the last turn; return the number of the turn before, 0 for none.

    The undone turn stays in the archive and the checkpoints; the next message begins a new branch.
    An unfinished turn is archived as aborted. Raises `CommandError` if there is no turn, or no
    older checkpoint.
    """
    thread, older = thread_at(agent, config), agent.get_state(config)
    if not thread.turn:
        raise CommandError("there is no turn to undo")
    while True:
        configurable = {**config.get("configurable", {}), **older.config["configurable"]}
        older_thread = thread_at(agent, {**config, "configurable": configurable})
        if older.next or older_thread.unfinished:  # the thread's first state is before any turn
            precedes = older.parent_config is None and not older.values.get("messages")
        else:
            precedes = older_thread.turn < thread.turn
        if precedes:
            break
        parent = older.parent_config
        # A deleted checkpoint is still named as the parent of the next one, but is empty.
        if not parent or (older := agent.get_state(parent)).created_at is None:
            raise CommandError(
                f"turn {thread.turn} cannot be undone: the thread has no checkpoint from before "
                "it, since it was rebuilt from the archive, something was erased, or none was kept"
            )
    _archive_unfinished(thread)
    thread.place.write(older.config, {})
    return older_thread.state.get("turn", 0)


def _archive_unfinished(thread: Thread) -> None:
    """Archive the messages of an unfinished turn, so that none is lost."""
    if not unarchived(thread.state):
        return
    state, archive = thread.state, thread.parts.archive
    arrived = split_messages(state)
    settled = commit_unfinished(state, thread.owner, arrived, archive)
    if arrived.new:
        begun = updated(state, {**settled, "turn": settled["persisted"] + 1})
        unanswered = replace(arrived, last=None, unfinished=arrived.new, new=[])
        commit_unfinished(begun, thread.owner, unanswered, archive)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The anchor after `rebuild_anchor`, and its source; with "none" it is the old one."""

    anchor: Mapping[str, str]
    source: Literal["block", "model", "none"]


def rebuild_anchor(
    agent: Agent, config: RunnableConfig, *, model: bool = False, context: object = None
) -> Rebuilt:
    """Set the anchor to the newest complete state block in the turns of the context.

    With `model`, the model writes one; if it fails or answers without a block, the newest block is
    taken. The anchor goes back with time travel; a thread rebuilt from the archive has the anchor
    of its last turn. Raises `CommandError` if anchors are off, `TurnRunningError` if a turn is not
    finished.
    """
    thread = _changeable(agent, config, context).with_sizes()
    if thread.settings.anchor == "off":
        raise CommandError("anchors are off (setting anchor), so there is none to rebuild")
    if model:
        thread.checked("anchor")
    shown_parts = next_context(thread).parts
    turns = {part.turn for part in shown_parts if part.name == "turns" and part.turn is not None}
    records = thread.view.turns(sorted(turns))
    answer = ""
    if model and records:
        try:
            answer = thread.asked(_ask_for_anchor(thread, records))
        except AnswerError as error:
            _log.warning("the model gave no anchor: %s", error)
    new_block = newest(answer)
    fields = new_block or _newest_block(records)
    if fields is None:
        return Rebuilt(thread.state.get("anchor", {}), "none")
    anchor = limited(fields, ANCHOR_TOKENS, thread.parts.count)
    if update := thread.changed(anchor=anchor, view=None):
        thread.place.write(config, update)
    return Rebuilt(anchor, "model" if new_block else "block")


def _newest_block(records: Sequence[Record]) -> dict[str, str] | None:
    """Return the newest complete state block in the model's answers, None without one."""
    messages = (message for turn in reversed(records) for message in reversed(turn.messages))
    answers = (message["data"] for message in messages if message["type"] == "ai")
    blocks = (newest(answer.get("content", "")) for answer in answers)
    return next(filter(None, blocks), None)


def _ask_for_anchor(thread: Thread, records: Sequence[Record]) -> Asks[str]:
    """Ask the model for an anchor of these turns; of a log that is too long it gets the end."""
    count, instructions = thread.parts.count, render("rebuild_anchor", limit=ANCHOR_TOKENS)
    fences = Fences(thread.parts.archive.fence_key(thread.owner), count)
    empty = Question("anchor", instructions, fences.around("conversation", ""))
    log = marked(transcript(records))
    end = log[fit_end(log, empty.log_room(thread.settings.context_budget, count), count) :]
    answer: str = yield replace(empty, log=fences.around("conversation", end))
    return answer


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: the number of its turn, the tool's result, the turn's banners."""

    turn: int
    result: dict[str, Any]
    banners: tuple[str, ...]


def _run_by_hand(
    agent: Agent,
    config: RunnableConfig,
    verb: str,
    arguments: Mapping[str, Any],
    context: object,
) -> CommandResult:
    """Run the memory tool of a command such as `/open auth-bug: its goal`, as a turn of its own.

    The command is the turn's user message; then follow the tool's call, its result and an answer
    that no model wrote. So the turn's events are archived once, also if the thread is rebuilt,
    forked or undone, and the model sees what the user did. The tool first runs on a copy of the
    state: if it fails, nothing is changed. Then the turn is written in one step, and the agent's
    own nodes end it; after a crash in between, the next message does. Raises `CommandError` if the
    tool fails, `TurnRunningError` if a turn is not finished.
    """
    for name, value in arguments.items():
        if not isinstance(value, str | None):
            raise CommandError(f"{name} must be a text, got {value!r}")
    thread = resting(agent, config, context).with_sizes()
    if verb == "close":
        thread.checked("summary")
    words = (": " if verb == "open" else " ").join(filter(None, arguments.values()))
    question = HumanMessage(f"/{verb} {words}".strip(), id=str(uuid4()))
    call = {"name": f"{verb}_effort", "args": arguments, "id": f"call_{uuid4().hex}"}
    calling = AIMessage("", tool_calls=[call], response_metadata=BY_HAND, id=str(uuid4()))
    rehearsed = thread.rehearse(
        {**thread.values, "messages": [*thread.values.get("messages", []), question]},
        begin_turn=Node(thread.parts, begin_turn),
        call_model=lambda _: {"messages": [cleaned(calling)]},
        run_tools=Node(thread.parts, run_tools),
    )
    result: dict[str, Any] = json.loads(rehearsed["messages"][-1].text)
    if "error" in result:
        raise CommandError(result["error"])
    text = render("by_hand", status=result["status"], effort=result.get("effort_id", "no effort"))
    answer = AIMessage(text, response_metadata=BY_HAND, id=str(uuid4()))
    end = _end_turn_inside if thread.place.node else _end_turn
    memory = end(thread, {**rehearsed, "messages": [*rehearsed["messages"], answer]})["memory"]
    return CommandResult(memory["turn"], result, tuple(memory["banners"]))


def _end_turn(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Write a turn with its answer, let the agent's nodes end it, and return the new state."""
    agent = thread.place.graph
    jump = {"jump_to": "end"} if isinstance(thread.place.memory, EbbtideMiddleware) else {}
    # An `Overwrite` would not survive a server's API: its messages would arrive as plain data.
    replacing = [RemoveMessage(REMOVE_ALL_MESSAGES), *state["messages"]]
    update = {**_channels(state), **jump, "messages": replacing}
    hooks = (name for name in agent.builder.nodes if name.endswith(".after_model"))
    last = next(hooks, "call_model")  # after this node a turn with an answer ends
    agent.update_state(thread.config, update, last)
    config = newest_config(thread.config)
    return dict(agent.invoke(None, config, context=thread.context, durability="sync"))


def _end_turn_inside(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """End a turn of an agent in a larger graph without running another node of it."""
    place, config = thread.place, thread.config
    messages = place.graph.get_state(config).values.get("messages", ())
    ids = {message.id for message in messages}
    new = [message for message in running(unpacked(state)) if message.id not in ids]
    if place.has_memory:  # after a crash before the next write, the next message ends the turn
        config = place.write(config, {**_channels(state), "messages": new})
    ended = thread.rehearse(state, persist=Node(thread.parts, persist))
    channels = {key: Overwrite(v) for key, v in _channels(ended).items() if place.has_memory}
    place.write(config, {**channels, "messages": new})
    return ended


def _channels(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the channels of the memory."""
    return {key: state[key] for key in ("memory", "bookkeeping")}


def open_effort(
    agent: Agent, config: RunnableConfig, name: str, goal: str = "", *, context: object = None
) -> CommandResult:
    """Begin an effort and make it active."""
    return _run_by_hand(agent, config, "open", {"name": name, "goal": goal}, context)


def close_effort(
    agent: Agent, config: RunnableConfig, effort_id: str | None = None, *, context: object = None
) -> CommandResult:
    """Conclude an effort, by default the active one; this calls the summary model."""
    arguments = {"effort_id": effort_id} if effort_id else {}
    return _run_by_hand(agent, config, "close", arguments, context)


def switch_effort(
    agent: Agent, config: RunnableConfig, effort_id: str = "", *, context: object = None
) -> CommandResult:
    """Make another open effort the active one; without an id none is active."""
    return _run_by_hand(agent, config, "switch", {"effort_id": effort_id}, context)


def reopen_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Continue a concluded effort."""
    return _run_by_hand(agent, config, "reopen", {"effort_id": effort_id}, context)


def expand_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, turns: str = "", *, context: object = None
) -> CommandResult:
    """Put the raw log of a concluded effort into the context, or turns of it such as "3-5,8"."""
    return _run_by_hand(agent, config, "expand", {"effort_id": effort_id, "turns": turns}, context)


def collapse_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Take the raw log of an expanded effort out of the context."""
    return _run_by_hand(agent, config, "collapse", {"effort_id": effort_id}, context)


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
