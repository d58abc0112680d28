"""How passages and efforts are ranked for a query.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009). That windows
and efforts count too was measured on long conversations; benchmarks/recall.py measures it again.
Beside each number stands what others bring there: R@5 / within 1,000 tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

_SATURATION = 1.2
"""BM25's k1, as Lucene has it."""

_SATURATION_OF_EFFORTS = 1.8
"""An effort says a term more often than a passage: 91.2 / 87.5, with 1.2 90.9 / 87.3."""

_LENGTH_SHARE = 0.75
"""BM25's b, as Lucene has it."""

_REACH = 2
"""Passages before and after one that are its window: 91.2 / 87.5, with 1 90.9 / 85.2."""

_USER = 1.5
"""What users said weighs more: of a long talk 80 % within 1,000 tokens, with 1 67, with 2 72."""

_BESIDE = 1.3
"""What users said beside what says it: 77 % with 1.3, 74 with 1; more hides who says it."""

_NAMED_SPEAKER = 1.1
"""What somebody said whom the query names: turn R@10 80.8, without 79.6."""

_DATED = 3.0
"""What was said in the month that the query names: 91.2, with 1.5 90.9, without 90.2."""

_ASKS = 0.25
"""What only asks answers nothing: after three vain rounds of questions 81 % in place of 76.

Of the evidence in a talk within 1,000 tokens; where nothing was asked before it is all the same.
"""

_HALF = 0.5
"""So much of a mention counts where somebody only asks, since windows and efforts count it, too.

With all of it, what was asked eight times in vain stands before what says half of it.
"""

SHORT = (2, 3)
"""All terms of a query of so many have to be said by what comes first: R@5 91.1, without 90.8.

Of a single one, too: else a few turns that say little more than "auth" hide the effort `auth-bug`.
"""

_FLOOR = 1.15
"""What the best score is at least of a query's weight, or nothing is found.

99.8 % of the questions to a conversation reach it, and 65, 47 and 74 % of those to another one, on
three sets. With a fifth of the weight in one window it was 75, 70 and 81 %, and R@5 90.9. On the
first of them no sum of a score, a weight and a number of terms lets less than 58 % through at the
same loss: questions of everyday talk share words with any other.
"""

_HALF_SAID = 0.5
"""So much of the weight in one window or heading is enough: a heading alone scores low."""

Numbers: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]
_Float = TypeVar("_Float", bound=np.floating[Any])

Says: TypeAlias = Numbers
"""A row for each text, a column for each term of the query: how often it is said."""

