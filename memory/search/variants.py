"""What a text may say in place of the terms of a query: other forms, compounds apart or joined."""

import re
from collections.abc import Collection
from itertools import pairwise

from .languages import query_stems
from .terms import folded, terms, words

_APART = re.compile(r"[^\w\s]")

_LEAST_JOINED = 6
"""Letters of two words at least that may be written as one."""

_LEAST_HALF = 4
"""Letters of each half of a word that may be written as two."""

_LONGEST = 24
"""Letters of such a word at most."""

_MOST_WORDS = 64
"""Words of a query, from which on it is text that was pasted, and says enough by itself."""


def variants(query: str, language: str = "") -> dict[str, frozenset[str]]:
    """Return by term of a query the terms that a text may have instead, in a language too.

    >>> variants("sind Rechnungen da?")["rechnungen"] - {"sindrechnungen", "rechnungenda"}
    frozenset({'rechnung'})
    >>> variants("which bean bag?")["bag"]
    frozenset({'beanbag'})
    """
    found: dict[str, set[str]] = {}
    said = words(query)
    if len(said) > _MOST_WORDS:
        return {}
    for word, stems in query_stems(query, said, language).items():
        found.setdefault("".join(terms(word)), set()).update(stems)
    for part in _APART.split(folded(query)):
        for pair in pairwise(part.split()):
            joined = "".join(pair)
            if joined.isalpha() and joined.isascii() and _LEAST_JOINED <= len(joined) <= _LONGEST:
                for term in map("".join, map(terms, pair)):
                    found.setdefault(term, set()).update(terms(joined))
    return {term: frozenset(others - {term}) for term, others in found.items() if term}


def halves_of(query: str, absent: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """Return by term, among these of a query, the pairs of terms that its words may be made of.

    A word is cut as it is written: its stem has lost the end of the second half.

    >>> halves_of("a bookcase", ["bookcas"])
    {'bookcas': [('book', 'case')]}
    """
    written = {term: word for word in words(query) for term in terms(word)}
    cut = {term: halves(written.get(term, term)) for term in absent}
    return {term: pairs for term, pairs in cut.items() if pairs}


def halves(word: str) -> list[tuple[str, str]]:
    """Return the pairs of terms that a word may be a compound of.

    >>> ("audio", "book") in halves("audiobook")
    True
    """
    if not (word.isascii() and word.isalpha() and len(word) <= _LONGEST):
        return []
    cuts = range(_LEAST_HALF, len(word) - _LEAST_HALF + 1)
    pairs = (("".join(terms(word[:at])), "".join(terms(word[at:]))) for at in cuts)
    return [pair for pair in pairs if all(pair)]
