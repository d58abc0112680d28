"""How alike texts are: by what they mean to an embedding model, or by their letters."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from .claims import claim
from .errors import EmbeddingError
from .meaning import Embedder, Vector
from .terms import words

Matrix: TypeAlias = NDArray[np.float32]
"""Likeness from 0 to 1: a row for each text, a column for each one that it is compared with."""

Likeness: TypeAlias = Callable[[Sequence[str], Sequence[str]], Matrix]
"""A way to tell how alike each of some texts is to each of others."""

HELD = 4_000
"""The texts whose vectors are kept."""

_log = logging.getLogger("ebbtide.salience")


class _Lettered:
    """Likeness by letters, which says once that it serves for want of embeddings."""

    def __init__(self) -> None:
        """Say nothing yet."""
        self._said = False

    def __call__(self, texts: Sequence[str], others: Sequence[str]) -> Matrix:
        """Return how alike the texts are by their letters; see `lexical`."""
        if not self._said:
            _log.warning("salient items are compared by their letters: no embeddings given")
            self._said = True
        return lexical(texts, others)


class _Meant:
    """Likeness by meaning: cosines of vectors, of which those of known texts are kept.

    From the first `EmbeddingError` of a call on, that call is answered by letters.
    """

    def __init__(self, embedder: Embedder, held: int = HELD) -> None:
        """Keep the vectors of up to `held` texts."""
        self._embedder, self._held = embedder, held
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._lock, self._failed = Lock(), False

    def __call__(self, texts: Sequence[str], others: Sequence[str]) -> Matrix:
        """Return the cosines of texts; what is opposite is as little alike as what is foreign."""
        try:
            vectors = self._of([*dict.fromkeys([*texts, *others])])
        except EmbeddingError as error:
            if not self._failed:
                _log.warning("salient items are compared by their letters: %s", error)
                self._failed = True
            return lexical(texts, others)
        rows, columns = ([vectors[text] for text in some] for some in (texts, others))
        if not rows or not columns:
            return np.zeros((len(rows), len(columns)), np.float32)
        cosines: Matrix = np.einsum("id,jd->ij", np.stack(rows), np.stack(columns))
        return cosines.clip(0, 1)

    def _of(self, texts: Sequence[str]) -> dict[str, Vector]:
        with self._lock:
            found = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in texts if text not in found]
        if missing:
            found.update(zip(missing, self._embedder.documents(missing), strict=True))
        with self._lock:
            for text in texts:
                self._vectors[text] = found[text]
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._held:
                self._vectors.popitem(last=False)
        return found


def by_meaning(embedder: Embedder) -> Likeness:
    """Return likeness by the cosines of an embedding model; use one for all passes."""
    return _Meant(embedder)


def by_letters() -> Likeness:
    """Return `lexical` likeness that logs, at its first use, that there are no embeddings."""
    return _Lettered()


def lexical(texts: Sequence[str], others: Sequence[str]) -> Matrix:
    """Return how alike texts are by letters: as they stand or in what they claim, in any order.

    >>> lexical(["All answers must be short."], ["Each answer has to be short."]).tolist()
    [[1.0]]
    """
    found = np.zeros((len(texts), len(others)), np.float32)
    for form in (_said, _claimed):
        rows, columns = [form(text) for text in texts], [form(text) for text in others]
        scores = process.cdist(rows, columns, scorer=fuzz.ratio, dtype=np.float32)
        found = np.maximum(found, scores.reshape(found.shape) / 100)
    return found


def _said(text: str) -> str:
    return " ".join(sorted(words(text))) or text


def _claimed(text: str) -> str:
    told = claim(text)
    return " ".join(sorted([*told.words, *(value.amount for value in told.values)])) or text
