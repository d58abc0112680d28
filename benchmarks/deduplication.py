"""Merging of quotes: how many correctly, and the time.

    python benchmarks/deduplication.py --data tests/memory/paraphrases.json tests/memory/pairs.json
    --out results --embeddings minilm

For labelled pairs, "merged" is the percentage of pairs with the same meaning that are merged, and
"kept apart" the percentage of the other pairs that are not. "above 0.85" and "alike above 0.85" are
the pairs of either kind that similarity alone would merge. The pairs of the first file were
written before the veto.

Then made-up quotes are merged in five rounds, whose median counts, with the 5th and 95th
percentile: "cold" with empty caches, "again" with all vectors cached, "10 more" with ten new
quotes. "cold CPU s" is the CPU time of all threads, which other programs do not influence.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from time import process_time
from typing import Any

from report import argument_parser, percent, ranged, timed, write

from ebbtide.graph.agent import choose_embedder
from ebbtide.memory.compressions import Item, Kind
from ebbtide.memory.salience.merge import (
    Similarity,
    embedding_similarity,
    lexical,
    merged,
)
from ebbtide.memory.settings import Settings
from ebbtide.memory.veto import claim

_THRESHOLD: float = Settings.model_fields["similarity_threshold"].default
_SIZES = (100, 500, 2_000)
"""Items that are there already."""
_ROUNDS = 5
"""Times that each size is measured; the median counts."""
_MORE = 10
"""New items that are merged into them."""
_OWNERS = "checkout search billing login export import report upload mobile partner".split()  # noqa: SIM905 (reads as a list of words)
_SUBJECTS = "service page queue cache worker database gateway scheduler form archive".split()  # noqa: SIM905 (as above)
_CLAIMS = (
    "must answer within {} ms",
    "is owned by team {}",
    "keeps its data for {} days",
    "was moved to region {} last spring",
    "may use at most {} MB of memory",
    "should retry a failed call {} times before it gives up",
    "runs version {} in production",
    "needs approval from {} people before a change goes live",
)


def is_merged(row: Mapping[str, Any], similarity: Similarity) -> bool:
    """Tell whether the two items of a labelled pair are merged."""
    older, newer = (Item(Kind.FACT, row[name], at) for at, name in enumerate(("older", "newer")))
    return bool(merged([], [older, newer], similarity, _THRESHOLD).merges)


def is_alike(row: Mapping[str, Any], similarity: Similarity) -> bool:
    """Tell whether the bare similarity would merge the two items of a labelled pair."""
    return bool(similarity([row["newer"]], [row["older"]])[0][0] > _THRESHOLD)


def judged(rows: Sequence[Mapping[str, Any]], similarity: Similarity) -> dict[str, Any]:
    """Return how many pairs were merged and kept apart correctly, and what the veto changed."""
    same = [row for row in rows if row["expect"] == "same"]
    different = [row for row in rows if row["expect"] != "same"]
    return {
        "paraphrases": len(same),
        f"above {_THRESHOLD}": percent(is_alike(row, similarity) for row in same),
        "merged": percent(is_merged(row, similarity) for row in same),
        "look-alikes": len(different),
        f"alike above {_THRESHOLD}": percent(is_alike(row, similarity) for row in different),
        "kept apart": percent(not is_merged(row, similarity) for row in different),
    }


def made_up(size: int) -> list[Item]:
    """Return items of different subjects, three to a turn, always the same ones."""
    chance = random.Random(1)
    templates = [
        f"The {owner} {subject} {claim}."
        for owner in _OWNERS
        for subject in _SUBJECTS
        for claim in _CLAIMS
    ]
    chance.shuffle(templates)
    rows = [templates[at % len(templates)].format(chance.randint(2, 900)) for at in range(size)]
    return [Item(Kind.FACT, row, at // 3) for at, row in enumerate(rows)]


def passes(
    items: Sequence[Item], new_items: Sequence[Item], make: Callable[[], Similarity]
) -> list[float]:
    """Return the seconds of a cold pass, its CPU seconds, those of a second pass and ten more."""
    similarity = make()
    claim.cache_clear()
    cpu = process_time()
    cold, _ = timed(lambda: merged([], items, similarity, _THRESHOLD))
    cpu = process_time() - cpu
    repeated, old = timed(lambda: merged([], items, similarity, _THRESHOLD))
    more, _ = timed(lambda: merged(old.items, new_items, similarity, _THRESHOLD))
    return [cold / 1_000, cpu, repeated / 1_000, more / 1_000]


def main() -> None:
    """Judge the pairs by each similarity, then measure the time of merging."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--embeddings", choices=["minilm"])
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES)
    options = parser.parse_args()
    ways: dict[str, Callable[[], Similarity]] = {"letters": lambda: lexical}
    if embedder := choose_embedder(options.embeddings):
        embedder.documents(["The first call of a model takes longer."])
        ways[options.embeddings] = lambda: embedding_similarity(embedder)
    tables = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in options.data}
    judgements = [
        {"likeness": name, "pairs": stem, **judged([*chain(*parts.values())], make())}
        for name, make in ways.items()
        for stem, parts in tables.items()
    ]
    write(options.out, "deduplication", "Deduplication", judgements)
    speeds = [_speed(name, size, ways[name]) for name in ways for size in options.sizes]
    write(options.out, "deduplication_speed", "Seconds to deduplicate", speeds)


def _speed(name: str, size: int, make: Callable[[], Similarity]) -> dict[str, Any]:
    items = made_up(size + _MORE)
    rounds = [passes(items[:size], items[size:], make) for _ in range(_ROUNDS)]
    cells = ("cold s", "cold CPU s", "again s", "10 more s")
    row: dict[str, Any] = {"likeness": name, "items": size}
    for cell, seconds in zip(cells, zip(*rounds, strict=True), strict=True):
        row |= ranged(cell, seconds, 4)
    print(f"{name}: {size:,} items merged", flush=True)
    return row


if __name__ == "__main__":
    main()
