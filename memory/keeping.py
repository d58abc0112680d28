"""What is kept of a memory as plain data, and the labels under which a store keeps it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from .attention import Kept, Memory
from .names import safe_name

_PLAIN = "/:@~ "


@lru_cache(maxsize=20_000)
def label(text: str) -> str:
    """Return a short word for any text, another one for each: without dots, never empty.

    >>> label("t1/auth-bug"), label("a.b"), label("")
    ('t1%2fauth-bug', 'a%2eb', '%')
    """
    return safe_name(text).replace(".", "%2e")


def packed(kept: Kept) -> dict[str, Any]:
    """Return what is kept as JSON; texts are quoted, since databases refuse some characters.

    >>> packed(Kept(Memory("t1/a", 60, datetime(2026, 1, 31, tzinfo=UTC), ("axios",))))["created"]
    '2026-01-31T00:00:00+00:00'
    """
    memory = kept.memory
    return {
        "id": quoted(memory.id),
        "base": memory.base,
        "created": memory.created.astimezone(UTC).isoformat(),
        "keywords": [quoted(keyword) for keyword in memory.keywords],
        "accesses": kept.accesses,
        "suppressed": kept.suppressed,
        "withdrawn": kept.withdrawn,
    }


def unpacked(value: Mapping[str, Any]) -> Kept:
    """Return what was packed; raises `ValueError` if a field is missing or of another type."""
    match value:
        case {
            "id": str(memory_id),
            "base": int(base),
            "created": str(created),
            "keywords": list(keywords),
            "accesses": int(accesses),
            "suppressed": bool(suppressed),
            "withdrawn": bool(withdrawn),
        } if all(isinstance(one, str) for one in keywords):
            memory = Memory(
                unquoted(memory_id), base, moment(created), tuple(unquoted(one) for one in keywords)
            )
            return Kept(memory, accesses, suppressed, withdrawn)
    raise ValueError(f"not what is kept of a memory: {value!r}")


def quoted(text: str) -> str:
    """Return a text in ASCII without control characters; `unpacked` reads it back."""
    return quote(text, safe=_PLAIN, errors="surrogatepass")


def unquoted(found: str) -> str:
    """Return the text that was quoted.

    >>> unquoted("t1%2Fauth%20bug")
    't1/auth bug'
    """
    return unquote(found, errors="surrogatepass")


def moment(found: str) -> datetime:
    """Return a moment in UTC; raises `ValueError` if it is none, or is without a time zone."""
    read = datetime.fromisoformat(found)
    if read.tzinfo is None:
        raise ValueError(f"a moment without a time zone: {found!r}")
    try:
        return read.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"a moment beyond all years: {found!r}") from error
