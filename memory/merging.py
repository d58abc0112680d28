"""What a search found in this session and in others, as one list."""

from collections.abc import Sequence
from typing import TypeAlias

from .archive.protocol import Elsewhere, Found

Result: TypeAlias = Found | Elsewhere


def merged(own: Sequence[Found], others: Sequence[Elsewhere], limit: int) -> tuple[Result, ...]:
    """Return the best `limit` results, each list in its own order.

    Scores of two searches cannot be compared, but how many terms of the query a result says can: an
    effort of another session stands right after the last own result that says as many or more. So
    it takes the place of no result of this session but such as say less.
    """
    placed: list[tuple[int, Result]] = [(2 * at, one) for at, one in enumerate(own)]
    placed += [(2 * _place(one, own) - 1, one) for one in others]
    return tuple(one for _, one in sorted(placed, key=lambda pair: pair[0]))[:limit]


def _place(one: Elsewhere, own: Sequence[Found]) -> int:
    """Return before which own result an effort of another session stands."""
    as_good = [at for at, found in enumerate(own) if len(found.said) >= len(one.said)]
    return as_good[-1] + 1 if as_good else 0
