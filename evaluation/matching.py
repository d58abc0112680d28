"""Which quotes are which sentences of the ground truth: one to one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rapidfuzz import fuzz

from ..memory.meaning import Embedder
from .assignment import assigned
from .template import folded

THRESHOLD = 0.85
"""The likeness from which on a quote that is not the same may stand for a sentence."""

Table: TypeAlias = list[list[float]]
Alike: TypeAlias = Callable[[Sequence[str], Sequence[str]], Table]
"""Gives the likeness, 0 to 1, of each text of one side with each of the other."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many of the quotes are right, how many of the sentences are found; None if undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


def lexical(ours: Sequence[str], truth: Sequence[str]) -> Table:
    """Return how alike texts are by their letters (rapidfuzz's ratio).

    >>> [[round(value, 2) for value in row] for row in lexical(["port 80"], ["port 81", "a"])]
    [[0.86, 0.0]]
    """
    return [[fuzz.ratio(one, other) / 100 for other in truth] for one in ours]


def by_meaning(embedder: Embedder) -> Alike:
    """Return what tells how alike texts are by what they mean to an embedding model."""

    def alike(ours: Sequence[str], truth: Sequence[str]) -> Table:
        products = embedder.documents(ours) @ embedder.documents(truth).T
        table: Table = products.clip(0, 1).tolist()
        return table

    return alike


def matches(
    quotes: Sequence[str], truth: Sequence[str], alike: Alike = lexical
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (quote, sentence), by position; no quote and no sentence has two.

    Pairs of the same words, white space aside, come first; of the others as many as possible are
    paired that are alike by `THRESHOLD` at least, or of which one is half of the other or more,
    word for word; and among those the likest.

    >>> matches(["The port is 80.", "The port is 80."], ["The port is 80.", "It rains."])
    ((0, 0),)
    """
    sentences = [folded(sentence) for sentence in truth]
    left = {at: folded(quote) for at, quote in enumerate(quotes)}
    open_ = dict(enumerate(sentences))
    same = []
    for at, quote in [*left.items()]:
        found = next((place for place, sentence in open_.items() if sentence == quote), None)
        if found is not None:
            same.append((at, found))
            del left[at], open_[found]
    return tuple(sorted([*same, *_alike(left, open_, alike)]))


def agreement(
    quotes: Sequence[str],
    truth: Sequence[str],
    alike: Alike = lexical,
    free: Sequence[str] = (),
) -> Agreement:
    """Return precision, recall and F1 of quotes against the truth.

    Quotes of sentences that are `free` are left out: they are neither right nor wrong. Precision is
    undefined without other quotes, recall without truth, F1 unless both are defined.

    >>> agreement(["It rains.", "So what?"], ["It rains."])
    Agreement(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    right = {at for at, _ in matches(quotes, truth, alike)}
    others = [quote for at, quote in enumerate(quotes) if at not in right]
    hits, counted = len(right), len(quotes) - len(matches(others, free, alike))
    precision = hits / counted if counted else None
    recall = hits / len(truth) if truth else None
    if precision is None or recall is None:
        return Agreement(precision, recall, None)
    both = precision + recall
    return Agreement(precision, recall, 2 * precision * recall / both if both else 0.0)


def _alike(left: dict[int, str], open_: dict[int, str], alike: Alike) -> list[tuple[int, int]]:
    if not (left and open_):
        return []
    quotes, places = [*left], [*open_]
    table = alike([*left.values()], [*open_.values()])
    many = min(len(quotes), len(places)) + 1
    weights = [
        [
            many + value if value >= THRESHOLD or _within(left[quote], open_[place]) else 0.0
            for place, value in zip(places, row, strict=True)
        ]
        for quote, row in zip(quotes, table, strict=True)
    ]
    return [(quotes[row], places[column]) for row, column in assigned(weights)]


def _within(one: str, other: str) -> bool:
    """Tell whether a text stands in another, and is half of it at least."""
    short, long = sorted((one, other), key=len)
    return short in long and 2 * len(short) >= len(long)
