"""Cutting texts to a number of tokens."""

from bisect import bisect_right
from collections.abc import Callable

from .tokens import TokenCounter

_GUESSES = 16
"""Counts by which a length is guessed: 10 were the most that any prose, code or data needed.

Where the density of tokens changes suddenly, guesses come close too slowly, by hundreds of counts.
"""


def fit(text: str, limit: int, count: TokenCounter) -> int:
    """Return how many leading characters of `text` fit into `limit` tokens, at least one.

    >>> fit("one two three", 2, lambda text: len(text.split()))
    8
    """
    return _fitting(min(len(text), limit * 16), limit, lambda size: count(text[:size]))


def fit_end(text: str, limit: int, count: TokenCounter) -> int:
    """Return where the end of `text` begins that fits into `limit` tokens, at least one character.

    >>> fit_end("one two three", 2, lambda text: len(text.split()))
    5
    """
    size = min(len(text), limit * 16)
    return len(text) - _fitting(size, limit, lambda size: count(text[-size:]))


def _fitting(size: int, limit: int, tokens: Callable[[int], int]) -> int:
    """Return a size that fits into `limit` tokens, `size` if it does, at least 1.

    It is guessed from how far the last guess was off; if that does not get there, it is searched.
    """
    for _ in range(_GUESSES):
        if size <= 1 or (found := tokens(size)) <= limit:
            return max(size, 1)
        size = max(1, min(size - 1, size * limit // found))
    return max(1, bisect_right(range(1, size + 1), limit, key=tokens))


def slices(text: str, limit: int, count: TokenCounter) -> list[str]:
    r"""Cut `text` into slices of at most `limit` tokens, at line ends or else between words.

    >>> slices("a b\nc d e", 3, lambda text: len(text.split()))
    ['a b\n', 'c d e']
    """
    parts = []
    while text:
        end = fit(text, limit, count)
        if end < len(text):
            line = text.rfind("\n", end // 2, end) + 1
            end = line or max(text.rfind(" ", end // 2, end + 1), 0) or end
        parts.append(text[:end])
        text = text[end:]
    return parts
