"""Commands that change a thread: window, undo, restore, anchor, and memory tools by hand."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from langchain_core.runnables import RunnableConfig

from ...memory.errors import (
    AnswerError,
    CommandError,
    SessionNotFoundError,
    SettingsError,
    TipNotFoundError,
)
from ...memory.questions import Asks, Question
from ...memory.settings import Settings, resolve
from ...memory.state_block import ANCHOR_TOKENS, limited, newest
from ...memory.tokens import fit_end
from ...memory.transcript import transcript
from ...memory.turn import StoredTurn, Tip
from ...memory.view import fences_of, view_at
from ...nodes.turn.arrivals import Arrival, arrival, new_messages
from ...nodes.turn.commits import commit_arrival, state_at
from ...nodes.turn.state import repacked, updated
from ...nodes.turn.updates import tip_of
from ...prompts.loader import render
from ..checkpoints import implements
from .look import next_context
from .registry import command
from .threads import (
    Agent,
    Thread,
    newest_config,
    place_of,
    resting,
    thread_at,
    tip_named,
)

_log = logging.getLogger("ebbtide.anchor")
_restore_log = logging.getLogger("ebbtide.archive")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a thread continues: after this turn, 0 for its beginning."""

    turn: int


@command(changes=True, slash="")
def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> Position:
    """Rebuild the state of a thread from the archive.

    An unfinished turn of the newest branch is archived first. Other keys of a graph around the
    agent are not changed.

    Args:
        agent: The agent, or a graph around it.
        config: The config of the thread's runs.
        branch: The first digits of the id of a branch's last turn. Default: the newest branch.

    Raises:
        SessionNotFoundError: The archive has no such session.
        SettingsError: There is no such branch, or the graph has no agent with a memory.
    """
    place, latest = place_of(agent), newest_config(config)
    archive, settings, session = place.parts.archive, place.parts.settings, place.session(config)
    newest = archive.load(session).tip
    if branch is not None and newest is None:
        raise SessionNotFoundError(session.thread)
    named = None if branch is None else tip_named(archive, session, branch)
    try:
        thread = thread_at(agent, latest)
        # On another branch, archiving would make that the newest and restore it instead.
        if tip_of(thread.state) == (archive.load(thread.session).tip or Tip()):
            if thread.is_older:
                thread.at_rest()
            if thread.unfinished:
                _archive_unfinished(thread)
            if thread.state.get("command"):
                thread.with_command()
    except TipNotFoundError as error:  # restoring mends such a state
        _restore_log.info("the state of the thread is not archived: %s", error)
    # What was archived just now is of the newest branch, which may be the one that was named.
    tip = archive.load(session).tip if named in {None, newest} else named
    if tip is None:
        raise SessionNotFoundError(session.thread)
    state = state_at(archive, session, tip, settings.earlier_turns + 1)
    place.seed(latest, repacked(state, place.parts, None, settings))
    return Position(tip.turn)


