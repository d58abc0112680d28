"""Cutting texts to a number of tokens."""

from .tokens import TokenCounter


def fit(text: str, limit: int, count: TokenCounter) -> int:
    """Return how many leading characters of `text` fit into `limit` tokens, at least one.

    >>> fit("one two three", 2, lambda text: len(text.split()))
    8
    """
    end = min(len(text), limit * 16)
    while end > 1 and (tokens := count(text[:end])) > limit:
        end = max(1, min(end - 1, end * limit // tokens))
    return max(end, 1)


def fit_end(text: str, limit: int, count: TokenCounter) -> int:
    """Return where the end of `text` begins that fits into `limit` tokens, at least one character.

    >>> fit_end("one two three", 2, lambda text: len(text.split()))
    5
    """
    size = min(len(text), limit * 16)
    while size > 1 and (tokens := count(text[-size:])) > limit:
        size = max(1, min(size - 1, size * limit // tokens))
    return len(text) - max(size, 1)


def slices(text: str, limit: int, count: TokenCounter) -> list[str]:
    r"""Cut `text` into slices of at most `limit` tokens, at line ends where that is possible.

    >>> slices("a b\nc d e", 3, lambda text: len(text.split()))
    ['a b\n', 'c d e']
    """
    parts = []
    while text:
        end = fit(text, limit, count)
        if end < len(text):
            end = text.rfind("\n", end // 2, end) + 1 or end
        parts.append(text[:end])
        text = text[end:]
    return parts
