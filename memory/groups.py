"""Turns as a tier shows them: whole, shortened, or left out; and where to cut."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a tier is cut, in turn numbers.

    Turns before `first` are left out; of turns before `results` long results of tools are previews.
    `short` are turns that are too large, each with the tokens that it may have. `quoted` is what
    each compression may have in tokens, None if they are whole.
    """

    first: int = 0
    results: int = 0
    short: tuple[tuple[int, int], ...] = ()
    quoted: int | None = None

    def limit(self, turn: int) -> int | None:
        """Return how many tokens a turn may have, None if it is not too large.

        >>> Cut(short=((6, 500),)).limit(6), Cut().limit(6)
        (500, None)
        """
        return dict(self.short).get(turn)


@dataclass(frozen=True, slots=True)
class Sized:
    """A turn in a section of a tier with its sizes: now, with its results as previews, shortened.

    Only a turn that is too large is shortened, and only another one has previews.
    """

    turn: int
    section: int
    now: int
    results: int
    short: int


def cut_of(listed: Sequence[Any]) -> Cut:
    """Return a cut as the state holds it; the inverse of `listed`.

    >>> cut_of(listed(Cut(3, 5, ((6, 500),))))
    Cut(first=3, results=5, short=((6, 500),), quoted=None)
    """
    if not listed:
        return Cut()
    first, results, short, *quoted = listed
    return Cut(first, results, tuple((turn, limit) for turn, limit in short), *quoted)


def listed(cut: Cut) -> list[Any]:
    """Return a cut as plain data."""
    return [cut.first, cut.results, [[turn, limit] for turn, limit in cut.short], cut.quoted]


def tokens(groups: Sequence[Sized], intros: Sequence[int], cut: Cut, limit: int) -> int:
    """Return the size of a tier, in which turns over `limit` tokens are shortened to it.

    A section of which nothing is shown has no introduction.

    >>> groups = [Sized(1, 0, 9, 5, 3), Sized(2, 0, 8, 4, 2)]
    >>> [tokens(groups, [1], Cut(first), 9) for first in (0, 2, 3)]
    [18, 9, 0]
    """
    shown = [group for group in groups if group.turn >= cut.first]
    introduced = {group.section for group in shown}
    return sum(intros[section] for section in introduced) + sum(
        _size(group, cut, limit) for group in shown
    )


def cut_to(target: int, groups: Sequence[Sized], intros: Sequence[int], cut: Cut) -> Cut:
    """Return the least cut beyond `cut` with which a tier has at most `target` tokens.

    Turns that are too large are shortened. Then the results of all turns but the newest
    become previews, the oldest first; then whole turns are left out, the oldest first.

    >>> groups = [Sized(1, 0, 9, 5, 3), Sized(2, 0, 8, 4, 2)]
    >>> [cut_to(target, groups, [0], Cut()) for target in (14, 9, 2)]
    [Cut(first=0, results=0, short=((1, 7), (2, 7)), quoted=None), \
Cut(first=0, results=0, short=((1, 4), (2, 4)), quoted=None), \
Cut(first=2, results=2, short=((2, 1),), quoted=None)]
    """
    limit = most(target, intros)
    steps = [*_steps(groups, cut, limit)]
    at = bisect_left(steps, -target, key=lambda step: -tokens(groups, intros, step, limit))
    fits = at < len(steps) and tokens(groups, intros, steps[at], limit) <= target
    found = steps[at] if fits else steps[-1]
    return replace(found, short=tuple(one for one in found.short if one[0] >= found.first))


def most(target: int, intros: Sequence[int]) -> int:
    """Return how large a turn may be in a tier that is cut: half of it, so that others stay.

    >>> most(210, [10, 5])
    100
    """
    return max(1, (target - max(intros, default=0)) // 2)


def _size(group: Sized, cut: Cut, limit: int) -> int:
    if cut.limit(group.turn) == limit:
        return group.short
    return group.results if group.turn < cut.results else group.now


def _steps(groups: Sequence[Sized], cut: Cut, limit: int) -> Iterator[Cut]:
    """Yield deeper and deeper cuts; with the last one nothing is shown."""
    shown = [group for group in groups if group.turn >= cut.first]
    large = {group.turn: limit for group in shown if group.now > limit}
    turns = sorted({group.turn for group in shown})
    yield cut
    yield (cut := replace(cut, short=tuple(sorted({**dict(cut.short), **large}.items()))))
    for turn in turns[1:]:
        yield (cut := replace(cut, results=max(cut.results, turn)))
    for turn in turns[1:]:
        yield (cut := replace(cut, first=turn))
    yield replace(cut, first=turns[-1] + 1 if turns else cut.first)
