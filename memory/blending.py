"""Ranking by meaning, and how it joins the ranking by words.

That this mixture is better than each of the two was measured on long conversations;
benchmarks/recall.py measures it again.
"""

import numpy as np

from .search import Numbers, Passages, Scores

_WEIGHT = 0.5
_SPAN = 1.0


def likeness(passages: Passages, cosines: Numbers, heads: Numbers) -> Scores:
    """Score passages by the cosines of passage + window + heading, efforts by their best + heading.

    `cosines` are those of the passages, NaN without a vector, which has no score; `heads` are those
    of the efforts' headings, 0 without. The cosine of a window is the mean of those in it. An
    ambient passage has its window in place of a heading.
    """
    known = ~np.isnan(cosines)
    own = np.where(known, cosines, 0.0)
    near = passages.windows(own) / np.maximum(passages.windows(known.astype(np.float64)), 1.0)
    of_effort = passages.topics >= 0
    above = near.copy()
    above[of_effort] = heads[passages.topics[of_effort]]
    best = np.full(len(heads), -np.inf)
    counted = of_effort & known
    np.maximum.at(best, passages.topics[counted], (own + near)[counted])
    found = np.where(known, own + near + above, np.nan)
    return Scores(found, np.where(np.isinf(best), 0.0, best) + heads)


def blended(words: Scores, meaning: Scores) -> Scores:
    """Return the scores by words and by meaning as one; see `blend`."""
    return Scores(blend(words.passages, meaning.passages), blend(words.topics, meaning.topics))


def blend(words: Numbers, meaning: Numbers) -> Numbers:
    """Add to scores by words, over their maximum, half the scores by meaning, stretched to 0..1.

    Models differ in how far the cosines of unlike texts are from 0, hence the stretching; sums that
    differ by less than 1 are stretched as if the least were 1 below the highest. What has no score
    by meaning, NaN, keeps its score by words.

    >>> blend(np.array([8.0, 4.0, 0.0]), np.array([0.2, 1.2, np.nan])).tolist()
    [1.0, 1.0, 0.0]
    """
    found, known = words / (words.max(initial=0.0) or 1.0), ~np.isnan(meaning)
    if known.any():
        high = meaning[known].max()
        low = min(meaning[known].min(), high - _SPAN)
        found[known] += _WEIGHT * (meaning[known] - low) / (high - low)
    return np.asarray(found.round(9))
