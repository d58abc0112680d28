"""Ids of efforts in a text, with other endings and without accents, as search compares words.

The words of a long text are not all stemmed, which takes seconds: only those that begin as the stem
of an id's word does.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..names import hyphenated
from .languages import language, script, stemmed
from .terms import CJK, IDEOGRAPH, folded, spellings, stem

_CACHED = 16  # sets of ids whose stems are cached, in each language of their sessions' texts
_IDS = 20_000  # ids, and words of ids, whose stems are cached: a set changes with each new effort

_KEEPING = frozenset(
    """
catalan czech danish dutch english finnish french german greek hindi hungarian italian lithuanian
norwegian polish portuguese romanian russian spanish swedish tamil
""".split()  # noqa: SIM905 (as a list it has a line for each)
)
"""Languages whose stems begin as their words do."""

_KEPT = 2
"""Letters at the beginning of a word that its stem has too, as `_plain` has them."""

_ARABIC_KEPT = 3
"""First letters of an Arabic stem that stand together in its words."""

_ARABIC_PLACES = [(at, at + kept) for at in range(5) for kept in range(_ARABIC_KEPT + 1)]
"""Where they may stand: up to four letters are prefixes."""

_ALIKE = str.maketrans("أإآؤئىy", "اااويي" + "i")
"""Letters that a stem may have another one for."""

_SQUEEZED = re.compile(r"^([aiou])(?:e|\1)+|^([a-z])\2+")
"""Umlauts as two letters, and doubled letters, of which stems of some languages keep one."""

_ODD = {
    "arabic": re.compile("^أ[آأؤإا]|[a-z]"),
    "dutch": re.compile("^.{,2}ge"),
    "greek": re.compile("^.{,6}$"),
}
"""Words whose stems may begin in another way."""

_SPACE = re.compile(f"(?<=[{CJK}])-|-(?=[{CJK}])")
"""A hyphen for a space beside a character of a script without spaces."""

_BESIDE = re.compile(f"[{CJK}][^\\W{CJK}]|[^\\W{CJK}][{CJK}]")
"""Where such a character stands beside a letter or digit of another script."""


def inflected(names: Collection[str], text: str, preset: str) -> frozenset[str]:
    """Return which of these ids stand in a text, in its language, a preset one or English.

    An id of one word must stand there as it is, accents aside: `apis` is not the effort `api`,
    since single words are often said without any thought of an effort. In scripts without spaces
    people may write one between two words or none.

    >>> sorted(inflected({"auth-bug", "café-menü", "api"}, "The cafe menu, auth bugs, apis", ""))
    ['auth-bug', 'café-menü']
    """
    known, found = frozenset(names), set[str]()
    for line in _as_searched(text) if known else ():
        words = line.split("-")
        distinct = frozenset(words)
        found.update(_of_one_word(known, distinct))
        found.update(_without_spaces(known, line))
        for of in dict.fromkeys(["english", language(text) or "english", preset or "english"]):
            ids = _by_stems(known, of)
            for run in ids.runs(words, distinct):
                found.update(ids.of_run(run))
    return frozenset(found)


def _of_one_word(names: frozenset[str], words: frozenset[str]) -> Iterator[str]:
    spelled = _single(names)
    for word in words & spelled.keys():
        yield from spelled[word]


@lru_cache(maxsize=_CACHED)
def _single(names: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """Return the ids of one word, by their spellings."""
    found = dict[str, list[str]]()
    for name in names:
        for spelled in _as_searched(name) if "-" not in name else ():
            found.setdefault(spelled, []).append(name)
    return found


def _without_spaces(names: frozenset[str], line: str) -> Iterator[str]:
    if IDEOGRAPH.search(line) and (spelled := _spaceless(names)):
        text = _SPACE.sub("", line)
        for plain, same in spelled.items():
            if plain in text and re.search(_whole(plain), text):
                yield from same


@lru_cache(maxsize=_CACHED)
def _spaceless(names: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """Return the ids that people may write with other spaces, by their spellings without any."""
    found = dict[str, list[str]]()
    for name in names:
        for spelled in _as_searched(name) if IDEOGRAPH.search(name) else ():
            if _SPACE.search(spelled) or _BESIDE.search(spelled):
                found.setdefault(_SPACE.sub("", spelled), []).append(name)
    return found


def _whole(plain: str) -> str:
    """Return a pattern for a text at whose ends no word of a script with spaces goes on."""
    word = f"[^\\W{CJK}]"
    before = "" if IDEOGRAPH.match(plain[0]) else f"(?<!{word})"
    after = "" if IDEOGRAPH.match(plain[-1]) else f"(?!{word})"
    return f"{before}{re.escape(plain)}{after}"


@lru_cache(maxsize=_CACHED)
def _by_stems(names: frozenset[str], of: str) -> "_Ids":
    """Return the ids of several words by the stems of these in a language."""
    ids = _Ids(of)
    for name in names:
        for stems in _stems(name, of) if "-" in name else ():
            ids.add(name, stems)
    return ids


@lru_cache(maxsize=_IDS)
def _stems(name: str, of: str) -> Sequence[tuple[str, ...]]:
    """Return the stems of the words of an id, in each spelling."""
    return [tuple(_stem(word, of) for word in one.split("-")) for one in _as_searched(name)]


@dataclass(frozen=True, slots=True)
class _Ids:
    """Ids by the stems of their words, and how the first two of these begin."""

    of: str
    named: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    lengths: dict[str, set[int]] = field(default_factory=dict)
    second: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, stems: tuple[str, ...]) -> None:
        """Add an id; two ids may have the same stems."""
        self.named.setdefault(stems, []).append(name)
        self.lengths.setdefault(stems[0], set()).add(len(stems))
        first, second = (_beginning(stem, self.of) for stem in stems[:2])
        self.second.setdefault(first, set()).add(second)

    def runs(self, words: Sequence[str], distinct: Collection[str]) -> set[tuple[str, ...]]:
        """Return the runs of words that may be ids: their first two words begin as stems do."""
        longest = max(map(len, self.named), default=0)
        return {tuple(words[at : at + longest]) for at in self._places(words, distinct)}

    def _places(self, words: Sequence[str], distinct: Collection[str]) -> Iterator[int]:
        every = set[str]().union(*self.second.values())
        begin = {word: _beginnings(word, self.of) for word in distinct} if every else {}
        following = dict[str, set[str]]()
        for word, beginnings in begin.items():
            known = [self.second[one] for one in beginnings or () if one in self.second]
            if wanted := every if beginnings is None else set[str]().union(*known):
                following[word] = wanted
        for at, word in enumerate(words[1:]):
            if seconds := following.get(words[at]):
                beginnings = begin[word]
                if beginnings is None or not seconds.isdisjoint(beginnings):
                    yield at

    def of_run(self, words: Sequence[str]) -> Iterator[str]:
        """Yield the ids with which a run of words begins."""
        lengths = self.lengths.get(_stem(words[0], self.of), ())
        stems = tuple(_stem(word, self.of) for word in words[: max(lengths, default=0)])
        for length in lengths:
            yield from self.named.get(stems[:length], ())


def _as_searched(text: str) -> Sequence[str]:
    """Return the words of a text, joined by hyphens, as search compares them, in each spelling.

    >>> _as_searched("Café"), _as_searched("Müller GmbH")
    (['cafe'], ['muller-gmbh', 'mueller-gmbh'])
    """
    return [*dict.fromkeys(hyphenated(folded(spelling)) for spelling in spellings(text))]


def _stem(word: str, of: str) -> str:
    """Return the stem of a word in a language.

    >>> _stem("bugs", "english"), _stem("rechnungen", "german")
    ('bug', 'rechnung')
    """
    return stem(stemmed(word, of))


def _beginnings(word: str, of: str) -> Sequence[str] | None:
    """Return how the stem of a word may begin, None if in any way.

    >>> _beginnings("dying", "english"), _beginning(_stem("dying", "english"), "english")
    (('', 'd', 'di'), 'di')
    """
    of = script(word) or of
    if (odd := _ODD.get(of)) and odd.search(word):
        return None
    plain = _plain(word)
    if of == "arabic":
        return [plain[begin:end] for begin, end in _ARABIC_PLACES]
    return ("", plain[:1], plain[:2]) if of in _KEEPING else None


@lru_cache(maxsize=_IDS)
def _beginning(stem: str, of: str) -> str:
    """Return the beginning of a stem that a word must have to have this stem."""
    plain = _plain(stem)
    if script(stem) == "arabic":
        # The last letter may be another one, and verbs have the first one for others.
        plain = plain.rstrip("ء")
        return (plain[1:] if plain.startswith("است") else plain)[:_ARABIC_KEPT]
    kept = 1 if of == "dutch" and len(plain) <= _KEPT else _KEPT  # `oven` has the stem `oof`
    return plain[:kept]


def _plain(word: str) -> str:
    """Return a word without what stems change at the beginning.

    >>> _plain("oetker"), _plain("omen"), _plain("oom")
    ('otker', 'omen', 'om')
    """
    return _SQUEEZED.sub(r"\1\2", word.translate(_ALIKE))
