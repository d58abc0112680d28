"""The ids that a text mentions."""

import re

from . import banners
from .names import SLUG_LENGTH, hyphenated
from .quotes import unquoted
from .terms import CJK

_TOKEN = re.compile(f"[{CJK}]|[^-{CJK}]+")
_QUALIFIED = re.compile(r"(?<![\w.:@%~/-])[\w.:@%~-]{1,160}/[\w-]{1,64}(?![\w/-]|\.\w)")
_LONGEST = 16
_SOUGHT = 8
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


def qualified_words(text: str) -> tuple[str, ...]:
    """Return the words of a text that look like qualified ids, the first eight of them.

    Whether there is such an effort is another question: names of folders look the same.

    >>> qualified_words("as in t1/Auth-Bug, see src/auth/api.ts")
    ('t1/Auth-Bug',)
    """
    return tuple(dict.fromkeys(_QUALIFIED.findall(text)))[:_SOUGHT]


def own_words(text: str) -> str:
    r"""Return what a text says itself: without banners and quotes of the memory.

    Of a text of more than 8,000 characters that is its beginning and its end.

    >>> own_words("Look:\n--- Concluded effort: a ---\nWhat now?")
    'Look:\n\nWhat now?'
    """
    said = banners.BANNER.sub("", unquoted(text))
    return said if len(said) <= 2 * _READ else f"{said[:_READ]}\n{said[-_READ:]}"
