"""Turn numbers as people and models write them: `3-5,8`."""

import re
from collections.abc import Sequence

from .errors import ToolError

_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:[-–]\s*(\d{1,9})\s*)?")
_LIMIT = 100_000


def numbers(written: str) -> frozenset[int]:
    """Return the turn numbers that a text names; anything else raises a `ToolError`.

    >>> sorted(numbers("3-5, 8"))
    [3, 4, 5, 8]
    """
    found: set[int] = set()
    for part in filter(str.strip, written.split(",")):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _LIMIT - len(found):
            raise ToolError(f'turns {written[:80]!r} cannot be read; write them like "3-5,8"')
        found.update(range(first, last + 1))
    return frozenset(found)


def ranges(turns: Sequence[int]) -> str:
    """Write ascending turn numbers with ranges, the inverse of `numbers`.

    >>> ranges([3, 4, 5, 8])
    '3-5,8'
    """
    runs: list[list[int]] = []
    for turn in turns:
        if runs and turn == runs[-1][-1] + 1:
            runs[-1][1:] = [turn]
        else:
            runs.append([turn])
    return ",".join("-".join(str(end) for end in run) for run in runs)


def turns_named(written: str) -> str:
    """Return turn numbers, written as ranges, with the word before them.

    >>> turns_named("4"), turns_named("4-6,8")
    ('turn 4', 'turns 4-6,8')
    """
    return f"turn{'' if written.isdecimal() else 's'} {written}"


def ranges_between(turns: Sequence[int], last: int) -> str:
    """Write the numbers from 1 to `last` that are not among ascending `turns`.

    >>> ranges_between([3, 7, 8], 9), ranges_between([1, 2], 2)
    ('1-2,4-6,9', '')
    """
    ends = zip([0, *turns], [*turns, last + 1], strict=True)
    gaps = ((before + 1, after - 1) for before, after in ends if after - before > 1)
    return ",".join(span(first, end) for first, end in gaps)


def span(first: int, last: int) -> str:
    """Write all numbers from one to another.

    >>> span(2, 2), span(2, 9)
    ('2', '2-9')
    """
    return str(first) if first == last else f"{first}-{last}"
