"""Merging salient items: what was revised or is done leaves, what says the same stays once."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from ..embeddings import Embedder, Vector
from ..errors import EmbeddingError
from ..lru_cache import LruCache
from ..salience import DONE, STRENGTH, Item, Kind
from ..terms import CJK, folded, stem, words

Matrix: TypeAlias = NDArray[np.float32]
"""Likeness from 0 to 1: a row for each text, a column for each one that it is compared with."""

Likeness: TypeAlias = Callable[[Sequence[str], Sequence[str]], Matrix]
"""A way to tell how alike each of some texts is to each of others."""

_VECTORS = 4_000
"""The texts whose vectors are kept: 25 MB, if they are of 1,536 numbers."""

_CLAIMS = 8_000
"""Texts of which it is remembered what they tell, 5 MB: each is compared with many others."""

How: TypeAlias = Literal["same", "superseded", "done"]
"""Why an item is gone: another says the same, a newer one otherwise, or it matters no longer."""

_LOOKED_UP = frozenset({Kind.FACT, Kind.OUTPUT})
"""What an output of a tool may revise: it was looked up, and nobody decided it."""

_OTHER_WORDS = 2
"""Words that each of two texts has for itself at least, if they say the same in other words.

One that is exchanged or added, all else being the same, is what look-alikes differ by.
"""

_REWRITTEN = (
    (re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE), "can not"),
    (re.compile(r"n['’]t\b|\bno longer\b", re.IGNORECASE), " not"),
    (re.compile(r"['’](?:ll|s|re|ve|d|m)\b", re.IGNORECASE), " "),
    (re.compile(r"\b(?:ha(?:ve|s)|needs?) to\b", re.IGNORECASE), "must"),
    (re.compile(r"(?<=\d),(?=\d{3})|\b0(?=\d)"), ""),
    (re.compile(r"(?<=\d)(?=[^\W\d_]{1,3}\b)"), " "),
)
"""Forms of the same words and numbers, and the one that they are compared in."""

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
"""Words that tell nothing, in English, German and Chinese."""

_NOT = frozenset(
    """
