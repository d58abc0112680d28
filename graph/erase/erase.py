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
    Thread,
    handed_over,
    newest_config,
    node_of,
    on_a_thread,
    owner_in,
    parts_of,
    resting,
    seed,
    thread_at,
    thread_of,
    tip_named,
)

_log = logging.getLogger("ebbtide.summary")

_Saver = BaseCheckpointSaver[Any]

_SQLITE = (SqliteSaver, AsyncSqliteSaver)
"""The checkpointers whose file keeps what was deleted until it is written anew."""

_OURS = AgentState.__annotations__.keys() | {"structured_response"}
"""Keys of the state that an erasure writes anew, or leaves out; others are the application's."""


def _replace_all(
    agent: Agent, saver: _Saver, config: RunnableConfig, values: dict[str, Any]
) -> tuple[str, ...]:
    """Make a state the thread's only checkpoint; say what may still hold the text of the others."""
    thread, kind = str(config["configurable"]["thread_id"]), type(saver).__name__
    _overwriting(saver)
    if _has(saver, "delete_thread"):
        # Killed in between, the thread goes on from what the archive was told to keep for it.
        # Pruning leaves the newest checkpoint of each namespace, those of tools' graphs as well.
        saver.delete_thread(thread)
        seed(agent, config, values)
    elif _has(saver, "prune"):
        seed(agent, config, values)
        saver.prune([thread])
        if node_of(agent):
            return (f"the newest checkpoint of the agent inside: {kind} cannot delete it",)
    else:
        seed(agent, config, values)
        return (f"older checkpoints of the thread: {kind} can neither prune nor delete them",)
    return _reclaimed(saver)


def _delete_threads(saver: _Saver, threads: Iterable[str]) -> tuple[str, ...]:
    """Delete all checkpoints of threads; say which could not be."""
    if not _has(saver, "delete_thread"):
        kind = type(saver).__name__
        return tuple(f"the checkpoints of {name!r}: {kind} cannot delete them" for name in threads)
    _overwriting(saver)
    for thread in threads:
        saver.delete_thread(thread)
    return ()


def _overwriting(saver: _Saver) -> None:
    """Let SQLite overwrite what it deletes."""
    if isinstance(saver, _SQLITE):
        _run(saver, "PRAGMA secure_delete=ON")


