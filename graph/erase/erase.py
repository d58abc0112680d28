"""Erase a turn, a session or a user for good: archive, attention, saved states and checkpoints."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from ...memory.archive.protocol import Archive
from ...memory.erasing import DeletionReport
from ...memory.errors import (
    AnswerError,
    SessionNotFoundError,
    SettingsError,
    TurnArrivedError,
    TurnRunningError,
)
from ...memory.settings import user_named
from ...memory.tools.summary import summarise
from ...memory.turn import Session, Tip
from ...memory.view import fences_of, view_at
from ...nodes.turn.arrivals import edited_turns, unarchived
from ...nodes.turn.commits import state_at
from ...nodes.turn.langchain_messages import stored_messages
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.state import AgentState, repacked, unpacked, updated
from ...nodes.turn.updates import tip_of
from ..checkpoints import Saver, complete, delete_threads, reclaim, replace_all
from ..commands.registry import Action, command
from ..commands.threads import (
    Agent,
    Place,
    Thread,
    newest_config,
    place_of,
    resting,
    thread_at,
    tip_named,
)

_log = logging.getLogger("ebbtide.summary")

_OWN_KEYS = AgentState.__annotations__.keys() | {
    *("structured_response", "ebbtide_replaced", "ebbtide_turn")
}
"""Keys of the state that an erasure rewrites or drops; all others are the application's."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What `erase` did.

    Attributes:
        turn: The number of the erased turn.
        id: Its id.
        quoted: Other turns that have a whole message of it. They were not changed.
        resummarised: Efforts whose summary was written again from the remaining turns.
        stale: Efforts whose summary is empty now.
        lost_edits: Turns of the thread that `update_state` had edited. No turn had archived the
            edits, so the thread has these turns as the archive does.
        not_erased: What could not be erased, one sentence each.
    """

    turn: int
    id: str
    quoted: tuple[Tip, ...]
    resummarised: tuple[str, ...]
    stale: tuple[str, ...]
    lost_edits: tuple[int, ...]
    not_erased: tuple[str, ...]


@command(
    changes=True,
    method="DELETE",
    path="threads/{thread_id}/turns/{turn}",
    slash="/message remove TURN [--yes]",
    action=Action(
        "turn",
        "Erase this turn …",
        "Erase turn {turn} for good? It leaves the archive, the memories and the checkpoints, and "
        "cannot be brought back.",
    ),
)
def erase(
    agent: Agent, config: RunnableConfig, turn: int, *, branch: str | None = None
) -> ErasureReport:
    """Erase a turn from the archive, attention and checkpoints, in every thread that has it.

    Its edited forms and its copies on other branches are erased with it.
    The thread continues from its newest state, and older checkpoints are deleted. Other keys of a
    graph around the agent are not changed. If erasing is interrupted, erase again.

    No turn of the thread may run meanwhile. If one writes a checkpoint, `TurnArrivedError` asks you
    to erase again. A run with `durability="exit"` cannot be detected: what it repeats of the erased
    text stays until its turn is erased too.

    Args:
        agent: The agent, or a graph around it.
        config: The config of the thread's runs, with its `user_id` if it has one.
        turn: The number of the turn.
        branch: The first digits of the id of a branch's last turn, or the whole id of the turn to
            erase, as `quoted` has it. Default: the thread's branch.

    Raises:
        SessionNotFoundError: The user has no such thread.
        TurnNotFoundError: The branch has no such turn.
        TurnRunningError: A turn of the thread is not finished.
        SettingsError: The graph has no agent with a memory.
    """
    if not isinstance(turn, int):
        raise SettingsError(f"turn must be the number of a turn, got {turn!r}")
    thread = _thread_to_erase(place_of(agent), newest_config(config))
    parts, session, saver = thread.parts, thread.session, thread.place.saver
    archive, tip = parts.archive, thread.tip
    edits = edited_turns(thread.state, view_at(archive, session, tip_of(thread.state)))
    erased = archive.erase(
        session, _end_of(archive, session, branch, turn) if branch else tip, turn
    )
    parts.forget()
    resummarised = _resummarise(thread)
    not_erased = [*erased.left, *_drop_caches(parts, session)]
    if saver and (thread.has_checkpoints or archive.load(session).reseed):
        not_erased += _replace_checkpoints(thread, saver, turn)
    not_erased += _erase_elsewhere(thread.place, thread.config, erased.elsewhere)
    return ErasureReport(
        turn=erased.turn,
        id=erased.id,
        quoted=erased.quoted,
        resummarised=tuple(name for name, succeeded in resummarised.items() if succeeded),
        stale=tuple(name for name, succeeded in resummarised.items() if not succeeded),
        lost_edits=edits,
        not_erased=tuple(not_erased),
    )


def _end_of(archive: Archive, session: Session, branch: str, turn: int) -> Tip:
    """Return the end of a branch, named by its id or by the turn's id in it."""
    for end in archive.tips(session):
        if archive.load(session, end).ids([turn]).get(turn) == branch:
            return end
    return tip_named(archive, session, branch)


