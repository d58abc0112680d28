"""Turns as a tier shows them: whole, with previews, or left out; and where to cut."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a tier is cut, in turn numbers.

    Turns before `first` are left out; of turns before `results` long results of tools are previews,
    and of the turns in `short`, each too large alone, all long contents.
    """

    first: int = 0
    results: int = 0
    short: tuple[int, ...] = ()

    def level(self, turn: int) -> int:
        """Return how a turn is shown: 0 whole, 1 with previews of results, 2 of everything.

        >>> cut = Cut(first=3, results=5, short=(6,))
        >>> [cut.level(turn) for turn in (4, 5, 6)]
        [1, 0, 2]
        """
        return 2 if turn in self.short else int(turn < self.results)


def cut_of(listed: Sequence[Any]) -> Cut:
    """Return a cut as the state holds it; the inverse of `listed`.

    >>> cut_of(listed(Cut(3, 5, (6,))))
    Cut(first=3, results=5, short=(6,))
    """
    return Cut(listed[0], listed[1], tuple(listed[2])) if listed else Cut()


def listed(cut: Cut) -> list[Any]:
    """Return a cut as plain data."""
    return [cut.first, cut.results, [*cut.short]]


@dataclass(frozen=True, slots=True)
class Sized:
    """A turn with its size in tokens at each level, and the section of the tier it stands in."""

    turn: int
    section: int
    sizes: tuple[int, int, int]


def tokens(groups: Sequence[Sized], intros: Sequence[int], cut: Cut) -> int:
    """Return the size of a tier; a section of which nothing is shown has no introduction.

    >>> groups = [Sized(1, 0, (9, 5, 3)), Sized(2, 0, (8, 4, 2))]
    >>> [tokens(groups, [1], Cut(first)) for first in (0, 2, 3)]
    [18, 9, 0]
    """
    shown = [group for group in groups if group.turn >= cut.first]
    introduced = {group.section for group in shown}
    return sum(intros[section] for section in introduced) + sum(
        group.sizes[cut.level(group.turn)] for group in shown
    )


def cut_to(target: int, groups: Sequence[Sized], intros: Sequence[int], cut: Cut) -> Cut:
    """Return the least cut beyond `cut` with which a tier has at most `target` tokens.

    Turns over the target are shown with previews. Then the results of all turns but the newest
    become previews, the oldest first; then whole turns are left out, the oldest first.

    >>> groups = [Sized(1, 0, (9, 5, 3)), Sized(2, 0, (8, 4, 2))]
    >>> [cut_to(target, groups, [0], Cut()) for target in (14, 9, 2)]
    [Cut(first=0, results=2, short=()), Cut(first=2, results=2, short=()), \
Cut(first=2, results=2, short=(2,))]
    """
    steps = [*_steps(groups, cut, target)]
    at = bisect_left(steps, -target, key=lambda step: -tokens(groups, intros, step))
    found = steps[min(at, len(steps) - 1)]
    return replace(found, short=tuple(turn for turn in found.short if turn >= found.first))


def _steps(groups: Sequence[Sized], cut: Cut, target: int) -> Iterator[Cut]:
    """Yield deeper and deeper cuts; with the last one nothing is shown."""
    shown = [group for group in groups if group.turn >= cut.first]
    large = {group.turn for group in shown if group.sizes[cut.level(group.turn)] > target}
    kept = large.union(turn for turn in cut.short if turn >= cut.first)
    turns = sorted({group.turn for group in shown})
    yield cut
    yield (cut := replace(cut, short=tuple(sorted(kept))))
    for turn in turns[1:]:
        yield (cut := replace(cut, results=max(cut.results, turn)))
    for turn in turns[1:]:
        yield (cut := replace(cut, first=turn))
    yield replace(cut, first=turns[-1] + 1 if turns else cut.first)
