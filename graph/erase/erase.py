"""Erase a turn, a session or a user for good: archive, attention, saved states and checkpoints."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import StateSnapshot

from ...memory.anchor import shown
from ...memory.archive.protocol import every_effort
from ...memory.efforts import Effort
from ...memory.erasing import TurnPlace
from ...memory.errors import AnswerError, SessionNotFoundError, SettingsError, TurnArrivedError
from ...memory.record import Owner, Tip
from ...memory.settings import user_named
from ...memory.tools.summary import summarise
from ...memory.view import every_turn
from ...nodes.llm.calls import drive
from ...nodes.turn.arrivals import unarchived
from ...nodes.turn.langchain_messages import from_dicts
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.recovery import state_at
from ...nodes.turn.state import AgentState, TurnState, unpacked
from ...nodes.turn.values import sealed
from ..commands.threads import (
    Agent,
    Place,
    Thread,
    newest_config,
    on_a_thread,
    place_of,
    resting,
    thread_at,
    tip_named,
)

_log = logging.getLogger("ebbtide.summary")

_Saver = BaseCheckpointSaver[Any]

_OURS = AgentState.__annotations__.keys() | {"structured_response"}
"""Keys of the state that an erasure writes anew, or leaves out; others are the application's."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What erasing a turn did.

    `erased` are the places, branch and turn, whose text is gone; `quoted` those of other turns that
    say some of the same. `resummarised` are efforts whose summary was written again from what
    remains, `stale` those whose summary is empty. `not_erased` says in sentences what remains.
    """

    turn: int
    erased: tuple[TurnPlace, ...]
    quoted: tuple[TurnPlace, ...]
    resummarised: tuple[str, ...]
    stale: tuple[str, ...]
    not_erased: tuple[str, ...]

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches whose record of the turn was erased."""
        return tuple(branch for branch, _ in self.erased)


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """Which sessions were deleted, and in sentences what could not be erased."""

    sessions: tuple[Owner, ...]
    not_erased: tuple[str, ...] = ()


def erase(
    agent: Agent, config: RunnableConfig, turn: int, *, branch: str | None = None
) -> ErasureReport:
    """Erase a turn of the thread that `config` names, and say what was done.

    The thread must be the user's of `config`; without a user id it must be nobody's. It goes on
    from its newest state; its older checkpoints are removed. `branch` names another branch of the
    session, by default it is the thread's own. Interrupted at any point, it is completed by erasing
    again. No turn of the thread may run meanwhile: if one wrote a checkpoint, they stay as they
    are, and `TurnArrivedError` asks to erase again; one with `durability="exit"` cannot be seen,
    and what it repeats is erased with it. Other keys of a graph around the agent stay as they are.
    Raises `TurnNotFoundError`, `TurnRunningError`, `SessionNotFoundError`, and `SettingsError` if
    there is no agent of Ebbtide's; nothing is then changed.
    """
    thread = _opened(place_of(agent), newest_config(config))
    parts, owner, saver = thread.parts, thread.owner, thread.place.saver
    archive, tip = parts.archive, thread.tip
    erased = archive.erase(owner, tip_named(archive, owner, branch) if branch else tip, turn)
    parts.keywords.clear()
    parts.laid_out.clear()
    written = _resummarised(parts, owner)
    left = [*erased.left, *_forgotten(parts, owner)]
    if saver and (thread.kept or archive.reseeding(owner)):
        left += _replaced(thread, saver, turn)
    names = (f"the name of effort {name!r}, which the turn opened" for name in erased.named)
    return ErasureReport(
        turn=erased.turn,
        erased=erased.places,
        quoted=erased.quoted,
        resummarised=tuple(name for name, done in written.items() if done),
        stale=tuple(name for name, done in written.items() if not done),
        not_erased=(*names, *left),
    )


def delete_session(agent: Agent, config: RunnableConfig) -> DeletionReport:
    """Delete a thread's turns, memories in attention, saved states and checkpoints.

    Nothing of it is ever surfaced again. The thread must be the user's of `config`. Raises
    `SessionNotFoundError` if there is none.
    """
    place = place_of(agent)
    parts, owner = place.parts, place.owner(config)
    deleted = [
        parts.archive.delete_session(session)
        for session in parts.archive.sessions(owner.user)
        if session.thread == owner.thread
    ]
    gone = tuple(session for deletion in deleted for session in deletion.sessions)
    # Last its own: from its state it is known whose session a thread is that was copied.
    threads = dict.fromkeys([owner.thread, str(config["configurable"]["thread_id"])])
    # Caches are told first: if the checkpointer fails, nothing of it is surfaced any more.
    left = [notice for deletion in deleted for notice in deletion.left] + _forgotten(parts, owner)
    owned, kept = _delete_checkpoints(place, owner.user, threads, gone)
    if not gone and not owned:
        raise SessionNotFoundError(owner.thread)
    left += [*kept, *_reclaimed(place.saver)]
    return DeletionReport(gone, tuple(dict.fromkeys(left)))