@command(changes=True, method="DELETE", path="threads/{thread_id}", slash="")
def delete_session(agent: Agent, config: RunnableConfig) -> DeletionReport:
    """Delete the turns, memories and checkpoints of a thread for good.

    Raises:
        SessionNotFoundError: The user of `config` has no such thread.
    """
    place = place_of(agent)
    parts, session = place.parts, place.session(config)
    deleted = [
        parts.archive.delete_session(one)
        for one in parts.archive.sessions(session.user)
        if one.thread == session.thread
    ]
    sessions = tuple(one for deletion in deleted for one in deletion.sessions)
    # The config's own thread comes last: its state tells the session of a copied thread.
    threads = dict.fromkeys([session.thread, str(config["configurable"]["thread_id"])])
    # Caches are dropped first: if the checkpointer fails, no search finds the session any more.
    not_erased = [notice for deletion in deleted for notice in deletion.not_erased]
    not_erased += _drop_caches(parts, session)
    owned, undeletable = _delete_checkpoints(place, session.user, threads, sessions)
    if not sessions and not owned:
        raise SessionNotFoundError(session.thread)
    others = dict.fromkeys(one for deletion in deleted for one in deletion.elsewhere)
    elsewhere = tuple(one for one in others if one.thread != session.thread)
    not_erased += [
        *undeletable,
        *_erase_elsewhere(place, newest_config(config), elsewhere),
        *reclaim(place.saver),
    ]
    return DeletionReport(sessions, tuple(dict.fromkeys(not_erased)), elsewhere)


@command(changes=True, method="DELETE", path="user", slash="")
def delete_user(agent: Agent, user_id: str) -> DeletionReport:
    """Delete all sessions and memories of a user for good, as `delete_session` does.

    First the user is marked, who begins no session then (`UserDeletedError`). One thread after the
    other loses its checkpoints and its sessions. If that fails, or the process dies, the rest is
    still there: call it again. After it the user can begin anew.

    Raises:
        SettingsError: The `user_id` is not valid.
    """
    user_id, place = user_named(user_id), place_of(agent)
    not_erased: list[str] = []

    # Called before the archive deletes them: afterwards nothing would tell whose the thread was.
    def checkpoints(sessions: Sequence[Session]) -> None:
        not_erased.extend(_delete_checkpoints(place, user_id, [sessions[0].thread], sessions)[1])

    parts = place.parts
    deleted = parts.archive.delete_user(user_id, checkpoints)
    not_erased += [
        *deleted.not_erased,
        *_drop_caches(parts, Session(user_id, "")),
        *reclaim(place.saver),
    ]
    return DeletionReport(deleted.sessions, tuple(dict.fromkeys(not_erased)))


def _drop_caches(parts: AgentParts, session: Session) -> list[str]:
    """Empty the caches of a user; return a sentence if one could not be reached."""
    parts.forget()
    if parts.memories_changed(session):
        return []
    return [f"attention of {session.user!r}: its cache was not reached, and keeps it a day at most"]


def _delete_checkpoints(
    place: Place, user: str, threads: Iterable[str], sessions: Sequence[Session]
) -> tuple[list[str], list[str]]:
    """Delete a user's checkpoints of threads; return these threads, and what was not deleted.

    A thread of another user is left alone.
    """
    saver, owned, not_erased = place.saver, list[str](), list[str]()
    own = {session.thread for session in sessions if not session.namespace}
    for thread in threads if saver else ():
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        snapshot = place.graph.get_state(config)
        if snapshot.created_at is None and complete(saver, thread):
            snapshot = place.graph.get_state(config)
        if snapshot.created_at is None:
            if thread in own:
                not_erased.append(
                    f"the checkpoints of {thread!r}: the agent's checkpointer has none; if the "
                    "thread ran with another one, delete it there too, or its next run adopts them"
                )
            continue
        tip, archive = tip_of(unpacked(snapshot.values)), place.parts.archive
        is_own = archive.load(Session(user, thread), Tip()).owner != "other"
        if (sessions or tip.id) and is_own:
            owned.append(thread)
        elif sessions:
            not_erased.append(f"the checkpoints of {thread!r}: the thread is another user's")
    if saver and not delete_threads(saver, owned):
        kind = type(saver).__name__
        not_erased += (f"the checkpoints of {name!r}: {kind} cannot delete them" for name in owned)
    outer = {s.thread for s in sessions if saver is None or s.namespace}.difference(owned)
    not_erased += (
        f"checkpoints: the agent has none of thread {name!r} of its own; delete that with the "
        "checkpointer of the graph around it"
        for name in sorted(outer)
    )
    return owned, not_erased


