"""Ranking by meaning, and how it joins the ranking by words.

That this mixture is better than each of the two was measured on long conversations;
benchmarks/recall.py measures it again.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .meaning import Vector, Vectors, cosines, normalised
from .search import Name, Scores, Turn

_WEIGHT = 0.5
_SPAN = 1.0


def likeness(
    turns: Mapping[int, Turn], vectors: Vectors, heads: Mapping[str, float], meant: Vector
) -> Scores:
    """Score turns by the cosines of turn + window + heading, efforts by their best turn + heading.

    The keys of `turns` are the rows of `vectors`; what has zeros there has no score. The vector of
    a window is the mean of those in it. `heads` are the cosines of the efforts' headings. An
    ambient turn has its window in place of a heading.

    >>> turns = {0: Turn({}, 1, effort="x"), 1: Turn({}, 1)}
    >>> found = likeness(turns, np.eye(2, dtype="f"), {"x": 0.5}, np.float32([1, 0]))
    >>> found.turns, found.efforts
    ({0: 2.5, 1: 0.0}, {'x': 2.5})
    """
    own = cosines(vectors, meant)
    near = cosines(normalised(_windows(turns, vectors)), meant)
    scores: dict[int, float] = {}
    best: dict[str, float] = {}
    for key, turn in turns.items():
        if vectors[key].any():
            local, name = float(own[key] + near[key]), turn.effort
            scores[key] = local + (float(near[key]) if name is None else heads.get(name, 0.0))
            if name is not None:
                best[name] = max(best.get(name, local), local)
    named = dict.fromkeys([*heads, *best])
    return Scores(scores, {name: best.get(name, 0.0) + heads.get(name, 0.0) for name in named})


def blended(words: Scores, meaning: Scores) -> Scores:
    """Return the scores by words and by meaning as one; see `blend`."""
    return Scores(blend(words.turns, meaning.turns), blend(words.efforts, meaning.efforts))


def blend(words: Mapping[Name, float], meaning: Mapping[Name, float]) -> dict[Name, float]:
    """Add to scores by words, over their maximum, half the scores by meaning, stretched to 0..1.

    Models differ in how far the cosines of unlike texts are from 0, hence the stretching; sums that
    differ by less than 1 are stretched as if the least were 1 below the highest. What has no score
    by meaning keeps its score by words.

    >>> blend({1: 8.0, 2: 4.0}, {1: 0.2, 2: 1.2, 3: 0.7})
    {1: 1.0, 2: 1.0, 3: 0.25}
    """
    best = max(words.values(), default=0.0) or 1.0
    high = max(meaning.values(), default=0.0)
    low = min(min(meaning.values(), default=0.0), high - _SPAN)
    return {
        name: round(
            words.get(name, 0.0) / best + _WEIGHT * (meaning.get(name, low) - low) / (high - low), 9
        )
        for name in dict.fromkeys([*words, *meaning])
    }


def _windows(turns: Mapping[int, Turn], vectors: Vectors) -> NDArray[np.float32]:
    """Return for each row the sum of its vector and those of the turns near it."""
    pairs = [(key, other) for key, turn in turns.items() for other in turn.near]
    windows = vectors.copy()
    if pairs:
        rows, others = _columns(pairs)
        np.add.at(windows, rows, vectors[others])
    return windows


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    both = np.asarray(pairs, np.intp)
    return both[:, 0], both[:, 1]
