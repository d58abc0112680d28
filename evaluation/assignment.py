"""The best pairing of two sides: the assignment problem."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


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
