"""The veto: two items that a comparison by meaning takes for the same, and that are not.

It decides nothing else: that two items say the same is for the similarity to say.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from .search.terms import CJK, IDEOGRAPH, folded, stem

_SPELLINGS = (
    (re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE), "can not"),
    (re.compile(r"n['’]t\b|\bno longer\b", re.IGNORECASE), " not"),
    (re.compile(r"\bno more than\b", re.IGNORECASE), "at most"),
    (re.compile(r"['’](?:ll|re|ve|s)\b", re.IGNORECASE), " "),
    (
        re.compile(r"\b(?:(?:ha(?:ve|s)|needs?) to|need(?:s|ed)?|should|shall)\b", re.IGNORECASE),
        "must",
    ),
    (re.compile(r"\b(?:can|could|(?:is|are|be) allowed to)\b", re.IGNORECASE), "may"),
    (re.compile(r"(?<=\d),(?=\d{3})|\b0(?=\d:)"), ""),
    (re.compile(r"(?<=\d)(?=[^\W\d_]{1,3}\b)"), " "),
)
"""Other spellings of words and numbers, and the one in which they are compared."""

_TOKEN = re.compile(rf"`[^`\n]+`|[{CJK}]|[^\W{CJK}](?:[^\s{CJK}]*[^\W{CJK}])?|[<>=%?？$€£,;:]")
"""A piece of code, a Chinese character, a word with what is inside it, or a sign that matters."""

_NAME = re.compile(r"`[^`\n]+`|(?<=[\w,;] )[A-Z][\w'’-]*|\w+[A-Z]\w*|\w+(?:[_/.@:-]+\w+)+")
"""A piece of code, a capital letter inside a sentence or a word, or a word of several parts."""

_NEGATION = frozenset(
    """
    not no never none nobody nothing neither nor without against unless except forbidden prohibited
    nicht kein keine keinen nie niemals
    """.split()  # noqa: SIM905 (reads as a list of words)
)

_OPPOSITE = re.compile("dis|un|in|im|il|ir|non|ab")
"""What turns a word into its opposite."""

_CLAUSE_END = frozenset([",", ";", ":", "but", "because", "since"])
"""What ends the part of a sentence that is negated."""

_WORDS = "two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905 (reads as a list of words)
_ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth".split()  # noqa: SIM905 (as above)
_NUMERALS = {
    **{word: str(number) for number, word in enumerate(_WORDS, 2)},
    **{word: f"{number}th" for number, word in enumerate(_ORDINALS, 2)},
    "first": "1th",
    "twenty": "20",
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
}
"""Numbers in words. A "one" is mostly a pronoun; where it is none, the other number is missing."""

_SILENT = frozenset(
    """
    the a an this that these those it its there they we i our you your is are was were be been being
    will would do does did get gets has have had of in on at by as for any all each every always
    ever also now just please must instead der die das 的 请 , ; :
    """.split()  # noqa: SIM905 (reads as a list of words)
)
"""Words that claim nothing."""


def differ(text: str, other_text: str) -> bool:
    """Tell whether two texts must not be merged, however alike they are.

    They must not if a number, what it counts, a name or an identifier of one is missing in the
    other or stands in another order, if something else is negated, if only one word is exchanged or
    added, or if the same words are in another order.

    >>> differ("We chose Redis because it is fast.", "Because it is fast, we chose Redis.")
    False
    >>> differ("The timeout is 30 s.", "The timeout is 30 min.")
    True
    """
    one, other = _claim(text), _claim(other_text)
    missing = not (one.marks <= {*other.words} and other.marks <= {*one.words})
    names = one.names | other.names
    if missing or _order(one, names) != _order(other, names) or _negates_else(one, other):
        return True
    first, second = Counter(one.words), Counter(other.words)
    alone, other_alone = [*(first - second).elements()], [*(second - first).elements()]
    if not (alone or other_alone):
        # "by" tells who does something, whatever comes first.
        return one.passive == other.passive and not _one_piece_moved(one.words, other.words)
    if _are_opposites(alone, other_alone) or _begin_with_names(one, other):
        return True
    if IDEOGRAPH.search(text + other_text):  # where one more character may negate the sentence
        return True
    return _one_word_differs(one.words, other.words, alone, other_alone)


@dataclass(frozen=True, slots=True)
class _Claim:
    """The stems of the words that claim something, and the names among them.

    `marks` are numbers, what they count, and names: the other text must have them. `negated` has
    for each negation the words that it is about, `passive` is whether the text says by whom.
    `first` is the first word, empty if it claims nothing.
    """

    words: tuple[str, ...]
    names: frozenset[str]
    marks: frozenset[str]
    negated: tuple[tuple[str, ...], ...]
    passive: bool
    first: str


@lru_cache(maxsize=8_000)  # 5 MB: each text is compared with many others
def _claim(text: str) -> _Claim:
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    named = {*_NAME.findall(text)} - {"I"}
    pieces = [piece if piece in named else folded(piece) for piece in _TOKEN.findall(text)]
    words = _telling(pieces)
    names = frozenset(_telling([*named])) & {*words}
    counts = [at for at, word in enumerate(words) if word[0].isdigit()]
    counted = {word for at in counts for word in words[at : at + 2]}
    negations = (at for at, piece in enumerate(pieces) if piece in _NEGATION)
    negated = tuple(_telling(_clause(pieces[at + 1 :])) for at in negations)
    first = folded(pieces[0]) if pieces and _telling(pieces[:1]) else ""
    return _Claim(words, names, names | counted, negated, "by" in pieces, first)


def _telling(pieces: Sequence[str]) -> tuple[str, ...]:
    """Return the stems of the words that claim something."""
    silent = _SILENT | _NEGATION
    return tuple(_stem(folded(piece)) for piece in pieces if piece not in silent)


def _stem(word: str) -> str:
    return _NUMERALS.get(word) or (stem(word) if word.isalpha() else word)


def _clause(pieces: Sequence[str]) -> Sequence[str]:
    """Return the words up to the end of the clause."""
    end = next((at for at, piece in enumerate(pieces) if piece in _CLAUSE_END), len(pieces))
    return pieces[:end]


def _order(claim: _Claim, names: frozenset[str]) -> list[str]:
    """Return the numbers and names in the order in which they stand."""
    return [word for word in claim.words if word in names or word[0].isdigit()]


def _negates_else(one: _Claim, other: _Claim) -> bool:
    """Tell whether the texts have unlike negations, or one negates what the other one affirms."""
    if len(one.negated) != len(other.negated):
        return True
    return any(
        clause and clause[0] in second.words and all(clause[0] not in c for c in second.negated)
        for first, second in ((one, other), (other, one))
        for clause in first.negated
    )


def _are_opposites(alone: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether a word of one text is a word of the other one with a prefix that negates it."""
    longer = {word: prefix.end() for word in (*alone, *other) if (prefix := _OPPOSITE.match(word))}
    return any(word[end:] in (*alone, *other) for word, end in longer.items())


def _begin_with_names(one: _Claim, other: _Claim) -> bool:
    """Tell whether both first words are singular and stand in one text only, as names do."""
    first, second = one.first, other.first
    plural = first.endswith("s") and second.endswith("s")
    known = _stem(first) in other.words or _stem(second) in one.words
    return bool(first and second) and not (plural or known)


def _one_word_differs(
    words: Sequence[str], other_words: Sequence[str], alone: Sequence[str], other: Sequence[str]
) -> bool:
    """Tell whether one word was added or exchanged in its place: mostly the one that matters."""
    if max(len(alone), len(other)) > 1:
        return False
    rest, other_rest = (
        [word for word in side if word not in (*alone, *other)] for side in (words, other_words)
    )
    in_place = not (alone and other) or words.index(alone[0]) == other_words.index(other[0])
    return in_place and rest == other_rest


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
