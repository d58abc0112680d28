"""Rank passages and efforts for a query.

BM25 after Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009),
with the window and the effort of a passage added, as measured on long conversations by
benchmarks/recall.py. The figures at the constants are R@5 / evidence within 1,000 tokens, in %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf, log
from typing import Literal, TypeAlias

from sqlalchemy.util import memoized_property

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
"""Share of the query's weight in one window or heading that is enough: headings score low.

More than it is clear: 90 % of the questions to a conversation are, and 6 % of those to another one.
"""

Match: TypeAlias = Literal["clear", "enough", "little"]
"""How much of a query its results say: most of it, enough to show all of them, or too little."""

Says: TypeAlias = Mapping[str, float]
"""How often a text says which terms of the query; the others are left out."""

Rare: TypeAlias = Mapping[str, float]
"""The rarity of each term of the query."""


@dataclass(frozen=True, eq=False)
class Passages:
    """The passages to rank: a row for each, in the order of their efforts and turns.

    `topics` are the rows of their efforts, -1 for ambient ones; `lengths` are characters; `user`:
    the user speaks; `asks`: it only asks; `named`: the query names the speaker; `dated`: or the
    month.
    """

    topics: Sequence[int]
    turns: Sequence[int]
    says: Sequence[Says]
    lengths: Sequence[float]
    user: Sequence[bool]
    asks: Sequence[bool]
    named: Sequence[bool]
    dated: Sequence[bool]

    @memoized_property
    def near(self) -> list[tuple[int, int]]:
        """The pairs of rows that are in each other's window: close, and of one effort."""
        topics, turns = self.topics, self.turns
        return [
            (row, row + step)
            for step in range(1, _REACH + 1)
            for row, (topic, other, turn, later) in enumerate(
                zip(topics, topics[step:], turns, turns[step:], strict=False)
            )
            if topic == other and later - turn <= step
        ]

    def windows(self, numbers: Sequence[float]) -> list[float]:
        """Return for each passage the sum of `numbers` over its window."""
        sums = [*numbers]
        for row, other in self.near:
            sums[row] += numbers[other]
            sums[other] += numbers[row]
        return sums

    @memoized_property
    def counted(self) -> list[Says]:
        """What they say, halved where a passage only asks."""
        return [
            {term: _ASKED_TERM * count for term, count in says.items()} if asks and says else says
            for says, asks in zip(self.says, self.asks, strict=True)
        ]

    @memoized_property
    def counted_near(self) -> list[Says]:
        """What is said in each passage's window, so counted."""
        counted = self.counted
        nothing: dict[str, float] = {}
        sums = [{**says} if says else nothing for says in counted]
        for row, other in self.near:
            for to, says in ((row, counted[other]), (other, counted[row])):
                if says:
                    sums[to] = said = sums[to] or {}
                    for term, count in says.items():
                        said[term] = said.get(term, 0.0) + count
        return [*sums]

    def weight(self, row: int) -> float:
        """Return the weight of a passage by who said it and when."""
        weight = (_USER if self.says[row] else _BESIDE) if self.user[row] else 1.0
        weight *= _ASKS if self.asks[row] else 1.0
        weight *= _NAMED_SPEAKER if self.named[row] else 1.0
        return weight * (_DATED if self.dated[row] else 1.0)

    def similarity(self, cosines: Sequence[float | None], heads: Sequence[float]) -> "Meaning":
        """Score passages by the cosines of passage + window + heading, efforts by best + heading.

        `cosines` are None without a vector, and the score is then None too; `heads` are those of
        the efforts' headings, 0 without a vector. A window has the mean of its cosines. An ambient
        passage has its window in place of a heading.
        """
        own = [cosine or 0.0 for cosine in cosines]
        sums = self.windows(own)
        counts = self.windows([float(cosine is not None) for cosine in cosines])
        scores: list[float | None] = [None] * len(cosines)
        best: dict[int, float] = {}
        for row, (cosine, topic) in enumerate(zip(cosines, self.topics, strict=True)):
            if cosine is None:
                continue
            near = sums[row] / counts[row]
            scores[row] = cosine + near + (heads[topic] if topic >= 0 else near)
            if cosine + near > best.get(topic, -inf):
                best[topic] = cosine + near
        return Meaning(scores, [best.get(row, 0.0) + head for row, head in enumerate(heads)])


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """The efforts to rank.

    `headings` has the terms of id, summary and keywords, `says` those of the passages too.
    """

    headings: Sequence[Says]
    says: Sequence[Says]
    lengths: Sequence[float]


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """Scores of passages and of efforts by meaning, by row; None for a passage without a vector."""

    passages: Sequence[float | None]
    topics: Sequence[float]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of passages and of efforts for a query, by row."""

    passages: Sequence[float]
    topics: Sequence[float]

    def match(self, passages: Passages, topics: Topics, rare: Rare, unknown: float) -> "Match":
        """Return how much the texts match a query; `unknown` weighs the terms in no text."""
        weight = fsum(rare.values()) + unknown
        best = max((*self.passages, *self.topics), default=0.0)
        windows, headings = (
            max((fsum(map(rare.__getitem__, says)) for says in texts if says), default=0.0)
            for texts in (passages.counted_near, topics.headings)
        )
        if max(windows, headings) >= _COVERED * weight:
            clear = windows > _COVERED * weight or headings >= _COVERED * weight
            return "clear" if clear else "enough"
        return "enough" if best >= _FLOOR * weight else "little"

    def blended(self, meaning: Meaning) -> "Scores":
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
    says: Sequence[Says],
    rare: Rare,
    lengths: Sequence[float],
    saturation: float = _SATURATION,
) -> list[float]:
    """Score texts by BM25, given the rarity of the terms.

    >>> scores = relevance([{"port": 2.0}, {}], {"port": 4.21, "open": 1.0}, [100.0, 500.0])
    >>> [round(score, 2) for score in scores]
    [5.79, 0.0]
    """
    saying = [length for text, length in zip(says, lengths, strict=True) if text]
    # Over the texts that have a term: the others are not read, so their lengths are unknown.
    average = fsum(saying) / len(saying) if saying else 1.0
    factors = {term: weight * (saturation + 1) for term, weight in rare.items()}
    scores = [0.0] * len(says)
    for row, text in enumerate(says):
        if text:
            share = lengths[row] / (average or 1.0)
            norm = saturation * (1 - _LENGTH_SHARE + _LENGTH_SHARE * share)
            terms = [factors[term] * count / (count + norm) for term, count in text.items()]
            scores[row] = fsum(terms)
    return scores


def score(
    passages: Passages, topics: Topics, rare: Rare, terms: int, *, of_date: bool = False
) -> Scores:
    """Score passages by passage + window + effort, and efforts by their best passage.

    An ambient passage counts its window twice, since it has no effort. `terms` is the number of
    terms of the query. With `of_date` only passages of a date that the query names are lifted for
    all terms of a short query, if there are any.
    """
    of_efforts = relevance(topics.says, rare, topics.lengths, _SATURATION_OF_EFFORTS)
    own = relevance(passages.counted, rare, passages.lengths)
    windows = passages.windows(passages.lengths)
    near = relevance(passages.counted_near, rare, windows)
    scores = [0.0] * len(own)
    for row, (local, around) in enumerate(zip(own, near, strict=True)):
        if around:
            topic = passages.topics[row]
            last = of_efforts[topic] if topic >= 0 else around
            scores[row] = (local + around + last) * passages.weight(row)
    is_short = 0 < terms <= SHORT[-1] and rare
    highest = max((*scores, *of_efforts), default=0.0) if is_short else 0.0
    # A heading is a passage of its effort: nobody need have said its words in a turn.
    headings = relevance(topics.headings, rare, [1.0] * len(topics.headings))
    best = [one + 2 * heading for one, heading in zip(of_efforts, headings, strict=True)]
    in_time = passages.dated if of_date and any(passages.dated) else [True] * len(own)
    for row, topic in enumerate(passages.topics):
        # Lifts a text that has all terms of a short query above every other one.
        says_all = len(passages.says[row]) == len(rare) and in_time[row]
        if highest and says_all and not passages.asks[row]:
            scores[row] += highest
        if topic >= 0 and scores[row] > best[topic]:
            best[topic] = scores[row]
    all_said = (len(heading) == len(rare) for heading in topics.headings)
    lifted = [one + 2 * highest * said for one, said in zip(best, all_said, strict=True)]
    return Scores(scores, lifted)


_MEANING = 0.5  # weight of the scores by meaning beside those by words; see `_blend`
_SPAN = 1.0  # the smallest span of scores by meaning that is stretched to 0..1; see `_blend`


def _blend(words: Sequence[float], meaning: Sequence[float | None]) -> list[float]:
    """Add half the scores by meaning, stretched to 0..1, to the scores by words over their maximum.

    They are stretched since models differ in how far the cosines of unlike texts are from 0; those
    that differ by less than 1 as if the lowest were 1 below the highest. A text without a score by
    meaning keeps its score by words.

    >>> _blend([8.0, 4.0, 0.0], [0.2, 1.2, None])
    [1.0, 1.0, 0.0]
    """
    highest = max(words, default=0.0) or 1.0
    scored = [score for score in meaning if score is not None]
    high = max(scored, default=0.0)
    low = min([*scored, high - _SPAN])
    # Rounded, so that scores that differ only in the order of their sums are ties.
    return [
        round(
            said / highest + (0.0 if meant is None else _MEANING * (meant - low) / (high - low)), 9
        )
        for said, meant in zip(words, meaning, strict=True)
    ]
