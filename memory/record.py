"""Owners, stored turns, and the branch on which a turn is written.

A retry is written where its first attempt was, since a branch is named by the turn it begins with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from .errors import TipNotFoundError
from .messages import Message, digest, fingerprint

Event: TypeAlias = Mapping[str, Any]
Status: TypeAlias = Literal["done", "aborted", "erased"]
Origin: TypeAlias = tuple[str, int] | None
"""Where a branch began: its parent branch, and the last turn of the parent that it sees."""

ANONYMOUS = ""
"""The user of sessions without a user, which share no memory; no user id is empty."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a session: user, thread, and checkpoint namespace without task ids."""

    user: str
    thread: str
    namespace: str = ""

    @property
    def anonymous(self) -> bool:
        """Whether there is no user, so no memory across sessions."""
        return self.user == ANONYMOUS

    @property
    def user_label(self) -> str:
        """The user as people are shown it.

        >>> Owner("ann", "t").user_label, Owner(ANONYMOUS, "t").user_label
        ('ann', '(anonymous)')
        """
        return "(anonymous)" if self.anonymous else self.user


@dataclass(frozen=True, slots=True)
class Tip:
    """The last turn that a state has committed: its branch, number (0 for none) and digest."""

    branch: str = "main"
    turn: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The messages and events of one turn before it is committed.

    `at` is ISO 8601 in UTC, `state` the memory's state after the turn as plain data.
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
    """A committed group with its branch and the digest of its parent turn.

    Only the first record of a branch has an `origin`. An `erased` record is a tombstone: it keeps
    its place and its digest, and has no text.
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
        """The tip of a state whose last turn is this record."""
        return Tip(self.branch, self.turn, self.digest)


def branch_id(parent: str, turn: int, group_digest: str) -> str:
    """Return the id of the branch that begins with this group, the same for every retry.

    >>> branch_id("main", 3, "9f3c2a0011223344")
    'bcf9cba8d21e'
    """
    return "b" + fingerprint([parent, turn, group_digest], 11)


def place(group: Group, branch: str, parent: str, origin: Origin) -> Record:
    """Return the record of a group at its place in the history.

    >>> place(Group(3, (), at=""), "main", "9f3c2a0011223344", None).tip.branch
    'main'
    """
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
    """Return the efforts of a turn: the active one at its end, then those it concluded.

    >>> memberships("b", [{"type": "concluded", "effort": "a"}])
    ('b', 'a')
    """
    concluded = (event["effort"] for event in events if event["type"] == "concluded")
    return tuple(dict.fromkeys([*([active] if active else []), *concluded]))


@dataclass(frozen=True, slots=True)
class Slot:
    """An occupied place of the history; a retry is known by these values."""

    digest: str
    parent: str
    origin: Origin


class _Slots(Protocol):
    """The occupied places of a session, as the archive stores them."""

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return the slot of a place, None if it is free."""

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch, or the newest before `below`; 0 if none."""


def placement(tip: Tip, group: Group, slots: _Slots) -> tuple[Record, bool]:
    """Return the record of `group` at its place after `tip`, and whether it is already stored.

    A record that does not continue its branch begins a new one. Raises `TipNotFoundError` if the
    tip's turn is not in the archive: the state was made with another one.
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
    own_slot = Slot(record.digest, record.parent, origin)
    while True:  # the id may be that of a branch with another origin: then derive the next from it
        branch = branch_id(branch, turn, record.digest)
        slot = slots.slot(branch, turn)
        if slot == own_slot or (slot is None and slots.head(branch) == 0):
            return replace(record, branch=branch, origin=origin), slot is not None
