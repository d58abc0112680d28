"""Embeddings of texts: vectors of length 1, so that their dot products are cosines."""

import logging
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import hypot, isfinite
from operator import mul
from typing import Any, TypeAlias

from langchain_core.embeddings import Embeddings

from ..errors import EmbeddingError, SettingsError
from ..serialised import clean

_log = logging.getLogger("ebbtide.search")

Vector: TypeAlias = "array[float]"
"""A vector of length 1, in float32; zeros for a text without a meaning."""

LONGEST = 4_000
"""Characters of a text that are embedded; a longer text is cut."""

EMBEDDED_TURNS = 200
"""Turns that are embedded after one turn at most, so that a long adopted history delays none."""

_PROBE = "The quick brown fox jumps over the lazy dog."
"""A text whose vector tells the number of dimensions, and one model from another."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryEmbedding:
    """The embedding of a query and the name of the model that made it.

    `floor` is the least cosine of a text that is found without sharing a word with the query.
    """

    vector: Vector
    model: str
    floor: float


class Embedder:
    """An embedding model whose answers are checked.

    Raises `EmbeddingError` if the model raises or returns anything but the vectors asked for.
    """

    def __init__(self, model: Embeddings) -> None:
        """Do not call the model yet: the agent may never search by meaning.

        Raises `SettingsError` without numpy, which compares the vectors.
        """
        if find_spec("numpy") is None:
            raise SettingsError("embeddings need numpy: pip install 'ebbtide[embeddings]'")
        self._model = model
        self._size, self._name = 0, ""

    @property
    def model(self) -> Embeddings:
        """The model itself, for callers that embed without the checks."""
        return self._model

    @property
    def name(self) -> str:
        """The name of the model: the size of its vectors, and what stands out in a fixed one.

        Attributes do not tell: wrappers call different models alike, or have none.
        """
        if not self._name:
            self._probe()
        return self._name

    @property
    def size(self) -> int:
        """The number of dimensions, found by embedding one fixed text once."""
        return self._size or len(self._probe())

    def _probe(self) -> Vector:
        probe = _only(_unit_rows(self._model.embed_documents, [_PROBE]))
        self._size, self._name = len(probe), f"{len(probe)}:{_prominent(probe)}"
        return probe

    def documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector for each text: zeros for a blank text or an answer that is no vector."""
        size = self.size
        filled = [row for row, text in enumerate(texts) if text.strip()]
        vectors = [array("f", bytes(4 * size)) for _ in texts]
        if filled:
            rows = _unit_rows(self._model.embed_documents, [_cut(texts[row]) for row in filled])
            sizes = {len(row) for row in rows}
            if len(rows) != len(filled) or sizes != {size}:
                got = f"{len(rows)} of {', '.join(map(str, sorted(sizes))) or 'nothing'}"
                raise EmbeddingError(f"{len(filled)} vectors of {size} expected, got {got}")
            for row, vector in zip(filled, rows, strict=True):
                vectors[row] = vector
        return vectors

    def meaning(self, query: str, floor: float) -> QueryEmbedding:
        """Return the embedding of a query; see `QueryEmbedding` for `floor`."""
        vector = _only(_unit_rows(lambda text: [self._model.embed_query(text)], _cut(query)))
        if len(vector) != self.size:
            raise EmbeddingError(f"a query of {len(vector)} numbers, a text of {self.size}")
        return QueryEmbedding(vector, self.name, floor)


_PROMINENT = range(3, 13)
"""How many of the largest numbers of a vector tell a model, wherever the next one is far below.

Services return numbers that differ in the fourth digit from call to call: that must not turn a
model into another one, whose vectors are all computed anew.
"""


def _prominent(vector: Vector) -> str:
    """Return the places of the largest numbers of a vector with their signs.

    >>> _prominent(array("f", [0.1, -0.6, 0.5, 0.1, 0.4, 0.0]))
    '-1+2+4'
    """
    order = sorted(range(len(vector)), key=lambda at: -abs(vector[at]))
    sizes = [*(abs(vector[at]) for at in order), 0.0]
    steps = [many for many in _PROMINENT if many < len(order)]
    chosen = max(steps, key=lambda many: sizes[many - 1] - sizes[many], default=len(order))
    return "".join(f"{'-+'[vector[at] > 0]}{at}" for at in sorted(order[:chosen]))


def likeness(vector: Vector, other: Vector) -> float:
    """Return the cosine of two vectors, 0 at least and 1 at most."""
    cosine: float = sum(map(mul, vector, other))
    return min(1.0, max(0.0, cosine))


def _unit_rows(embed: Callable[[Any], Any], text: Any) -> list[Vector]:
    """Call the model; return its vectors with length 1, zeros for one without a finite length."""
    try:
        return [_unit([float(number) for number in row]) for row in embed(text)]
    except Exception as error:  # a model may raise anything, and return anything
        _log.debug("the embedding model failed: %s", error)  # it may quote users and keys
        raise EmbeddingError(type(error).__name__) from error


def _unit(row: Sequence[float]) -> Vector:
    length = hypot(*row)
    sound = isfinite(length) and length > 0
    return array("f", [number / length for number in row] if sound else bytes(4 * len(row)))


def _only(rows: Sequence[Vector]) -> Vector:
    """Return the only row; raise if there is not one, or if it is zeros."""
    if len(rows) != 1 or not any(rows[0]):
        raise EmbeddingError(f"one vector expected, got {len(rows)}, or zeros, or no numbers")
    return rows[0]


def _cut(text: str) -> str:
    return str(clean(text[:LONGEST]))
