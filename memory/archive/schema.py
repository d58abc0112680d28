"""The tables of the archive: the same ones on SQLite and on PostgreSQL.

`ebbtide_turns` is the truth; what stands in the other tables was in the transaction of its turn.
Ids order: a turn's id begins with its session's, a passage's with its turn's, so that all of a
session lies in one range of ids, and what is searched can be confined to it.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine, UserDefinedType

from ..errors import ArchiveError

VERSION = 2
"""The version of the tables; `migrations.py` leads to it from every older one."""

TURN_BITS, PASSAGE_BITS = 22, 10
"""4 million turns in a session, 1,024 passages in a turn: with 2^31 sessions that is 63 bits.

FTS5 writes ids as differences, which take fewer bytes if they are small.
"""

TERM_BITS = 32
"""A term is as many bits of a number on PostgreSQL; before them stands the user's number."""

_UNSTORABLE = re.compile("[%\0\ud800-\udfff]")
_STORED = re.compile("%([0-9a-f]{4})")
"""What is written otherwise in a name, and how: NUL, surrogates, and the mark itself."""


class Name(sa.TypeDecorator[str]):
    """Any text in a column; what no database stores is written as `%` and four digits."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return the text as it is stored."""
        del dialect
        return None if value is None else _UNSTORABLE.sub(lambda one: f"%{ord(one[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return the text that was stored."""
        del dialect
        if value is None or "%" not in value:
            return value
        return _STORED.sub(lambda one: chr(int(one[1], 16)), value)


class Vector(sa.TypeDecorator[bytes]):
    """A vector as bytes of float32; on PostgreSQL it is stored in pgvector's type."""

    impl = sa.LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Return the type of the database."""
        return dialect.type_descriptor(_PgVector() if _is_postgres(dialect) else sa.LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: sa.Dialect) -> Any:
        """Return the vector as the database takes it: `[0.1,0.2]` on PostgreSQL."""
        if value is None or not _is_postgres(dialect):
            return value
        return f"[{','.join(map(str, np.frombuffer(value, np.float32).tolist()))}]"

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> bytes | None:
        """Return the vector that was stored."""
        if value is None or not _is_postgres(dialect):
            return bytes(value) if value is not None else None
        return np.array(json.loads(value), np.float32).tobytes()


class Listed(sa.TypeDecorator[Sequence[Any]]):
    """Any number of values of a column in one parameter: an array, on SQLite a list in JSON."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        """Take the type of the column."""
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """Return the type of the database."""
        item = sa.BigInteger() if isinstance(self.item, sa.Integer) else sa.Text()
        return dialect.type_descriptor(ARRAY(item) if _is_postgres(dialect) else sa.Text())

    def process_bind_param(self, value: Sequence[Any] | None, dialect: sa.Dialect) -> Any:
        """Return the values as the database takes them."""
        listed = [*(value or ())]
        if isinstance(self.item, Name):
            listed = [self.item.process_bind_param(one, dialect) for one in listed]
        return listed if _is_postgres(dialect) else json.dumps(listed, ensure_ascii=False)


class _PgVector(UserDefinedType[str]):
    """The type of pgvector's extension, of any number of dimensions."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "vector"


def _is_postgres(dialect: sa.Dialect) -> bool:
    return dialect.name == "postgresql"


METADATA = sa.MetaData()
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers the rows of an INTEGER primary key alone."""

# `sweep` counts what was erased since the files were last written without what is free in them;
# `key` is the secret with which the archive seals what the nodes wrote.
version = sa.Table(
    "ebbtide_version",
    METADATA,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("sweep", sa.Integer, nullable=False),
    sa.Column("key", sa.String, nullable=False),
)

users = sa.Table(
    "ebbtide_users",
    METADATA,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("name", Name, nullable=False, unique=True),
    sqlite_autoincrement=True,  # as below
)

# `name` is what other sessions call it by; `turns` counts its records, of all branches; `branch`
# is the one that was committed to last. `reseed` is set from when an erasure took the checkpoints
# of the thread until they are written anew. `rewritten` counts how often records lost something,
# or older ones got vectors: while it stays, what was read of one is as it was.
sessions = sa.Table(
    "ebbtide_sessions",
    METADATA,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("owner", _ID, nullable=False),
    sa.Column("name", Name, nullable=False),
    sa.Column("thread", Name, nullable=False),
    sa.Column("namespace", Name, nullable=False),
    sa.Column("turns", sa.Integer, nullable=False),
    sa.Column("branch", sa.String, nullable=False),
    sa.Column("reseed", sa.Text),
    sa.Column("rewritten", sa.Integer, nullable=False, default=0),
    sa.UniqueConstraint("owner", "name"),
    sqlite_autoincrement=True,  # the id of a deleted session is never used again
)

# `ancestors` is the lineage that a branch begins with, the nearest first: it never changes.
branches = sa.Table(
    "ebbtide_branches",
    METADATA,
    sa.Column("session", _ID, primary_key=True),
    sa.Column("branch", sa.String, primary_key=True),
    sa.Column("ancestors", sa.Text, nullable=False),
    sa.Column("first", sa.Integer, nullable=False),
    sa.Column("last", sa.Integer, nullable=False),
    sa.Column("at", sa.String, nullable=False),
    sqlite_with_rowid=False,
)

# `ambient` and `efforts_seen` count what a state sees whose tip this turn is; `last` is the mark of
# the turn's last message, `size` the length of its messages, `content` the digest of what is left
# of a turn that lost a copy of something erased, `state` the memory's state after it.
turns = sa.Table(
    "ebbtide_turns",
    METADATA,
    sa.Column("id", _ID, primary_key=True, autoincrement=False),
    sa.Column("session", _ID, nullable=False),
    sa.Column("branch", sa.String, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("parent", sa.String, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("at", sa.String, nullable=False),
    sa.Column("ambient", sa.Integer, nullable=False),
    sa.Column("efforts_seen", sa.Integer, nullable=False),
    sa.Column("last", sa.String, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("content", sa.String),
    sa.Column("efforts", sa.Text, nullable=False),
    sa.Column("passages", sa.LargeBinary),
    sa.Column("events", sa.LargeBinary, nullable=False),
    sa.Column("state", sa.LargeBinary),
    sa.Column("messages", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("session", "branch", "turn"),
    sa.Index("ebbtide_turns_last", "session", "last"),
)

# Which turns belong to an effort; ambient ones belong to one that cannot be.
members = sa.Table(
    "ebbtide_members",
    METADATA,
    sa.Column("session", _ID, primary_key=True),
    sa.Column("effort", Name, primary_key=True),
    sa.Column("branch", sa.String, primary_key=True),
    sa.Column("turn", sa.Integer, primary_key=True),
    sqlite_with_rowid=False,
)

# The manifest: how each change of its status left an effort. Its id is that of a passage.
changes = sa.Table(
    "ebbtide_changes",
    METADATA,
    sa.Column("id", _ID, primary_key=True, autoincrement=False),
    sa.Column("owner", _ID, nullable=False),
    sa.Column("session", _ID, nullable=False),
    sa.Column("effort", Name, nullable=False),
    sa.Column("branch", sa.String, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("at", sa.String, nullable=False),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Index("ebbtide_changes_effort", "session", "effort", "branch", "turn"),
    sa.Index("ebbtide_changes_turn", "session", "branch", "turn"),
    sa.Index("ebbtide_changes_at", "owner", "status", "at"),
)

compressions = sa.Table(
    "ebbtide_compressions",
    METADATA,
    sa.Column("session", _ID, primary_key=True),
    sa.Column("effort", Name, primary_key=True),
    sa.Column("branch", sa.String, primary_key=True),
    sa.Column("turn", sa.Integer, primary_key=True),
    sa.Column("made", sa.LargeBinary, nullable=False),
)

extractions = sa.Table(
    "ebbtide_extractions",
    METADATA,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("session", _ID, nullable=False, index=True),
    sa.Column("entry", sa.LargeBinary, nullable=False),
)

# Vectors of turns, and of what changes of efforts left to be known, by the ids of these.
vectors, heading_vectors = (
    sa.Table(
        f"ebbtide_{name}",
        METADATA,
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("session", _ID, nullable=False),
        sa.Column("model", Name, nullable=False),
        sa.Column("vector", Vector, nullable=False),
        sa.Index(f"ebbtide_{name}_session", "session", "model", "id"),
    )
    for name in ("vectors", "heading_vectors")
)

memories = sa.Table(
    "ebbtide_memories",
    METADATA,
    sa.Column("owner", _ID, primary_key=True),
    sa.Column("memory", Name, primary_key=True),
    sa.Column("session", _ID, index=True),
    sa.Column("base", sa.Integer, nullable=False),
    sa.Column("created", sa.String, nullable=False),
    sa.Column("keywords", sa.Text, nullable=False),
    sa.Column("accesses", sa.Integer, nullable=False),
    sa.Column("suppressed", sa.Boolean, nullable=False),
    sa.Column("withdrawn", sa.Boolean, nullable=False),
    sa.Column("attended", sa.Boolean, nullable=False),
)

# Without the list of pending entries, which takes megabytes and which each search reads whole.
_INVERTED: Any = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": False}}

# The terms of each passage of a turn, and of each change of an effort. SQLite has them as FTS5
# tables, which hold no text, only which row has which terms; here they are as on PostgreSQL, where
# a term is a number, half as long as its text.
said, headed = (
    sa.Table(
        f"ebbtide_{name}",
        METADATA,
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("terms", ARRAY(sa.BigInteger), nullable=False),
        sa.Index(f"ebbtide_{name}_terms", "terms", **_INVERTED),
    )
    for name in ("said", "headed")
)

OF_SESSIONS = (turns, branches, members, changes, compressions, extractions, memories)
"""The tables whose rows belong to a session, by their column of that name; vectors too."""


def first_turn(session: int) -> int:
    """Return the id before the first turn of a session.

    >>> first_turn(2) - first_turn(1) == 1 << TURN_BITS
    True
    """
    return session << TURN_BITS


def nth_turn(session: int, nth: int) -> int:
    """Return the id of the nth turn of a session; raises `ArchiveError` if there are too many."""
    if nth >= 1 << TURN_BITS:
        raise ArchiveError(
            f"a session has {(1 << TURN_BITS) - 1:,} turns at most: go on in a new thread"
        )
    return first_turn(session) + nth


def nth_change(turn: int, nth: int) -> int:
    """Return the id of the nth change of a turn, from 0; raises `ArchiveError` as `nth_turn`."""
    if nth >= 1 << PASSAGE_BITS:
        raise ArchiveError(
            f"a turn changes efforts {1 << PASSAGE_BITS:,} times at most: nothing was changed"
        )
    return first_passage(turn) + nth


def first_passage(turn: int) -> int:
    """Return the id of the first passage of a turn, given the turn's id."""
    return turn << PASSAGE_BITS


def turn_of(passage: int) -> int:
    """Return the id of the turn of a passage, or of a change.

    >>> turn_of(first_passage(7) + 3)
    7
    """
    return passage >> PASSAGE_BITS


def passages_of(session: int) -> tuple[int, int]:
    """Return the first and the last id of what passages a session can have."""
    first = first_passage(first_turn(session))
    return first, first_passage(first_turn(session + 1)) - 1
