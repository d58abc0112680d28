"""The veto: two items that a comparison by meaning takes for the same, and that are not.

It decides nothing else: that two items say the same is for the similarity to say.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from .search.terms import CJK, IDEOGRAPH, folded, stem

_SPELLINGS = (
    (re.compile(r"(?i)\bcan(?:['’]t|not)\b"), "can not"),
    (re.compile(r"(?i)n['’]t\b|\bno longer\b"), " not"),
    (re.compile(r"(?i)\bno more than\b"), "at most"),
    (re.compile(r"['’](?:ll|re|ve|s)\b"), " "),
    (re.compile(r"(?i)\b(?:(?:ha(?:ve|s)|needs?) to|need(?:s|ed)?|should|shall)\b"), "must"),
    (re.compile(r"(?i)\b(?:can|could|(?:is|are|be) allowed to)\b"), "may"),
    (re.compile(r"(?<=\d),(?=\d{3})|\b0(?=\d:)"), ""),
    (re.compile(r"(?<=\d)(?=[^\W\d_]{1,3}\b)"), " "),
)
"""Other spellings of words and numbers, and the one in which they are compared."""

_TOKEN = re.compile(rf"`[^`\n]+`|[{CJK}]|[^\W{CJK}](?:[^\s{CJK}]*[^\W{CJK}])?|[<>=%?？$€£]")
"""A piece of code, a Chinese character, a word with what is inside it, or a sign that matters."""

_NAME = re.compile(r"`[^`\n]+`|(?<=[\w,;] )[A-Z][\w'’-]*|\w+[A-Z]\w*|\w+(?:[_/.@:-]+\w+)+")
"""A piece of code, a capital letter inside a sentence or a word, or a word of several parts."""

_FIRST = re.compile(r"[A-Z]\w*[^\Ws](?!\w)")
"""A first word that may be a name: in the singular."""

_NEGATIONS = frozenset(
    """
    not no never none nobody nothing neither nor without against unless except forbidden prohibited
    nicht kein keine keinen nie niemals
    """.split()  # noqa: SIM905 (reads as a list of words)
)
_NUMBERS = frozenset(
    """
    two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty
    first second third fourth fifth sixth seventh eighth ninth tenth half once twice
    """.split()  # noqa: SIM905 (as above)
)
_SILENT = frozenset(
    """
    the a an this that these those it its there they we i our you your is are was were be been being
    will would do does did get gets has have had of in on at by as for during any all each every
    always ever also now just please instead der die das 的 请
    """.split()  # noqa: SIM905 (as above)
)
"""Words that claim nothing."""

_Claim: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def differ(text: str, other_text: str) -> bool:
    """Tell whether two texts must not be merged, however alike they are.

    They must not if they differ in a number, in what it counts, in a negation, a name or an
    identifier, if only one word is exchanged or added, or if the same words are in another order.

    >>> differ("We chose Redis because it is fast.", "Because it is fast, we chose Redis.")
    False
    >>> differ("The timeout is 30 s.", "The timeout is 30 min.")
    True
    """
    marks, negated, words = _claim(text)
    other_marks, other_negated, other_words = _claim(other_text)
    if marks != other_marks or negated != other_negated:
        return True
    alone = [*(Counter(words) - Counter(other_words)).elements()]
    others = [*(Counter(other_words) - Counter(words)).elements()]
    if not (alone or others):
        return not _one_piece_moved(words, other_words)
    firsts = [match[0] for one in (text, other_text) if (match := _FIRST.match(one))]
    unknown = [one for one in firsts if stem(folded(one)) in (*alone, *others)]
    # One more character may negate a Chinese sentence, and so may the beginning of a word.
    is_opposite = any(one.endswith(two) or two.endswith(one) for one in alone for two in others)
    if len(unknown) > 1 or is_opposite or IDEOGRAPH.search(text + other_text):
        return True
    if max(len(alone), len(others)) > 1:
        return False
    in_place = not (alone and others) or words.index(alone[0]) == other_words.index(others[0])
    rest, other_rest = (
        [word for word in side if word not in (*alone, *others)] for side in (words, other_words)
    )
    return in_place and rest == other_rest


@lru_cache(maxsize=8_000)  # 5 MB: each text is compared with many others
def _claim(text: str) -> _Claim:
    """Return numbers, units and names, what is negated, and all words that claim something."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    names = {*_NAME.findall(text)} - {"I"}
    marks, negated, words = list[str](), list[str](), list[str]()
    counts = negates = False
    for piece in _TOKEN.findall(text):
        word = folded(piece)
        if word in _SILENT and piece not in names:
            continue
        if word in _NEGATIONS:
            negates = True
            negated.append("")
            continue
        term = stem(word) if word.isalpha() else word
        words.append(term)
        is_number = word[0].isdigit() or word in _NUMBERS
        if is_number or counts or piece in names:
            marks.append(term)
        if negates:
            negated[-1] = term
        counts, negates = is_number, False
    return tuple(marks), tuple(sorted(negated)), tuple(words)


def _one_piece_moved(order: Sequence[str], reordered: Sequence[str]) -> bool:
    """Tell whether the same words differ in order by at most one piece that stands elsewhere.

    >>> [_one_piece_moved("abc", order) for order in ("cab", "cba")]
    [True, False]
    """
    apart = [at for at in range(len(order)) if order[at] != reordered[at]]
    first, second = (row[apart[0] : apart[-1] + 1] if apart else () for row in (order, reordered))
    return first == second or any(
        (*first[cut:], *first[:cut]) == (*second,) for cut in range(1, len(first))
    )
