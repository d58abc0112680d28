"""The tables of the index: one SQLite file per session, a cache of what the logs say."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = 4
_WAIT_SECONDS = 10.0

_TABLES = """
CREATE TABLE records(
    id INTEGER PRIMARY KEY,
    branch TEXT NOT NULL, turn INTEGER NOT NULL,
    digest TEXT NOT NULL, parent TEXT NOT NULL,
    file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    ambient INTEGER NOT NULL, efforts INTEGER NOT NULL,
    UNIQUE(branch, turn));
CREATE TABLE branches(
    branch TEXT PRIMARY KEY, origin TEXT, upto INTEGER, first INTEGER NOT NULL,
    at TEXT NOT NULL, last INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE ambient(
    branch TEXT, turn INTEGER, PRIMARY KEY(branch, turn)
) WITHOUT ROWID;
CREATE TABLE members(
    effort TEXT, branch TEXT, turn INTEGER, PRIMARY KEY(effort, branch, turn)
) WITHOUT ROWID;
CREATE TABLE changes(
    effort TEXT, branch TEXT, turn INTEGER, seq INTEGER, status TEXT NOT NULL, entry TEXT NOT NULL,
    PRIMARY KEY(effort, branch, turn, seq)
) WITHOUT ROWID;
CREATE INDEX changes_by_turn ON changes(branch, turn, seq, effort);
CREATE TABLE edits(
    effort TEXT, branch TEXT, turn INTEGER, status TEXT, entry TEXT NOT NULL,
    PRIMARY KEY(effort, branch, turn, status)
) WITHOUT ROWID;
CREATE TABLE compressions(
    effort TEXT, branch TEXT, turn INTEGER, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    PRIMARY KEY(effort, branch, turn)
) WITHOUT ROWID;
CREATE INDEX members_by_turn ON members(branch, turn, effort);
CREATE TABLE headings(
    id INTEGER PRIMARY KEY, effort TEXT NOT NULL, branch TEXT NOT NULL, turn INTEGER NOT NULL);
CREATE VIRTUAL TABLE said USING fts5(
    terms, content='', detail=none, columnsize=0, tokenize='ascii');
CREATE VIRTUAL TABLE headed USING fts5(
    terms, content='', detail=none, columnsize=0, tokenize='ascii');
INSERT INTO said(said, rank) VALUES ('automerge', 2);
INSERT INTO headed(headed, rank) VALUES ('automerge', 2);
CREATE TABLE probe(vector BLOB NOT NULL);
CREATE TABLE vectors(record INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE heading_vectors(
    id INTEGER PRIMARY KEY, branch TEXT NOT NULL, turn INTEGER NOT NULL, effort TEXT NOT NULL,
    vector BLOB NOT NULL, UNIQUE(branch, turn, effort));
CREATE TABLE unembedded(record INTEGER PRIMARY KEY);
CREATE TABLE files(name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE pending(name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE manifest(size INTEGER, modified INTEGER, appendable INTEGER);
"""
# `ambient` and `efforts` of a record count those that a state sees whose tip it is. `at` and `last`
# of a branch are the time and the turn of its newest record. All vectors are of the model of
# `probe`; `unembedded` are the records that have none yet.


def connect(path: Path, *, durable: bool) -> sqlite3.Connection:
    """Open the file of an index, made if it is missing, for use under a lock in any thread."""
    connection = sqlite3.connect(
        path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        # Merges within the search tables leave pages behind; only a new file can be told.
        connection.execute("PRAGMA auto_vacuum=FULL")
        connection.execute("PRAGMA journal_mode=WAL")
        # NORMAL keeps the file whole in a power cut: it syncs at checkpoints, not at commits.
        connection.execute(f"PRAGMA synchronous={'NORMAL' if durable else 'OFF'}")
    except BaseException:
        connection.close()
        raise
    return connection


def version(connection: sqlite3.Connection) -> int:
    """Return the version of an index, 0 if it has no tables yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def create(connection: sqlite3.Connection) -> None:
    """Make the tables; call it in the transaction that fills them."""
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={VERSION}")


def delete(path: Path) -> None:
    """Delete an index with its log, which SQLite would else play into the next one."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all of what follows, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # some errors have ended it already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
