"""The ids that a text mentions."""

import re

from . import banners
from .names import SLUG_LENGTH, hyphenated
from .quotes import unquoted
from .terms import CJK

_TOKEN = re.compile(f"[{CJK}]|[^-{CJK}]+")
_LONGEST = 16
_READ = 4_000


def mentionable(text: str) -> frozenset[str]:
    """Return the ids that a text would mention: its runs of whole words, joined by hyphens.

    CJK text does not part its words, so that each of its characters counts as one. Runs are of
    16 words at most.

    >>> sorted(mentionable("the auth bug"))
    ['auth', 'auth-bug', 'bug', 'the', 'the-auth', 'the-auth-bug']
    """
    line = hyphenated(text)
    places = [match.span() for match in _TOKEN.finditer(line)]
    return frozenset(
        line[start:end]
        for at, (start, _) in enumerate(places)
        for _, end in places[at : at + _LONGEST]
        if end - start <= SLUG_LENGTH
    )


def own_words(text: str) -> str:
    r"""Return what a text says itself: without banners and quotes of the memory.

    Of a text of more than 8,000 characters that is its beginning and its end.

    >>> own_words("Look:\n--- Concluded effort: a ---\nWhat now?")
    'Look:\n\nWhat now?'
    """
    said = banners.BANNER.sub("", unquoted(text))
    return said if len(said) <= 2 * _READ else f"{said[:_READ]}\n{said[-_READ:]}"
