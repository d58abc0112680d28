"""Texts are compared by meaning with vectors that are cached, else by letters, said once."""

import logging

import pytest

from ebbtide.memory.salience.merge import embedding_similarity, lexical
from ebbtide.memory.search.embeddings import Embedder
from tests.doubles import Concepts


def test_letters_in_any_order() -> None:
    """The same words are the same in another order, and foreign ones are not."""
    made = lexical(["Backups run at night."], ["At night backups run!", "Paris is closed."])
    ((same, foreign),) = made

    assert same == 1
    assert foreign < 0.5


def test_nothing_is_like_nothing() -> None:
    """Without a text there are no rows, and without one to compare with no columns."""
    similarity = embedding_similarity(Embedder(Concepts()))

    assert lexical([], ["a"]) == similarity([], ["a"]) == []
    assert lexical(["a"], []) == similarity(["a"], []) == [[]]


def test_meaning_is_a_cosine() -> None:
    """Texts that mean the same to the model are as alike as can be, in whatever words."""
    similarity = embedding_similarity(Embedder(Concepts("cat feline")))

    assert similarity(["a cat"], ["a feline", "two dogs"])[0] == pytest.approx([1, 0], abs=1e-6)


def test_what_is_opposite_is_not_alike() -> None:
    """A cosine below zero counts as none."""
    model = Concepts(size=1)
    embedder = Embedder(model)
    model.bend = lambda rows: [[1.0], [-1.0], *rows[2:]][: len(rows)]

    assert embedding_similarity(embedder)(["yes"], ["no"]) == [[0.0]]


def test_only_new_texts_are_embedded() -> None:
    """A text is sent to the model once, however often it is compared."""
    model = Concepts()
    similarity = embedding_similarity(Embedder(model))
    similarity(["cat"], ["cat", "dog"])
    similarity(["bird"], ["cat", "dog", "bird"])

    assert model.documents[1:] == ["cat", "dog", "bird"]


def test_a_failing_model_is_done_without(caplog: pytest.LogCaptureFixture) -> None:
    """While the model fails letters serve, which is logged once; afterwards the model serves."""
    model = Concepts("cat feline")
    similarity = embedding_similarity(Embedder(model))
    model.error = ConnectionError("no route to host")
    with caplog.at_level(logging.WARNING, "ebbtide.salience"):
        failed = [similarity(["the cat"], ["the feline"]) for _ in range(2)]
    model.error = None

    assert failed[0] == lexical(["the cat"], ["the feline"])
    (logged,) = caplog.records
    assert logged.getMessage() == (
        "salient items are compared by their letters: ConnectionError: check the embedding model"
    )
    assert similarity(["the cat"], ["the feline"])[0] == pytest.approx([1])


def test_letters_are_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without embeddings letters serve, which is logged at the first use only."""
    similarity = embedding_similarity(None)
    with caplog.at_level(logging.WARNING, "ebbtide.salience"):
        made = [similarity(["cat"], ["cat"]) for _ in range(2)]

    assert made == [[[1.0]], [[1.0]]]
    assert len(caplog.records) == 1
