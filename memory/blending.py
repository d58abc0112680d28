"""Ranking by meaning, and how it joins the ranking by words.

That this mixture is better than each of the two was measured on long conversations;
benchmarks/recall.py measures it again.
"""

from collections.abc import Mapping

from .meaning import Vector, Vectors, cosines, normalised
from .search import Name, Scores, Turns

_WEIGHT = 0.5
_SPAN = 1.0


def likeness(turns: Turns, vectors: Vectors, heads: Mapping[str, float], meant: Vector) -> Scores:
    """Score turns by the cosines of turn + window + heading, efforts by their best turn + heading.

    `turns` and `vectors` have the same rows; what has zeros there has no score. The vector of
    a window is the mean of those in it. `heads` are the cosines of the efforts' headings. An
    ambient turn has its window in place of a heading.

    >>> import numpy as np
    >>> turns = Turns(["x", None], np.empty((0, 2), int), np.empty((2, 0)), np.ones(2))
    >>> found = likeness(turns, np.eye(2, dtype="f"), {"x": 0.5}, np.float32([1, 0]))
    >>> found.turns, found.efforts
    ({0: 2.5, 1: 0.0}, {'x': 2.5})
    """
    own = cosines(vectors, meant)
    near = cosines(normalised(turns.windows(vectors)), meant)
    scores: dict[int, float] = {}
    best: dict[str, float] = {}
    for key, name in enumerate(turns.efforts):
        if vectors[key].any():
            local = float(own[key] + near[key])
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
