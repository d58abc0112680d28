"""Rank passages and efforts for a query.

BM25 after Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009),
with the window and the effort of a passage added, as measured on long conversations by
benchmarks/recall.py. The figures at the constants are R@5 / evidence within 1,000 tokens, in %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

_SATURATION = 1.2  # BM25's k1, as Lucene has it

_SATURATION_OF_EFFORTS = 1.8
"""k1 for efforts, which repeat terms more than passages do: 91.2 / 87.5, with 1.2 90.9 / 87.3."""

_LENGTH_SHARE = 0.75  # BM25's b, as Lucene has it
_REACH = 2  # passages before and after one that make its window: 91.2 / 87.5, with 1 90.9 / 85.2
_USER = 1.5  # weight of a user's passage that has a term: of a long talk 80 %, with 1 67, with 2 72

_BESIDE = 1.3
"""Weight of a user's passage near one that has a term: 77 %, with 1 74; more hides the latter."""

_NAMED_SPEAKER = 1.1  # weight of a passage by a speaker who is named: turn R@10 80.8, without 79.6
_DATED = 3.0  # weight of a passage from the month that is named: 91.2, with 1.5 90.9, without 90.2

_ASKS = 0.25
"""Weight of a passage that only asks, and so answers nothing.

After three vain rounds of questions 81 % of the evidence in a talk is within 1,000 tokens, without
it 76; where nothing was asked before it makes no difference.
"""

_ASKED_TERM = 0.5
"""How much a term counts in a passage that only asks, for its window and its effort as well.

With 1 a question asked eight times in vain comes before a passage that has half of the answer.
"""

SHORT = (2, 3)
"""Numbers of terms of a short query: its first results must have all of them.

R@5 91.1, without 90.8. Headings that have all come first for one term too: else a few turns that
say little more than "auth" hide the effort `auth-bug`.
"""

_FLOOR = 1.15
"""Multiple of the query's weight that the best score must reach, or nothing is found.

99.8 % of the questions to a conversation reach it, and 65, 47 and 74 % of those to another one, on
three sets. With a fifth of the weight in one window it was 75, 70 and 81 %, and R@5 90.9. On the
first of them no sum of a score, a weight and a number of terms lets less than 58 % through at the
same loss: questions of everyday talk share words with any other.
"""

_COVERED = 0.5
"""Share of the query's weight in one window or heading that is enough: headings score low."""

Numbers: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]
_Float = TypeVar("_Float", bound=np.floating[Any])

Says: TypeAlias = Numbers
"""Term counts: a row for each text, a column for each term of the query."""

Rare: TypeAlias = Mapping[str, float]
"""The rarity of each term of the query."""


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """The passages to rank: a row for each, in the order of their efforts and turns.

    `topics` are the rows of their efforts, -1 for ambient ones; `lengths` are characters; `user`:
    the user speaks; `asks`: it only asks; `named`: the query names the speaker; `dated`: or the
    month.
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
        """Return for each passage the sum of `rows` over its window, within its effort."""
        sums = rows.copy()
        for step in range(1, _REACH + 1):
            same_effort = self.topics[step:] == self.topics[:-step]
            near = np.flatnonzero(same_effort & (self.turns[step:] - self.turns[:-step] <= step))
            sums[near] += rows[near + step]
            sums[near + step] += rows[near]
        return sums

    @property
    def counted(self) -> Says:
        """The term counts, halved where a passage only asks."""
        return np.where(self.asks[:, None], _ASKED_TERM, 1.0) * self.says

    @property
    def weights(self) -> Numbers:
        """The weight of each passage by who said it and when."""
        users = np.where(self.says.any(axis=1), _USER, _BESIDE)
        weights = np.where(self.user, users, 1.0) * np.where(self.asks, _ASKS, 1.0)
        return (
            weights * np.where(self.named, _NAMED_SPEAKER, 1.0) * np.where(self.dated, _DATED, 1.0)
        )

    def similarity(self, cosines: Numbers, heads: Numbers) -> "Scores":
        """Score passages by the cosines of passage + window + heading, efforts by best + heading.

        `cosines` of passages are NaN without a vector, and the score is then NaN too; `heads` are
        those of the efforts' headings, 0 without a vector. A window has the mean of its cosines. An
        ambient passage has its window in place of a heading.
        """
        has_vector = ~np.isnan(cosines)
        own = np.where(has_vector, cosines, 0.0)
        near = self.windows(own) / np.maximum(self.windows(has_vector.astype(np.float64)), 1.0)
        of_effort = self.topics >= 0
        heading = near.copy()
        heading[of_effort] = heads[self.topics[of_effort]]
        best = np.full(len(heads), -np.inf)
        rows = of_effort & has_vector
        np.maximum.at(best, self.topics[rows], (own + near)[rows])
        scores = np.where(has_vector, own + near + heading, np.nan)
        return Scores(scores, np.where(np.isinf(best), 0.0, best) + heads)


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """The efforts to rank.

    `headings` counts the terms of id, summary and keywords, `says` those of the passages too.
    """

    names: Sequence[str]
    headings: Says
    says: Says
    lengths: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of passages and of efforts for a query, by row."""

    passages: Numbers
    topics: Numbers

    def suffice(self, passages: Passages, topics: Topics, rare: Numbers, unknown: float) -> bool:
        """Tell whether a text matches a query enough; `unknown` weighs the terms in no text."""
        weight = rare.sum() + unknown
        best = max(values.max(initial=0.0) for values in (self.passages, self.topics))
        windows = passages.windows(passages.says)
        weights = [(np.asarray(says) > 0) @ rare for says in (windows, topics.headings)]
        covered = max(values.max(initial=0.0) for values in weights)
        return bool(best >= _FLOOR * weight or covered >= _COVERED * weight)

    def blended(self, meaning: "Scores") -> "Scores":
        """Return these scores by words blended with those by meaning; see `_blend`."""
        return Scores(_blend(self.passages, meaning.passages), _blend(self.topics, meaning.topics))


