"""The tables of the archive, on SQLite and PostgreSQL the same: their ids, making them, checking.

`ebbtide_turns` is the truth; the rows of the other tables are written in the transaction of their
turn. A turn's id begins with the bits of its session's, a passage's with its turn's: all of a
session is one range of ids, to which a search can be confined.
"""

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine, UserDefinedType

from ..errors import ArchiveError, ArchiveFormatError
from ..turn import Digest, StoredTurn

VERSION = 5
"""The version of the tables; those of any other are refused."""

TURN_BITS, PASSAGE_BITS = 22, 10
"""4 million turns in a session, 1,024 passages in a turn: with 2^31 sessions that is 63 bits.

FTS5 writes ids as differences, which take fewer bytes if they are small.
"""

TERM_BITS = 32
"""The bits of a term on PostgreSQL, where it is a number; the bits above are the user's number."""

_UNSTORABLE = re.compile("[%\0\ud800-\udfff]")
_HEX = re.compile("([0-9a-f]{2})*")
_ESCAPED = re.compile("%([0-9a-f]{4})")
"""The characters of a name that no database stores, and `%` itself; and how they are escaped."""


class AnyText(sa.TypeDecorator[str]):
    """Any text in a column: NUL and surrogates are stored as `%` and four hexadecimal digits."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        """Return the text as it is stored."""
        return None if value is None else _UNSTORABLE.sub(lambda m: f"%{ord(m[0]):04x}", value)

    def process_result_value(self, value: str | None, _dialect: sa.Dialect) -> str | None:
        """Return the text as it was written."""
        if value is None or "%" not in value:  # a search reads a thousand names
            return value
        return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), value)


class Listed(sa.TypeDecorator[Sequence[Any]]):
    """A list of a column's values in one parameter: an array, on SQLite JSON.

    A parameter for each value would reach the limits of both databases with a long session.
    """

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
        items = [*(value or ())]
        if isinstance(self.item, AnyText):
            items = [self.item.process_bind_param(item, dialect) for item in items]
        return items if dialect.name == "postgresql" else json.dumps(items, ensure_ascii=False)


class PgVector(UserDefinedType[bytes]):
    """The type of the extension pgvector, of any dimension, written from bytes of float32."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the name of the type."""
        return "vector"

    def bind_processor(self, _dialect: sa.Dialect) -> Any:
        """Return what writes a vector as pgvector reads it."""
        return lambda value: f"[{','.join(map(str, memoryview(value).cast('f')))}]"


