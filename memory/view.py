"""The archive as one state sees it, with the turn that is running on top."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .archive import Archive, EffortList, Found
from .efforts import Effort, changes, newest
from .meaning import Meaning
from .messages import Message
from .recall import restored
from .record import Event, Group, Owner, Record, Tip
from .salience import Compression
from .transcript import Logged, rendered

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class View:
    """What a running turn can see: the records of its lineage, and its own messages so far."""

    archive: Archive
    owner: Owner
    tip: Tip
    running: Group

    def turns(self, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the visible records with these numbers, as the archive stores them."""
        return self.archive.turns(self.owner, self.tip, numbers) if numbers else ()

    def messages(self, record: Record) -> tuple[Message, ...]:
        """Return the messages of a record as they were sent, recalled text included."""
        return tuple(restored(message, self.render) for message in record.messages)

    def render(self, turn: int) -> str:
        """Return a visible turn as text, the running one included; empty if it is gone."""
        if turn == self.running.turn:
            return rendered(self.running.messages)
        return "".join(rendered(record.messages) for record in self.turns([turn]))

    def erased(self, turn: int) -> bool:
        """Tell whether a visible turn was erased."""
        return any(record.status == "erased" for record in self.turns([turn]))

    def effort(self, effort_id: str, events: Sequence[Event]) -> Effort | None:
        """Return an effort as `events` of the running turn, or the archive, left it."""
        changed = newest(changes(events, self.running.turn), effort_id)
        return changed or self.archive.effort(self.owner, self.tip, effort_id)

    def efforts_named(self, ids: Sequence[str], events: Sequence[Event]) -> tuple[Effort, ...]:
        """Return the efforts with these ids that there are, each as `effort` does."""
        kept = self.archive.efforts_named(self.owner, self.tip, ids) if ids else ()
        latest = {effort.id: effort for effort in (*kept, *changes(events, self.running.turn))}
        return tuple(latest[name] for name in ids if name in latest)

    def efforts(self, limit: int) -> EffortList:
        """Return the newest efforts of the archive, and how many there are."""
        return self.archive.efforts(self.owner, self.tip, limit)

    def search(self, query: str, limit: int, meaning: Meaning | None = None) -> tuple[Found, ...]:
        """Return the committed efforts and ambient turns that match a query, best first."""
        return self.archive.search(self.owner, self.tip, query, limit, meaning)

    def compression(self, effort_id: str, turn: int | None = None) -> Compression | None:
        """Return the newest compression of an effort, or the newest up to a turn; None if none."""
        upto = self.tip.turn if turn is None else min(turn, self.tip.turn)
        return self.archive.compression(self.owner, replace(self.tip, turn=upto), effort_id)

    def log_turns(self, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the committed turns of an effort, ascending."""
        return self.archive.effort_turns(self.owner, self.tip, effort_id)

    def log(self, effort_id: str, *, running: bool = False) -> tuple[Logged, ...]:
        """Return the raw log of an effort, with the running turn at its end if asked."""
        turns: tuple[Logged, ...] = self.turns(self.log_turns(effort_id))
        return (*turns, self.running) if running else turns

    def ambient_turns(self, last: int) -> tuple[int, ...]:
        """Return the numbers of the `last` newest ambient turns, ascending."""
        return self.archive.ambient(self.owner, self.tip, last)

    def ambient(self, last: int) -> tuple[Record, ...]:
        """Return the `last` newest ambient turns, ascending."""
        return self.turns(self.ambient_turns(last))

    def ambient_count(self) -> int:
        """Count the committed ambient turns."""
        return self.archive.ambient_count(self.owner, self.tip)


def past(archive: Archive, owner: Owner, tip: Tip) -> View:
    """Return the view of a state in which no turn is running."""
    return View(archive, owner, tip, Group(turn=0, messages=(), at=""))


def every_turn(archive: Archive, owner: Owner, tip: Tip) -> list[Record]:
    """Return all turns that a tip sees, oldest first."""
    chunks = (range(first, first + _CHUNK) for first in range(1, tip.turn + 1, _CHUNK))
    return [record for chunk in chunks for record in archive.turns(owner, tip, chunk)]
