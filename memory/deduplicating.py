"""Merging salient items: what says the same stays once, what was revised leaves the context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .claims import claim, gist
from .likeness import Likeness, Matrix
from .revising import same, supersedes
from .salience import Item, Kind, is_done

RELATED = 0.4
"""The likeness from which on a newer item is looked at as a revision of an older one."""

How: TypeAlias = Literal["same", "superseded", "done"]
"""Why an item is gone: another says the same, a newer one otherwise, or it matters no longer."""

_STRENGTH = (Kind.OUTPUT, Kind.FACT, Kind.GOAL, Kind.DECISION, Kind.CONSTRAINT)
_LOOKED_UP = {Kind.FACT, Kind.OUTPUT}
_MAY_REVISE = {
    Kind.CONSTRAINT: {Kind.CONSTRAINT, Kind.DECISION, Kind.GOAL},
    Kind.DECISION: {Kind.CONSTRAINT, Kind.DECISION, Kind.GOAL, Kind.FACT},
    Kind.GOAL: {Kind.CONSTRAINT, Kind.DECISION, Kind.GOAL, Kind.FACT},
}


@dataclass(frozen=True, slots=True)
class Merge:
    """One item that gave way to another, by their keys."""

    kept: str
    gone: str
    how: How
    likeness: float = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """All items in the order of their turns, superseded ones too, and what was merged."""

    items: tuple[Item, ...]
    merges: tuple[Merge, ...]


def merged(
    old: Sequence[Item],
    new: Sequence[Item],
    alike: Likeness,
    threshold: float,
    gone: Mapping[str, str] = MappingProxyType({}),
) -> Merged:
    """Merge new items into old ones; only the new are compared, with all that is current.

    First leaves what a model named: `gone` has the keys of items, and of what superseded them.

    Of two that say the same and are more alike than `threshold` the shorter stays, the older of two
    equally long ones, with the stronger of their kinds. The other one is kept with `superseded_by`,
    to hold again if the turn of the first is erased; so is an item that a newer one contradicts. A
    constraint is superseded by a constraint, a decision or a goal only, a decision or goal not by
    an output, and no item by one of its own turn, unless that says that it revises something.

    >>> from .likeness import lexical
    >>> old = Item(Kind.FACT, "Max upload is 10 MB.", 1)
    >>> new = Item(Kind.FACT, "Max upload is now 25 MB.", 2)
    >>> made = merged([old], [new], lexical, 0.85)
    >>> [(item.quote, item.superseded_by == new.key) for item in made.items]
    [('Max upload is 10 MB.', True), ('Max upload is now 25 MB.', False)]
    """
    known = {item.key for item in old}
    fresh = [item for item in {item.key: item for item in new}.values() if item.key not in known]
    fresh.sort(key=lambda item: item.turn)
    texts = [item.quote for item in (*old, *fresh)]
    likeness = alike(texts[len(old) :], texts) if fresh else np.zeros((0, len(texts)), np.float32)
    pool = _Pool([*old, *fresh], len(old), likeness, threshold)
    pool.leave(gone)
    for at in range(len(old), len(texts)):
        pool.settle(at)
    return Merged(pool.items(), tuple(pool.merges))


class _Pool:
    """The items that are being merged, by their place among the old and then the new ones."""

    def __init__(self, items: list[Item], old: int, likeness: Matrix, threshold: float) -> None:
        self._items, self._old, self._threshold = items, old, threshold
        self._likeness = likeness
        self._gists = [gist(item.quote) for item in items]
        cores: dict[frozenset[str], int] = {}
        subjects = [cores.setdefault(told.core, len(cores)) for told in self._gists]
        self._subjects = np.array(subjects, np.int64)
        self._cues = np.array([told.cue for told in self._gists], np.bool_)
        self._current = np.zeros(len(items), np.bool_)
        self._current[:old] = [not item.superseded_by for item in items[:old]]
        self.merges: list[Merge] = []

    def leave(self, gone: Mapping[str, str]) -> None:
        """Take out what is superseded by an item that holds, or done; no output lifts a rule."""
        for key, by in gone.items():
            places = {one.key: at for at, one in enumerate(self._items) if not one.superseded_by}
            heir = self._items[places[by]] if by in places else None
            if key not in places or key == by or not (heir or is_done(by)):
                continue
            item = self._items[places[key]]
            if heir and heir.kind is Kind.OUTPUT and item.kind not in _LOOKED_UP:
                continue
            self._items[places[key]] = replace(item, superseded_by=by)
            self._current[places[key]] = False
            self.merges.append(Merge(by, key, "superseded" if heir else "done"))

    def settle(self, at: int) -> None:
        """Put a new item among the others."""
        if self._items[at].superseded_by:
            return
        near = np.flatnonzero(self._current & self._comparable(at)).tolist()
        self._current[at] = True
        revised = sum([self._revised(at, place) for place in near])
        for place in near:
            if self._current[place] and self._current[at] and self._same(at, place):
                self._merge(at, place, newer=bool(revised))

    def items(self) -> tuple[Item, ...]:
        """Return all of them, by turns."""
        return tuple(sorted(self._items, key=lambda item: item.turn))

    def _comparable(self, at: int) -> NDArray[np.bool_]:
        """Tell which items may say the same, or otherwise on the same subject."""
        row, told = self._likeness[at - self._old], self._gists[at]
        related = (self._cues | told.cue) & (row >= RELATED)
        close = row > self._threshold
        found: NDArray[np.bool_] = related | close | (self._subjects == self._subjects[at])
        return found if not told.revoked else np.ones_like(found)

    def _alike(self, at: int, place: int) -> float:
        return round(float(self._likeness[at - self._old, place]), 4)

    def _same(self, at: int, place: int) -> bool:
        if self._alike(at, place) <= self._threshold:
            return False
        return same(claim(self._items[at].quote), claim(self._items[place].quote))

    def _revised(self, at: int, place: int) -> bool:
        """Supersede the older one of two items if the newer one revises it."""
        older, newer = sorted((place, at), key=lambda one: self._items[one].turn)
        one, other = self._items[older], self._items[newer]
        told = self._gists[newer]
        if other.kind not in _MAY_REVISE.get(one.kind, Kind) or (
            one.turn == other.turn and not told.cue
        ):
            return False
        alike = self._alike(at, place)
        if not supersedes(told, self._gists[older], alike, self._threshold):
            return False
        self._items[older] = replace(one, superseded_by=other.key)
        self._current[older] = False
        self.merges.append(Merge(other.key, one.key, "superseded", alike))
        return older == place

    def _merge(self, at: int, place: int, *, newer: bool) -> None:
        """Keep one of two items that say the same."""
        first, second = self._items[place], self._items[at]
        shorter = newer or len(second.quote) < len(first.quote)
        stays, goes = (at, place) if shorter else (place, at)
        kept, gone = self._items[stays], self._items[goes]
        kind = max(kept.kind, gone.kind, key=_STRENGTH.index)
        said = "user" if "user" in {kept.speaker, gone.speaker} else kept.speaker
        self._items[stays] = replace(kept, kind=kind, speaker=said)
        self._items[goes] = replace(gone, superseded_by=kept.key)
        self._current[goes] = False
        self.merges.append(Merge(kept.key, gone.key, "same", self._alike(at, place)))
