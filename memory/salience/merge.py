"""Merging salient items: revised and done ones leave, and of two that say the same one stays."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from ..compressions import DONE, STRENGTH, Item, Kind
from ..embeddings import Embedder, Vector
from ..errors import EmbeddingError
from ..lru_cache import LruCache
from ..terms import CJK, IDEOGRAPH, folded, stem, words

Matrix: TypeAlias = NDArray[np.float32]
"""Similarity from 0 to 1: a row for each text, a column for each text that it is compared with."""

Similarity: TypeAlias = Callable[[Sequence[str], Sequence[str]], Matrix]
"""A function that compares each of some texts with each of some others."""

_VECTORS = 4_000  # vectors that are cached: 25 MB if they have 1,536 dimensions
_CLAIMS = 8_000  # texts whose claims are cached, 5 MB: each text is compared with many others

MergeReason: TypeAlias = Literal["same", "superseded", "done"]
"""Why an item left: another one says the same, a newer one revises it, or it matters no longer."""

_LOOKED_UP = frozenset({Kind.FACT, Kind.OUTPUT})
"""The kinds that a tool's output may revise: they were looked up, and nobody decided them."""

_OTHER_WORDS = 2
"""The fewest words that each of two texts must have alone to be paraphrases.

Texts that differ by one exchanged or added word only mostly say something different.
"""

_NORMAL_FORMS = (
    (re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE), "can not"),
    (re.compile(r"n['’]t\b|\bno longer\b", re.IGNORECASE), " not"),
    (re.compile(r"['’](?:ll|s|re|ve|d|m)\b", re.IGNORECASE), " "),
    (re.compile(r"\b(?:ha(?:ve|s)|needs?) to\b", re.IGNORECASE), "must"),
    (re.compile(r"(?<=\d),(?=\d{3})|\b0(?=\d)"), ""),
    (re.compile(r"(?<=\d)(?=[^\W\d_]{1,3}\b)"), " "),
)
"""Other spellings of words and numbers, and the one in which they are compared."""

_TOKEN = re.compile(rf"`[^`\n]+`|[{CJK}]|[^\W{CJK}](?:[^\s{CJK}]*[^\W{CJK}])?|[<>=%?？$€£]")
"""A piece of code, a Chinese character, a word with what is inside it, or a sign that matters."""

_SILENT = frozenset(
    """
a an the this that these those it its there we i our you your they which who is are was were be been
being will would shall do does did get gets got so then also now just please of in on at by as all
every each any always ever
der die das den dem des ein eine einen ist sind wird werden wir alle immer 请 的
""".split()  # noqa: SIM905 (reads as a list of words)
)
"""Words that carry no claim, in English, German and Chinese."""

_NOT = frozenset(
    """
not no never none nobody nothing neither nor without nicht kein keine keinen nie
不 没 沒 非 未 无 無 勿 禁
""".split()  # noqa: SIM905 (as above)
)
"""Words that negate the next one."""

_ONES = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905 (as above)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred".split()  # noqa: SIM905 (as above)
_NUMERALS = dict(zip([*_ONES, *_TENS], map(str, [*range(13), *range(20, 101, 10)]), strict=True))
"""Numbers that are written as words."""

_BY = re.compile(r"\bby\b", re.IGNORECASE)
"""A mark of the passive, which says the same with the same words in another order."""

_STOP = re.compile(r"\s*[.!?:]\s|\n")
"""The end of a sentence, after which a capital letter is no sign of a name."""

_log = logging.getLogger("ebbtide.salience")


@dataclass(frozen=True, slots=True)
class Merge:
    """An item that left, in the fields that are logged: `gone` is its key.

    `kept` is the key of the item that superseded it, or what `done_in` returns.
    """

    kept: str
    gone: str
    how: MergeReason
    likeness: float = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """All items in the order of their turns, superseded ones too, and which of them left now."""

    items: tuple[Item, ...]
    merges: tuple[Merge, ...]


