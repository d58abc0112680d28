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


class _Name(sa.TypeDecorator[str]):
    """Any text in a column; what no database stores is written as `%` and four digits."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        return None if value is None else _UNSTORABLE.sub(lambda one: f"%{ord(one[0]):04x}", value)

    def process_result_value(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        if value is None or "%" not in value:
            return value
        return _STORED.sub(lambda one: chr(int(one[1], 16)), value)


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
        return dialect.type_descriptor(ARRAY(item) if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: Sequence[Any] | None, dialect: sa.Dialect) -> Any:
        """Return the values as the database takes them."""
        listed = [*(value or ())]
        if isinstance(self.item, _Name):
            listed = [self.item.process_bind_param(one, dialect) for one in listed]
        return listed if dialect.name == "postgresql" else json.dumps(listed, ensure_ascii=False)


class _Vector(UserDefinedType[bytes]):
    """The type of pgvector's extension, of any number of dimensions, as bytes of float32."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "vector"

    def bind_processor(self, _dialect: sa.Dialect) -> Any:
        return lambda value: f"[{','.join(map(str, np.frombuffer(value, np.float32).tolist()))}]"

    def result_processor(self, _dialect: sa.Dialect, _kind: object) -> Any:
        return lambda value: np.array(json.loads(value), np.float32).tobytes()


METADATA = sa.MetaData()
WORDS = (sa.Text, _Name, sa.LargeBinary, ARRAY)
"""The types of columns that hold what people said or named."""

_VECTOR = sa.LargeBinary().with_variant(_Vector(), "postgresql")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers the rows of an INTEGER primary key alone."""


def _table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(f"ebbtide_{name}", METADATA, *parts, **options)


def _required(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


# `sweep` counts what was erased since the files were last written without what is free in them;
# `key` is the secret with which the archive seals what the nodes wrote.
version = _table(
    "version", *_required(sa.Integer, "version", "sweep"), *_required(sa.String, "key")
)

users = _table(
    "users",
    sa.Column("id", _ID, primary_key=True),
    sa.Column("name", _Name, nullable=False, unique=True),
    sqlite_autoincrement=True,  # as below
)

# `name` is what other sessions call it by; `turns` counts its records, of all branches; `branch`
# is the one that was committed to last. `reseed` is set from when an erasure took the checkpoints
# of the thread until they are written anew. `rewritten` counts how often records lost something,
# or older ones got vectors: while it stays, what was read of one is as it was.
sessions = _table(
    "sessions",
    sa.Column("id", _ID, primary_key=True),
    sa.Column("owner", _ID, nullable=False),
    *_required(_Name, "name", "thread", "namespace"),
    sa.Column("turns", sa.Integer, nullable=False),
    sa.Column("branch", sa.String, nullable=False),
    sa.Column("reseed", sa.Text),
    sa.Column("rewritten", sa.Integer, nullable=False, default=0),
    sa.UniqueConstraint("owner", "name"),
    sqlite_autoincrement=True,  # the id of a deleted session is never used again
)

# `ancestors` is the lineage that a branch begins with, the nearest first: it never changes.
branches = _table(
    "branches",
    sa.Column("session", _ID, primary_key=True),
    sa.Column("branch", sa.String, primary_key=True),
    sa.Column("ancestors", sa.Text, nullable=False),
    *_required(sa.Integer, "first", "last"),
    sa.Column("at", sa.String, nullable=False),
    sqlite_with_rowid=False,
)

# `ambient` and `efforts_seen` count what a state sees whose tip this turn is; `last` is the mark of
# the turn's last message, `size` the length of its messages, `content` the digest of what is left
# of a turn that lost a copy of something erased, `state` the memory's state after it.
turns = _table(
    "turns",
    sa.Column("id", _ID, primary_key=True, autoincrement=False),
    sa.Column("session", _ID, nullable=False),
    sa.Column("branch", sa.String, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    *_required(sa.String, "digest", "parent", "status", "at"),
    *_required(sa.Integer, "ambient", "efforts_seen"),
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
members = _table(
    "members",
    sa.Column("session", _ID, primary_key=True),
    sa.Column("effort", _Name, primary_key=True),
    sa.Column("branch", sa.String, primary_key=True),
    sa.Column("turn", sa.Integer, primary_key=True),
    sqlite_with_rowid=False,
)

# The manifest: how each change of its status left an effort. Its id is that of a passage.
changes = _table(
    "changes",
    sa.Column("id", _ID, primary_key=True, autoincrement=False),
    *_required(_ID, "owner", "session"),
    sa.Column("effort", _Name, nullable=False),
    sa.Column("branch", sa.String, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    *_required(sa.String, "status", "at"),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Index("ebbtide_changes_effort", "session", "effort", "branch", "turn"),
    sa.Index("ebbtide_changes_turn", "session", "branch", "turn"),
    sa.Index("ebbtide_changes_at", "owner", "status", "at"),
)

compressions = _table(
    "compressions",
    sa.Column("session", _ID, primary_key=True),
    sa.Column("effort", _Name, primary_key=True),
    sa.Column("branch", sa.String, primary_key=True),
    sa.Column("turn", sa.Integer, primary_key=True),
    sa.Column("made", sa.LargeBinary, nullable=False),
)

extractions = _table(
    "extractions",
    sa.Column("id", _ID, primary_key=True),
    sa.Column("session", _ID, nullable=False, index=True),
    sa.Column("entry", sa.LargeBinary, nullable=False),
)

# Vectors of turns, and of what changes of efforts left to be known, by the ids of these.
vectors, heading_vectors = (
    _table(
        name,
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("session", _ID, nullable=False),
        sa.Column("model", _Name, nullable=False),
        sa.Column("vector", _VECTOR, nullable=False),
        sa.Index(f"ebbtide_{name}_session", "session", "model", "id"),
    )
    for name in ("vectors", "heading_vectors")
)

memories = _table(
    "memories",
    sa.Column("owner", _ID, primary_key=True),
    sa.Column("memory", _Name, primary_key=True),
    sa.Column("session", _ID, index=True),
    sa.Column("base", sa.Integer, nullable=False),
    sa.Column("created", sa.String, nullable=False),
    sa.Column("keywords", sa.Text, nullable=False),
    sa.Column("accesses", sa.Integer, nullable=False),
    *_required(sa.Boolean, "suppressed", "withdrawn", "attended"),
)

# Without the list of pending entries, which takes megabytes and which each search reads whole.
_INVERTED: Any = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": False}}

# The terms of each passage of a turn, and of each change of an effort. SQLite has them as FTS5
# tables, which hold no text, only which row has which terms; here they are as on PostgreSQL, where
# a term is a number, half as long as its text.
said, headed = (
    _table(
        name,
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("terms", ARRAY(sa.BigInteger), nullable=False),
        sa.Index(f"ebbtide_{name}_terms", "terms", **_INVERTED),
    )
    for name in ("said", "headed")
)

OF_SESSIONS = (turns, branches, members, changes, compressions, extractions, memories)
"""The tables whose rows belong to a session, by their column of that name; vectors too."""


def has_vectors(connection: sa.Connection) -> bool:
    """Tell whether the tables of vectors were made."""
    return sa.inspect(connection).has_table(vectors.name)


def first_turn(session: int) -> int:
    """Return the id before the first turn of a session."""
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
    """Return the id of the turn of a passage, or of a change."""
    return passage >> PASSAGE_BITS


def passages_of(session: int) -> tuple[int, int]:
    """Return the first and the last id of what passages a session can have."""
    first = first_passage(first_turn(session))
    return first, first_passage(first_turn(session + 1)) - 1