def delete_user(agent: Agent, user_id: str) -> DeletionReport:
    """Delete all sessions of a user, with all that `delete_session` deletes, and all memories.

    In one transaction of the archive: if it fails, nothing was deleted; interrupted, it is
    completed by deleting again. Raises `SettingsError` if `user_id` can be no user's.
    """
    user_id, place = user_named(user_id), place_of(agent)
    left: list[str] = []

    # The archive still has the sessions then: without them nobody would know which threads to try.
    def checkpoints(gone: Sequence[Owner]) -> None:
        threads = sorted({session.thread for session in gone})
        left.extend(_delete_checkpoints(place, user_id, threads, gone)[1])

    parts = place.parts
    deleted = parts.archive.delete_user(user_id, checkpoints)
    left += [*deleted.left, *_forgotten(parts, Owner(user_id, "")), *_reclaimed(place.saver)]
    return DeletionReport(deleted.sessions, tuple(dict.fromkeys(left)))


def _forgotten(parts: AgentParts, owner: Owner) -> list[str]:
    """Drop what caches hold of a user; say so if one could not be reached."""
    parts.keywords.clear()
    parts.laid_out.clear()
    if parts.memories_changed(owner):
        return []
    return [f"attention of {owner.user!r}: its cache was not reached, and keeps it a day at most"]


def _delete_checkpoints(
    place: Place, user: str, threads: Iterable[str], gone: Sequence[Owner]
) -> tuple[list[str], list[str]]:
    """Delete the checkpoints that a user has of threads; return these threads, and what remains.

    A thread whose state names no user is the user's if one of his sessions was deleted.
    """
    saver, owned = place.saver, list[str]()
    for thread in threads if saver else ():
        snapshot = place.given.get_state({"configurable": {"thread_id": thread}})
        session = unpacked(snapshot.values).get("session")
        owner = session["user"] if session else (user if gone else None)
        if snapshot.created_at is not None and owner == user:
            owned.append(thread)
    left: list[str] = []
    if saver and not _delete_threads(saver, owned):
        kind = type(saver).__name__
        left += (f"the checkpoints of {name!r}: {kind} cannot delete them" for name in owned)
    outer = {o.thread for o in gone if saver is None or o.namespace}.difference(owned)
    left += (
        f"checkpoints: the agent has none of thread {name!r} of its own; delete that with the "
        "checkpointer of the graph around it"
        for name in sorted(outer)
    )
    return owned, left


def _resummarised(parts: AgentParts, owner: Owner) -> dict[str, bool]:
    """Summarise the concluded efforts of a session that are stale; tell which succeeded.

    Those whose call fails keep the redacted summary and stay stale.
    """
    done: dict[str, bool] = {}
    for tip in parts.archive.tips(owner):
        for effort in every_effort(parts.archive, owner, tip):
            if not effort.stale or effort.status != "concluded":
                continue
            again = _summarised(parts, owner, tip, effort)
            done[effort.id] = again is not None and done.get(effort.id, True)
            if again is not None:
                parts.archive.resummarised(owner, tip, again)
    return done


def _summarised(parts: AgentParts, owner: Owner, tip: Tip, effort: Effort) -> Effort | None:
    """Return an effort with a summary of what remains of its log, None if no model gives one."""
    turns = parts.archive.effort_turns(owner, tip, effort.id)
    records = parts.archive.turns(owner, tip, [turn for turn in turns if turn <= effort.turn])
    log = [record for record in records if record.status != "erased"]
    try:
        return drive(summarise(effort, log, parts.settings, parts.count), parts.models)
    except AnswerError as error:
        _log.warning("the summary of %r stays redacted: %s", effort.id, error)
        return None


def _opened(place: Place, config: RunnableConfig) -> Thread:
    """Return a thread at rest, with or without checkpoints of its own."""
    if place.saver:
        thread = resting(place.given, config)
    else:
        thread = place.thread(config, StateSnapshot({}, (), config, None, None, None, (), ()), None)
    archive, owner = thread.parts.archive, thread.owner
    if thread.kept or archive.newest(owner) is not None:
        return thread
    if any(session.thread == owner.thread for session in archive.sessions(owner.user)):
        raise SettingsError(
            f"thread {owner.thread!r} is one of a larger graph: pass the graph around the agent"
        )
    raise SessionNotFoundError(owner.thread)


