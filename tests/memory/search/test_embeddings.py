"""What texts mean to a model: vectors that are checked, whatever the model returns."""

from collections.abc import Callable
from typing import Any

import pytest

from ebbtide.memory.errors import EmbeddingError
from ebbtide.memory.search.embeddings import LONGEST, Embedder
from tests.doubles import Concepts


def test_blank_texts_are_not_sent() -> None:
    """A text without a word has zeros, and costs nothing."""
    model = Concepts()
    rows = Embedder(model).documents(["", "cat", " \n"])

    assert [any(row) for row in rows] == [False, True, False]
    assert model.documents[1:] == ["cat"]


def test_texts_are_cut_and_clean() -> None:
    """A huge text is cut, and half a surrogate pair is replaced, in a text and in a query."""
    model = Concepts()
    embedder = Embedder(model)
    embedder.documents(["x" * 100_000, "\ud800"])
    embedder.meaning("y\ud800" + "y" * 100_000, 0.3)

    assert [len(text) for text in (model.documents[1], *model.queries)] == [LONGEST, LONGEST]
    assert (model.documents[2], model.queries[0][:2]) == ("\ufffd", "y\ufffd")


@pytest.mark.parametrize(
    "bend",
    [
        lambda rows: rows[1:],
        lambda rows: [rows[0], rows[1][1:]],
        lambda _: None,
        lambda _: [["x"], ["y"]],
    ],
)
def test_a_wrong_answer_is_an_error(bend: Callable[[list[list[float]]], Any]) -> None:
    """Vectors that are too many, too few, too short or no vectors at all are refused."""
    model = Concepts(size=4)
    embedder = Embedder(model)
    assert embedder.size == 4
    model.bend = bend

    with pytest.raises(EmbeddingError):
        embedder.documents(["cat", "dog"])


def test_the_error_says_what_failed() -> None:
    """Whatever the model raises is one kind of error, which names its type."""
    model = Concepts()
    model.error = ConnectionError("no route to host")

    with pytest.raises(EmbeddingError, match=r"^ConnectionError: "):
        _ = Embedder(model).size


def test_a_model_is_known_by_its_vectors() -> None:
    """The same model is known again, under another name too; another one is not."""
    renamed, other, noisy = Concepts(), Concepts(seed=1), Concepts()
    renamed.model_name, other.model_name = "deployment", Concepts().model_name
    noisy.bend = lambda rows: [[number + 1e-4 for number in row] for row in rows]

    names = [Embedder(model).name for model in (Concepts(), renamed, noisy, other)]

    assert names[0] == names[1] == names[2] != names[3]
    assert Embedder(Concepts(size=8)).name not in names
