"""Connections that nobody closes are closed all the same, and Python has nothing to complain of."""

import json
import os
import re
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ebbtide import DiskArchive, SqlArchive
from ebbtide.memory.turn import Session
from tests.databases import Database
from tests.faults import unclosed
from tests.memory.turns import SESSION, START, commit_all, turn
from tests.processes import ROOT

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="lists open files as Linux does")
STRICT = [sys.executable, "-W", "error::ResourceWarning"]
"""Python that complains about what is dropped unclosed."""


@pytest.mark.thorough
@LINUX
def test_programs_that_close_nothing(tmp_path: Path, database: Database) -> None:
    """Nothing of them stays open, and nothing is dropped unclosed, at the end of Python either."""
    done = subprocess.run(
        [*STRICT, "-m", "tests.faults.unclosed", str(tmp_path), database.uri],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )

    left = json.loads(done.stdout)
    assert re.findall(".*(?:ResourceWarning|ignored|Traceback).*", done.stderr) == []
    names = {program.__name__ for program in unclosed.PROGRAMS} | {"in_postgres"}
    assert left == {name: [] for name in names}


@LINUX
def test_closed_while_a_thread_reads(tmp_path: Path) -> None:
    """A connection in use is closed when it is given back, and others are opened when needed."""
    archive, reading, closed = DiskArchive(tmp_path), Event(), Event()
    tip = commit_all(archive, [turn(1)])

    def read() -> None:
        with archive.database.reading():
            reading.set()
            closed.wait()

    thread = Thread(target=read)
    thread.start()
    reading.wait()
    archive.close()
    during = unclosed.opened(tmp_path)
    closed.set()
    thread.join()

    assert (during != [], unclosed.opened(tmp_path)) == (True, [])
    assert len(archive.load(SESSION, tip).turns([1])) == 1
    archive.close()
    assert unclosed.opened(tmp_path) == []


def commit(archive: SqlArchive, thread: str, closed: Event) -> None:
    """Commit a turn, wait until the parent has closed its connections, and commit another."""
    session = Session("ann", thread)
    tip = archive.commit(session, START, turn(1)).tip
    closed.wait()
    archive.commit(session, tip, turn(2))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_forked_processes(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Processes forked from one that used its archive commit to it, and so does the parent."""
    postgres = kind == "postgresql"
    address = request.getfixturevalue("database").url if postgres else tmp_path
    fork: Any = get_context("fork")
    with SqlArchive(address) as archive:
        commit_all(archive, [turn(1)])
        closed = fork.Event()
        children = [fork.Process(target=commit, args=(archive, name, closed)) for name in "ab"]
        for child in children:
            child.start()
        closed.set()
        commit(archive, "parent", closed)
        archive.close()
        for child in children:
            child.join()

        assert [child.exitcode for child in children] == [0, 0]
        tips = [archive.load(Session("ann", name)).tip for name in ("a", "b", "parent")]
        assert [tip.turn for tip in tips if tip] == [2, 2, 2]