class _Hex(sa.TypeDecorator[str]):
    """Hexadecimal digits, stored as half as many bytes; other text equals none of them."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: sa.Dialect) -> bytes | None:
        return bytes.fromhex(value) if value is not None and _HEX.fullmatch(value) else None

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> str | None:
        return None if value is None else bytes(value).hex()


METADATA = sa.MetaData()
WORDS = (sa.Text, AnyText, sa.LargeBinary, ARRAY)
"""The types of columns that hold texts or names of people's."""

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite gives out the ids of INTEGER primary keys alone, not of BIGINT ones."""


def _table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(f"ebbtide_{name}", METADATA, *parts, **options)


def _required(**kinds: Any) -> list[sa.Column[Any]]:
    """Return columns that are never NULL, by name their types."""
    return [sa.Column(name, kind, nullable=False) for name, kind in kinds.items()]


def _primary_key(**kinds: Any) -> list[sa.Column[Any]]:
    """Return the columns of a primary key that the database does not give out."""
    return [
        sa.Column(name, kind, primary_key=True, autoincrement=False) for name, kind in kinds.items()
    ]


# `id` is the archive's; `sweep` counts the erasures since free pages were last reclaimed; `key` is
# the archive's secret.
version = _table(
    "version", *_required(version=sa.Integer, id=sa.String, sweep=sa.Integer, key=sa.String)
)

# `going`: the user is being deleted, and begins no session.
users = _table(
    "users",
    sa.Column("id", _ID, primary_key=True),
    sa.Column("name", AnyText, nullable=False, unique=True),
    sa.Column("going", sa.Boolean, nullable=False, default=False),
    sqlite_autoincrement=True,  # the id of a deleted user is never used again
)

# `name` is the session's name in other sessions; `turns` counts the turns of all runs; `newest`
# is the id of the row that was committed last. `reseed` is the tip that a thread goes on from, from
# an erasure of its checkpoints until they are written anew. `rewritten` counts how often turns
# lost text: until then caches of them are valid. `hidden`: the session
# was deleted, and has only the turns that copies of its thread go on from.
sessions = _table(
    "sessions",
    sa.Column("id", _ID, primary_key=True),
    *_required(owner=_ID, name=AnyText, thread=AnyText, namespace=AnyText),
    *_required(turns=sa.Integer, newest=_ID),
    sa.Column("reseed", sa.Text),
    sa.Column("rewritten", sa.Integer, nullable=False, default=0),
    sa.Column("hidden", sa.Boolean, nullable=False, default=False),
    sa.UniqueConstraint("owner", "name"),
    sqlite_autoincrement=True,  # as those of users
)

# Whose a thread is, as keyed digests of the thread, and of the thread with its user.
thread_owners = _table("owners", *_primary_key(thread=_Hex), *_required(user=_Hex))

# A run is a row of turns without a fork, so that they can be read by their numbers. `ancestors` are
# the runs before it, the nearest first, each with its last place that is seen: it never changes.
runs = _table(
    "runs",
    sa.Column("id", _ID, primary_key=True),
    sa.Column("session", _ID, nullable=False, index=True),
    *_required(ancestors=sa.Text, first=sa.Integer, last=sa.Integer),
)

# The columns that are made from the fields of a stored turn, by the names of these: numbers and
# texts as they are, short tuples as JSON, others as zlib data of JSON.
_NAMES = {"id": "hash", "number": "turn"}
_HINTS = get_type_hints(StoredTurn, include_extras=True)
_TYPES = {
    int: sa.Integer,
    str: AnyText,
    Digest: _Hex,
    Digest | None: _Hex,
    tuple[str, ...]: sa.Text,
    tuple: sa.LargeBinary,
}
STORED: Mapping[str, sa.Column[Any]] = {
    field.name: sa.Column(
        _NAMES.get(field.name, field.name),
        _TYPES.get(hint) or _TYPES.get(get_origin(hint), sa.String),
        nullable=NoneType in get_args(hint),
    )
    for field in fields(StoredTurn)
    if field.compare and (hint := _HINTS[field.name])
}

_COPIES: Any = {f"{name}_where": sa.text("origin IS NOT NULL") for name in ("sqlite", "postgresql")}

# A row is a commit: a turn, or a command, which has the number of the turn that it follows and no
# messages. `place` is its distance from the first one, in a run one after the other. `efforts_seen`
# counts the efforts that are visible from this turn; `end` is the mark of the last message so far,
# `size` the length of its messages, `state` the memory's state after it, whose texts stand in other
# tables: `block` is the row of its state block.
turns = _table(
    "turns",
    *_primary_key(id=_ID),
    *_required(owner=_ID, session=_ID, run=_ID, place=sa.Integer),
    *_required(efforts_seen=sa.Integer, end=sa.String, size=sa.Integer),
    sa.Column("block", _ID),
    *_required(passages=sa.LargeBinary),
    sa.Column("state", sa.LargeBinary),
    *sorted(STORED.values(), key=lambda column: isinstance(column.type, sa.LargeBinary)),
    sa.UniqueConstraint("hash", "session"),
    sa.Index("ebbtide_turns_turn", "run", "turn", "place"),
    sa.Index("ebbtide_turns_end", "session", "end"),
    sa.Index("ebbtide_turns_origin", "owner", "origin", **_COPIES),
)

# The versions of state blocks, by the row after which each was there first. Erasing empties them in
# this one place.
blocks = _table("blocks", *_primary_key(id=_ID), *_required(anchor=sa.LargeBinary))
ANCHOR = (
    sa.select(blocks.c.anchor).where(blocks.c.id == turns.c.block).scalar_subquery().label("anchor")
)
"""The column of a query for turns with the text of their state block."""

# The turns of each effort; ambient turns are under `load.AMBIENT`, which no effort is called.
members = _table(
    "members",
    *_primary_key(run=_ID, effort=AnyText, place=sa.Integer),
    sa.Column("turn", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

# The manifest: an effort after each change of its status. Ids are made like those of passages.
changes = _table(
    "changes",
    *_primary_key(id=_ID),
    *_required(owner=_ID, session=_ID, run=_ID, place=sa.Integer, turn=sa.Integer),
    *_required(effort=AnyText, status=sa.String, at=sa.String, entry=sa.Text),
    sa.Index("ebbtide_changes_effort", "run", "effort", "place"),
    sa.Index("ebbtide_changes_place", "run", "place"),
    sa.Index("ebbtide_changes_at", "owner", "status", "at"),
)

# A compression belongs to the turn after which it was made.
compressions = _table(
    "compressions",
    *_primary_key(run=_ID, effort=AnyText, place=sa.Integer),
    *_required(turn=sa.Integer, made=sa.LargeBinary),
    sqlite_with_rowid=False,
)

extractions = _table(
    "extractions",
    sa.Column("id", _ID, primary_key=True),
    sa.Column("session", _ID, nullable=False, index=True),
    *_required(entry=sa.LargeBinary),
)

# Vectors of passages, and of the headings of efforts by the ids of their changes: bytes of float32,
# or pgvector's type where PostgreSQL has it.
vectors, heading_vectors = (
    _table(
        name,
        *_primary_key(id=_ID),
        *_required(owner=_ID, model=AnyText, vector=sa.LargeBinary),
        sa.Index(f"ebbtide_{name}_owner", "owner", "model", "id"),
    )
    for name in ("vectors", "heading_vectors")
)

# The data of large files in messages, each once for a user, and which turns refer to it; a negative
# number stands for the running turn of a session.
attachments = _table(
    "attachments", *_primary_key(owner=_ID, digest=_Hex), *_required(content=sa.LargeBinary)
)
attached = _table(
    "attached",
    *_primary_key(turn=_ID, owner=_ID, digest=_Hex),
    sa.Index("ebbtide_attached_digest", "owner", "digest"),
)

# Rounds of running turns, by the id of their part; `session` is as in `attached` that of a running
# turn. The commit of a turn takes the messages away, and notes the row of the `turn` and the place
# of the `first` of them in it.
parts = _table(
    "parts",
    *_primary_key(owner=_ID, id=_Hex),
    *_required(session=_ID, nonce=_Hex, before=_Hex, size=sa.Integer, events=sa.LargeBinary),
    sa.Column("messages", sa.LargeBinary),
    sa.Column("turn", _ID),
    sa.Column("first", sa.Integer),
    sa.Index("ebbtide_parts_nonce", "owner", "nonce"),
    sa.Index("ebbtide_parts_session", "owner", "session"),
)

memories = _table(
    "memories",
    *_primary_key(owner=_ID, memory=AnyText),
    sa.Column("session", _ID, index=True),
    *_required(base=sa.Integer, created=sa.String, keywords=sa.Text, accesses=sa.Integer),
    *_required(suppressed=sa.Boolean, withdrawn=sa.Boolean, attended=sa.Boolean),
)

# The turns that said a fact or a rule of a state block, which is a memory without a session.
facts = _table(
    "facts",
    *_primary_key(owner=_ID, memory=AnyText, hash=_Hex),
    sa.Column("session", _ID, nullable=False, index=True),
    *_required(turn=sa.Integer, at=sa.String, field=sa.String, text=sa.Text),
)

# Without the list of pending entries: it takes megabytes, and each search reads all of it.
_INVERTED: Any = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": False}}

# The terms of each passage of a turn, and of each change of an effort. SQLite has them as FTS5
# tables, which hold no text, only which row has which terms; here they are as on PostgreSQL, where
# a term is a number, half as long as its text.
said, headed = (
    _table(
        name,
        *_primary_key(id=_ID),
        *_required(terms=ARRAY(sa.BigInteger)),
        sa.Index(f"ebbtide_{name}_terms", "terms", **_INVERTED),
    )
    for name in ("said", "headed")
)

OF_RUNS = (members, compressions)
"""The tables whose rows belong to a run."""


def turn_id(session: int, nth: int = 0) -> int:
    """Return the id of the nth turn of a session, from 1; raises `ArchiveError` if there are more.

    >>> turn_id(2) == 2 * turn_id(1), turn_id(1, 2) - turn_id(1)
    (True, 2)
    """
    if nth >= 1 << TURN_BITS:
        raise ArchiveError(
            f"a session has {(1 << TURN_BITS) - 1:,} turns at most: go on in a new thread"
        )
    return (session << TURN_BITS) + nth


def passage_id(turn: int, nth: int = 0) -> int:
    """Return the id of the nth passage, or change, of the turn of an id, from 0; raises alike.

    >>> passage_id(2) == 2 * passage_id(1), passage_id(7, 2) - passage_id(7)
    (True, 2)
    """
    if nth >= 1 << PASSAGE_BITS:
        raise ArchiveError(
            f"a turn changes efforts {1 << PASSAGE_BITS:,} times at most: nothing was changed"
        )
    return (turn << PASSAGE_BITS) + nth


def passages_of(session: int) -> tuple[int, int]:
    """Return the first and the last id that passages of a session can have.

    >>> passages_of(1)[1] + 1 == passages_of(2)[0]
    True
    """
    return passage_id(turn_id(session)), passage_id(turn_id(session + 1)) - 1


def is_sqlite(connection: sa.Connection) -> bool:
    """Tell whether a connection is to SQLite."""
    return connection.dialect.name == "sqlite"


_LOCK = 7_351_204_518
"""The advisory lock under which one of many processes makes the tables; any number."""

_FTS5 = (
    "CREATE VIRTUAL TABLE {} USING"
    " fts5(terms, content='', detail=none, columnsize=0, tokenize='ascii')"
)

_PGVECTOR = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    *(
        f"ALTER TABLE {table.name} ALTER COLUMN vector TYPE vector USING NULL"
        for table in (vectors, heading_vectors)
    ),
)


def prepare(engine: sa.Engine, name: str) -> sa.Row[Any]:
    """Make the tables of a database if there are none, and return its row of `version`.

    Raises `ArchiveFormatError` if there are tables of another version.
    """
    with engine.connect() as connection:
        if row := _checked_version(connection, name):
            return row
    with engine.connect() as connection:
        connection.execution_options(ebbtide_writes=True)
        with connection.begin():
            if not is_sqlite(connection):  # a file has one writer; others may make tables meanwhile
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            if _checked_version(connection, name) is None:
                _create_all(connection)
            return connection.execute(sa.select(version)).one()


def _checked_version(connection: sa.Connection, name: str) -> sa.Row[Any] | None:
    """Return the row of `version`, None if there are no tables.

    Raises `ArchiveFormatError` if its number is another one; `name` is that of the database in the
    error.
    """
    if not sa.inspect(connection).has_table(version.name):
        return None
    row = connection.execute(sa.select(version)).first()
    if row is not None and row.version != VERSION:
        raise ArchiveFormatError(
            f"{name!r} has tables of version {row.version}, this program knows version "
            f"{VERSION}: use the ebbtide that made them, or name another place"
        )
    return row


def _create_all(connection: sa.Connection) -> None:
    """Make all tables, and insert the row of `version`."""
    later = {said, headed} if is_sqlite(connection) else set()
    tables = [table for table in METADATA.sorted_tables if table not in later]
    for statement in _statements(connection.dialect.name, tuple(tables)):
        connection.exec_driver_sql(statement)
    if not is_sqlite(connection) and connection.get_execution_options()["ebbtide_extensions"]:
        # Where there is no pgvector, or who connects may not add it, the columns stay bytes.
        with suppress(DBAPIError), connection.begin_nested():
            for statement in _PGVECTOR:
                connection.exec_driver_sql(statement)
    _keep_no_samples(connection, tables)
    for table in (said, headed) if is_sqlite(connection) else ():
        connection.execute(sa.text(_FTS5.format(table.name)))
    first = {"version": VERSION, "sweep": 0, "key": secrets.token_hex(32)}
    first |= {"id": secrets.token_hex(16)}
    connection.execute(version.insert().values(first))


@cache
def _statements(dialect: str, tables: tuple[sa.Table, ...]) -> tuple[str, ...]:
    """Return the statements that make tables: to compile them takes longer than to run them."""
    made = []
    engine = sa.create_mock_engine(f"{dialect}://", lambda ddl, *_, **__: made.append(ddl))
    METADATA.create_all(engine, tables, checkfirst=False)
    return tuple(str(ddl.compile(dialect=engine.dialect)) for ddl in made)


def _keep_no_samples(connection: sa.Connection, tables: Iterable[sa.Table]) -> None:
    """Let PostgreSQL keep no samples of texts: `pg_stats` would show them, even erased ones."""
    for table in () if is_sqlite(connection) else tables:
        words = [column.name for column in table.columns if isinstance(column.type, WORDS)]
        parts = ", ".join(f'ALTER COLUMN "{name}" SET STATISTICS 0' for name in words)
        if parts:
            connection.execute(sa.text(f"ALTER TABLE {table.name} {parts}"))
