"""The words by which the offline model compares sentences."""

from ..memory.terms import words as listed

_COMMON = (
    "a about after again all also am an and any are as at be been but by can could did do does "
    "doing done for from get had has have he her here him his how i if in into is it its just let "
    "like me more most my no not now of off ok on or our out over please remember say said she "
    "should so some tell than that the their them then there these they this those to too up us "
    "use used using very was we were what when where which who whom why will with would yes you "
    "your decide decided recall know s re ve ll d t m"
)
_STOP = frozenset(_COMMON.split())
_STEM = 4
"""Letters that stay at least when an ending is taken off."""


def words(text: str) -> frozenset[str]:
    """Return the different words of a text, those that all texts have too."""
    return frozenset(listed(text))


def terms(text: str) -> frozenset[str]:
    """Return the words that tell a text from others, without their endings.

    >>> sorted(terms("When do the tokens expire?"))
    ['expir', 'token']
    """
    return frozenset(_stem(word) for word in words(text) - _STOP)


def _stem(word: str) -> str:
    if len(word) > _STEM and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending in ("ing", "ied", "ed", "ion", "ie", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word.removesuffix(ending)
    return word
