"""The rows of the index that are searched: the terms of each message, and of each heading.

`said` has a row for each message of a record, `headed` one for each change of an effort. They hold
no text, only which row has which terms, and cannot be corrected, only built again.
"""

import sqlite3
from collections.abc import Sequence

from ..efforts import Effort
from ..manifest import Entry
from ..record import Record
from ..sayings import sayings
from ..terms import terms

MESSAGES = 16
"""The row of a message is the id of its record times this, plus its place."""


def said(record: Record) -> tuple[str, ...]:
    """Return the different terms of each message of a record, as rows hold them."""
    texts = sayings(record.messages)
    rest = texts[MESSAGES - 1 :]
    joined = (*texts[: MESSAGES - 1], "\n".join(rest)) if rest else texts
    return tuple(_terms(text) for text in joined)


def add_said(connection: sqlite3.Connection, record: int, rows: Sequence[str]) -> None:
    """Add the rows of the messages of a record, which is given by its id."""
    values = [(record * MESSAGES + place, row) for place, row in enumerate(rows)]
    connection.executemany("INSERT INTO said(rowid, terms) VALUES (?, ?)", values)


def add_headed(connection: sqlite3.Connection, listed: Sequence[Entry]) -> None:
    """Add a row for each change of an effort."""
    for item in listed:
        effort = item.effort
        row = connection.execute(
            "INSERT INTO headings(effort, branch, turn) VALUES (?, ?, ?)",
            (effort.id, item.branch, effort.turn),
        ).lastrowid
        values = (row, heading(effort))
        connection.execute("INSERT INTO headed(rowid, terms) VALUES (?, ?)", values)


def heading(effort: Effort) -> str:
    """Return the different terms of what is known of an effort, as a row holds them.

    >>> heading(Effort("auth-bug", "concluded", summary="Fixed the login.", keywords=("login",)))
    'auth bug fix login'
    """
    return _terms(" ".join((effort.id, effort.goal, effort.summary, *effort.keywords)))


def _terms(text: str) -> str:
    return " ".join(dict.fromkeys(terms(text)))
