"""Where a group is written: on the branch of its tip, or on a new one.

A retry finds the place of its first attempt, since branches are named by what begins them.
"""

from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from .errors import TipNotFoundError
from .record import Group, Record, Tip, branch_id, place

Origin: TypeAlias = tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class Slot:
    """What decides whether a record is the one that would be written."""

    digest: str
    parent: str
    origin: Origin


class Slots(Protocol):
    """The occupied places of a session."""

    def slot(self, branch: str, turn: int) -> Slot | None:
        """Return what occupies this place, None if it is free."""

    def head(self, branch: str, below: int | None = None) -> int:
        """Return the newest turn of a branch, or the newest before `below`; 0 if none."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The record at its place, and whether the archive holds it already."""

    record: Record
    stored: bool


def placement(tip: Tip, group: Group, slots: Slots) -> Placement:
    """Return the record of `group` after `tip`, at the place where it is or is to be written.

    Raises `TipNotFoundError` if the archive does not hold what the tip names: whoever has the state
    has another archive than the one that it was made with, and would go on without a memory.
    """
    before = slots.slot(tip.branch, tip.turn)
    if tip.turn and (before is None or before.digest != tip.digest):
        raise TipNotFoundError(tip.branch, tip.turn)
    record = place(group, tip.branch, tip.digest, None)
    if slots.head(tip.branch, group.turn) <= tip.turn:
        held = slots.slot(tip.branch, group.turn)
        if held is not None and (held.digest, held.parent) == (record.digest, record.parent):
            return Placement(record, stored=True)
        if held is None and slots.head(tip.branch) <= tip.turn:
            return Placement(record, stored=False)
    # A branch never sees a turn twice, so it leaves its parent before its own first turn.
    seen = min(tip.turn, group.turn - 1)
    return _branched(replace(record, origin=(tip.branch, max(seen, 0))), slots)


def _branched(record: Record, slots: Slots) -> Placement:
    wanted = Slot(record.digest, record.parent, record.origin)
    while True:
        branch = branch_id(record.branch, record.turn, record.digest)
        record = replace(record, branch=branch)
        held = slots.slot(branch, record.turn)
        if held == wanted:
            return Placement(record, stored=True)
        if held is None and slots.head(branch) == 0:
            return Placement(record, stored=False)
