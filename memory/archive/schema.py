"""The tables of the archive: the same ones on SQLite and on PostgreSQL.

`ebbtide_turns` is the truth; what stands in the other tables was in the transaction of its turn.
Ids order: a turn's id begins with its session's, a passage's with its turn's, so that all of a
session lies in one range of ids, and what is searched can be confined to it.
"""

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    inspect,
    text,
)
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

_MIGRATING = 7_351_204_518
"""The advisory lock under which one of many processes makes or changes the tables."""

_UNSTORABLE = re.compile("[%\0\ud800-\udfff]")
_STORED = re.compile("%([0-9a-f]{4})")
"""What is written otherwise in a name, and how: NUL, surrogates, and the mark itself."""


class Name(TypeDecorator[str]):
    """Any text in a column; what no database stores is written as `%` and four digits."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as it is stored."""
        del dialect
        return None if value is None else _UNSTORABLE.sub(lambda one: f"%{ord(one[0]):04x}", value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text that was stored."""
        del dialect
        if value is None or "%" not in value:
            return value
        return _STORED.sub(lambda one: chr(int(one[1], 16)), value)


class Vector(TypeDecorator[bytes]):
    """A vector as bytes of float32; on PostgreSQL it is stored in pgvector's type."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the database."""
        return dialect.type_descriptor(_PgVector() if _is_postgres(dialect) else LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> Any:
        """Return the vector as the database takes it: `[0.1,0.2]` on PostgreSQL."""
        if value is None or not _is_postgres(dialect):
            return value
        return f"[{','.join(map(str, np.frombuffer(value, np.float32).tolist()))}]"

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        """Return the vector that was stored."""
        if value is None or not _is_postgres(dialect):
            return bytes(value) if value is not None else None
        return np.array(json.loads(value), np.float32).tobytes()


class Listed(TypeDecorator[Sequence[Any]]):
    """Any number of values of a column in one parameter: an array, on SQLite a list in JSON."""

    impl = Text
    cache_ok = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        """Take the type of the column."""
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the database."""
        item = BigInteger() if isinstance(self.item, Integer) else Text()
        return dialect.type_descriptor(ARRAY(item) if _is_postgres(dialect) else Text())

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> Any:
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


def _is_postgres(dialect: Dialect) -> bool:
    return dialect.name == "postgresql"


METADATA = MetaData()
_WORDS = (Text, Name, LargeBinary, ARRAY, Vector)
"""The types of columns that hold what people said or named."""

_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers the rows of an INTEGER primary key alone."""

# `sweep` counts what was erased since the files were last written without what is free in them;
# `key` is the secret with which the archive seals what the nodes wrote.
version = Table(
    "ebbtide_version",
    METADATA,
    Column("version", Integer, nullable=False),
    Column("sweep", Integer, nullable=False),
    Column("key", String, nullable=False),
)

users = Table(
    "ebbtide_users",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
    sqlite_autoincrement=True,  # as below
)

# `name` is what other sessions call it by; `turns` counts its records, of all branches; `branch`
# is the one that was committed to last. `reseed` is set from when an erasure took the checkpoints
# of the thread until they are written anew. `rewritten` counts how often records lost something,
# or older ones got vectors: while it stays, what was read of one is as it was.
sessions = Table(
    "ebbtide_sessions",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("owner", _ID, nullable=False),
    Column("name", Name, nullable=False),
    Column("thread", Name, nullable=False),
    Column("namespace", Name, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("branch", String, nullable=False),
    Column("reseed", Text),
    Column("rewritten", Integer, nullable=False, default=0),
    UniqueConstraint("owner", "name"),
    sqlite_autoincrement=True,  # the id of a deleted session is never used again
)

# `ancestors` is the lineage that a branch begins with, the nearest first: it never changes.
branches = Table(
    "ebbtide_branches",
    METADATA,
    Column("session", _ID, primary_key=True),
    Column("branch", String, primary_key=True),
    Column("ancestors", Text, nullable=False),
    Column("first", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    Column("at", String, nullable=False),
    sqlite_with_rowid=False,
)

# `ambient` and `efforts_seen` count what a state sees whose tip this turn is; `last` is the mark of
# the turn's last message, `size` the length of its messages, `content` the digest of what is left
# of a turn that lost a copy of something erased, `state` the memory's state after it.
turns = Table(
    "ebbtide_turns",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("session", _ID, nullable=False),
    Column("branch", String, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("parent", String, nullable=False),
    Column("status", String, nullable=False),
    Column("at", String, nullable=False),
    Column("ambient", Integer, nullable=False),
    Column("efforts_seen", Integer, nullable=False),
    Column("last", String, nullable=False),
    Column("size", Integer, nullable=False),
    Column("content", String),
    Column("efforts", Text, nullable=False),
    Column("passages", LargeBinary),
    Column("events", LargeBinary, nullable=False),
    Column("state", LargeBinary),
    Column("messages", LargeBinary, nullable=False),
    UniqueConstraint("session", "branch", "turn"),
    Index("ebbtide_turns_last", "session", "last"),
)

# Which turns belong to an effort; ambient ones belong to one that cannot be.
members = Table(
    "ebbtide_members",
    METADATA,
    Column("session", _ID, primary_key=True),
    Column("effort", Name, primary_key=True),
    Column("branch", String, primary_key=True),
    Column("turn", Integer, primary_key=True),
    sqlite_with_rowid=False,
)

# The manifest: how each change of its status left an effort. Its id is that of a passage.
changes = Table(
    "ebbtide_changes",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("owner", _ID, nullable=False),
    Column("session", _ID, nullable=False),
    Column("effort", Name, nullable=False),
    Column("branch", String, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("status", String, nullable=False),
    Column("at", String, nullable=False),
    Column("entry", Text, nullable=False),
    Index("ebbtide_changes_effort", "session", "effort", "branch", "turn"),
    Index("ebbtide_changes_turn", "session", "branch", "turn"),
    Index("ebbtide_changes_at", "owner", "status", "at"),
)

compressions = Table(
    "ebbtide_compressions",
    METADATA,
    Column("session", _ID, primary_key=True),
    Column("effort", Name, primary_key=True),
    Column("branch", String, primary_key=True),
    Column("turn", Integer, primary_key=True),
    Column("made", LargeBinary, nullable=False),
)

extractions = Table(
    "ebbtide_extractions",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("session", _ID, nullable=False, index=True),
    Column("entry", LargeBinary, nullable=False),
)

# Vectors of turns, and of what changes of efforts left to be known, by the ids of these.
vectors, heading_vectors = (
    Table(
        f"ebbtide_{name}",
        METADATA,
        Column("id", _ID, primary_key=True, autoincrement=False),
        Column("session", _ID, nullable=False),
        Column("model", Name, nullable=False),
        Column("vector", Vector, nullable=False),
        Index(f"ebbtide_{name}_session", "session", "model", "id"),
    )
    for name in ("vectors", "heading_vectors")
)

memories = Table(
    "ebbtide_memories",
    METADATA,
    Column("owner", _ID, primary_key=True),
    Column("memory", Name, primary_key=True),
    Column("session", _ID, index=True),
    Column("base", Integer, nullable=False),
    Column("created", String, nullable=False),
    Column("keywords", Text, nullable=False),
    Column("accesses", Integer, nullable=False),
    Column("suppressed", Boolean, nullable=False),
    Column("withdrawn", Boolean, nullable=False),
    Column("attended", Boolean, nullable=False),
)

# Without the list of pending entries, which takes megabytes and which each search reads whole.
_INVERTED: Any = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": False}}

# The terms of each passage of a turn, and of each change of an effort. SQLite has them as FTS5
# tables, which hold no text, only which row has which terms; here they are as on PostgreSQL, where
# a term is a number, half as long as its text.
said = Table(
    "ebbtide_said",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("terms", ARRAY(BigInteger), nullable=False),
    Index("ebbtide_said_terms", "terms", **_INVERTED),
)
headed = Table(
    "ebbtide_headed",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("terms", ARRAY(BigInteger), nullable=False),
    Index("ebbtide_headed_terms", "terms", **_INVERTED),
)

OF_SESSIONS = (turns, branches, members, changes, compressions, extractions, memories)
"""The tables whose rows belong to a session, by their column of that name; vectors too."""

_FTS5 = (
    "CREATE VIRTUAL TABLE {} USING"
    " fts5(terms, content='', detail=none, columnsize=0, tokenize='ascii')"
)


def alone(connection: Connection) -> None:
    """Wait until no other process makes or changes tables on PostgreSQL; a file has one writer."""
    if _is_postgres(connection.dialect):
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATING})"))


def create(connection: Connection) -> None:
    """Make the tables in their present form, and say so."""
    searched = set() if _is_postgres(connection.dialect) else {said, headed}
    later = searched | {vectors, heading_vectors}
    METADATA.create_all(connection, [one for one in METADATA.sorted_tables if one not in later])
    for table in searched:
        connection.execute(text(_FTS5.format(table.name)))
    keep_no_samples(connection, [one for one in METADATA.sorted_tables if one not in later])
    connection.execute(version.insert().values(version=VERSION, sweep=0, key=secrets.token_hex(32)))


def create_vectors(connection: Connection) -> None:
    """Make the tables of vectors, with the extension that PostgreSQL needs for them."""
    alone(connection)
    if _is_postgres(connection.dialect):
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    METADATA.create_all(connection, [vectors, heading_vectors])
    keep_no_samples(connection, [vectors, heading_vectors])


def has_vectors(connection: Connection) -> bool:
    """Tell whether the tables of vectors were made."""
    return inspect(connection).has_table(vectors.name)


def keep_no_samples(connection: Connection, tables: Iterable[Table]) -> None:
    """Let PostgreSQL keep no samples of what people said, which its planner would show."""
    if not _is_postgres(connection.dialect):
        return
    for table in tables:
        said_there = [one.name for one in table.columns if isinstance(one.type, _WORDS)]
        parts = ", ".join(f'ALTER COLUMN "{name}" SET STATISTICS 0' for name in said_there)
        if parts:
            connection.execute(text(f"ALTER TABLE {table.name} {parts}"))


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