def _replaced(thread: Thread, saver: _Saver, turn: int) -> tuple[str, ...]:
    """Replace the checkpoints of a thread by the state that the archive has of it."""
    place, config, parts, owner = thread.place, thread.config, thread.parts, thread.owner
    now = thread_at(place.given, config)
    state = state_at(parts.archive, owner, thread.tip, parts.settings.messages_window + 1)
    if place.node:
        state = cast("TurnState", {**state, "messages": _messages_around(thread)})
    # Another erasure may have replaced them meanwhile, or be about to: there is no turn in that.
    same = now.checkpoint == thread.checkpoint or now.state.get("messages") == state["messages"]
    if now.kept and not same:
        raise TurnArrivedError(owner.thread, turn)
    before = now.state if now.kept else thread.state
    window = {} if before.get("window") is None else {"window": before["window"]}
    values = place.given.get_state(config).values
    foreign = {key: value for key, value in values.items() if key not in _OURS}
    values = {**foreign, **sealed({**state, **window}, {}, parts.archive)}
    parts.archive.reseed(owner, thread.tip)
    left = _replace_all(place, saver, config, values)
    if place.has_memory or values["messages"]:  # else no message tells where the thread goes on
        parts.archive.reseed(owner, None)
    if not foreign:
        return left
    names = ", ".join(map(repr, foreign))
    return (*left, f"the application's own keys in the state of the thread: {names}")


def _messages_around(thread: Thread) -> list[BaseMessage]:
    """Return the messages of the graph around an agent but for those that no turn has any more."""
    view, archived = thread.view, dict[str | None, BaseMessage]()
    for record in every_turn(view.archive, view.owner, view.tip):
        archived |= {message.id: message for message in from_dicts(shown(view.messages(record)))}
    new, messages = unarchived(thread.state), [*thread.values.get("messages", [])]
    old = messages[: len(messages) - len(new)]
    return [*(archived[message.id] for message in old if message.id in archived), *new]


def _replace_all(
    place: Place, saver: _Saver, config: RunnableConfig, values: dict[str, Any]
) -> tuple[str, ...]:
    """Make a state the thread's only checkpoint; say what may still hold the text of the others."""
    thread, kind = str(config["configurable"]["thread_id"]), type(saver).__name__
    # Killed in between, the thread goes on from what the archive was told to keep for it. Pruning
    # would leave the newest checkpoint of each namespace, those of tools' graphs as well.
    deleted = _delete_threads(saver, [thread])
    place.seed(config, values)
    if deleted:
        return _reclaimed(saver)
    if not _has(saver, "prune"):
        return (f"older checkpoints of the thread: {kind} can neither prune nor delete them",)
    saver.prune([thread])
    if place.node:
        return (f"the newest checkpoint of the agent inside: {kind} cannot delete it",)
    return _reclaimed(saver)


def _has(saver: _Saver, name: str) -> bool:
    """Tell whether a checkpointer has an operation that LangGraph's base class only declares."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)


def _delete_threads(saver: _Saver, threads: Iterable[str]) -> bool:
    """Delete all checkpoints of threads, which SQLite overwrites; tell whether that can be done."""
    if isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        _execute(saver, "PRAGMA secure_delete=ON")
    can_delete = _has(saver, "delete_thread")
    for thread in threads if can_delete else ():
        saver.delete_thread(thread)
    return can_delete


def _reclaimed(saver: _Saver | None) -> tuple[str, ...]:
    """`VACUUM` a SQLite database, so that deleted rows leave no bytes; say what may remain."""
    if saver is None or isinstance(saver, InMemorySaver):
        return ()
    if not isinstance(saver, SqliteSaver | AsyncSqliteSaver):
        kind = type(saver).__name__
        return (f"what the database of {kind} keeps of deleted rows until `VACUUM ANALYZE`",)
    try:
        _execute(saver, "VACUUM")
        busy = _execute(saver, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    except sqlite3.Error as error:
        return (f"free pages of the checkpoints' file: they could not be reclaimed ({error})",)
    return ("the WAL of the checkpoints' file: another connection is reading it",) if busy else ()


def _execute(saver: Any, statement: str) -> list[Any]:
    async def execute() -> list[Any]:
        async with saver.lock:
            return [*await saver.conn.execute_fetchall(statement)]

    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(execute(), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]


aerase = on_a_thread(erase)
adelete_session = on_a_thread(delete_session)
adelete_user = on_a_thread(delete_user)
