"""Whose turns are stored, what a stored turn is, and on which branch it is written.

A retry finds the place of its first attempt, since branches are named by what begins them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from .errors import TipNotFoundError
from .messages import Message, digest, fingerprint

Event: TypeAlias = Mapping[str, Any]
Status: TypeAlias = Literal["done", "aborted", "erased"]
Origin: TypeAlias = tuple[str, int] | None
"""Where a branch began: its parent, and the last turn of that which it sees."""

DEFAULT_USER = "default"
"""The user of sessions that name none; such sessions know nothing of one another."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom a session belongs to: user, thread, and checkpoint namespace without task ids."""

    user: str
    thread: str
    namespace: str = ""

    @property
    def anonymous(self) -> bool:
        """Whether no user was named, so that there is no memory across sessions."""
        return self.user == DEFAULT_USER


@dataclass(frozen=True, slots=True)
class Tip:
    """The last turn that a state has committed: its branch, number (0 for none) and digest."""

    branch: str = "main"
    turn: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The messages and events of one turn, ready to be committed; `at` is ISO 8601 in UTC.

    `state` is the memory's state after the turn, plain data.
    """

    turn: int
    messages: tuple[Message, ...]
    at: str
    efforts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    status: Status = "done"
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A committed group with its place: branch, parent digest, and where its branch began.

    `origin` is None but in the first record of a branch. An `erased` record is a tombstone: it
    keeps its place and its digest, and has no text.
    """

    turn: int
    branch: str
    parent: str
    digest: str
    messages: tuple[Message, ...]
    at: str
    origin: Origin = None
    efforts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    status: Status = "done"

    @property
    def tip(self) -> Tip:
        """The tip of a state that has just committed this record."""
        return Tip(self.branch, self.turn, self.digest)


def branch_id(parent: str, turn: int, group_digest: str) -> str:
    """Name the branch that begins with this group, the same for every retry.

    >>> branch_id("main", 3, "9f3c2a0011223344")
    'bcf9cba8d21e'
    """
    return "b" + fingerprint([parent, turn, group_digest], 11)


def place(group: Group, branch: str, parent: str, origin: Origin) -> Record:
    """Return the record of a group at its place in the history."""
    return Record(
        turn=group.turn,
        branch=branch,
        parent=parent,
        digest=digest(group.messages),
        messages=group.messages,
        at=group.at,
        origin=origin,
        efforts=group.efforts,
        events=group.events,
        status=group.status,
    )


def memberships(active: str | None, events: Sequence[Event]) -> tuple[str, ...]:
    """Return the efforts a turn belongs to: the active one at its end, then those it concluded.

    >>> memberships("b", [{"type": "concluded", "effort": "a"}])
    ('b', 'a')
    """
    concluded = (event["effort"] for event in events if event["type"] == "concluded")
    return tuple(dict.fromkeys([*([active] if active else []), *concluded]))


@dataclass(frozen=True, slots=True)
class Slot:
    """What decides whether a record is the one that would be written."""

    digest: str
    parent: str
    origin: Origin


class _Slots(Protocol):
    """The occupied places of a session."""

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return what occupies this place, None if it is free."""

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch, or the newest before `below`; 0 if none."""


def placement(tip: Tip, group: Group, slots: _Slots) -> tuple[Record, bool]:
    """Return the record of `group` at its place after `tip`, and whether it is stored there.

    Raises `TipNotFoundError` if the archive does not hold what the tip names: whoever has the state
    has another archive than the one that it was made with, and would go on without a memory.
    """
    before = slots.slot(tip.branch, tip.turn)
    if tip.turn and (before is None or before.digest != tip.digest):
        raise TipNotFoundError(tip.branch, tip.turn)
    record, turn = place(group, tip.branch, tip.digest, None), group.turn
    if slots.head(tip.branch, turn) <= tip.turn:
        slot = slots.slot(tip.branch, turn)
        if slot is not None and (slot.digest, slot.parent) == (record.digest, record.parent):
            return record, True
        if slot is None and slots.head(tip.branch) <= tip.turn:
            return record, False
    # A branch never sees a turn twice, so it leaves its parent before its own first turn.
    origin = (tip.branch, max(0, min(tip.turn, turn - 1)))
    branch = tip.branch
    wanted = Slot(record.digest, record.parent, origin)
    while True:
        branch = branch_id(branch, turn, record.digest)
        slot = slots.slot(branch, turn)
        if slot == wanted or (slot is None and slots.head(branch) == 0):
            return replace(record, branch=branch, origin=origin), slot is not None
