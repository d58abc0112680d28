"""Ranking of turns and efforts for a query: BM25 of a turn, of its window, of its effort.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009). That windows
and efforts count too was measured on long conversations; benchmarks/recall.py measures it again.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import TypeAlias, TypeVar

_SATURATION = 1.2
_LENGTH_SHARE = 0.75

Name = TypeVar("Name", bound=Hashable)
Says: TypeAlias = Mapping[str, int]
"""By term of the query, how many messages of a text say it."""

Rare: TypeAlias = Mapping[str, float]
"""By term of the query, how rare it is."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as it is ranked.

    `near` are the keys of the turns right before and after it that belong to the same effort, or
    are ambient like it; `length` is the size of its record in bytes. Ambient turns have no effort.
    """

    says: Says
    length: int
    near: tuple[int, ...] = ()
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """An effort as it is ranked: what its turns and its heading (id, summary, keywords) say."""

    says: Says
    length: int


@dataclass(frozen=True, slots=True)
class Scores:
    """How well turns, by their keys, and efforts, by their ids, match a query."""

    turns: Mapping[int, float]
    efforts: Mapping[str, float]


def rarity(turns: int, having: int) -> float:
    """Weigh a term that `having` of `turns` say (inverse document frequency of BM25).

    >>> round(rarity(100, 1), 2), round(rarity(100, 90), 2)
    (4.21, 0.11)
    """
    return log(1 + (turns - having + 0.5) / (having + 0.5))


def relevance(says: Says, rare: Rare, length: float, usual: float) -> float:
    """Score one text by BM25, given how often it says each term and how long texts usually are.

    >>> round(relevance({"token": 2}, {"token": 4.21, "auth": 1.0}, 100, 100), 2)
    5.79
    """
    slack = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / usual)
    total = 0.0
    for term, times in says.items():
        total += rare.get(term, 0.0) * times * (_SATURATION + 1) / (times + slack)
    return total


def score(turns: Mapping[int, Turn], topics: Mapping[str, Topic], rare: Rare) -> Scores:
    """Score turns by turn + window + effort, and efforts by their best turn + window + effort.

    An ambient turn has its window once more in the place of its effort.

    >>> found = score({1: Turn({"a": 1}, 9, effort="x")}, {"x": Topic({"a": 1}, 9)}, {"a": 1.0})
    >>> found.turns[1], found.efforts["x"]
    (3.0, 3.0)
    """
    alone = _scored({key: (turn.says, turn.length) for key, turn in turns.items()}, rare)
    near = _scored({key: _window(turn, turns) for key, turn in turns.items()}, rare)
    whole = _scored({name: (topic.says, topic.length) for name, topic in topics.items()}, rare)
    local = {key: alone[key] + near[key] for key in turns}
    by_turn = {
        key: local[key] + (near[key] if turn.effort is None else whole.get(turn.effort, 0.0))
        for key, turn in turns.items()
    }
    return Scores(by_turn, _with_best(whole, turns, local))


def summed(counts: Iterable[Says]) -> dict[str, int]:
    """Add up counts.

    >>> summed([{"a": 1}, {"a": 2, "b": 1}])
    {'a': 3, 'b': 1}
    """
    total: dict[str, int] = {}
    for count in counts:
        for term, times in count.items():
            total[term] = total.get(term, 0) + times
    return total


def ranked(scores: Mapping[Name, float]) -> list[Name]:
    """Return what scored above 0, best first, ties in their order.

    >>> ranked({"a": 1.0, "b": 2.0, "c": 0.0})
    ['b', 'a']
    """
    return sorted((item for item, value in scores.items() if value > 0), key=lambda i: -scores[i])


def _scored(texts: Mapping[Name, tuple[Says, int]], rare: Rare) -> dict[Name, float]:
    lengths = [length for says, length in texts.values() if says]
    usual = sum(lengths) / len(lengths) if lengths else 1.0
    return {
        name: relevance(says, rare, length, usual or 1.0) for name, (says, length) in texts.items()
    }


def _window(turn: Turn, turns: Mapping[int, Turn]) -> tuple[Says, int]:
    shown = [turn, *(turns[key] for key in turn.near)]
    return summed(one.says for one in shown), sum(one.length for one in shown)


def _with_best(
    whole: Mapping[str, float], turns: Mapping[int, Turn], local: Mapping[int, float]
) -> dict[str, float]:
    best: dict[str, float] = {}
    for key, turn in turns.items():
        if turn.effort is not None:
            best[turn.effort] = max(best.get(turn.effort, 0.0), local[key])
    return {name: value + best.get(name, 0.0) for name, value in whole.items()}
