"""Damage to the index: whatever shows it becomes one error, upon which the index is built anew."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Any

_UNREADABLE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,  # a table or a column is missing
    sqlite3.SQLITE_CONSTRAINT,  # a row is there that should not be
}


class IndexDamagedError(sqlite3.DatabaseError):
    """The index does not hold what was written into it; it is a cache, so build it anew."""


@contextmanager
def noticed() -> Iterator[None]:
    """Raise `IndexDamagedError` for every error by which SQLite shows that a file is damaged."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message quotes the damaged bytes
        raise IndexDamagedError("its schema is no UTF-8") from error
    except sqlite3.DatabaseError as error:
        if isinstance(error, IndexDamagedError) or not _unreadable(error):
            raise
        raise IndexDamagedError(str(error)) from error


def checked(row: Any, *kinds: type | UnionType) -> Any:
    """Return a row; `IndexDamagedError` if a value is of another kind than was stored there."""
    if row is not None and not all(map(isinstance, row, kinds)):
        raise IndexDamagedError(f"{row!r} cannot be a row of it")
    return row


def _unreadable(error: sqlite3.DatabaseError) -> bool:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:  # the one error that SQLite does not know of: a text is no UTF-8
        return isinstance(error, sqlite3.OperationalError)
    return code & 0xFF in _UNREADABLE