def merged(
    old: Sequence[Item],
    new: Sequence[Item],
    similarity: Similarity,
    threshold: float,
    revisions: Iterable[tuple[str, str]] = (),
) -> Merged:
    """Merge new items into old ones; the new are compared with all current ones.

    The `revisions` that a model named, keys of an item and its heir, come first. Then, of two items
    that say the same and are more alike than `threshold`, the shorter stays, or else the older; it
    gets the stronger of their kinds. An item that left is current again if its heir is erased.

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
            fresh[item.key] = max(fresh.get(item.key, item), item, key=_strength)
    pool |= {item.key: item for item in sorted(fresh.values(), key=lambda item: item.turn)}
    pool, merges = _retired(pool, revisions)
    keys, first = [*pool], len(pool) - len(fresh)
    texts = [item.quote for item in pool.values()]
    table = similarity(texts[first:], texts) if fresh else np.zeros((0, len(texts)), np.float32)
    for number, row in enumerate(table, start=first):
        for earlier in np.flatnonzero(row[:number] > threshold).tolist():
            older, newer = pool[keys[earlier]], pool[keys[number]]
            if older.superseded_by or newer.superseded_by or not _same(older.quote, newer.quote):
                continue
            items, merge = _united(older, newer, round(float(row[earlier]), 4))
            pool |= items
            merges.append(merge)
    return Merged(tuple(sorted(pool.values(), key=lambda item: item.turn)), tuple(merges))


def _retired(
    items: Mapping[str, Item], revisions: Iterable[tuple[str, str]]
) -> tuple[dict[str, Item], list[Merge]]:
    """Return the items, with those marked that are done or superseded and may leave, no circles.

    A tool's output lifts nothing that somebody decided. A constraint of the user is never just
    done: in recorded answers a sentence revises each that holds no longer.
    """
    pool, merges = dict(items), list[Merge]()
    for key, heir_key in revisions:
        item, heir, last_heir = pool.get(key), pool.get(heir_key), heir_key
        while (next_heir := pool.get(last_heir)) and next_heir.superseded_by:
            last_heir = next_heir.superseded_by
        if item is None or item.superseded_by or last_heir == key:
            continue
        if heir is not None:
            from_tool = heir.kind is Kind.OUTPUT or heir.speaker == "tool"
            leaves = item.kind in _LOOKED_UP or not from_tool
        else:
            users_constraint = item.kind is Kind.CONSTRAINT and item.speaker == "user"
            leaves = DONE.fullmatch(heir_key) is not None and not users_constraint
        if leaves:
            pool[key] = replace(item, superseded_by=heir_key)
            merges.append(Merge(heir_key, key, "superseded" if heir else "done"))
    return pool, merges


def _united(older: Item, newer: Item, likeness: float) -> tuple[dict[str, Item], Merge]:
    """Return both items, of which the shorter supersedes the other and takes over from it."""
    heir, item = (newer, older) if len(newer.quote) < len(older.quote) else (older, newer)
    kind = max(heir, item, key=_strength).kind
    speaker = "user" if "user" in {heir.speaker, item.speaker} else heir.speaker
    changed = replace(heir, kind=kind, speaker=speaker)
    items = {heir.key: changed, item.key: replace(item, superseded_by=heir.key)}
    return items, Merge(heir.key, item.key, "same", likeness)


def _strength(item: Item) -> int:
    return STRENGTH.index(item.kind)


def obsolete_quotes(before: Sequence[Item], after: Sequence[Item]) -> tuple[str, ...]:
    """Return the quotes revised or done since, without those that a current item says as well.

    >>> old = Item(Kind.FACT, "It is 10 MB.", 1)
    >>> obsolete_quotes([old], [replace(old, superseded_by="done 4-6")])
    ('It is 10 MB.',)
    """
    earlier = {item.key for item in before if item.superseded_by}
    quotes = {item.key: item.quote for item in after}
    retired = [item for item in after if item.superseded_by and item.key not in earlier]
    return tuple(
        item.quote for item in retired if not _same(item.quote, quotes.get(item.superseded_by, ""))
    )


def _same(text: str, other_text: str) -> bool:
    """Tell whether two texts may say the same: no number, unit, negation or identifier differs.

    Their words are the same but one piece of them stands elsewhere, or they are paraphrases.

    >>> _same("Backups run every night at 02:00.", "Every night at 2:00 the backups run.")
    True
    >>> _same("The timeout is 30 s.", "The timeout is 30 min.")
    False
    """
    first, second = _claim(text), _claim(other_text)
    if sorted(first.words) == sorted(second.words):
        passive = bool(_BY.search(text)) != bool(_BY.search(other_text))
        return passive or _one_piece_moved(first.words, second.words)
    # In scripts without spaces one more character may negate the sentence.
    if IDEOGRAPH.search(text + other_text) or first.numbers != second.numbers:
        return False
    if first.negated != second.negated:
        return False
    same_names = first.names <= second.bare and second.names <= first.bare
    differing = min(len(first.bare - second.bare), len(second.bare - first.bare))
    return same_names and differing >= _OTHER_WORDS


@dataclass(frozen=True, slots=True)
class _Claim:
    """The words of a text that claim something: stems, or identifiers as they are written.

    A number is one word with its unit or what it counts; a negated word begins with "¬", which
    `bare` words lack. `negated` tells whether the number of negations is odd.
    """

    words: tuple[str, ...]
    bare: frozenset[str]
    names: frozenset[str]
    numbers: tuple[str, ...]
    negated: bool


@lru_cache(maxsize=_CLAIMS)
def _claim(text: str) -> _Claim:
    """Return the claim of a text.

    >>> _claim("The timeout is not thirty min.").words
    ('timeout', '¬30 min')
    """
    for pattern, normal_form in _NORMAL_FORMS:
        text = pattern.sub(normal_form, text)
    claim: list[str] = []
    names: set[str] = set()
    negation, counting, starts = "", False, True
    for match in _TOKEN.finditer(text):
        piece = match[0]
        low = _NUMERALS.get(folded(piece), folded(piece))
        number, silent = low[0].isdigit(), low in _SILENT and (piece != "A" or starts)
        if silent or low in _NOT:
            counting = False
            negation = negation if silent else "" if negation else "¬"
            continue
        identifier = not low.isalpha() or piece[1:] != piece[1:].lower()
        word = low if number else piece if identifier else stem(low)
        if not number and (identifier or (piece[0].isupper() and not starts)):
            names.add(word)
        if counting and not number:
            claim[-1] += f" {word}"
        else:
            claim.append(negation + word)
        negation, counting = "", not counting and number
        starts = _STOP.match(text, match.end()) is not None
    claim += [negation] if negation else []
    bare = [word.removeprefix("¬") for word in claim]
    numbers = sorted(word for word in claim if word.lstrip("¬")[0:1].isdigit())
    negated = sum(word.startswith("¬") for word in claim) % 2 == 1
    return _Claim(tuple(claim), frozenset(bare), frozenset(names), tuple(numbers), negated)


def _one_piece_moved(order: Sequence[str], reordered: Sequence[str]) -> bool:
    """Tell whether the same words differ in order by at most one piece that stands elsewhere.

    >>> [_one_piece_moved("abc", order) for order in ("cab", "cba")]
    [True, False]
    """
    differing = [at for at in range(len(order)) if order[at] != reordered[at]]
    if not differing:
        return True
    first, second = (row[differing[0] : differing[-1] + 1] for row in (order, reordered))
    return any((*first[cut:], *first[:cut]) == (*second,) for cut in range(1, len(first)))


def embedding_similarity(embedder: Embedder | None, capacity: int = _VECTORS) -> Similarity:
    """Return a comparison by cosines of an embedding model; use one function for all passes.

    It caches the vectors of `capacity` texts. Without a model, or if it fails, letters are
    compared, which is logged once. Opposite vectors count as no more alike than unrelated ones.
    """
    cache: LruCache[Vector] = LruCache(capacity)
    logged = False

    def by_letters(texts: Sequence[str], columns: Sequence[str], reason: object) -> Matrix:
        nonlocal logged
        if not logged:
            _log.warning("salient items are compared by their letters: %s", reason)
        logged = True
        return lexical(texts, columns)

    def similarity(texts: Sequence[str], columns: Sequence[str]) -> Matrix:
        if embedder is None:
            return by_letters(texts, columns, "no embeddings given")
        distinct = [*dict.fromkeys([*texts, *columns])]
        vectors = {text: vector for text in distinct if (vector := cache.get(text)) is not None}
        missing = [text for text in distinct if text not in vectors]
        try:
            vectors |= zip(missing, embedder.documents(missing) if missing else (), strict=True)
        except EmbeddingError as error:
            return by_letters(texts, columns, error)
        for text in distinct:
            cache.put(text, vectors[text])
        if not texts or not columns:
            return np.zeros((len(texts), len(columns)), np.float32)
        first, second = (np.stack([vectors[text] for text in side]) for side in (texts, columns))
        cosines: Matrix = np.einsum("id,jd->ij", first, second)
        return cosines.clip(0, 1)

    return similarity


def lexical(texts: Sequence[str], columns: Sequence[str]) -> Matrix:
    """Return similarities by letters, of all words or of the claims, in any order; the higher one.

    >>> lexical(["All answers must be short."], ["Each answer has to be short."]).tolist()
    [[1.0]]
    """
    table = np.zeros((len(texts), len(columns)), np.float32)
    for form in (words, lambda text: _claim(text).words):
        first, second = (
            [" ".join(sorted(form(text))) or text for text in side] for side in (texts, columns)
        )
        scores = process.cdist(first, second, scorer=fuzz.ratio, dtype=np.float32)
        table = np.maximum(table, scores.reshape(table.shape) / 100)
    return table