def rarity(turns: int, having: int = 1) -> float:
    """Return BM25's inverse document frequency of a term that `having` of `turns` have.

    >>> round(rarity(100, 1), 2), round(rarity(100, 90), 2)
    (4.21, 0.11)
    """
    total = max(turns, 1)
    having = min(having, total)
    return log(1 + (total - having + 0.5) / (having + 0.5))


def relevance(
    says: Says, rare: Numbers, lengths: Numbers, saturation: float = _SATURATION
) -> Numbers:
    """Score texts by BM25, given the rarity of the terms.

    >>> says, rare = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([4.21, 1.0])
    >>> relevance(says, rare, np.array([100.0, 500.0])).round(2).tolist()
    [5.79, 0.0]
    """
    saying = says.any(axis=1)
    # Over the texts that have a term: the others are not read, so their lengths are unknown.
    average = float(lengths[saying].mean() if saying.any() else 1.0) or 1.0
    norm = saturation * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths / average)
    weighted = rare * says * (saturation + 1)
    scores: Numbers = np.divide(
        weighted, says + norm[:, None], out=np.zeros_like(weighted), where=says > 0
    ).sum(axis=1)
    return scores


def score(passages: Passages, topics: Topics, rare: Numbers, terms: int) -> Scores:
    """Score passages by passage + window + effort, and efforts by their best passage.

    An ambient passage counts its window twice, since it has no effort. `terms` is the number of
    terms of the query.
    """
    effort_scores = relevance(topics.says, rare, topics.lengths, _SATURATION_OF_EFFORTS)
    counted = passages.counted
    near = relevance(passages.windows(counted), rare, passages.windows(passages.lengths))
    local = relevance(counted, rare, passages.lengths) + near
    of_effort = passages.topics >= 0
    scores = local + near
    scores[of_effort] = local[of_effort] + effort_scores[passages.topics[of_effort]]
    scores *= (local > 0) * passages.weights
    is_short = 0 < terms <= SHORT[-1] and len(rare)
    highest = max(scores.max(initial=0.0), effort_scores.max(initial=0.0)) if is_short else 0.0
    # Lifts a text that has all terms of a short query above every other one.
    scores += highest * ((passages.says > 0).all(axis=1) & ~passages.asks)
    best = effort_scores.copy()
    np.maximum.at(best, passages.topics[of_effort], scores[of_effort])
    return Scores(scores, best + 2 * highest * (topics.headings > 0).all(axis=1))


_MEANING = 0.5  # weight of the scores by meaning beside those by words; see `_blend`
_SPAN = 1.0  # the smallest span of scores by meaning that is stretched to 0..1; see `_blend`


def _blend(words: Numbers, meaning: Numbers) -> Numbers:
    """Add half the scores by meaning, stretched to 0..1, to the scores by words over their maximum.

    They are stretched since models differ in how far the cosines of unlike texts are from 0; those
    that differ by less than 1 as if the lowest were 1 below the highest. A text without a score by
    meaning, NaN, keeps its score by words.

    >>> _blend(np.array([8.0, 4.0, 0.0]), np.array([0.2, 1.2, np.nan])).tolist()
    [1.0, 1.0, 0.0]
    """
    scores, scored = words / (words.max(initial=0.0) or 1.0), ~np.isnan(meaning)
    if scored.any():
        high = meaning[scored].max()
        low = min(meaning[scored].min(), high - _SPAN)
        scores[scored] += _MEANING * (meaning[scored] - low) / (high - low)
    # Rounded, so that scores that differ only in the order of their sums are ties.
    return np.asarray(scores.round(9))