def _changeable(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread at rest; raises `SettingsError` if the graph's state has no memory."""
    if not place_of(agent).has_memory:
        raise SettingsError(
            "the graph around the agent only keeps messages: mix MemoryState into its state, and "
            "use an agent of create_memory_agent"
        )
    return resting(agent, config, context)


@dataclass(frozen=True, slots=True)
class Window:
    """The ambient turns that a thread shows: 0 for all, None for the setting `ambient_window`."""

    turns: int | None


@command(
    changes=True,
    path="threads/{thread_id}/window",
    slash="/context window N",
    given={"turns": None},
)
def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> Window:
    """Set how many turns outside of efforts the model sees on this thread, 0 for all.

    A setting of the run overrides it. It goes back with time travel, and a restored thread has the
    window of its last turn.

    Args:
        agent: The agent, or a graph around it.
        config: The config of the thread's runs.
        turns: The number of turns, 0 for all, None for the setting `ambient_window`.

    Raises:
        SettingsError: The number is out of range.
        TurnRunningError: A turn is not finished.
    """
    window = None
    if turns is not None:
        window = resolve({"ambient_window": turns}, Settings()).ambient_window
    thread = _changeable(agent, config)
    # Written even if unchanged: an older state that `config` names becomes the newest.
    thread.place.write(config, thread.changed(window=window))
    return Window(window)


@command(changes=True)
def undo(agent: Agent, config: RunnableConfig) -> Position:
    """Go back to the state before the last turn or command.

    What was undone stays in the archive and the checkpoints. The next message starts a new branch.

    An unfinished turn is archived as aborted. Raises `CommandError` if there is nothing to undo, or
    no older checkpoint.
    """
    thread, older = thread_at(agent, config), agent.get_state(config)
    if not (thread.place.saver and implements(thread.place.saver, "put")):
        thread.at_rest()  # a server shows only part of an unfinished turn
    undoes_command = _ends_with_command(thread)
    if thread.is_older or not (thread.turn or undoes_command):
        raise CommandError("there is no turn to undo")
    while True:
        configurable = {**config.get("configurable", {}), **older.config["configurable"]}
        older_thread = thread_at(agent, {**config, "configurable": configurable})
        if older_thread.is_older:
            return Position(_back_to_adopted(thread, older.config))
        if older.next or older_thread.unfinished:  # the thread's first state is before any turn
            precedes = older.parent_config is None and not older.values.get("messages")
        elif undoes_command:
            before, state = older_thread.state, thread.state
            done = bool(state.get("command")) or tip_of(before) != tip_of(state)
            precedes = not before.get("command") and done
        else:
            precedes = older_thread.turn < thread.turn
        if precedes:
            break
        parent = older.parent_config
        # A deleted checkpoint is still named as the parent of the next one, but is empty.
        if not parent or (older := agent.get_state(parent)).created_at is None:
            raise CommandError(
                f"turn {thread.turn} cannot be undone: the thread has no earlier checkpoint: it "
                "was restored from the archive, a turn was erased, or none was kept"
            )
    _archive_unfinished(thread)
    thread.place.write(older.config, {})
    return Position(older_thread.state.get("turn", 0))


def _back_to_adopted(thread: Thread, config: RunnableConfig) -> int:
    """Go back to the turns that were adopted before the last turn, and return the last's number."""
    _archive_unfinished(thread)
    archive, settings = thread.parts.archive, thread.settings
    last = thread.turn - 1
    tip = Tip(last, archive.load(thread.session, tip_of(thread.state)).ids([last])[last])
    state = state_at(archive, thread.session, tip, settings.earlier_turns + 1)
    thread.place.seed(config, repacked(state, thread.parts, None, settings))
    return tip.turn


def _ends_with_command(thread: Thread) -> bool:
    """Tell whether the last thing that was done in a thread at rest is a command by hand."""
    state, archive = thread.state, thread.parts.archive
    if thread.unfinished or state.get("command"):
        return not thread.unfinished
    tip = tip_of(state)
    return any(
        turn.status == "command" and turn.id == tip.id
        for turn in archive.load(thread.session, tip).commits([tip.turn])
    )


def _archive_unfinished(thread: Thread) -> None:
    """Archive the messages of an unfinished turn, so that none is lost."""
    if not thread.unarchived:
        return
    state, archive = thread.state, thread.parts.archive
    arrived = arrival(state, view_at(archive, thread.session, tip_of(state)))
    settled = commit_arrival(state, thread.session, arrived, archive)
    if new := new_messages(state):
        begun = updated(state, {**settled, "turn": settled["number"] + 1})
        commit_arrival(begun, thread.session, Arrival(unfinished=new), archive)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The anchor after `rebuild_anchor`, and where it is from; "none" means it is unchanged."""

    anchor: Mapping[str, str]
    source: Literal["block", "model", "none"]


@command(changes=True, path="threads/{thread_id}/anchor", slash="/context rebuild [--model]")
def rebuild_anchor(
    agent: Agent, config: RunnableConfig, *, model: bool = False, context: object = None
) -> Rebuilt:
    """Renew the anchor (goal and state of the work) from the newest complete state block in view.

    With `model`, the model writes one. If it fails or answers without a block, the newest block is
    used. The anchor goes back with time travel, and a restored thread has the anchor of its last
    turn. Raises `CommandError` if anchors are off, `TurnRunningError` if a turn is not
    finished.
    """
    thread = _changeable(agent, config, context)
    if thread.settings.anchor == "off":
        raise CommandError("the setting anchor is off, so there is no anchor to rebuild")
    if model:
        thread.checked("anchor")
    shown_parts = next_context(thread).parts
    turns = {part.turn for part in shown_parts if part.name == "turns" and part.turn is not None}
    stored_turns = thread.view.past.turns(sorted(turns))
    answer = ""
    if model and stored_turns:
        try:
            answer = thread.asked(_ask_for_anchor(thread, stored_turns))
        except AnswerError as error:
            _log.warning("the model gave no anchor: %s", error)
    new_block = newest(answer)
    messages = (message for turn in reversed(stored_turns) for message in reversed(turn.messages))
    answers = (message.content for message in messages if message.type == "ai")
    blocks = (newest(answer, complete=True) for answer in answers)
    fields = new_block or next(filter(None, blocks), None)
    if fields is None:
        return Rebuilt(thread.state.get("anchor", {}), "none")
    anchor = limited(fields, ANCHOR_TOKENS, thread.parts.count)
    if update := thread.changed(anchor=anchor, view=None):
        thread.place.write(config, update)
    return Rebuilt(anchor, "model" if new_block else "block")


def _ask_for_anchor(thread: Thread, turns: Sequence[StoredTurn]) -> Asks[str]:
    """Ask the model for an anchor of these turns; of a log that is too long it gets the end."""
    count = thread.parts.count
    fences = fences_of(thread.parts.archive, thread.session, count)
    instructions = render("rebuild_anchor", limit=ANCHOR_TOKENS, key=fences.key)
    empty = Question("anchor", instructions, fences.around("conversation", ""))
    log = transcript(turns)
    end = log[fit_end(log, empty.log_room(thread.settings.context_budget, count), count) :]
    answer: str = yield replace(empty, log=fences.around("conversation", end))
    return answer
