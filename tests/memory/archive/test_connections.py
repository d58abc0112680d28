"""Connections that nobody closes are closed all the same, and Python has nothing to complain of."""

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from ebbtide import DiskArchive, SqlArchive
from tests.databases import Database
from tests.faults import unclosed
from tests.memory.turns import OWNER, commit_all, turn
from tests.processes import ROOT

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="lists open files as Linux does")
STRICT = [sys.executable, "-W", "error::ResourceWarning"]


def strictly(*arguments: str) -> str:
    """Run Python so that it complains about what is dropped unclosed; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*STRICT, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert re.findall(".*(?:ResourceWarning|ignored|Traceback).*", done.stderr) == []
    return done.stdout


@LINUX
def test_programs_that_close_nothing(tmp_path: Path, database: Database) -> None:
    """Nothing of them stays open, and nothing is dropped unclosed, at the end of Python either."""
    left = json.loads(strictly("-m", "tests.faults.unclosed", str(tmp_path), database.uri))

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
    assert len(archive.at(OWNER, tip).turns([1])) == 1
    archive.close()
    assert unclosed.opened(tmp_path) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_child_leaves_the_connection_that_its_parent_uses(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """Forked while its parent reads, a child has a connection of its own, and closes that alone."""
    postgres = kind == "postgresql"
    address = request.getfixturevalue("database").url if postgres else tmp_path
    with SqlArchive(address) as archive:
        tip = commit_all(archive, [turn(1)])
        child = 0
        try:
            with archive.database.reading() as connection:
                child = os.fork()
                read = archive.users() if not child else ()
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0
                still = connection.exec_driver_sql("SELECT 1").scalar() if child else 0
            if not child:
                archive.close()
                gc.collect()
                os._exit(len(read))
        finally:
            if not child:
                os._exit(99)

        assert (code, still) == (1, 1)
        assert len(archive.at(OWNER, tip).turns([1])) == 1
