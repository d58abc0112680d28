"""Pairs of salient items, labelled by what must become of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ebbtide.memory.deduplicating import merged
from ebbtide.memory.likeness import Likeness
from ebbtide.memory.salience import Item, Kind
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


def outcome(pair: Pair, alike: Likeness) -> str:
    """Return what becomes of a pair by the threshold of the settings."""
    threshold = Settings().similarity_threshold
    merges = merged([], [pair.older, pair.newer], alike, threshold).merges
    return merges[0].how if merges else "both"


def _pair(row: dict[str, Any]) -> Pair:
    kinds = [Kind(kind) for kind in row.get("kinds", ["fact", "fact"])]
    turns = row.get("turns", [1, 2])
    older, newer = (
        Item(kind, row[name], turn)
        for kind, name, turn in zip(kinds, ("older", "newer"), turns, strict=True)
    )
    return Pair(older, newer, row["expect"])
