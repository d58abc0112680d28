"""The words by which the offline model compares sentences."""

import re

from ..memory.words import words

_COMMON = (
    "a about after again all also am an and any are as at be been but by can could did do does "
    "doing done for from get had has have he her here him his how i if in into is it its just let "
    "like me more most my no not now of off ok on or our out over please remember say said she "
    "should so some tell than that the their them then there these they this those to too up us "
    "use used using very was we were what when where which who whom why will with would yes you "
    "your decide decided recall know s re ve ll d t m"
)
_STOP = frozenset(_COMMON.split())
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_STEM = 4
"""Letters that stay at least when an ending is taken off."""


def terms(text: str) -> frozenset[str]:
    """Return the words that tell a text from others, without their endings.

    >>> sorted(terms("When do the tokens expire?"))
    ['expir', 'token']
    """
    return frozenset(_stem(word) for word in words(text) - _STOP)


def is_cjk(term: str) -> bool:
    """Tell whether a term is a pair of CJK characters, which carries less than a word does."""
    return bool(_CJK.search(term))


def _stem(word: str) -> str:
    if len(word) > _STEM and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ing", "ied", "ed", "ion", "ie", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word.removesuffix(ending)
    return word
