"""Input and output that fail for a moment: they are told as what they are, and nothing is lost."""

import random
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from ebbtide import DiskArchive
from ebbtide.memory.archive.database import FILE
from ebbtide.memory.errors import ArchiveUnavailableError
from tests.agents import talk
from tests.memory.turns import SESSION, commit_all, turn, visible


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


def test_a_page_that_could_not_be_read(tmp_path: Path) -> None:
    """SQLite calls the file malformed; a second look, which finds it whole, says otherwise."""
    with DiskArchive(tmp_path) as archive:
        tip = commit_all(archive, [turn(number, "word " * 3_000) for number in range(1, 9)])
    path = tmp_path / FILE
    whole = path.read_bytes()

    with DiskArchive(tmp_path) as archive:
        archive.users()
        path.write_bytes(whole[:4_096] + bytes(len(whole) - 4_096))

        def mended(context: Any) -> None:
            del context
            path.write_bytes(whole)

        event.listen(archive.database._engine, "handle_error", mended)
        failed = pytest.raises(ArchiveUnavailableError, match="it is whole when it is read again")
        with failed:
            archive.commit(SESSION, tip, turn(9))

        assert len(visible(archive, commit_all(archive, [turn(9)], tip))) == 9