def _reclaimed(saver: _Saver | None) -> tuple[str, ...]:
    """`VACUUM` a SQLite database, so that deleted rows leave no bytes; say what may remain."""
    if saver is None or isinstance(saver, InMemorySaver):
        return ()
    if not isinstance(saver, _SQLITE):
        kind = type(saver).__name__
        return (f"what the database of {kind} keeps of deleted rows until `VACUUM ANALYZE`",)
    try:
        _run(saver, "VACUUM")
        busy = _run(saver, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    except sqlite3.Error as error:
        return (f"free pages of the checkpoints' file: they could not be reclaimed ({error})",)
    return ("the WAL of the checkpoints' file: another connection is reading it",) if busy else ()


def _run(saver: Any, statement: str) -> list[Any]:
    if isinstance(saver, AsyncSqliteSaver):
        return asyncio.run_coroutine_threadsafe(_arun(saver, statement), saver.loop).result()
    with saver.lock:
        return [*saver.conn.execute(statement)]


async def _arun(saver: AsyncSqliteSaver, statement: str) -> list[Any]:
    async with saver.lock:
        return [*await saver.conn.execute_fetchall(statement)]


def _has(saver: _Saver, name: str) -> bool:
    """Tell whether a checkpointer has an operation that LangGraph's base class only declares."""
    return getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name)


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What erasing a turn did.

    `erased` are the places, branch and turn, whose text is gone; `quoted` those of other turns
    that say some of the same and were not touched. `resummarised` are efforts whose summary was
    emptied and written again from what remains, `stale` those whose summary is still to be.
    `not_erased` says, in sentences, what could not be erased.
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
    from its newest state; its older checkpoints are removed, so that nobody can go back in it.
    `branch` names another branch of the session to erase from, by default it is the thread's own.
    Interrupted at any point, it is completed by erasing again. No turn of the thread may run
    meanwhile: if one wrote a checkpoint before they are replaced, they stay as they are, and
    `TurnArrivedError` asks to erase again; a turn with `durability="exit"` cannot be seen, and what
    it repeats is erased with it. `agent` may be the graph around it, whose own keys of the state
    stay as they are. Raises `TurnNotFoundError`, `TurnRunningError`, `SessionNotFoundError`, and
    `SettingsError` if there is no agent of Ebbtide's; nothing is then changed.
    """
    thread = _opened(agent, config)
    parts, owner = thread.parts, thread.owner
    archive, tip = parts.archive, thread.tip
    erased = archive.erase(owner, tip_named(archive, owner, branch) if branch else tip, turn)
    parts.keywords.clear()
    parts.laid_out.clear()
    written = _resummarised(parts, owner)
    left = [*erased.left, *_forgotten(parts, owner)]
    if thread.kept or (_saver(agent) and archive.reseeding(owner)):
        left += _replaced(agent, config, thread, turn)
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
    """Delete all that is kept of the thread that `config` names, and of what it concluded.

    Its turns, its memories in attention, its saved states and its checkpoints; nothing of it is
    ever surfaced again. The thread must be the user's of `config`. Raises `SessionNotFoundError`
    if there is none.
    """
    parts, owner = parts_of(agent), owner_in(agent, config)
    deleted = [
        parts.archive.delete_session(session)
        for session in parts.archive.sessions(owner.user)
        if session.thread == owner.thread
    ]
    gone = tuple(session for deletion in deleted for session in deletion.sessions)
    # Last its own: from its state it is known whose session a thread is that was copied.
    threads = dict.fromkeys([owner.thread, str(config["configurable"]["thread_id"])])
    unnamed = owner.user if gone else None  # a thread without memory may be anybody's
    known = _threads_of(agent, owner.user, threads, unnamed)
    if not gone and not known:
        raise SessionNotFoundError(owner.thread)
    left = [notice for deletion in deleted for notice in deletion.left] + _forgotten(parts, owner)
    left += _deleted(agent, known, gone)
    return DeletionReport(gone, tuple(dict.fromkeys([*left, *_reclaimed(_saver(agent))])))


def delete_user(agent: Agent, user_id: str) -> DeletionReport:
    """Delete all sessions of a user, with all that `delete_session` deletes, and all memories.

    All in one transaction of the archive, whose other writers wait. If that fails, nothing was
    deleted; interrupted at any point, it is completed by deleting again. Raises `SettingsError` if
    `user_id` can be no user's.
    """
    user_id, parts = user_named(user_id), parts_of(agent)
    left: list[str] = []

    # The archive still has the sessions then: without them nobody would know which threads to try.
    def checkpoints(gone: Sequence[Owner]) -> None:
        threads = sorted({session.thread for session in gone})
        left.extend(_deleted(agent, _threads_of(agent, user_id, threads, user_id), gone))

    deleted = parts.archive.delete_user(user_id, checkpoints)
    left += [*deleted.left, *_forgotten(parts, Owner(user_id, "")), *_reclaimed(_saver(agent))]
    return DeletionReport(deleted.sessions, tuple(dict.fromkeys(left)))


def _forgotten(parts: AgentParts, owner: Owner) -> list[str]:
    """Drop what caches hold of a user; say so if one could not be reached."""
    parts.keywords.clear()
    parts.laid_out.clear()
    if parts.memories_changed(owner):
        return []
    return [f"attention of {owner.user!r}: its cache was not reached, and keeps it a day at most"]


def _threads_of(agent: Agent, user: str, threads: Iterable[str], unnamed: str | None) -> list[str]:
    """Return the threads with checkpoints of a user; `unnamed` owns those that name no user."""
    owned: list[str] = []
    for thread in threads if _saver(agent) else ():
        snapshot = agent.get_state({"configurable": {"thread_id": thread}})
        session = unpacked(snapshot.values).get("session")
        owner = session["user"] if session else unnamed
        if snapshot.created_at is not None and owner == user:
            owned.append(thread)
    return owned


def _deleted(agent: Agent, threads: Sequence[str], gone: Iterable[Owner]) -> list[str]:
    """Delete the checkpoints of threads; say which could not be, those of larger graphs too."""
    saver = _saver(agent)
    outer = {o.thread for o in gone if saver is None or o.namespace}.difference(threads)
    return [
        *(_delete_threads(saver, threads) if saver else ()),
        *(
            f"checkpoints: the agent has none of thread {name!r} of its own; delete that with the "
            "checkpointer of the graph around it"
            for name in sorted(outer)
        ),
    ]


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


def _opened(agent: Agent, config: RunnableConfig) -> Thread:
    """Return a thread at rest, with or without checkpoints of its own.

    Raises that there is no such session, and says so if it may belong to an outer graph.
    """
    if _saver(agent):
        thread = resting(agent, newest_config(config))
    else:
        nothing = StateSnapshot({}, (), config, None, None, None, (), ())
        thread = thread_of(agent, config, nothing)
    archive, owner = thread.parts.archive, thread.owner
    if thread.kept or archive.newest(owner) is not None:
        return thread
    if any(session.thread == owner.thread for session in archive.sessions(owner.user)):
        raise SettingsError(
            f"thread {owner.thread!r} is one of a larger graph: pass the graph around the agent"
        )
    raise SessionNotFoundError(owner.thread)


def _replaced(agent: Agent, config: RunnableConfig, thread: Thread, turn: int) -> tuple[str, ...]:
    """Replace the checkpoints of a thread by the state that the archive has of it."""
    parts, owner, tip = thread.parts, thread.owner, thread.tip
    now = thread_at(agent, newest_config(config))
    state = state_at(parts.archive, owner, tip, parts.settings.messages_window + 1)
    if node_of(agent):
        state = cast("TurnState", {**state, "messages": _rest(thread)})
    # Another erasure may have replaced them meanwhile, or be about to: there is no turn in that.
    same = now.checkpoint == thread.checkpoint or now.state.get("messages") == state["messages"]
    if now.kept and not same:
        raise TurnArrivedError(owner.thread, turn)
    before = now.state if now.kept else thread.state
    chosen = {} if before.get("window") is None else {"window": before["window"]}
    values = agent.get_state(newest_config(config)).values
    foreign = {key: value for key, value in values.items() if key not in _OURS}
    values = {**foreign, **sealed({**state, **chosen}, {}, parts.archive)}
    saver = cast("_Saver", agent.checkpointer)
    parts.archive.reseed(owner, tip)
    left = _replace_all(agent, saver, newest_config(config), values)
    if handed_over(agent) or values["messages"]:  # else no message tells where the thread goes on
        parts.archive.reseed(owner, None)
    if not foreign:
        return left
    names = ", ".join(map(repr, foreign))
    return (*left, f"the application's own keys in the state of the thread: {names}")


def _rest(thread: Thread) -> list[BaseMessage]:
    """Return the messages of a graph around the agent, without those that no turn has any more."""
    view, messages = thread.view, [*thread.values.get("messages", [])]
    new = unarchived(thread.state)
    known: dict[str | None, BaseMessage] = {}
    for record in every_turn(view.archive, view.owner, view.tip):
        known |= {m.id: m for m in from_dicts(shown(view.messages(record)))}
    old = messages[: len(messages) - len(new)]
    return [*(known[message.id] for message in old if message.id in known), *new]


def _saver(agent: Agent) -> _Saver | None:
    saver = getattr(agent, "checkpointer", None)  # the client of a server, refused later, has none
    return saver if isinstance(saver, BaseCheckpointSaver) else None


aerase = on_a_thread(erase)
adelete_session = on_a_thread(delete_session)
adelete_user = on_a_thread(delete_user)
