"""Which quotes are which sentences of the ground truth: one to one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from rapidfuzz import fuzz

from ..memory.efforts import one_line
from ..memory.embeddings import Embedder


def assigned(weights: Sequence[Sequence[float]]) -> tuple[tuple[int, int], ...]:
    """Return pairs (row, column), each used at most once, whose weights add up to the most.

    Weights are not negative; pairs of weight 0 are left out. Source: H. W. Kuhn, "The Hungarian
    method for the assignment problem" (1955), in the form with potentials and shortest paths, in
    time O(rows² columns).

    >>> assigned([[0.9, 1.0], [0.0, 0.9]])
    ((0, 0), (1, 1))
    """
    table = np.asarray(weights, float)
    if table.size == 0:
        return ()
    if table.shape[0] > table.shape[1]:
        return tuple(sorted((row, column) for column, row in assigned(table.T.tolist())))
    owners = _owners(-table)
    pairs = ((row, column) for column, row in enumerate(owners) if row >= 0)
    return tuple(sorted(pair for pair in pairs if table[pair] > 0))


def _owners(costs: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[int]:
    """Return the row that each column goes to at the least cost, -1 where none; rows <= columns.

    Column 0 of the work arrays stands for "not assigned yet", so columns count from 1 in them.
    """
    rows, columns = costs.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns + 1)
    owner = np.full(columns + 1, -1)
    for row in range(rows):
        owner[0], column = row, 0
        least = np.full(columns + 1, np.inf)
        came, done = np.zeros(columns + 1, int), np.zeros(columns + 1, bool)
        while owner[column] >= 0:
            done[column] = True
            at = owner[column]
            reduced = costs[at] - row_price[at] - column_price[1:]
            better = ~done[1:] & (reduced < least[1:])
            least[1:][better], came[1:][better] = reduced[better], column
            following = int(np.argmin(np.where(done, np.inf, least)[1:])) + 1
            step = least[following]
            row_price[owner[done]] += step
            column_price[done] -= step
            least[~done] -= step
            column = following
        path = [column]
        while path[-1] != 0:
            path.append(int(came[path[-1]]))
        for free, taken in pairwise(path):
            owner[free] = owner[taken]
    return [int(row) for row in owner[1:]]


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
    sentences = [one_line(sentence) for sentence in truth]
    left = {at: one_line(quote) for at, quote in enumerate(quotes)}
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
