"""What of a session is near to the meaning of a query, and how that joins the search by words."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from ..blending import blended, likeness
from ..meaning import Meaning, cosines
from ..search import Name, Scores, Turn
from .vectors import Headings, fits, heads, nearest, vectors_of

_RECORDS = 100
_HEADINGS = 50


@dataclass(frozen=True, slots=True)
class Nearness:
    """The visible records and efforts that are nearest to a meaning, and the headings of all."""

    meaning: Meaning
    records: Sequence[int]
    efforts: Sequence[str]
    headings: Headings


@dataclass(frozen=True, slots=True)
class Joined:
    """The scores of what matches by its words or is as near as the floor; `near` is the latter."""

    scores: Scores
    near: frozenset[int]


def nearness(
    connection: sqlite3.Connection, seen: Mapping[str, int], meaning: Meaning
) -> Nearness | None:
    """Return what is near to a meaning, None if the vectors are of another model."""
    if not fits(connection, meaning.probe):
        return None
    headings = heads(connection, seen, meaning)
    efforts = nlargest(_HEADINGS, headings.cosines, key=headings.cosines.__getitem__)
    return Nearness(meaning, nearest(connection, seen, meaning, _RECORDS), efforts, headings)


def joined(
    connection: sqlite3.Connection,
    near: Nearness,
    records: Sequence[int],
    turns: Mapping[int, Turn],
    words: Scores,
) -> Joined:
    """Return the scores by words and by meaning as one; `records` are the ids of the turns.

    What shares no word with the query, and whose cosine is below the floor, has none.
    """
    meant, floor = near.meaning.vector, near.meaning.floor
    vectors = vectors_of(connection, records, len(meant))
    known = near.headings.cosines
    named = {name: known[name] for name in words.efforts if name in known}
    both = blended(words, likeness(turns, vectors, named, meant))
    reached = frozenset(
        key for key, cosine in enumerate(cosines(vectors, meant)) if cosine >= floor
    )
    efforts = {name for name, cosine in named.items() if cosine >= floor}
    efforts |= {name for key in reached if (name := turns[key].effort)}
    alike = {key for key, turn in turns.items() if key in reached or turn.effort in efforts}
    return Joined(
        Scores(_kept(both.turns, words.turns, alike), _kept(both.efforts, words.efforts, efforts)),
        reached,
    )


def _kept(
    scores: Mapping[Name, float], words: Mapping[Name, float], alike: set[Name]
) -> dict[Name, float]:
    return {name: at for name, at in scores.items() if words.get(name, 0.0) > 0 or name in alike}
