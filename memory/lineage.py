"""Which records a state can see: its branch up to its tip, ancestors up to where it left them."""

from collections.abc import Mapping
from dataclasses import dataclass

from .record import Tip


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of one branch that a lineage sees: turns up to and including `upto`."""

    branch: str
    upto: int


def lineage(tip: Tip, origins: Mapping[str, tuple[str, int] | None]) -> tuple[Segment, ...]:
    """Return the segments that `tip` sees, newest branch first.

    `origins` maps each branch to where it began, None for a root.

    >>> lineage(Tip("b1", 9), {"main": None, "b1": ("main", 4)})
    (Segment(branch='b1', upto=9), Segment(branch='main', upto=4))
    """
    segments = [Segment(tip.branch, tip.turn)]
    origin = origins.get(tip.branch)
    while origin is not None and origin[0] not in {segment.branch for segment in segments}:
        segments.append(Segment(origin[0], min(origin[1], segments[-1].upto)))
        origin = origins.get(origin[0])
    return tuple(segments)
