"""Merging salient items: revised and done ones leave, and of two that say the same one stays."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cachetools import LRUCache
from rapidfuzz import fuzz

from ..compressions import DONE, STRENGTH, Item, Kind, role
from ..errors import EmbeddingError
from ..locks import CACHES
from ..search.embeddings import Embedder, Vector, likeness
from ..search.terms import words
from ..veto import differ

Table: TypeAlias = Sequence[Sequence[float]]
"""Similarity from 0 to 1: a row for each text, a column for each text that it is compared with."""

Similarity: TypeAlias = Callable[[Sequence[str], Sequence[str]], Table]
"""A function that compares each of some texts with each of some others."""

_VECTORS = 4_000  # vectors that are cached: 25 MB if they have 1,536 dimensions

_LOOKED_UP = frozenset({Kind.FACT, Kind.OUTPUT})
"""The kinds that a tool's output may revise: they were looked up, and nobody decided them."""

_log = logging.getLogger("ebbtide.salience")


@dataclass(frozen=True, slots=True)
class Merge:
    """An item that left, in the fields that are logged: `gone` is its key.

    `kept` is the key of the item that superseded it, or `DONE`. `how` is why it left: another one
    says the same, a newer one revises it, or it matters no longer.
    """

    kept: str
    gone: str
    how: Literal["same", "superseded", "done"]
    likeness: float = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """All items in the order of their turns, superseded ones too, and which of them left now."""

    items: tuple[Item, ...]
    merges: tuple[Merge, ...]

    @property
    def obsolete(self) -> tuple[str, ...]:
        """The quotes that were revised or done now, for the next background."""
        gone = {merge.gone for merge in self.merges if merge.how != "same"}
        return tuple(item.quote for item in self.items if item.key in gone)


def merged(
    old: Sequence[Item],
    new: Sequence[Item],
    similarity: Similarity,
    threshold: float,
    revisions: Iterable[tuple[str, str]] = (),
) -> Merged:
    """Merge new items into old ones; the new are compared with all current ones.

    The `revisions` that a model named, keys of an item and its heir, come first. Then, of two items
    that are more alike than `threshold` and not vetoed, the shorter stays, or else the older; it
    gets the stronger of their kinds.

    >>> old = Item(Kind.FACT, "Max upload is 10 MB.", 1)
    >>> new = Item(Kind.FACT, "Max upload is now 25 MB.", 2)
    >>> made = merged([old], [new], lexical, 0.85, [(old.key, new.key)])
    >>> [(item.quote, item.superseded_by == new.key) for item in made.items]
    [('Max upload is 10 MB.', True), ('Max upload is now 25 MB.', False)]
    """
    pool = {item.key: item for item in old}
    fresh: dict[str, Item] = {}
    for item in new:
        if item.key not in pool:  # Of two new items with the same quote the stronger kind counts.
            twins = fresh.get(item.key, item), item
            fresh[item.key] = max(twins, key=lambda one: STRENGTH.index(one.kind))
    pool |= {item.key: item for item in sorted(fresh.values(), key=lambda item: item.turn)}
    merges = _retire(pool, revisions)
    keys, first = [*pool], len(pool) - len(fresh)
    texts = [item.quote for item in pool.values()]
    table = similarity(texts[first:], texts) if fresh else ()
    for number, row in enumerate(table, start=first):
        for earlier, alike in enumerate(row[:number]):
            if alike <= threshold:
                continue
            older, newer = pool[keys[earlier]], pool[keys[number]]
            if not (older.superseded_by or newer.superseded_by or differ(older.quote, newer.quote)):
                merges.append(_unite(pool, older, newer, round(alike, 4)))
    return Merged(tuple(sorted(pool.values(), key=lambda item: item.turn)), tuple(merges))


def _retire(pool: dict[str, Item], revisions: Iterable[tuple[str, str]]) -> list[Merge]:
    """Mark the items that are done or revised, the latter by an item that is current itself.

    A tool's output lifts nothing that somebody decided.
    """
    merges = []
    for key, heir_key in revisions:
        item, heir = pool.get(key), pool.get(heir_key)
        if item is None or item.superseded_by or key == heir_key:
            continue
        if heir_key != DONE:
            if heir is None or heir.superseded_by:
                continue
            if heir.kind is Kind.OUTPUT and item.kind not in _LOOKED_UP:
                continue
        pool[key] = replace(item, superseded_by=heir_key)
        merges.append(Merge(heir_key, key, "superseded" if heir else "done"))
    return merges


def _unite(pool: dict[str, Item], older: Item, newer: Item, likeness: float) -> Merge:
    """Let the shorter of two items supersede the other one and take over from it."""
    heir, item = (newer, older) if len(newer.quote) < len(older.quote) else (older, newer)
    kind = max(heir.kind, item.kind, key=STRENGTH.index)
    speaker = next((s for s in (heir.speaker, item.speaker) if role(s) == "user"), heir.speaker)
    pool[heir.key] = replace(heir, kind=kind, speaker=speaker)
    pool[item.key] = replace(item, superseded_by=heir.key)
    return Merge(heir.key, item.key, "same", likeness)


def embedding_similarity(embedder: Embedder | None) -> Similarity:
    """Return a comparison by cosines of an embedding model; use one function for all passes.

    It caches the vectors of 4,000 texts. Without a model, or if it fails, letters are compared,
    which is logged once. Opposite vectors count as no more alike than unrelated ones.
    """
    cache = LRUCache[str, Vector](_VECTORS)
    logged = False

    def by_letters(texts: Sequence[str], columns: Sequence[str], reason: object) -> Table:
        nonlocal logged
        if not logged:
            _log.warning("salient items are compared by their letters: %s", reason)
        logged = True
        return lexical(texts, columns)

    def similarity(texts: Sequence[str], columns: Sequence[str]) -> Table:
        if embedder is None:
            return by_letters(texts, columns, "no embeddings given")
        distinct = [*dict.fromkeys([*texts, *columns])]
        with CACHES:
            vectors = {text: cache[text] for text in distinct if text in cache}
        missing = [text for text in distinct if text not in vectors]
        try:
            vectors |= zip(missing, embedder.documents(missing) if missing else (), strict=True)
        except EmbeddingError as error:
            return by_letters(texts, columns, error)
        with CACHES:
            cache.update((text, vectors[text]) for text in distinct)
        return [[likeness(vectors[text], vectors[other]) for other in columns] for text in texts]

    return similarity


def lexical(texts: Sequence[str], columns: Sequence[str]) -> Table:
    """Return similarities by the letters of all words in any order.

    >>> lexical(["Answers must be short."], ["Short must answers be!"])
    [[1.0]]
    """
    first, second = (
        [" ".join(sorted(words(text))) or text for text in side] for side in (texts, columns)
    )
    return [[fuzz.ratio(text, other) / 100 for other in second] for text in first]
