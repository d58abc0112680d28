"""The index that is searched: which passages, and which headings of efforts, have which terms.

A term has the user's number before it, so that a search reads the postings of one user; those of
one session are a range of ids. SQLite has full-text tables for it; PostgreSQL has arrays under a
GIN index, of numbers: the user's and 32 bits for the term.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from ..efforts import Effort, left_by
from ..search.passages import Passage
from ..search.terms import indexed
from ..turn import Event, StoredTurn
from .schema import TERM_BITS, Listed, headed, is_sqlite, passage_id, said

Rows: TypeAlias = Sequence[tuple[int, str]]
"""Places of passages or headings in their turn, with their terms, a space before each."""

Terms: TypeAlias = tuple[Sequence[str], int]
"""Terms to look up, and how many ids of each, the newest, to read."""

SPEAKER = "\u00b6"
"""Stands before the terms of a speaker's name, under which are the passages of that speaker."""

_LONGEST = (1 << 14) - 1
"""Characters of a passage from which on its length is stored as this, in 14 bits."""

_INTO_FTS5 = "INSERT INTO {0}(rowid, terms) VALUES (:id, :terms)"
_INTO_ARRAYS = "INSERT INTO {0}(id, terms) VALUES (:id, CAST(:terms AS bigint[]))"

# All terms in one statement, the ids of each in one value: a row for each id would cost far more.
_IN_FTS5 = """
SELECT {1}, wanted.key, (SELECT json_group_array(found.rowid) FROM (
    SELECT rowid FROM {0} WHERE {0} MATCH '"' || wanted.value || '"'
    AND rowid BETWEEN :first AND :last ORDER BY rowid DESC LIMIT :limit{1}) AS found)
FROM json_each(:terms{1}) AS wanted
"""
_IN_ARRAYS = """
SELECT {1}, wanted.at, (SELECT array_agg(found.id) FROM (
    SELECT id FROM {0} WHERE terms @> ARRAY[wanted.term]
    AND id BETWEEN :first AND :last ORDER BY id DESC LIMIT :limit{1}) AS found)
FROM unnest(CAST(:terms{1} AS bigint[])) WITH ORDINALITY AS wanted(term, at)
"""


def layout(parts: Sequence[Passage]) -> bytes:
    """Return for each passage 16 bits that ranking needs, as `unpack_layout` reads them."""
    numbers = [min(len(part.text), _LONGEST) << 2 | part.asks << 1 | part.user for part in parts]
    return struct.pack(f"<{len(numbers)}H", *numbers)


def unpack_layout(data: bytes) -> list[tuple[int, bool, bool]]:
    """Return of each passage of a turn its length in characters, and if the user says it, or asks.

    >>> unpack_layout(layout([Passage(0, 0, "Which port?", user=True)]))
    [(11, True, True)]
    """
    numbers = struct.unpack(f"<{len(data) // 2}H", data)
    return [(number >> 2, bool(number & 1), bool(number & 2)) for number in numbers]


def language_event(language: str) -> tuple[Event, ...]:
    """Return the event of a turn that is indexed in a language too; none for English."""
    return () if language == "english" else ({"type": "language", "language": language},)


def preset(turn: StoredTurn) -> str:
    """Return the language in which a turn is indexed whatever its words show, "" for none."""
    events = (event for event in turn.events if event["type"] == "language")
    return str(next(events, {}).get("language", ""))


def postings(parts: Sequence[Passage], language: str) -> Rows:
    """Return each passage's place with its terms and a term for its speaker; see `preset`."""
    by_passage = (
        [*indexed(part.searched, language), *map(SPEAKER.__add__, indexed(part.speaker))]
        for part in parts
    )
    return [(place, _spaced(terms)) for place, terms in enumerate(by_passage) if terms]


def headings(turn: StoredTurn) -> Rows:
    """Return the places of a turn's changes of efforts with the terms of the headings."""
    language = preset(turn)
    return [*enumerate(_spaced(heading(effort, language)) for effort in left_by(turn))]


def places(turn: int) -> tuple[int, int]:
    """Return the first and the last id that passages and changes of a turn can have."""
    return passage_id(turn), passage_id(turn + 1) - 1


def heading(effort: Effort, language: str = "") -> list[str]:
    """Return the terms of an effort's heading, each once: of its id, goal, summary and keywords.

    >>> heading(Effort("auth-bug", "concluded", summary="Fixed the login.", keywords=("login",)))
    ['auth', 'bug', 'fix', 'login', 'authbug']
    """
    words = " ".join((effort.id, effort.goal, effort.summary, *effort.keywords))
    return indexed(words, language)


