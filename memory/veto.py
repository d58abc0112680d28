"""The veto: two items that a comparison by meaning takes for the same, and that are not.

It decides nothing else: that two items say the same is for the similarity to say.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from .search.terms import CJK, IDEOGRAPH, folded, stem

_NOT = re.compile(r"(?i)n['’]t\b|\bno longer\b")
_UNIT = re.compile(r"(?<=\d)(?=[^\W\d_]{1,3}\b)")
"""Where a unit begins that follows its number without a space."""

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")

_TOKEN = re.compile(rf"`[^`\n]+`|[{CJK}]|[^\W{CJK}](?:[^\s{CJK}]*[^\W{CJK}])?|[<>=%?？$€£]")
"""A piece of code, a Chinese character, a word with what is inside it, or a sign that matters."""

_AFTER = re.compile(r"[\w,;] ")
_PARTS = re.compile(r"\w[\w/.@:-]*")

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
    two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty half twice
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


def differ(text: str, other_text: str) -> bool:
    """Tell whether two texts must not be merged, however alike they are.

    They must not if they differ in a number, in what it counts, in a negation, a name or an
    identifier, if only one word is exchanged or added, or if the same words are in another order.

    >>> differ("We chose Redis because it is fast.", "Because it is fast, we chose Redis.")
    False
    >>> differ("The timeout is 30 s.", "The timeout is 30 min.")
    True
    """
    marks, negated, words = claim(text)
    other_marks, other_negated, other_words = claim(other_text)
    if marks != other_marks or negated != other_negated:
        return True
    alone = [*(Counter(words) - Counter(other_words)).elements()]
    others = [*(Counter(other_words) - Counter(words)).elements()]
    if not (alone or others):
        return not _is_one_piece_moved(words, other_words)
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
def claim(text: str) -> tuple[tuple[str, ...], ...]:
    """Return numbers, units and names, what is negated, and all words that claim something.

    >>> claim("The rent is not 900.")
    (('900',), ('900',), ('rent', '900'))
    """
    text = _UNIT.sub(" ", _THOUSANDS.sub("", _NOT.sub(" not", text)))
    names = {one[0] for one in _TOKEN.finditer(text) if _is_name(one)} - {"I"}
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


def _is_name(token: re.Match[str]) -> bool:
    """Tell whether it is code, several parts, or has a capital inside a sentence or itself."""
    piece, text, begin = token[0], token.string, token.start()
    if piece[0] == "`" or (_PARTS.fullmatch(piece) and not {*"_/.@:-"}.isdisjoint(piece)):
        return True
    is_inside = begin > 1 and _AFTER.fullmatch(text, begin - 2, begin) and piece[0].isupper()
    return bool(is_inside) or (piece.isalnum() and any(map(str.isupper, piece[1:])))


def _is_one_piece_moved(order: Sequence[str], reordered: Sequence[str]) -> bool:
    """Tell whether the same words differ in order by at most one piece that stands elsewhere.

    >>> [_is_one_piece_moved("abc", order) for order in ("cab", "cba")]
    [True, False]
    """
    apart = [at for at in range(len(order)) if order[at] != reordered[at]] or [0]
    first, second = (row[apart[0] : apart[-1] + 1] for row in (order, reordered))
    return any((*first[cut:], *first[:cut]) == (*second,) for cut in range(len(first) or 1))