not no never none nobody nothing neither nor without nicht kein keine keinen nie
不 没 沒 非 未 无 無 勿 禁
""".split()  # noqa: SIM905
)
"""Words that deny the next one."""

_ONES = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety hundred".split()  # noqa: SIM905
_COUNTED = dict(zip([*_ONES, *_TENS], map(str, [*range(13), *range(20, 101, 10)]), strict=True))
"""Numbers that are written as words."""

_BY = re.compile(r"\bby\b", re.IGNORECASE)
"""The passive: where one of two sentences has it, the same words stand in another order."""

_SCRIPT = re.compile(f"[{CJK}]")
"""Scripts without spaces, in which one character more may deny all."""

_STOP = re.compile(r"\s*[.!?:]\s|\n")
"""The end of a sentence, after which a capital letter begins no name."""

_log = logging.getLogger("ebbtide.salience")


@dataclass(frozen=True, slots=True)
class Merge:
    """One item that left and by what: the key of another item, or what `done_in` returns."""

    kept: str
    gone: str
    how: How
    likeness: float = 0


@dataclass(frozen=True, slots=True)
class Merged:
    """All items in the order of their turns, superseded ones too, and what was merged."""

    items: tuple[Item, ...]
    merges: tuple[Merge, ...]


def merged(
    old: Sequence[Item],
    new: Sequence[Item],
    alike: Likeness,
    threshold: float,
    gone: Iterable[tuple[str, str]] = (),
) -> Merged:
    """Merge new items into old ones; only the new are compared, with all that is current.

    First leaves what a model named: `gone` are the key of an item and of what superseded it. Of two
    that say the same and are more alike than `threshold` the shorter stays, or the older, with the
    stronger of their kinds. What left holds again if the turn of the other one is erased.

    >>> old = Item(Kind.FACT, "Max upload is 10 MB.", 1)
    >>> new = Item(Kind.FACT, "Max upload is now 25 MB.", 2)
    >>> made = merged([old], [new], lexical, 0.85, [(old.key, new.key)])
    >>> [(item.quote, item.superseded_by == new.key) for item in made.items]
    [('Max upload is 10 MB.', True), ('Max upload is now 25 MB.', False)]
    """
    pool = {item.key: item for item in old}
    fresh: dict[str, Item] = {}  # of what is quoted twice the stronger kind
    for item in new:
        if item.key not in pool:
            fresh[item.key] = max(fresh.get(item.key, item), item, key=_strength)
    pool |= {item.key: item for item in sorted(fresh.values(), key=lambda item: item.turn)}
    merges = [*_superseded(pool, gone)]
    keys, first = [*pool], len(pool) - len(fresh)
    texts = [item.quote for item in pool.values()]
    table = alike(texts[first:], texts) if fresh else np.zeros((0, len(texts)), np.float32)
    for at, row in enumerate(table, start=first):
        for place in np.flatnonzero(row[:at] > threshold).tolist():
            older, newer = pool[keys[place]], pool[keys[at]]
            if older.superseded_by or newer.superseded_by or not _same(older.quote, newer.quote):
                continue
            merges.append(_united(pool, older, newer, round(float(row[place]), 4)))
    return Merged(tuple(sorted(pool.values(), key=lambda item: item.turn)), tuple(merges))


def _superseded(pool: dict[str, Item], gone: Iterable[tuple[str, str]]) -> Iterator[Merge]:
    """Take out what is done or superseded, as far as it may leave; nothing leads back to itself.

    No output lifts what somebody decided. A constraint of the user's is not just done: in recorded
    answers a sentence revises each that holds no longer.
    """
    for key, by in gone:
        item, heir, end = pool.get(key), pool.get(by), by
        while (later := pool.get(end)) and later.superseded_by:
            end = later.superseded_by
        if item is None or item.superseded_by or not (heir or DONE.fullmatch(by)) or end == key:
            continue
        if heir is None:
            leaves = item.kind is not Kind.CONSTRAINT or item.speaker != "user"
        else:
            printed = heir.kind is Kind.OUTPUT or heir.speaker == "tool"
            leaves = item.kind in _LOOKED_UP or not printed
        if leaves:
            pool[key] = replace(item, superseded_by=by)
            yield Merge(by, key, "superseded" if heir else "done")


def _united(pool: dict[str, Item], older: Item, newer: Item, likeness: float) -> Merge:
    stays, goes = (newer, older) if len(newer.quote) < len(older.quote) else (older, newer)
    kind = max(stays, goes, key=_strength).kind
    speaker = "user" if "user" in {stays.speaker, goes.speaker} else stays.speaker
    pool[stays.key] = replace(stays, kind=kind, speaker=speaker)
    pool[goes.key] = replace(goes, superseded_by=stays.key)
    return Merge(stays.key, goes.key, "same", likeness)


def _strength(item: Item) -> int:
    return STRENGTH.index(item.kind)


def over(before: Sequence[Item], after: Sequence[Item]) -> tuple[str, ...]:
    """Return the quotes that were revised or done since, not those that others say as well.

    >>> old = Item(Kind.FACT, "It is 10 MB.", 1)
    >>> over([old], [replace(old, superseded_by="done 4-6")])
    ('It is 10 MB.',)
    """
    earlier = {item.key for item in before if item.superseded_by}
    heirs = {item.key: item.quote for item in after}
    gone = [item for item in after if item.superseded_by and item.key not in earlier]
    return tuple(
        item.quote for item in gone if not _same(item.quote, heirs.get(item.superseded_by, ""))
    )


def _same(text: str, other: str) -> bool:
    """Tell whether two texts may say the same: nothing that they name or deny differs.

    Their words are the same in an order that may be, or differ while no number, unit, negation or
    identifier does.

    >>> _same("Backups run every night at 02:00.", "Every night at 2:00 the backups run.")
    True
    >>> _same("The timeout is 30 s.", "The timeout is 30 min.")
    False
    """
    first, second = _claim(text), _claim(other)
    if sorted(first.words) == sorted(second.words):
        passive = bool(_BY.search(text)) != bool(_BY.search(other))
        return passive or _moved(first.words, second.words)
    if _SCRIPT.search(text + other) or first.numbers != second.numbers:
        return False
    if first.denied != second.denied:
        return False
    named = first.names <= second.bare and second.names <= first.bare
    differing = min(len(first.bare - second.bare), len(second.bare - first.bare))
    return named and differing >= _OTHER_WORDS


@dataclass(frozen=True, slots=True)
class _Claim:
    """The words of a text that tell something: stems, or identifiers as they are written.

    A number has its unit, or whatever is counted, with it; a denied word begins with "¬", which
    `bare` words lack. `denied` tells whether an odd number of words is.
    """

    words: tuple[str, ...]
    bare: frozenset[str]
    names: frozenset[str]
    numbers: tuple[str, ...]
    denied: bool


@lru_cache(maxsize=_CLAIMS)
def _claim(text: str) -> _Claim:
    for pattern, plain in _REWRITTEN:
        text = pattern.sub(plain, text)
    claimed: list[str] = []
    names: set[str] = set()
    deny, counting, starts = "", False, True
    for match in _TOKEN.finditer(text):
        piece = match[0]
        low = _COUNTED.get(folded(piece), folded(piece))
        number, silent = low[0].isdigit(), low in _SILENT and (piece != "A" or starts)
        if silent or low in _NOT:
            counting = False
            deny = deny if silent else "" if deny else "¬"
            continue
        identifier = not low.isalpha() or piece[1:] != piece[1:].lower()
        word = low if number else piece if identifier else stem(low)
        if not number and (identifier or (piece[0].isupper() and not starts)):
            names.add(word)
        if counting and not number:
            claimed[-1] += f" {word}"
        else:
            claimed.append(deny + word)
        deny, counting = "", not counting and number
        starts = _STOP.match(text, match.end()) is not None
    claimed += [deny] if deny else []
    bare = [word.removeprefix("¬") for word in claimed]
    numbers = sorted(word for word in claimed if word.lstrip("¬")[0:1].isdigit())
    denied = sum(word.startswith("¬") for word in claimed) % 2 == 1
    return _Claim(tuple(claimed), frozenset(bare), frozenset(names), tuple(numbers), denied)


def _moved(row: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether two rows of the same words differ at most by where one piece of them stands.

    >>> _moved(("a", "b", "c"), ("c", "a", "b")), _moved(("a", "b", "c"), ("c", "b", "a"))
    (True, False)
    """
    differ = [at for at in range(len(row)) if row[at] != other[at]]
    if not differ:
        return True
    first, second = (one[differ[0] : differ[-1] + 1] for one in (row, other))
    return any((*first[cut:], *first[:cut]) == (*second,) for cut in range(1, len(first)))


