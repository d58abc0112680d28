"""The archive as one state sees it, with the running turn on top."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from langchain_core.messages import BaseMessage

from .archive.load import Past
from .archive.protocol import Archive
from .compressions import Compression
from .efforts import Effort, changes
from .errors import SessionNotFoundError
from .facts import is_fact
from .fences import Fences
from .names import is_qualified, parted, qualified, session_called, session_name
from .recalled import Recalled, restored
from .spans import narrowed
from .tokens import TokenCounter
from .transcript import entries, excerpted
from .turn import Event, Session, StoredTurn, Tip

_NOT_RUNNING = StoredTurn(number=0, messages=(), at="")


@dataclass(frozen=True, slots=True)
class ArchiveView:
    """What a running turn sees: the turns before it, and its own messages so far.

    By qualified ids it also sees the concluded efforts of the user's other sessions, as the newest
    branch of each has them; they may change while this session runs.
    """

    archive: Archive
    session: Session
    past: Past
    running: StoredTurn = _NOT_RUNNING

    @property
    def tip(self) -> Tip:
        """The last turn that is seen."""
        return Tip(self.past.until, self.past.id)

    def at(self, tip: Tip) -> "ArchiveView":
        """Return the view of a tip of the session in which no turn is running."""
        return (
            replace(self, running=_NOT_RUNNING)
            if tip == self.tip
            else view_at(self.archive, self.session, tip)
        )

    def as_of(self, turn: int) -> "ArchiveView":
        """Return the view as it was right after an earlier turn."""
        return replace(self, past=self.past.as_of(turn), running=_NOT_RUNNING)

    def messages(self, turn: StoredTurn) -> tuple[BaseMessage, ...]:
        """Return the messages of a turn as they were sent, recalled text included."""
        return tuple(
            restored(message, self.recall) if message.type == "tool" else message
            for message in turn.messages
        )

    def recall(self, quoted: Recalled) -> str | list[dict[str, str]]:
        """Return the text, or the entries, that a result quotes; empty if it no longer exists.

        Of another session it is read on the branch it was quoted from, even if a newer one exists.
        """
        view = self
        if quoted.session:
            session = self.of_session(quoted.session)
            if session is None:
                return [] if quoted.is_read else ""
            view = view_at(self.archive, session.session, Tip(quoted.turn, quoted.id))
        if quoted.effort:
            effort = view.effort(quoted.effort, ())
            return effort.summary if effort else ""
        read = entries if quoted.is_read else excerpted
        return read(view.messages_of(quoted.turn), quoted.offset, quoted.end)

    def of_session(self, name: str) -> "ArchiveView | None":
        """Return this view, or that of the newest branch of another session of the user.

        None if the user has no such session.
        """
        full_name = session_called(name)
        if full_name == session_name(self.session):
            return self
        if self.session.anonymous:
            return None
        session = next(iter(self.archive.sessions(self.session.user, full_name)), None)
        view = session and ArchiveView(self.archive, session, self.archive.load(session))
        return view if view and view.past.tip else None

    def messages_of(self, turn: int) -> tuple[BaseMessage, ...]:
        """Return the messages of a visible turn, the running one included, as they are stored."""
        if turn == self.running.number:
            return tuple(self.running.messages)
        return tuple(message for stored in self.past.turns([turn]) for message in stored.messages)

    def effort(self, effort_id: str, events: Sequence[Event]) -> Effort | None:
        """Return an effort after these `events` of the running turn, None if there is none.

        Efforts of other sessions need qualified ids; those still open there are not seen.
        """
        name = self.known_as(effort_id)
        if is_qualified(name):
            elsewhere = self._elsewhere(name)
            return elsewhere and elsewhere[1]
        changed = {effort.id: effort for effort in changes(events, self.running.number)}
        stored = self.past.efforts_named([name])
        return changed.get(name) or next(iter(stored), None)

    def known_as(self, effort_id: str) -> str:
        """Return an effort's id in this session: its own efforts have no session in theirs."""
        session, name = parted(effort_id)
        is_own = session == session_name(self.session) and not is_fact(effort_id)
        return name if is_own else effort_id

    def efforts_named(self, ids: Sequence[str], events: Sequence[Event]) -> tuple[Effort, ...]:
        """Return the existing efforts among these ids, each as `effort` does."""
        if not ids:
            return ()
        # No `is_qualified`, which costs more: the ids may be thousands of words of a text.
        foreign = [name for name in ids if "/" in name]
        own = [*{*ids}.difference(foreign)] if foreign else ids
        stored = self.past.efforts_named(own) if own else ()
        changed = changes(events, self.running.number) if events else ()
        latest = {effort.id: effort for effort in (*stored, *changed)}
        asked = [name for name in foreign if is_fact(name)] if not self.session.anonymous else []
        known = self.archive.facts(self.session.user, asked) if asked else {}
        latest |= {name: fact.effort for name, fact in known.items()}
        for name in foreign:
            if not is_fact(name) and (effort := self.effort(name, events)):
                latest[name] = effort
        return tuple(filter(None, map(latest.get, ids)))

    def compression(self, effort_id: str, turn: int | None = None) -> Compression | None:
        """Return the newest compression of an effort, up to a turn if one is given; None if none.

        Only open efforts have one, so those of other sessions have none.
        """
        if is_qualified(effort_id):
            return None
        newest = self.past.compression(effort_id)  # cached: an earlier one would be read anew
        if turn is None or newest is None or newest.turn <= turn:
            return newest
        return self.past.as_of(turn).compression(effort_id)

    def log_turns(self, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the committed turns of an effort, ascending."""
        if is_qualified(effort_id):
            elsewhere = self._elsewhere(effort_id)
            return _turns_about(*elsewhere) if elsewhere else ()
        return self.past.turns_of(effort_id)

    def log(self, effort_id: str, *, running: bool = False) -> tuple[StoredTurn, ...]:
        """Return the log of an effort; `running` adds the running turn at its end."""
        turns: tuple[StoredTurn, ...] = self.turns_of(effort_id, self.log_turns(effort_id))
        return (*turns, self.running) if running else turns

    def turns_of(self, effort_id: str, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Return what committed turns with these numbers have of an effort, in its session.

        Of another session only the turns of this effort on the newest branch are seen.
        """
        name = parted(effort_id)[1]
        return tuple(map(narrowed, self.whole_turns_of(effort_id, numbers), repeat(name)))

    def whole_turns_of(self, effort_id: str, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Return what `turns_of` does, each turn with all that it has."""
        if not is_qualified(effort_id):
            return self.past.turns(numbers)
        elsewhere = self._elsewhere(effort_id)
        if elsewhere is None:
            return ()
        own = {*_turns_about(*elsewhere)}
        return elsewhere[0].past.turns([number for number in numbers if number in own])

    def ids_of(self, effort_id: str, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the ids of committed turns in the session of an effort, by their numbers."""
        if not is_qualified(effort_id):
            return self.past.ids(numbers)
        elsewhere = self._elsewhere(effort_id)
        return elsewhere[0].ids_of("", numbers) if elsewhere else {}

    def _elsewhere(self, effort_id: str) -> "tuple[ArchiveView, Effort] | None":
        """Return a concluded effort or a fact of another session, with that one's view, or None.

        A fact is seen on the branch that said it.
        """
        if is_fact(effort_id):
            user = self.session.user
            known = {} if self.session.anonymous else self.archive.facts(user, [effort_id])
            fact = known.get(effort_id)
            if fact is None:
                return None
            return view_at(self.archive, fact.session, fact.tip), fact.effort
        session, name = parted(effort_id)
        view = self.of_session(session)
        effort = view.effort(name, ()) if view else None
        if view is None or effort is None or effort.status != "concluded":
            return None
        return view, replace(effort, id=qualified(view.session, effort.id))


def claimed_view(archive: Archive, session: Session, tip: Tip) -> ArchiveView:
    """Return the view of a tip in a thread that is made this user's if it is nobody's.

    Raises `SessionNotFoundError` if it is another user's.
    """
    view = view_at(archive, session, tip)
    owner = view.past.owner
    if owner == "other" or (owner == "nobody" and not archive.claim(session)):
        raise SessionNotFoundError(session.thread)
    return view


def fences_of(archive: Archive, session: Session, count: TokenCounter) -> Fences:
    """Return the fences of a session; their key, of nine digits, is always the same."""
    named = ["fence", session.user, session.thread, session.namespace]
    return Fences(f"{int(archive.keyed_digest(json.dumps(named)), 16) % 10**9:09}", count)


def _turns_about(view: ArchiveView, effort: Effort) -> tuple[int, ...]:
    """Return the turns of an effort of a view's session, or the one that said a fact."""
    return (effort.turn,) if is_fact(effort.id) else view.log_turns(parted(effort.id)[1])


def view_at(archive: Archive, session: Session, tip: Tip) -> ArchiveView:
    """Return the view of a tip in which no turn is running."""
    return ArchiveView(archive, session, archive.load(session, tip))
