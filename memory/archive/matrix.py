"""Vectors in memory, compared by numpy: the one module that needs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..search.embeddings import Vector

Rows: TypeAlias = NDArray[np.float32]
"""A vector in each row."""

_SMALLER = 8
"""A part is merged into the one before it once it has an eighth of its rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Vectors by row with ascending ids, in parts, so that adding one copies few others."""

    parts: tuple[tuple[NDArray[np.int64], Rows], ...] = ()

    @property
    def last(self) -> int:
        """The highest id, 0 if there is none."""
        return int(self.parts[-1][0][-1]) if self.parts else 0

    @property
    def size(self) -> int:
        """The size of the vectors in bytes."""
        return sum(rows.nbytes for _, rows in self.parts)

    def followed(self, ids: Sequence[int], rows: Rows) -> "Matrix":
        """Return the matrix with further vectors, whose ids are higher."""
        parts = [*self.parts, (np.array(ids, np.int64), rows)]
        while len(parts) > 1 and len(parts[-2][0]) < _SMALLER * len(parts[-1][0]):
            (ids_before, rows_before), (ids_after, rows_after) = parts.pop(-2), parts.pop()
            joined = np.concatenate([ids_before, ids_after])
            parts.append((joined, np.concatenate([rows_before, rows_after])))
        return Matrix(tuple(parts))

    def cosines(self, vector: Vector, digits: int) -> "MatrixCosines":
        """Return the cosine of each row with a vector, to so many digits."""
        ids = [np.zeros(0, np.int64), *(ids for ids, _ in self.parts)]
        # Not by `@`: the threads of BLAS wait for each other when other processes use the cores.
        products = (np.einsum("ij,j->i", rows, np.asarray(vector)) for _, rows in self.parts)
        values = np.concatenate([np.zeros(0, np.float32), *products])
        return MatrixCosines(np.concatenate(ids), values.astype(np.float64).round(digits))

    def with_bytes(self, ids: Sequence[int], vectors: Sequence[bytes]) -> "Matrix":
        """Return the matrix with further vectors, each as its bytes."""
        rows = np.frombuffer(b"".join(vectors), np.float32).reshape(len(ids), -1)
        return self.followed(ids, rows)


@dataclass(frozen=True, slots=True, eq=False)
class MatrixCosines:
    """The cosine of each id with one vector, by ascending ids."""

    ids: NDArray[np.int64]
    values: NDArray[np.float64]

    def best(self, number: int, above: float = -2.0) -> dict[int, float]:
        """Return the highest cosines by their ids, the highest first."""
        rows = np.flatnonzero(self.values > above)
        if len(rows) > number:
            rows = rows[np.argpartition(-self.values[rows], number)[:number]]
        rows = rows[np.lexsort((rows, -self.values[rows]))]
        return dict(zip(self.ids[rows].tolist(), self.values[rows].tolist(), strict=True))

    def of(self, ids: Sequence[int]) -> list[float | None]:
        """Return the cosine of each id, None for one without a vector."""
        if not len(self.ids):
            return [None] * len(ids)
        wanted = np.array(ids, np.int64)
        rows = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        found = zip(self.values[rows].tolist(), (self.ids[rows] == wanted).tolist(), strict=True)
        return [value if known else None for value, known in found]
