"""Ranking of turns and efforts for a query: BM25 of a turn, of its window, of its effort.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009). That windows
and efforts count too was measured on long conversations; benchmarks/recall.py measures it again.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

_SATURATION = 1.2
_LENGTH_SHARE = 0.75

Name = TypeVar("Name", bound=Hashable)
Float = TypeVar("Float", bound=np.floating[Any])
Numbers: TypeAlias = NDArray[np.float64]

Says: TypeAlias = Numbers
"""A row for each text, a column for each term of the query: how many messages say it."""

Rare: TypeAlias = Mapping[str, float]
"""By term of the query, how rare it is."""

Pairs: TypeAlias = NDArray[np.intp]
"""Pairs of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Turns as they are ranked, a row for each.

    `efforts` has the effort of each, None for an ambient one; `near` pairs each with the turns
    right before and after it that belong to the same effort, or are ambient like it; `lengths` are
    the sizes of their records in bytes.
    """

    efforts: Sequence[str | None]
    near: Pairs
    says: Says
    lengths: Numbers

    def windows(self, rows: NDArray[Float]) -> NDArray[Float]:
        """Return for each turn the sum of what it, and those near it, have in `rows`."""
        found = rows.copy()
        np.add.at(found, self.near[:, 0], rows[self.near[:, 1]])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """Efforts as they are ranked: what their turns and headings (id, summary, keywords) say."""

    names: Sequence[str]
    says: Says
    lengths: Numbers


@dataclass(frozen=True, slots=True)
class Scores:
    """How well turns, by their rows, and efforts, by their ids, match a query."""

    turns: Mapping[int, float]
    efforts: Mapping[str, float]


def rarity(turns: int, having: int) -> float:
    """Weigh a term that `having` of `turns` say (inverse document frequency of BM25).

    >>> round(rarity(100, 1), 2), round(rarity(100, 90), 2)
    (4.21, 0.11)
    """
    return log(1 + (turns - having + 0.5) / (having + 0.5))


def relevance(says: Says, rare: Numbers, lengths: Numbers) -> Numbers:
    """Score texts by BM25, given how rare the terms are.

    >>> says, rare = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([4.21, 1.0])
    >>> relevance(says, rare, np.array([100.0, 500.0])).round(2).tolist()
    [5.79, 0.0]
    """
    saying = says.any(axis=1)
    usual = float(lengths[saying].mean() if saying.any() else 1.0) or 1.0
    slack = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths / usual)
    weighed = rare * says * (_SATURATION + 1)
    found: Numbers = np.divide(
        weighed, says + slack[:, None], out=np.zeros_like(weighed), where=says > 0
    ).sum(axis=1)
    return found


def score(turns: Turns, topics: Topics, rare: Numbers) -> Scores:
    """Score turns by turn + window + effort, and efforts by their best turn + window + effort.

    An ambient turn has its window once more in the place of its effort.
    """
    whole = relevance(topics.says, rare, topics.lengths)
    near = relevance(turns.windows(turns.says), rare, turns.windows(turns.lengths))
    local = relevance(turns.says, rare, turns.lengths) + near
    rows: dict[str | None, int] = {name: row for row, name in enumerate(topics.names)}
    topic = np.array([rows.get(name, -1) for name in turns.efforts], np.intp)
    of_effort = topic >= 0
    by_turn = local + near
    by_turn[of_effort] = local[of_effort] + whole[topic[of_effort]]
    best = np.zeros(len(topics.names))
    np.maximum.at(best, topic[of_effort], local[of_effort])
    by_topic = zip(topics.names, (whole + best).tolist(), strict=True)
    return Scores(dict(enumerate(by_turn.tolist())), dict(by_topic))


def ranked(scores: Mapping[Name, float]) -> list[Name]:
    """Return what scored above 0, best first, ties in their order.

    >>> ranked({"a": 1.0, "b": 2.0, "c": 0.0})
    ['b', 'a']
    """
    return sorted((item for item, value in scores.items() if value > 0), key=lambda i: -scores[i])
