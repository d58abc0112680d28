"""The commands that change a thread: window, undo, restore, rebuild the anchor."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

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
from ...memory.settings import settings
from ...memory.tokens import fit_end
from ...memory.transcript import transcript
from ...nodes.llm.calls import drive
from ...nodes.turn.arrivals import told_apart, unarchived
from ...nodes.turn.recovery import settle, state_at
from ...nodes.turn.state import TurnState
from ...nodes.turn.values import sealed, tip_of
from ...prompts.loader import render
from .look import rehearsed
from .threads import (
    Agent,
    Thread,
    handed_over,
    named,
    newest_config,
    on_a_thread,
    owner_in,
    parts_of,
    resting,
    seed,
    thread_at,
    tip_named,
    write,
)

_log = logging.getLogger("ebbtide.anchor")


def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive; return its new config.

    `config` names the thread, and the user if there is one; `branch` names another branch. `agent`
    may be the graph around it, whose own keys of the state stay as they are. A turn that was cut
    short behind the newest one is archived first. Raises
    `SessionNotFoundError` if the archive holds no such session, `SettingsError` if the graph is not
    one of Ebbtide's, or if there is no such branch.
    """
    parts = parts_of(agent)
    try:
        owner = owner_in(agent, config)
        _keep_if_newest(thread_at(agent, newest_config(config)))
    except (StateError, TipNotFoundError):  # what restoring mends
        owner = named(agent, config)
    tip = parts.archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    if branch is not None:
        tip = tip_named(parts.archive, owner, branch)
    state = state_at(parts.archive, owner, tip, parts.settings.messages_window + 1)
    asked = newest_config(config)
    written = seed(agent, asked, sealed(state, {}, parts.archive))
    return {**written, "configurable": {**asked["configurable"], **written["configurable"]}}


def _keep_if_newest(thread: Thread) -> None:
    """Archive a turn that was cut short if it follows the newest of the archive.

    Elsewhere it would become the newest branch, in the place of what is to be restored.
    """
    newest = thread.parts.archive.newest(thread.owner) or Tip()
    if thread.unfinished and tip_of(thread.state) == newest:
        _keep(thread)


def _check_that_it_keeps(agent: Agent) -> None:
    """Raise `SettingsError` if the graph around an agent keeps nothing of the memory."""
    if not handed_over(agent):
        raise SettingsError(
            "the graph around the agent keeps messages alone: mix MemoryState into its state, with "
            "an agent of create_memory_agent in it"
        )


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread keeps in its context; 0 is all, None the settings'.

    It wins over settings of the agent and of runs. It is kept in the state and nowhere else: it
    goes back with time travel, and a thread that is rebuilt from the archive begins without it.
    Raises `SettingsError` if it is out of range, `TurnRunningError` if a turn is not finished.
    """
    window = None if turns is None else settings(ambient_window=turns).ambient_window
    _check_that_it_keeps(agent)
    thread = resting(agent, config)
    write(agent, config, thread.changed(window=window))


def undo(agent: Agent, config: RunnableConfig) -> int:
    """Make the state before the last turn the newest of the thread; return its turn, 0 for none.

    The turn stays where it is, in the archive and in the checkpoints; what is said next begins a
    branch beside it. A turn that is not finished is archived as aborted and left behind. Raises
    `CommandError` if there is no turn, or no older checkpoint to go back to.
    """
    thread, older = thread_at(agent, config), agent.get_state(config)
    if not thread.turn:
        raise CommandError("there is no turn to undo")
    while not _precedes(older, before := _at(agent, config, older), thread):
        older = _older(agent, older, thread)
    _keep(thread)
    write(agent, older.config, {})
    return before.state.get("turn", 0)


def _at(agent: Agent, config: RunnableConfig, snapshot: StateSnapshot) -> Thread:
    """Return the thread as a checkpoint has it."""
    place = {**config.get("configurable", {}), **snapshot.config["configurable"]}
    return thread_at(agent, {**config, "configurable": place})


def _precedes(older: StateSnapshot, before: Thread, thread: Thread) -> bool:
    """Tell whether a checkpoint is from before the last turn: at rest, or the thread's first."""
    if older.next or before.unfinished:
        return older.parent_config is None and not older.values.get("messages")
    return before.turn < thread.turn


def _older(agent: Agent, newer: StateSnapshot, thread: Thread) -> StateSnapshot:
    """Return the checkpoint before another; one that was deleted is named there, but empty."""
    older = agent.get_state(newer.parent_config) if newer.parent_config else None
    if older is None or older.created_at is None:
        raise CommandError(
            f"turn {thread.turn} cannot be undone: the thread has no checkpoint from before it, "
            "since it was rebuilt from the archive, something was erased, or none was kept"
        )
    return older


def _keep(thread: Thread) -> None:
    """Archive what there is of an unfinished turn, so that none of its messages is lost."""
    if not unarchived(thread.state):
        return
    state, archive = thread.state, thread.parts.archive
    arrived = told_apart(state)
    settled = settle(state, thread.owner, arrived, archive)
    if arrived.new:
        begun = cast("TurnState", {**state, **settled, "turn": settled["persisted"] + 1})
        unanswered = replace(arrived, last=None, left=arrived.new, new=[])
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

    With `model` the model is asked for one first, about these turns; if it fails or answers
    without a block, the newest block is taken. The anchor is kept in the state and goes back with
    time travel; a thread that is rebuilt from the archive has the last one that a turn wrote.
    Raises `CommandError` if anchors are off, `TurnRunningError` if a turn is not finished.
    """
    _check_that_it_keeps(agent)
    thread = resting(agent, config, context)
    if thread.settings.anchor == "off":
        raise CommandError("anchors are off (setting anchor), so there is none to rebuild")
    shown = rehearsed(thread, config, None, context).parts
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
        write(agent, config, update)
    return Rebuilt(anchor, "model" if written else "block")


def _anchor_of(thread: Thread, records: Sequence[Record]) -> Asks[str]:
    """Ask for an anchor of these turns; of a log that is too long the end stays."""
    count, instructions = thread.parts.count, render("rebuild_anchor", limit=ANCHOR_TOKENS)
    empty, log = Question("anchor", instructions, fenced("conversation", "")), transcript(records)
    end = log[fit_end(log, empty.log_room(thread.settings.context_budget, count), count) :]
    answer: str = yield replace(empty, log=fenced("conversation", end))
    return answer


def _newest_block(records: Sequence[Record]) -> dict[str, str] | None:
    """Return the newest complete state block that the model said in these turns, else None."""
    said = (m for turn in reversed(records) for m in reversed(turn.messages) if m["type"] == "ai")
    blocks = (newest(message["data"].get("content", "")) for message in said)
    return next(filter(None, blocks), None)


arestore = on_a_thread(restore)
aset_window = on_a_thread(set_window)
aundo = on_a_thread(undo)
arebuild_anchor = on_a_thread(rebuild_anchor)
