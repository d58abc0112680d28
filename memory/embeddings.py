"""What texts mean to an embedding model: vectors of length 1, whose products are cosines."""

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
"""Vectors by row, of length 1, or of zeros for what has no meaning."""

LONGEST = 4_000
"""The characters of a text that are embedded; what is longer is cut."""

EMBEDDED_TURNS = 200
"""Turns that one turn embeds at its end, so that a long adopted history delays none by much."""

_SMALLER = 8
"""A part of vectors is joined to the one before it once it has an eighth of its size."""

_DIGITS = 5
"""Digits of a cosine that all databases compute alike: sums of float32 are exact to six."""

_PROBE = "The quick brown fox jumps over the lazy dog."
"""Tells how many numbers the model's vectors have."""


@runtime_checkable
class Embeddings(Protocol):
    """A model that makes vectors of texts; LangChain's `Embeddings` is one."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of what is searched for."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryEmbedding:
    """What a query means to a model, and the name by which the model's vectors are known.

    `floor` is the cosine from which on something is found that shares no word with the query.
    """

    vector: Vector
    model: str
    floor: float


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Vectors by row under ascending ids, in parts, so that to add one copies few others."""

    parts: tuple[tuple[NDArray[np.int64], _Vectors], ...] = ()

    @property
    def last(self) -> int:
        """The highest id, 0 if there is none."""
        return int(self.parts[-1][0][-1]) if self.parts else 0

    @property
    def size(self) -> int:
        """How many bytes the vectors take up."""
        return sum(rows.nbytes for _, rows in self.parts)

    def followed(self, ids: Sequence[int], rows: _Vectors) -> "Matrix":
        """Return these vectors with further ones, whose ids are higher."""
        parts = [*self.parts, (np.array(ids, np.int64), rows)]
        while len(parts) > 1 and len(parts[-2][0]) < _SMALLER * len(parts[-1][0]):
            (first, former), (second, last) = parts.pop(-2), parts.pop()
            parts.append((np.concatenate([first, second]), np.concatenate([former, last])))
        return Matrix(tuple(parts))

    def cosines(self, meant: Vector) -> "Cosines":
        """Return the cosine of each with a vector."""
        ids = [np.zeros(0, np.int64), *(ids for ids, _ in self.parts)]
        # Not by `@`, whose threads wait for each other where other processes need the processor.
        products = (np.einsum("ij,j->i", rows, meant) for _, rows in self.parts)
        values = [np.zeros(0, np.float32), *products]
        return Cosines.rounded(np.concatenate(ids), np.concatenate(values))


@dataclass(frozen=True, slots=True, eq=False)
class Cosines:
    """Cosines with a vector, by ascending ids."""

    ids: NDArray[np.int64]
    values: NDArray[np.float32]

    @staticmethod
    def rounded(ids: NDArray[np.int64], values: NDArray[np.float32]) -> "Cosines":
        """Return cosines without the last digits, in which one database differs from another."""
        return Cosines(ids, values.round(_DIGITS))

    def best(self, most: int, above: float = -2.0) -> list[int]:
        """Return the ids of the highest cosines, in their order."""
        rows = np.flatnonzero(self.values > above)
        if len(rows) > most:
            rows = rows[np.argpartition(-self.values[rows], most)[:most]]
        best: list[int] = self.ids[rows[np.lexsort((rows, -self.values[rows]))]].tolist()
        return best

    def of(self, wanted: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of each of these, NaN of one that has none."""
        if not len(self.ids):
            return np.full(len(wanted), np.nan)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[at] == wanted, self.values[at], np.nan)


class Embedder:
    """An embedding model whose vectors are checked, and which is known again by its name.

    Whatever the model raises, and whatever it returns that are no vectors, is an `EmbeddingError`.
    """

    def __init__(self, model: Embeddings) -> None:
        """Ask nothing yet."""
        self._model = model
        self._size = 0

    @property
    def model(self) -> Embeddings:
        """The model, for what needs one of its own."""
        return self._model

    @property
    def name(self) -> str:
        """The model's own name, or that of its class, and the size of its vectors."""
        names = (getattr(self._model, key, None) for key in ("model_name", "model"))
        named = next((name for name in names if isinstance(name, str) and name), None)
        return f"{named or type(self._model).__qualname__}/{self.size}"

    @property
    def size(self) -> int:
        """How many numbers a vector has; found out by one fixed text, once."""
        if not self._size:
            self._size = len(_one(_answer(self._model.embed_documents, [_PROBE])))
        return self._size

    def documents(self, texts: Sequence[str]) -> _Vectors:
        """Return a row for each text: zeros for a blank one, and where the model has no answer."""
        size = self.size
        vectors = np.zeros((len(texts), size), np.float32)
        telling = [at for at, text in enumerate(texts) if text.strip()]
        if telling:
            rows = _answer(self._model.embed_documents, [_cut(texts[at]) for at in telling])
            if rows.shape != (len(telling), size):
                raise EmbeddingError(f"{len(telling)} vectors of {size} expected, got {rows.shape}")
            vectors[telling] = rows
        return vectors

    def meaning(self, query: str, floor: float) -> QueryEmbedding:
        """Return what a query means; see `QueryEmbedding` for `floor`."""
        vector = _one(_answer(lambda text: [self._model.embed_query(text)], _cut(query)))
        if len(vector) != self.size:
            raise EmbeddingError(f"a query of {len(vector)} numbers, a text of {self.size}")
        return QueryEmbedding(vector, self.name, floor)


def _answer(ask: Callable[[Any], Any], asked: Any) -> _Vectors:
    """Return rows of length 1; what has no length, or is no number, becomes zeros."""
    try:
        rows = np.asarray(ask(asked), np.float64)
    except Exception as error:
        raise EmbeddingError(f"{type(error).__name__}: {str(error)[:200]}") from error
    if rows.ndim != 2:  # noqa: PLR2004 (rows and columns)
        raise EmbeddingError(f"a vector for each text expected, got an array of {rows.shape}")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    sound = np.isfinite(lengths) & (lengths > 0)
    unit: _Vectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=sound)
    return unit.astype(np.float32)


def _one(rows: _Vectors) -> Vector:
    if len(rows) != 1 or not rows.any():
        raise EmbeddingError(f"one vector expected, got {rows.shape}, or zeros, or no numbers")
    return np.asarray(rows[0], np.float32)


def _cut(text: str) -> str:
    return str(clean(text[:LONGEST]))
