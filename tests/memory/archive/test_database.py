"""What can go wrong with a database: each time a clear error, and nothing is lost."""

import os
import random
import re
import resource
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import event

from ebbtide import DiskArchive, SqlArchive
from ebbtide.memory.archive.database import FILE
from ebbtide.memory.errors import (
    ArchiveError,
    ArchiveFormatError,
    ArchiveLockedError,
    ArchiveUnavailableError,
    SessionNotFoundError,
    TipNotFoundError,
)
from ebbtide.memory.turn import Session
from tests.agents import THREAD, talk
from tests.databases import Database, Server, serving
from tests.memory.turns import SESSION, START, commit_all, turn, visible
from tests.processes import forks

NOBODY = 65_534


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """Yield a PostgreSQL server that is stopped and started."""
    with serving() as server:
        yield server


def held(place: Path | Database) -> Any:
    """Return a connection of somebody else who writes, and does not come to an end."""
    if isinstance(place, Path):
        other: Any = sqlite3.connect(place / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        return other
    other = psycopg.connect(place.uri)
    other.execute("SELECT FROM ebbtide_sessions FOR UPDATE")
    return other


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_held_by_another(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Who waits too long is told so; afterwards the same turn is committed."""
    place: Any = tmp_path if kind == "sqlite" else request.getfixturevalue("database")
    address = str(tmp_path) if kind == "sqlite" else place.url
    with SqlArchive(address, lock_timeout=0.2) as archive:
        tip = commit_all(archive, [turn(1)])
        waited = pytest.raises(ArchiveLockedError, match=r"0\.2 s; try again, or raise lock_time")
        with closing(held(place)), waited:
            archive.commit(SESSION, tip, turn(2))

        assert len(visible(archive, commit_all(archive, [turn(2)], tip))) == 2


def test_full_disk(tmp_path: Path) -> None:
    """A disk without room is named; what was there is there, and with room the turn is stored."""
    with DiskArchive(tmp_path) as archive:
        tip = commit_all(archive, [turn(1)])
        said = turn(2, random.Random(1).randbytes(500_000).hex())
        event.listen(archive.database._engine, "connect", _small)
        archive.close()
        with pytest.raises(ArchiveUnavailableError, match=r"full.*free space.*nothing was changed"):
            archive.commit(SESSION, tip, said)
        kept = visible(archive, tip)
        event.remove(archive.database._engine, "connect", _small)
        archive.close()

        stored = archive.commit(SESSION, tip, said)

        assert len(kept) == 1
        assert (stored.number, len(archive.tips(SESSION))) == (2, 1)
        assert archive.verify(SESSION) == ()


def _small(connection: sqlite3.Connection, _record: Any) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 4}")


@contextmanager
def readable_folder() -> Iterator[Path]:
    """Yield a folder that everybody can read, and nobody but root can write."""
    folder = Path(tempfile.mkdtemp(prefix="ebbtide-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def told_to_nobody(do: Callable[[], object]) -> str:
    """Do something as a user without rights, in a child; return how it was told that it may not."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            do()
        except BaseException as error:  # noqa: BLE001 (the parent looks at it)
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(sys.platform != "linux", reason="users and rights of Linux")
@pytest.mark.parametrize("begun", [False, True])
def test_read_only(*, begun: bool) -> None:
    """In a folder where nothing may be written the error says so, and nothing changes."""
    with readable_folder() as folder:
        archive = DiskArchive(folder / "in" if not begun else folder)
        tip = commit_all(archive, [turn(1)]) if begun else START
        archive.close()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)

        said = told_to_nobody(lambda: commit_all(archive, [turn(2 if begun else 1)], tip))

        assert said.startswith("ArchiveUnavailableError")
        assert "is writable and has free space, then try again; nothing was changed" in said
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.skipif(sys.platform != "linux", reason="forks, users and rights of Linux")
def test_forked_while_it_reads(tmp_path: Path) -> None:
    """The child is told what to do; the parent goes on, and nothing is lost."""
    with DiskArchive(tmp_path) as archive:
        tip = commit_all(archive, [turn(1)])

        with archive.database.reading():
            said = told_to_nobody(lambda: archive.sessions(""))

        assert said.startswith("ArchiveError: ")
        assert "in use when this process was forked: start processes with `spawn`" in said
        assert len(visible(archive, commit_all(archive, [turn(2)], tip))) == 2
        assert archive.verify(SESSION) == ()


def test_pages_are_checked(tmp_path: Path) -> None:
    """What SQLite finds wrong with its file is a fatal finding, of the file and of no session."""
    with DiskArchive(tmp_path, durable=False) as archive:
        tip = commit_all(archive, [turn(number) for number in range(1, 9)])
        sound = archive.verify_file()
        with archive.database.writing() as connection:
            connection.exec_driver_sql("PRAGMA writable_schema = ON")
            connection.exec_driver_sql(
                "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master"
                " WHERE name = 'ebbtide_turns_end') WHERE name = 'ebbtide_changes_at'"
            )
        archive.close()

        (first, *_) = archive.verify_file()

        assert sound == ()
        assert (first.where, first.fatal) == (str(tmp_path / FILE), True)
        assert len(visible(archive, tip)) == 8


def test_gone_between_two_turns(tmp_path: Path) -> None:
    """A thread whose file is gone is told so; new ones go on; put back, it goes on."""
    archive = DiskArchive(tmp_path / "here", durable=False)
    here = talk(tmp_path, ["a", "b", "c", "d"], archive=archive, checkpointer=InMemorySaver())
    here.say("one")
    (tmp_path / "here").rename(tmp_path / "there")

    with pytest.raises(TipNotFoundError, match="use the archive that the thread was started with"):
        here.say("lost?")
    new = here.say("hello", {"configurable": {"thread_id": "new"}})

    assert here.said(new) == ["hello"]
    shutil.rmtree(tmp_path / "here")
    (tmp_path / "there").rename(tmp_path / "here")
    with pytest.raises(SessionNotFoundError):  # only the new file could tell whose run said it
        here.agent.invoke(None, THREAD)
    state = here.say("found")
    assert here.said(state) == ["one", "found"]
    assert archive.verify(Session("", "t")) == ()


def restarted(server: Server) -> None:
    """Stop a server in the middle of whatever it does, and start it."""
    running = server.running
    running.stop()
    with running._lock:
        running.ensure_postgres_running()


@dataclass
class Cut:
    """Restarts a server before the last of so many statements of a kind."""

    server: Server
    left: int
    pattern: str

    def __call__(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        """See a statement that is about to be executed."""
        self.left -= bool(re.match(self.pattern, statement, re.DOTALL))
        if self.left == 0:
            self.left = -1
            restarted(self.server)


@pytest.mark.thorough
@pytest.mark.parametrize("at", [1, 2])
def test_server_restarted_inside_a_reading(own: Server, at: int) -> None:
    """A reading that it cut off is done again, and nobody notices."""
    with SqlArchive(own.database().url) as archive:
        tip = commit_all(archive, [turn(1), turn(2)])
        cut = Cut(own, at, ".*FROM ebbtide_")

        with SqlArchive(archive.database.url.render_as_string(hide_password=False)) as fresh:
            fresh.users()
            event.listen(fresh.database._engine, "before_cursor_execute", cut)

            assert len(visible(fresh, tip)) == 2
        assert cut.left < 0


@pytest.mark.thorough
def test_commit_whose_answer_is_lost(own: Server) -> None:
    """Where nobody heard whether a turn was committed that is said; done again it stands once."""
    with SqlArchive(own.database().url) as archive:
        tip = commit_all(archive, [turn(1)])

        def lost(connection: Any) -> None:
            server = connection.connection.dbapi_connection.pgconn
            server.exec_(b"COMMIT")
            server.exec_(b"BEGIN")  # the driver sends no COMMIT where nothing was begun
            restarted(own)

        event.listen(archive.database._engine, "commit", lost)
        with pytest.raises(
            ArchiveUnavailableError, match="may have succeeded: repeat it"
        ) as caught:
            archive.commit(SESSION, tip, turn(2))
        event.remove(archive.database._engine, "commit", lost)

        assert "nothing was changed" not in str(caught.value)
        assert len(visible(archive, commit_all(archive, [turn(2)], tip))) == 2
        assert archive.verify(SESSION) == ()


@pytest.mark.thorough
@pytest.mark.parametrize("at", [1, 3, 5])
def test_server_restarted_inside_a_transaction(own: Server, tmp_path: Path, at: int) -> None:
    """The commit that it cut off is done again, and the turn stands once."""
    with SqlArchive(own.database().url) as archive:
        here = talk(tmp_path, ["a", "b", "c"], archive=archive)
        here.say("one")
        cut = Cut(own, at, "INSERT|UPDATE")

        event.listen(archive.database._engine, "before_cursor_execute", cut)
        state = here.say("two")

        assert cut.left < 0
        assert here.said(state) == ["one", "two"]
        assert archive.verify(Session("", "t")) == ()


def test_server_that_is_gone(own: Server) -> None:
    """A server that is not there is named, and its errors are told; later it is used again."""
    with SqlArchive(own.database().url) as archive:
        tip = commit_all(archive, [turn(1)])
        own.running.stop()
        with pytest.raises(ArchiveUnavailableError, match="check that it exists"):
            archive.commit(SESSION, tip, turn(2))
        with own.running._lock:
            own.running.ensure_postgres_running()

        assert len(visible(archive, commit_all(archive, [turn(2)], tip))) == 2


def _begun(url: str) -> int:
    """Commit a turn of a process's own session; return how many sessions there are."""
    with SqlArchive(url) as archive:
        archive.commit(Session("ann", f"t{os.getpid()}"), START, turn(1))
        return len(archive.sessions("ann"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_opened_empty_by_several(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Processes that open an empty database at once all find their tables, made once."""
    address = str(tmp_path) if kind == "sqlite" else request.getfixturevalue("database").url

    with ProcessPoolExecutor(3, mp_context=forks()) as pool:
        counts = [*pool.map(_begun, [address] * 6)]

    with SqlArchive(address) as archive:
        sessions = archive.sessions("ann")
        assert 1 <= len(sessions) <= 3
        assert len(counts) == 6
        assert [archive.verify(one) for one in sessions] == [()] * len(sessions)


@pytest.mark.parametrize("size", [100, 100_000])
def test_no_database(tmp_path: Path, size: int) -> None:
    """A file of something else is named, and stays as it is."""
    noise = random.Random(1).randbytes(size)
    (tmp_path / FILE).write_bytes(noise)

    with DiskArchive(tmp_path) as archive:
        for use in (lambda: archive.sessions(""), lambda: commit_all(archive, [turn(1)])):
            with pytest.raises(
                ArchiveFormatError, match=r"no database of Ebbtide .* another place"
            ):
                use()

    assert (tmp_path / FILE).read_bytes() == noise


def test_damaged_pages(tmp_path: Path) -> None:
    """A database whose pages were overwritten says that it is damaged, and of what to do."""
    with DiskArchive(tmp_path, durable=False) as archive:
        tip = commit_all(archive, [turn(number, "word " * 3_000) for number in range(1, 9)])
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    data[4_096:] = random.Random(1).randbytes(len(data) - 4_096)
    path.write_bytes(data)

    with DiskArchive(tmp_path) as damaged, pytest.raises(ArchiveFormatError, match="a backup"):
        damaged.commit(SESSION, tip, turn(9))


FILES = r"use a folder, sqlite:///FILE or postgresql\+psycopg"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        *((url, FILES) for url in ("mysql+nosuch://u@h/d", "postgresql+nosuch://u@h/d")),
        *((url, FILES) for url in ("mysql://u@h/d", "nosuch://d", "postgresql+asyncpg://u@h/d")),
        *((url, FILES) for url in ("sqlite+aiosqlite:///d", "://", "postgresql://u@h:x/d")),
        *((place, "names no place") for place in ("", "a\0b", "a\ud800", b"a")),
        ("sqlite:///a?timeout=abc", "an option after [?] is wrong: .*'abc'"),
        ("sqlite+pysqlcipher:///a", "not installed .* use sqlite:///FILE"),
        ("postgresql://u@h:x/d", "'postgresql': its port is no number"),
        ("postgresql+pg8000://u@h/d", r"not installed .* pip install 'ebbtide\[postgres\]'"),
        ("sqlite://", "keeps nothing: name a folder"),
        ("sqlite:///:memory:", "keeps nothing: name a folder"),
        ("sqlite:///file:a.sqlite?mode=memory&uri=true", "keeps nothing: name a folder"),
    ],
)
def test_no_such_place(place: Any, said: str) -> None:
    """What names no place or keeps nothing is refused at once, with what can be used."""
    with pytest.raises(ArchiveError, match=said):
        SqlArchive(place)


def test_no_name_of_a_file(tmp_path: Path) -> None:
    """What the system takes for no name is an error of the archive's, too."""
    with (
        SqlArchive(tmp_path / ("x" * 300)) as archive,
        pytest.raises(ArchiveUnavailableError, match="File name too long"),
    ):
        archive.users()


@pytest.mark.skipif(sys.platform != "linux", reason="users and rights of Linux")
def test_no_access() -> None:
    """A folder that one may not look into is an error, not an archive without sessions."""
    with readable_folder() as folder:
        archive = DiskArchive(folder)
        commit_all(archive, [turn(1)])
        archive.close()

        assert told_to_nobody(archive.users).startswith("ArchiveUnavailableError")


@pytest.mark.parametrize("statement", ["DROP TABLE {}", "ALTER TABLE {} RENAME events TO lost"])
def test_tables_that_lack_something(archive: SqlArchive, statement: str) -> None:
    """A table or a column that is not there is said, with what to do, and without our statement."""
    tip = commit_all(archive, [turn(1)])
    with archive.database.writing() as connection:
        connection.exec_driver_sql(statement.format("ebbtide_turns"))
    archive.close()

    with pytest.raises(ArchiveFormatError, match=r"lacks a part .* from a backup$") as caught:
        visible(archive, tip)

    assert "LINE" not in str(caught.value)


def test_password_is_not_told() -> None:
    """A database that cannot be reached is named without its password."""
    with (
        SqlArchive("postgresql://ann:secret@localhost:1/nowhere") as archive,
        pytest.raises(ArchiveUnavailableError) as caught,
    ):
        archive.sessions("")

    assert "ann:***@localhost" in str(caught.value)
    assert "secret" not in str(caught.value)


@contextmanager
def failing_writes(size: int) -> Iterator[None]:
    """Let the system refuse to write beyond so many bytes of a file; SQLite says I/O error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails(tmp_path: Path) -> None:
    """It is told as an I/O error; nothing was written, and later the turn is."""
    with DiskArchive(tmp_path) as archive:
        tip = commit_all(archive, [turn(1)])
        failed = pytest.raises(ArchiveUnavailableError, match=r"disk I/O error.*nothing was chan")
        with failing_writes(20_000), failed:
            archive.commit(SESSION, tip, turn(2, random.Random(1).randbytes(500_000).hex()))

        assert len(visible(archive, commit_all(archive, [turn(2)], tip))) == 2


def test_a_write_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    """The turn of a run is stored when the disk works again, as it is after a lock."""
    with DiskArchive(tmp_path) as archive:
        chat = talk(tmp_path, ["yes"] * 2, archive=archive)
        chat.say("first")
        left, engine = [2], archive.database._engine

        def refused(_cursor: Any, statement: str, *_: Any) -> None:
            left[0] -= statement == "BEGIN IMMEDIATE"
            if left[0] >= 0 and statement == "BEGIN IMMEDIATE":
                raise sqlite3.OperationalError("disk I/O error")

        event.listen(engine, "do_execute", refused)
        state = chat.say("second")

        assert chat.said(state) == ["first", "second"]
        assert left[0] < 0
