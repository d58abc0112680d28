"""The archive as one state sees it, with the turn that is running on top."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .archive.protocol import Archive, EffortList
from .efforts import Effort, changes
from .messages import Message
from .names import is_qualified, parted, qualified, session_called, session_name
from .record import Event, Group, Owner, Record, Tip
from .salience import Compression
from .transcript import Logged, Recalled, rendered, restored

_CHUNK = 500
"""Turns that are read at once, so that a long session is not held as a whole."""


@dataclass(frozen=True, slots=True)
class ArchiveView:
    """What a running turn can see: the records of its lineage, and its own messages so far.

    By their qualified ids it sees the concluded efforts of the user's other sessions too, as the
    newest branch of each has them; that may change while this session runs.
    """

    archive: Archive
    owner: Owner
    tip: Tip
    running: Group

    def as_of(self, turn: int) -> "ArchiveView":
        """Return what was seen after an earlier turn: later changes change nothing in it."""
        return past(self.archive, self.owner, replace(self.tip, turn=turn))

    def turns(self, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the visible records with these numbers, as the archive stores them."""
        return self.archive.turns(self.owner, self.tip, numbers) if numbers else ()

    def messages(self, record: Record) -> tuple[Message, ...]:
        """Return the messages of a record as they were sent, recalled text included."""
        return tuple(restored(message, self.recall) for message in record.messages)

    def recall(self, quoted: Recalled) -> str:
        """Return the text that a result quotes; empty if it is gone.

        Of another session it is read from the very record, whatever became of its branch.
        """
        view = self
        if quoted.session:
            session = self.session(quoted.session)
            if session is None:
                return ""
            view = past(self.archive, session.owner, Tip(quoted.branch, quoted.turn))
        if quoted.effort:
            effort = view.effort(quoted.effort, ())
            return effort.summary if effort else ""
        return view.render(quoted.turn, blocks=quoted.blocks)[quoted.offset : quoted.end]

    def session(self, name: str) -> "ArchiveView | None":
        """Return what is seen of a session of the user: this one, or another one's newest branch.

        None if the user has no such session.
        """
        called = session_called(name)
        if called == session_name(self.owner):
            return self
        if self.owner.anonymous:
            return None
        owner = self.archive.session_named(self.owner.user, called)
        tip = None if owner is None else self.archive.newest(owner)
        return past(self.archive, owner, tip) if owner and tip else None

    def render(self, turn: int, *, blocks: bool = False) -> str:
        """Return a visible turn as text, the running one included; empty if it is gone."""
        if turn == self.running.turn:
            return rendered(self.running.messages, blocks=blocks)
        records = self.turns([turn])
        return "".join(rendered(record.messages, blocks=blocks) for record in records)

    def effort(self, effort_id: str, events: Sequence[Event]) -> Effort | None:
        """Return an effort as `events` of the running turn, or the archive, left it.

        An effort of another session has its qualified id; those that are open there are not seen.
        """
        name = self.known_as(effort_id)
        if is_qualified(name):
            elsewhere = self._elsewhere(name)
            return elsewhere and elsewhere[1]
        changed = {effort.id: effort for effort in changes(events, self.running.turn)}
        return changed.get(name) or self.archive.effort(self.owner, self.tip, name)

    def known_as(self, effort_id: str) -> str:
        """Return the id by which this session knows an effort: its own have no session in it."""
        session, name = parted(effort_id)
        return name if session == session_name(self.owner) else effort_id

    def efforts_named(self, ids: Sequence[str], events: Sequence[Event]) -> tuple[Effort, ...]:
        """Return the efforts with these ids that there are, each as `effort` does."""
        others = [name for name in ids if "/" in name]  # a text has thousands of names
        own = [*{*ids}.difference(others)] if others else ids
        stored = self.archive.efforts_named(self.owner, self.tip, own) if own else ()
        latest = {effort.id: effort for effort in (*stored, *changes(events, self.running.turn))}
        elsewhere = ((name, self.effort(name, events)) for name in others)
        latest |= {name: effort for name, effort in elsewhere if effort is not None}
        return tuple(latest[name] for name in ids if name in latest)

    def efforts(self, limit: int) -> EffortList:
        """Return the newest efforts of the archive, and how many there are."""
        return self.archive.efforts(self.owner, self.tip, limit)

    def compression(self, effort_id: str, turn: int | None = None) -> Compression | None:
        """Return the newest compression of an effort, or the newest up to a turn; None if none.

        Concluded efforts have none, and so those of other sessions have none.
        """
        if is_qualified(effort_id):
            return None
        upto = self.tip.turn if turn is None else min(turn, self.tip.turn)
        return self.archive.compression(self.owner, replace(self.tip, turn=upto), effort_id)

    def log_turns(self, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the committed turns of an effort, ascending."""
        if is_qualified(effort_id):
            elsewhere = self._elsewhere(effort_id)
            return elsewhere[0].log_turns(parted(effort_id)[1]) if elsewhere else ()
        return self.archive.effort_turns(self.owner, self.tip, effort_id)

    def log(self, effort_id: str, *, running: bool = False) -> tuple[Logged, ...]:
        """Return the raw log of an effort, with the running turn at its end if asked."""
        turns: tuple[Logged, ...] = self.turns_of(effort_id, self.log_turns(effort_id))
        return (*turns, self.running) if running else turns

    def turns_of(self, effort_id: str, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the committed turns with these numbers of the session that an effort is of.

        Of another session only turns are seen that are the effort's on its newest branch.
        """
        if not is_qualified(effort_id):
            return self.turns(numbers)
        elsewhere = self._elsewhere(effort_id)
        if elsewhere is None:
            return ()
        own = {*elsewhere[0].log_turns(parted(effort_id)[1])}
        return elsewhere[0].turns([number for number in numbers if number in own])

    def ambient_turns(self, last: int) -> tuple[int, ...]:
        """Return the numbers of the `last` newest ambient turns, ascending."""
        return self.archive.ambient(self.owner, self.tip, last)

    def ambient_count(self) -> int:
        """Count the committed ambient turns."""
        return self.archive.ambient_count(self.owner, self.tip)

    def _elsewhere(self, effort_id: str) -> "tuple[ArchiveView, Effort] | None":
        """Return the view of the session that has a qualified effort, and the effort, or None."""
        session, name = parted(effort_id)
        view = self.session(session)
        effort = view.effort(name, ()) if view else None
        if view is None or effort is None or effort.status != "concluded":
            return None
        return view, replace(effort, id=qualified(view.owner, effort.id))


def past(archive: Archive, owner: Owner, tip: Tip) -> ArchiveView:
    """Return the view of a state in which no turn is running."""
    return ArchiveView(archive, owner, tip, Group(turn=0, messages=(), at=""))


def every_turn(archive: Archive, owner: Owner, tip: Tip) -> list[Record]:
    """Return all turns that a tip sees, oldest first."""
    chunks = (range(first, first + _CHUNK) for first in range(1, tip.turn + 1, _CHUNK))
    return [record for chunk in chunks for record in archive.turns(owner, tip, chunk)]