def likeness(embedder: Embedder | None, most: int = _VECTORS) -> Likeness:
    """Return likeness by the cosines of an embedding model; use one for all passes.

    The vectors of up to `most` texts are kept. Where there is no model, or it fails, letters serve,
    which is logged once. What is opposite is as little alike as what is foreign.
    """
    cached: LruCache[Vector] = LruCache(most)
    logged = False

    def by_letters(texts: Sequence[str], others: Sequence[str], why: object) -> Matrix:
        nonlocal logged
        if not logged:
            _log.warning("salient items are compared by their letters: %s", why)
        logged = True
        return lexical(texts, others)

    def alike(texts: Sequence[str], others: Sequence[str]) -> Matrix:
        if embedder is None:
            return by_letters(texts, others, "no embeddings given")
        both = [*dict.fromkeys([*texts, *others])]
        every = {text: vector for text in both if (vector := cached.get(text)) is not None}
        missing = [text for text in both if text not in every]
        try:
            every |= zip(missing, embedder.documents(missing) if missing else (), strict=True)
        except EmbeddingError as error:
            return by_letters(texts, others, error)
        for text in both:
            cached.put(text, every[text])
        if not texts or not others:
            return np.zeros((len(texts), len(others)), np.float32)
        rows, columns = (np.stack([every[text] for text in some]) for some in (texts, others))
        cosines: Matrix = np.einsum("id,jd->ij", rows, columns)
        return cosines.clip(0, 1)

    return alike


def lexical(texts: Sequence[str], others: Sequence[str]) -> Matrix:
    """Return how alike texts are by letters: as they stand or by what they tell, in any order.

    >>> lexical(["All answers must be short."], ["Each answer has to be short."]).tolist()
    [[1.0]]
    """
    table = np.zeros((len(texts), len(others)), np.float32)
    for form in (words, lambda text: _claim(text).words):
        rows, columns = (
            [" ".join(sorted(form(text))) or text for text in some] for some in (texts, others)
        )
        scores = process.cdist(rows, columns, scorer=fuzz.ratio, dtype=np.float32)
        table = np.maximum(table, scores.reshape(table.shape) / 100)
    return table
