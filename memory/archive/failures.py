"""What an error of the database means: another process has it, it is damaged, it cannot be used."""

import sqlite3

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ..errors import ArchiveError, ArchiveFormatError, ArchiveLockedError, ArchiveUnavailableError

# Drivers distinguish these errors only by their texts; the user must do something else for each.
_BUSY = ("database is locked", "database table is locked", "lock timeout", "deadlock detected")
_LACKING = ("no such table", "no such column", "has no column named")
_LACKING_STATES = ("42P01", "42703")
"""PostgreSQL's codes for a missing table or column; `_LACKING` has SQLite's messages."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes for a file that is damaged, or where a page could not be read."""


def archive_error(error: DBAPIError | PoolTimeoutError, name: str, timeout: float) -> ArchiveError:
    """Return an error of a database as an `ArchiveError`; `name` is the file of a SQLite one."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    text = str(cause).partition("\nLINE ")[0].strip()  # our statement follows
    if any(busy in text.lower() for busy in _BUSY):
        return ArchiveLockedError(name, timeout)
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF  # without its details
    if code in _DAMAGED:
        return ArchiveFormatError(
            f"{name!r} is damaged, or could not be read, or is no database of Ebbtide ({text}): "
            "`ebbtide archive verify` says which; restore it from a backup, or name another place"
        )
    if text.startswith(_LACKING) or getattr(cause, "sqlstate", "") in _LACKING_STATES:
        return ArchiveFormatError(
            f"{name!r} lacks a part of Ebbtide's tables ({text}): restore it from a backup"
        )
    lost = getattr(error, "connection_invalidated", False)
    return ArchiveUnavailableError(name, text, lost=lost)