def _resummarise(thread: Thread) -> dict[str, bool]:
    """Summarise the stale concluded efforts of a session again; return by id which succeeded.

    An effort whose model call fails keeps its redacted summary and stays stale.
    """
    parts, session, succeeded = thread.parts, thread.session, dict[str, bool]()
    archive, fences = parts.archive, fences_of(parts.archive, session, parts.count)
    for tip in archive.tips(session):
        branch = archive.load(session, tip)
        for effort in branch.every_effort():
            if not effort.stale or effort.status != "concluded":
                continue
            turns = [turn for turn in branch.turns_of(effort.id) if turn <= effort.turn]
            log = [stored for stored in branch.turns(turns) if stored.status != "erased"]
            try:
                summarised = thread.asked(summarise(effort, log, parts.settings, fences))
            except AnswerError as error:
                _log.warning("the summary of %r stays redacted: %s", effort.id, error)
                succeeded[effort.id] = False
                continue
            archive.resummarised(session, tip, summarised)
            succeeded.setdefault(effort.id, True)
    return succeeded


def _thread_to_erase(place: Place, config: RunnableConfig) -> Thread:
    """Return a thread at rest, with or without checkpoints of its own.

    Raises `SessionNotFoundError` without a session, `SettingsError` for one of a larger graph.
    """
    if place.saver:
        thread = resting(place.graph, config)
    else:
        thread = place.thread(config, StateSnapshot({}, (), config, None, None, None, (), ()), None)
    archive, session = thread.parts.archive, thread.session
    if thread.has_checkpoints or archive.load(session).tip is not None:
        return thread
    if any(one.thread == session.thread for one in archive.sessions(session.user)):
        raise SettingsError(
            f"thread {session.thread!r} is one of a larger graph: pass the graph around the agent"
        )
    raise SessionNotFoundError(session.thread)


def _replace_checkpoints(thread: Thread, saver: Saver, turn: int) -> tuple[str, ...]:
    """Replace a thread's checkpoints by its state from the archive; return what was not erased."""
    place, config, parts, session = thread.place, thread.config, thread.parts, thread.session
    now = thread_at(place.graph, config)
    state = state_at(parts.archive, session, thread.tip, parts.settings.earlier_turns + 1)
    messages = _messages_around(thread) if place.node else state["messages"]
    if there := {message.id for message in thread.state.get("messages", ())}:
        # What the application removed does not come back.
        messages = [one for one in messages if one.type != "system" or one.id in there]
    state = updated(state, {"messages": messages})
    # Another checkpoint with the same messages is of a concurrent erasure and not of a turn.
    has_same_messages = now.state.get("messages") == state["messages"]
    if now.has_checkpoints and now.checkpoint != thread.checkpoint and not has_same_messages:
        raise TurnArrivedError(session.thread, turn)
    last_known = now.state if now.has_checkpoints else thread.state
    window = {} if last_known.get("window") is None else {"window": last_known["window"]}
    values = place.graph.get_state(config).values
    foreign = {key: value for key, value in values.items() if key not in _OWN_KEYS}
    values = {**foreign, **repacked({**state, **window}, parts)}
    parts.archive.reseed(session, thread.tip)

    def seed(thread_id: str) -> None:
        chosen = {**config["configurable"], "thread_id": thread_id}
        place.seed({**config, "configurable": chosen}, values)

    thread_id = str(config["configurable"]["thread_id"])
    not_erased = replace_all(saver, thread_id, place.path, seed)
    # Without memory and messages, only the reseeding tells where the thread continues.
    if place.has_memory or values["messages"]:
        parts.archive.reseed(session, None)
    if not foreign:
        return not_erased
    names = ", ".join(map(repr, foreign))
    return (*not_erased, f"the application's own keys in the state of the thread: {names}")


def _erase_elsewhere(
    place: Place, config: RunnableConfig, others: Iterable[Session]
) -> Iterator[str]:
    """Rebuild other threads of a user from the archive; yield what could not be erased."""
    for other in others:
        left = f"the checkpoints of thread {other.thread!r}, which has it too: erase it there"
        chosen = {**config.get("configurable", {}), "thread_id": other.thread}
        if place.saver is None or other.namespace != place.path:
            yield left
            continue
        try:
            copy = resting(place.graph, {**config, "configurable": chosen})
            if copy.has_checkpoints:
                yield from _replace_checkpoints(copy, place.saver, copy.turn)
        except (TurnRunningError, TurnArrivedError, SessionNotFoundError):
            yield left


def _messages_around(thread: Thread) -> list[BaseMessage]:
    """Return the messages of the graph around an agent without those that no turn has any more."""
    view, archived = thread.view, dict[str | None, BaseMessage]()
    for turn in view.past.every_turn():
        archived |= {message.id: message for message in stored_messages(view, turn)}
    new, messages = unarchived(thread.state), [*thread.values.get("messages", [])]
    old = messages[: len(messages) - len(new)]
    return [*(archived[message.id] for message in old if message.id in archived), *new]
