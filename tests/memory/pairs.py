"""Pairs of salient items, labelled by what must become of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ebbtide.memory.compressions import Item, Kind
from ebbtide.memory.salience.merge import Similarity, merged
from ebbtide.memory.settings import Settings

Part: TypeAlias = Literal["rules", "held out"]
"""The pairs that the rules were mended by, and those that were kept aside."""

TABLE: dict[Part, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two items, and whether they are the same, one supersedes the other, or both stay."""

    older: Item
    newer: Item
    expected: Literal["same", "superseded", "both"]

    def __str__(self) -> str:
        """Return the quotes, by which a test is named."""
        return f"{self.older.quote} {self.newer.quote}"


def pairs(part: Part) -> list[Pair]:
    """Return the pairs of one part of the table."""
    return [_pair(row) for row in TABLE[part]]


def is_merged(pair: Pair, similarity: Similarity, threshold: float | None = None) -> bool:
    """Tell whether two items are merged, by the threshold of the settings or another one."""
    least = Settings().similarity_threshold if threshold is None else threshold
    return bool(merged([], [pair.older, pair.newer], similarity, least).merges)


def _pair(row: dict[str, Any]) -> Pair:
    kinds = [Kind(kind) for kind in row.get("kinds", ["fact", "fact"])]
    turns = row.get("turns", [1, 2])
    older, newer = (
        Item(kind, row[name], turn)
        for kind, name, turn in zip(kinds, ("older", "newer"), turns, strict=True)
    )
    return Pair(older, newer, row["expect"])