def add_terms(connection: sa.Connection, table: sa.Table, of: tuple[int, int], rows: Rows) -> None:
    """Add rows of terms to a table of the index; `of` are the ids of their user and turn."""
    if rows:
        sql = _INTO_FTS5 if is_sqlite(connection) else _INTO_ARRAYS
        connection.execute(_statement(sql, table.name), _values(connection, of, rows))


def remove_terms(
    connection: sa.Connection, table: sa.Table, of: tuple[int, int], rows: Rows
) -> None:
    """Remove rows. SQLite stores no text, so it needs exactly the terms that were added."""
    if rows and is_sqlite(connection):
        sql = "INSERT INTO {0}({0}, rowid, terms) VALUES ('delete', :id, :terms)"
        connection.execute(_statement(sql, table.name), _values(connection, of, rows))
    elif rows:
        connection.execute(sa.delete(table).where(table.c.id.between(*places(of[1]))))


def look_up(
    connection: sa.Connection,
    user: int,
    ranges: Sequence[tuple[int, int]],
    *said_and_headed: Terms,
) -> list[dict[str, list[int]]]:
    """Return, by term, the newest passages in these ranges that say it, and the newest headings.

    `user` is the user's number. Of the ranges the one that is looked at first comes first.
    """
    found: list[dict[str, list[int]]] = [
        {term: [] for term in terms} for terms, _ in said_and_headed
    ]
    for id_range in ranges:
        sqlite = is_sqlite(connection)
        values: dict[str, Any] = {"first": id_range[0], "last": id_range[1]}
        for index, (terms, limit) in enumerate(said_and_headed):
            keys = _keys(user, _spaced(terms), sqlite=sqlite)
            listed = json.dumps(keys.split()) if sqlite else keys
            values |= {f"terms{index}": listed, f"limit{index}": limit}
        sql = _statement(_IN_FTS5 if sqlite else _IN_ARRAYS, said.name, headed.name)
        ordered = sorted(tuple(row) for row in connection.execute(sql, values))
        newest = (json.loads(ids) if sqlite else ids or [] for _, _, ids in ordered)
        for known, more in zip(
            found,
            [{term: next(newest) for term in terms} for terms, _ in said_and_headed],
            strict=True,
        ):
            for term, ids in more.items():
                known[term] += ids
    return found


def _values(connection: sa.Connection, of: tuple[int, int], rows: Rows) -> list[dict[str, Any]]:
    (user, turn), sqlite = of, is_sqlite(connection)
    return [
        {"id": passage_id(turn, place), "terms": _keys(user, terms, sqlite=sqlite)}
        for place, terms in rows
    ]


def _spaced(terms: Iterable[str]) -> str:
    return "".join([f" {term}" for term in terms])


def _keys(user: int, terms: str, *, sqlite: bool) -> str:
    """Return terms with the user's number: as a text, since drivers take long for a list."""
    if sqlite:
        return terms.replace(" ", f" {user}u")
    numbers = (str(user << TERM_BITS | crc32(term.encode())) for term in terms.split())
    return f"{{{','.join(numbers)}}}"


@lru_cache
def _statement(sql: str, *tables: str) -> sa.TextClause:
    """Return a statement on each of the tables as one, built once: parsing takes long."""
    return sa.text("UNION ALL".join(sql.format(table, index) for index, table in enumerate(tables)))


def rewrite(connection: sa.Connection, *tables: sa.Table) -> None:
    """Write index tables anew on SQLite, without the rows that were removed."""
    if is_sqlite(connection):
        for table in tables:
            sql = f"INSERT INTO {table.name}({table.name}) VALUES ('optimize')"  # noqa: S608 (ours)
            connection.execute(sa.text(sql))


class _AnyOf(FunctionElement[bool]):
    """The condition that a column is one of the values in one parameter, a list."""

    type = sa.Boolean()
    inherit_cache = True
    name = "any_of"

    def self_group(self, against: Any = None) -> "_AnyOf":
        """Return the condition itself: SQLAlchemy would write `... = 1`, which uses no index."""
        del against
        return self


@compiles(_AnyOf)
def _compiled(element: _AnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    if compiler.dialect.name == "sqlite":
        return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 (a parameter)
    return f"{column} = ANY ({values})"


def any_of(column: sa.Column[Any], name: str) -> _AnyOf:
    """Return the condition that a column is one of the values in the parameter of this name."""
    return _AnyOf(column, sa.bindparam(name, type_=Listed(column.type)))


def among(column: sa.Column[Any], values: Iterable[Any]) -> _AnyOf:
    """Return the condition that a column is one of values, any number of them in one parameter."""
    return _AnyOf(column, sa.literal([*values], Listed(column.type)))