Rare: TypeAlias = Mapping[str, float]
"""By term of the query, how rare it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """Passages as they are ranked: a row for each, in the order of their efforts and turns.

    `topics` has the row of the effort of each, -1 for an ambient one; `lengths` are characters;
    `user`, `asks`, `named` and `dated` tell who said it, and when.
    """

    topics: Rows
    turns: NDArray[np.int64]
    says: Says
    lengths: Numbers
    user: Flags
    asks: Flags
    named: Flags
    dated: Flags

    def windows(self, rows: NDArray[_Float]) -> NDArray[_Float]:
        """Return for each passage the sum of what it, and those near it, have in `rows`."""
        sums = rows.copy()
        for step in range(1, _REACH + 1):
            same = self.topics[step:] == self.topics[:-step]
            near = np.flatnonzero(same & (self.turns[step:] - self.turns[:-step] <= step))
            sums[near] += rows[near + step]
            sums[near + step] += rows[near]
        return sums

    @property
    def counted(self) -> Says:
        """What they say, half of it where somebody only asks."""
        return np.where(self.asks[:, None], _HALF, 1.0) * self.says

    @property
    def weights(self) -> Numbers:
        """What each weighs by who said it, and when."""
        users = np.where(self.says.any(axis=1), _USER, _BESIDE)
        weights = np.where(self.user, users, 1.0) * np.where(self.asks, _ASKS, 1.0)
        return (
            weights * np.where(self.named, _NAMED_SPEAKER, 1.0) * np.where(self.dated, _DATED, 1.0)
        )

    def likeness(self, cosines: Numbers, heads: Numbers) -> "Scores":
        """Score by the cosines of passage + window + heading, efforts by their best + heading.

        `cosines` are those of the passages, NaN without a vector, which has no score; `heads` those
        of the efforts' headings, 0 without. The cosine of a window is the mean of those in it. An
        ambient passage has its window in place of a heading.
        """
        known = ~np.isnan(cosines)
        own = np.where(known, cosines, 0.0)
        near = self.windows(own) / np.maximum(self.windows(known.astype(np.float64)), 1.0)
        of_effort = self.topics >= 0
        above = near.copy()
        above[of_effort] = heads[self.topics[of_effort]]
        best = np.full(len(heads), -np.inf)
        counted = of_effort & known
        np.maximum.at(best, self.topics[counted], (own + near)[counted])
        scores = np.where(known, own + near + above, np.nan)
        return Scores(scores, np.where(np.isinf(best), 0.0, best) + heads)


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """Efforts as they are ranked: what their headings (id, summary, keywords) say, and all of them.

    `says` counts their passages too.
    """

    names: Sequence[str]
    headings: Says
    says: Says
    lengths: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """How well passages and efforts match a query, by their rows."""

    passages: Numbers
    topics: Numbers

    def suffice(self, passages: Passages, topics: Topics, rare: Numbers, unknown: float) -> bool:
        """Tell whether a text says enough of a query; `unknown` weighs its terms in no text."""
        weight = rare.sum() + unknown
        best = max(values.max(initial=0.0) for values in (self.passages, self.topics))
        windows = passages.windows(passages.says)
        said = [(np.asarray(says) > 0) @ rare for says in (windows, topics.headings)]
        most = max(weights.max(initial=0.0) for weights in said)
        return bool(best >= _FLOOR * weight or most >= _HALF_SAID * weight)

    def blended(self, meaning: "Scores") -> "Scores":
        """Return the scores by words, and those by meaning, as one; see `_blend`."""
        return Scores(_blend(self.passages, meaning.passages), _blend(self.topics, meaning.topics))


def rarity(turns: int, having: int = 1) -> float:
    """Weigh a term that `having` of `turns` say, one at least (BM25's inverse document frequency).

    >>> round(rarity(100, 1), 2), round(rarity(100, 90), 2)
    (4.21, 0.11)
    """
    whole = max(turns, 1)
    having = min(having, whole)
    return log(1 + (whole - having + 0.5) / (having + 0.5))


def relevance(
    says: Says, rare: Numbers, lengths: Numbers, saturation: float = _SATURATION
) -> Numbers:
    """Score texts by BM25, given how rare the terms are.

    >>> says, rare = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([4.21, 1.0])
    >>> relevance(says, rare, np.array([100.0, 500.0])).round(2).tolist()
    [5.79, 0.0]
    """
    saying = says.any(axis=1)
    usual = float(lengths[saying].mean() if saying.any() else 1.0) or 1.0
    slack = saturation * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths / usual)
    weighed = rare * says * (saturation + 1)
    scores: Numbers = np.divide(
        weighed, says + slack[:, None], out=np.zeros_like(weighed), where=says > 0
    ).sum(axis=1)
    return scores


def score(passages: Passages, topics: Topics, rare: Numbers, asked: int) -> Scores:
    """Score passages by passage + window + effort, and efforts by their best one.

    An ambient passage has its window once more in the place of its effort. `asked` is how many
    terms the query has.
    """
    whole = relevance(topics.says, rare, topics.lengths, _SATURATION_OF_EFFORTS)
    counted = passages.counted
    near = relevance(passages.windows(counted), rare, passages.windows(passages.lengths))
    local = relevance(counted, rare, passages.lengths) + near
    of_effort = passages.topics >= 0
    scores = local + near
    scores[of_effort] = local[of_effort] + whole[passages.topics[of_effort]]
    scores *= (local > 0) * passages.weights
    few = 0 < asked <= SHORT[-1] and len(rare)
    most = max(scores.max(initial=0.0), whole.max(initial=0.0)) if few else 0.0
    scores += most * ((passages.says > 0).all(axis=1) & ~passages.asks)
    best = whole.copy()
    np.maximum.at(best, passages.topics[of_effort], scores[of_effort])
    return Scores(scores, best + 2 * most * (topics.headings > 0).all(axis=1))


_WEIGHT = 0.5
"""What meaning counts beside words; see `_blend`."""

_SPAN = 1.0
"""The least span of sums that is stretched to 0..1; see `_blend`."""


def _blend(words: Numbers, meaning: Numbers) -> Numbers:
    """Add to scores by words, over their maximum, half the scores by meaning, stretched to 0..1.

    Models differ in how far the cosines of unlike texts are from 0, hence the stretching; sums that
    differ by less than 1 are stretched as if the least were 1 below the highest. What has no score
    by meaning, NaN, keeps its score by words.

    >>> _blend(np.array([8.0, 4.0, 0.0]), np.array([0.2, 1.2, np.nan])).tolist()
    [1.0, 1.0, 0.0]
    """
    scores, known = words / (words.max(initial=0.0) or 1.0), ~np.isnan(meaning)
    if known.any():
        high = meaning[known].max()
        low = min(meaning[known].min(), high - _SPAN)
        scores[known] += _WEIGHT * (meaning[known] - low) / (high - low)
    return np.asarray(scores.round(9))
