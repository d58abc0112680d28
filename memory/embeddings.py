"""Embeddings of texts: vectors of length 1, so that their dot products are cosines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .errors import EmbeddingError
from .messages import clean

Vector: TypeAlias = NDArray[np.float32]
"""One vector of length 1."""

_Vectors: TypeAlias = NDArray[np.float32]
"""A vector in each row, of length 1, or zeros for a text without a meaning."""

LONGEST = 4_000
"""Characters of a text that are embedded; a longer text is cut."""

EMBEDDED_TURNS = 200
"""Turns that are embedded after one turn at most, so that a long adopted history delays none."""

_SMALLER = 8
"""A part is merged into the one before it once it has an eighth of its rows."""

_DIGITS = 5
"""Digits of a cosine that are the same on all databases: float32 sums are exact to six."""

_PROBE = "The quick brown fox jumps over the lazy dog."
"""A text whose vector tells the number of dimensions."""


@runtime_checkable
class Embeddings(Protocol):
    """A model that embeds texts; LangChain's `Embeddings` is one."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a search query."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryEmbedding:
    """The embedding of a query and the name of the model that made it.

    `floor` is the least cosine of a text that is found without sharing a word with the query.
    """

    vector: Vector
    model: str
    floor: float


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Vectors by row with ascending ids, in parts, so that adding one copies few others."""

    parts: tuple[tuple[NDArray[np.int64], _Vectors], ...] = ()

    @property
    def last(self) -> int:
        """The highest id, 0 if there is none."""
        return int(self.parts[-1][0][-1]) if self.parts else 0

    @property
    def size(self) -> int:
        """The size of the vectors in bytes."""
        return sum(rows.nbytes for _, rows in self.parts)

    def followed(self, ids: Sequence[int], rows: _Vectors) -> "Matrix":
        """Return the matrix with further vectors, whose ids are higher."""
        parts = [*self.parts, (np.array(ids, np.int64), rows)]
        while len(parts) > 1 and len(parts[-2][0]) < _SMALLER * len(parts[-1][0]):
            (ids_before, rows_before), (ids_after, rows_after) = parts.pop(-2), parts.pop()
            joined = np.concatenate([ids_before, ids_after])
            parts.append((joined, np.concatenate([rows_before, rows_after])))
        return Matrix(tuple(parts))

    def cosines(self, vector: Vector) -> "Cosines":
        """Return the cosine of each row with a vector."""
        ids = [np.zeros(0, np.int64), *(ids for ids, _ in self.parts)]
        # Not by `@`: the threads of BLAS wait for each other when other processes use the cores.
        products = (np.einsum("ij,j->i", rows, vector) for _, rows in self.parts)
        values = [np.zeros(0, np.float32), *products]
        return Cosines.rounded(np.concatenate(ids), np.concatenate(values))


@dataclass(frozen=True, slots=True, eq=False)
class Cosines:
    """The cosine of each id with one vector, by ascending ids."""

    ids: NDArray[np.int64]
    values: NDArray[np.float32]

    @staticmethod
    def rounded(ids: NDArray[np.int64], values: NDArray[np.float32]) -> "Cosines":
        """Return cosines without the last digits, which differ between databases."""
        return Cosines(ids, values.round(_DIGITS))

    def best(self, number: int, above: float = -2.0) -> list[int]:
        """Return the ids of the highest cosines, the highest first."""
        rows = np.flatnonzero(self.values > above)
        if len(rows) > number:
            rows = rows[np.argpartition(-self.values[rows], number)[:number]]
        best: list[int] = self.ids[rows[np.lexsort((rows, -self.values[rows]))]].tolist()
        return best

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of each id, NaN for one without a vector."""
        if not len(self.ids):
            return np.full(len(ids), np.nan)
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[rows] == ids, self.values[rows], np.nan)


class Embedder:
    """An embedding model whose answers are checked.

    Raises `EmbeddingError` if the model raises or returns anything but the vectors asked for.
    """

    def __init__(self, model: Embeddings) -> None:
        """Do not call the model yet: the agent may never search by meaning."""
        self._model = model
        self._size = 0

    @property
    def model(self) -> Embeddings:
        """The model itself, for callers that embed without the checks."""
        return self._model

    @property
    def name(self) -> str:
        """The model's own name, or that of its class, and the size of its vectors."""
        names = (getattr(self._model, key, None) for key in ("model_name", "model"))
        own_name = next((name for name in names if isinstance(name, str) and name), None)
        return f"{own_name or type(self._model).__qualname__}/{self.size}"

    @property
    def size(self) -> int:
        """The number of dimensions, found by embedding one fixed text once."""
        if not self._size:
            self._size = len(_only(_unit_rows(self._model.embed_documents, [_PROBE])))
        return self._size

    def documents(self, texts: Sequence[str]) -> _Vectors:
        """Return a row for each text: zeros for a blank text or an answer that is no vector."""
        size = self.size
        vectors = np.zeros((len(texts), size), np.float32)
        filled = [row for row, text in enumerate(texts) if text.strip()]
        if filled:
            rows = _unit_rows(self._model.embed_documents, [_cut(texts[row]) for row in filled])
            if rows.shape != (len(filled), size):
                raise EmbeddingError(f"{len(filled)} vectors of {size} expected, got {rows.shape}")
            vectors[filled] = rows
        return vectors

    def meaning(self, query: str, floor: float) -> QueryEmbedding:
        """Return the embedding of a query; see `QueryEmbedding` for `floor`."""
        vector = _only(_unit_rows(lambda text: [self._model.embed_query(text)], _cut(query)))
        if len(vector) != self.size:
            raise EmbeddingError(f"a query of {len(vector)} numbers, a text of {self.size}")
        return QueryEmbedding(vector, self.name, floor)


def _unit_rows(embed: Callable[[Any], Any], text: Any) -> _Vectors:
    """Call the model; return its vectors with length 1, zeros for one without a finite length."""
    try:
        rows = np.asarray(embed(text), np.float64)
    except Exception as error:  # a model may raise anything
        raise EmbeddingError(f"{type(error).__name__}: {str(error)[:200]}") from error
    if rows.ndim != 2:  # noqa: PLR2004 (rows and columns)
        raise EmbeddingError(f"a vector for each text expected, got an array of {rows.shape}")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    sound = np.isfinite(lengths) & (lengths > 0)
    unit: _Vectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=sound)
    return unit.astype(np.float32)


def _only(rows: _Vectors) -> Vector:
    """Return the only row; raise if there is not one, or if it is zeros."""
    if len(rows) != 1 or not rows.any():
        raise EmbeddingError(f"one vector expected, got {rows.shape}, or zeros, or no numbers")
    return np.asarray(rows[0], np.float32)


def _cut(text: str) -> str:
    return str(clean(text[:LONGEST]))
