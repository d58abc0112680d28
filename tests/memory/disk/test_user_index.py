"""The index of what a user's sessions concluded: a cache that may be lost at any time."""

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.folder import Folder, describe, logs, session_folder
from ebbtide.memory.disk.lines import encode
from ebbtide.memory.disk.lock import SessionLock
from ebbtide.memory.disk.user_index import NAME
from ebbtide.memory.manifest import entries, line
from ebbtide.memory.record import Group, Owner, Tip, place
from tests.memory.disk.test_processes import release, start
from tests.memory.turns import OWNER, concluded, human, opened

OTHER = Owner("ann", "t2")
SUMMARY = "Fixed the login with an axios interceptor."
SEARCH = """
import sys
from ebbtide.memory.disk.archive import DiskArchive
from tests.memory.disk.test_user_index import found, work
from ebbtide.memory.record import Owner

with DiskArchive(sys.argv[1], durable=False) as archive:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(10):
        name = f"{sys.argv[2]}-{number}"
        work(archive, Owner("ann", name), name)
        assert f"{name}/{name}" in found(archive, name), name
"""


def work(archive: DiskArchive, owner: Owner, effort: str, summary: str = SUMMARY) -> Tip:
    """Conclude an effort in a session, in a turn of its own; return the tip."""
    events = (opened(effort, goal=""), concluded(effort, summary))
    tip = archive.newest(owner) or Tip()
    at = f"2026-01-01T00:00:{tip.turn:02}Z"
    group = Group(tip.turn + 1, (human(f"turn {tip.turn}: {summary}"),), at, (effort,), events)
    return archive.commit(owner, tip, group).tip


def found(archive: DiskArchive, query: str, owner: Owner = OWNER) -> list[str]:
    """Return the efforts of other sessions that a query finds, each behind its thread."""
    results = archive.search_sessions(owner, query, 5)
    return [f"{one.owner.thread}/{one.effort.id}" for one in results]


def indexed(root: Path) -> bytes:
    """Return the bytes of the user's index and of all that belongs to it."""
    return b"".join(path.read_bytes() for path in sorted((root / "ann").glob(f"{NAME}*")))


@pytest.fixture
def index(archive: DiskArchive, root: Path) -> Path:
    """Return the index of a user who has concluded something in two sessions."""
    work(archive, OTHER, "auth-bug")
    work(archive, Owner("ann", "t3"), "invoices", "Set a page break.")
    assert found(archive, "axios") == ["t2/auth-bug"]
    return root / "ann" / NAME


def test_it_is_no_session(archive: DiskArchive, index: Path) -> None:
    """The index is a file beside the sessions; they are listed, and it is not."""
    assert index.is_file()
    assert archive.sessions("ann") == (OTHER, Owner("ann", "t3"))


def test_a_session_of_its_name(archive: DiskArchive, index: Path) -> None:
    """A session that is called like the index has a folder of another name."""
    work(archive, Owner("ann", NAME), "auth-new")

    assert found(archive, "axios") == [f"{NAME}/auth-new", "t2/auth-bug"]
    assert index.is_file()


def test_a_deleted_index_is_built_again(archive: DiskArchive, index: Path) -> None:
    """Without the index the next search finds the same."""
    index.unlink()

    assert found(archive, "axios") == ["t2/auth-bug"]
    assert index.exists()


def cut(path: Path) -> None:
    """Cut a file off in the middle."""
    os.truncate(path, path.stat().st_size // 2)


def scribble(path: Path) -> None:
    """Write over the beginning of a file."""
    path.write_bytes(b"no database" * 9 + path.read_bytes()[99:])


def executed(statement: str) -> Callable[[Path], None]:
    """Return what executes a statement in a file."""

    def execute(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(statement)

    return execute


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        scribble,
        executed("DROP TABLE efforts"),
        executed("DROP TABLE concluded"),
        executed("UPDATE efforts SET at = 1, reopened = x'00'"),
        executed("UPDATE efforts SET session = CAST(x'ff' AS TEXT)"),
        executed("UPDATE manifests SET session = CAST(x'ff' AS TEXT) WHERE session = 't2'"),
        executed("DELETE FROM concluded_data"),
        executed("PRAGMA user_version = 99"),
    ],
)
def test_a_damaged_index_is_built_anew(
    archive: DiskArchive, index: Path, damage: Callable[[Path], None]
) -> None:
    """Whatever the file holds, the search finds the same."""
    damage(index)

    assert found(archive, "axios") == ["t2/auth-bug"]


def test_an_index_that_cannot_be_made(
    archive: DiskArchive, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If there is no way to have an index, nothing is found, and a warning says why."""
    index.unlink()
    index.mkdir()

    assert found(archive, "axios") == []
    assert "other sessions of 'ann' are not searched" in caplog.text


def test_only_what_changed_is_read(
    archive: DiskArchive, root: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two manifests that cannot be read, that one is read again which has changed."""
    caplog.set_level(logging.WARNING)
    manifests = [root / "ann" / name / "manifest.yaml" for name in ("t2", "t3")]
    [path.write_text("{") for path in manifests]
    assert found(archive, "axios page") == []
    caplog.clear()

    manifests[1].write_text("[")

    assert found(archive, "axios page") == []
    assert [path for path in manifests if str(path) in caplog.text] == manifests[1:]
    assert index.exists()


def test_a_session_that_vanished_leaves_nothing(
    archive: DiskArchive, root: Path, index: Path
) -> None:
    """What only a deleted session said is neither found, nor in the file after a search."""
    archive.close()
    assert b"axio" in indexed(root)

    shutil.rmtree(root / "ann" / "t2")

    assert found(archive, "axios") == []
    assert found(archive, "page break") == ["t3/invoices"]
    assert index.exists()
    assert b"axio" not in indexed(root)


def test_a_manifest_edited_by_hand_counts(archive: DiskArchive, index: Path) -> None:
    """What somebody wrote into the manifest is found, in any form of YAML."""
    manifest = index.parent / "t2" / "manifest.yaml"
    archive.close()

    manifest.write_text(
        "- id: auth-bug\n  status: concluded\n  branch: main\n  turn: 1\n  summary: Zebras.\n"
    )

    (one,) = archive.search_sessions(OWNER, "zebra", 5)
    assert (one.owner, one.effort.summary) == (OTHER, "Zebras.")
    assert found(archive, "axios") == []


def test_what_the_records_do_not_know_is_not_found(archive: DiskArchive, index: Path) -> None:
    """An effort that somebody added to a manifest by hand is no effort of the session."""
    manifest = index.parent / "t2" / "manifest.yaml"
    added = "- {id: made-up, status: concluded, branch: main, turn: 1, summary: Zebras}\n"
    archive.close()

    manifest.write_text(manifest.read_text() + added)

    assert found(archive, "zebra") == []


def test_a_missing_manifest_comes_back_with_its_session(archive: DiskArchive, index: Path) -> None:
    """What a crash kept out of a manifest is found once its session was opened again."""
    manifest = index.parent / "t2" / "manifest.yaml"
    archive.close()
    manifest.unlink()
    assert found(archive, "axios") == []

    archive.newest(OTHER)

    assert found(archive, "axios") == ["t2/auth-bug"]


@pytest.mark.parametrize("said", ['{"format": 99}', "{", "[]"])
def test_a_session_that_cannot_be_read_hides_no_other(
    archive: DiskArchive, index: Path, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer or damaged format is left out with a warning, and the others are found."""
    work(archive, Owner("ann", "t4"), "auth-other")
    archive.close()
    description = index.parent / "t2" / "session.json"
    owner = '"user": "ann", "thread": "t2", "namespace": ""'

    description.write_text(said.replace("99}", f"99, {owner}}}"))

    assert found(archive, "axios") == ["t4/auth-other"]
    assert "t2" in caplog.text


def test_strange_files_are_no_sessions(archive: DiskArchive, index: Path) -> None:
    """Files, foreign folders and odd names beside the sessions do no harm."""
    user = index.parent
    (user / "manifest.yaml").write_text("- {}")
    shutil.copytree(user / "t2", user / "Not Ours")
    shutil.copytree(user / "t2", os.fsdecode(os.fsencode(user) + b"/\xff"))

    assert found(archive, "axios") == ["t2/auth-bug"]


def test_two_processes_at_once(archive: DiskArchive, root: Path) -> None:
    """Processes that conclude and search at the same time each find what they concluded."""
    processes = [start(SEARCH, root, name) for name in ("alpha", "beta")]

    assert release(*processes) == [0, 0]
    names = [f"{name}-{number}" for name in ("alpha", "beta") for number in range(10)]
    assert [found(archive, name)[0] for name in names] == [f"{name}/{name}" for name in names]


def test_many_sessions(archive: DiskArchive, root: Path) -> None:
    """Of 2,000 sessions each is found by what it alone says; their manifests come in parts."""
    for number in range(2_000):
        written(root, Owner("ann", f"s{number}"), f"The cat of house x{number}.")

    assert found(archive, "x1234 cat")[0] == "s1234/pet"
    assert len(found(archive, "house")) == 5


def written(root: Path, owner: Owner, summary: str) -> None:
    """Write the files of a session that concluded an effort, without an index."""
    group = Group(1, (human("Hello."),), "2026-01-01", ("pet",), (concluded("pet", summary),))
    folder, record = (
        Folder(session_folder(root, owner), durable=False),
        place(group, "main", "", None),
    )
    folder.make()
    describe(folder, owner)
    (folder.path / logs(record.efforts)[0]).write_bytes(encode(record))
    folder.manifest.write_text("".join(map(line, entries(record))), encoding="utf-8")


def test_nothing_erased_is_left(archive: DiskArchive, root: Path, index: Path) -> None:
    """After an erasure, and a search of another session, no word of the text is in the file."""
    tip = work(archive, OTHER, "secret", "The password is Xylophonium.")
    assert found(archive, "xylophonium") == ["t2/secret"]
    assert b"xylophonium" in indexed(root)

    archive.erase(OTHER, tip, tip.turn)

    assert b"xylophonium" not in indexed(root)
    assert found(archive, "xylophonium") == []
    assert found(archive, "axios") == ["t2/auth-bug"]
    assert index.exists()
    assert b"xylophonium" not in indexed(root)


def test_an_erasure_waits_for_who_writes_the_index(
    archive: DiskArchive, root: Path, index: Path
) -> None:
    """The index is not deleted while somebody may write into it what was read before."""
    tip = archive.newest(OTHER) or Tip()

    with ThreadPoolExecutor(1) as pool:
        with SessionLock(root / "ann" / ".concluded.lock", 1).held():
            erasing = pool.submit(archive.erase, OTHER, tip, tip.turn)
            assert wait({erasing}, 0.3).done == set()
            assert index.exists()
        erasing.result()

    assert not index.exists()


def test_erased_while_others_search(archive: DiskArchive, root: Path) -> None:
    """Whoever searches at the same time brings no word back of what is erased."""
    owners = [Owner("ann", f"s{number}") for number in range(8)]
    tips = [work(archive, owner, "secret", "It is Xylophonium.") for owner in owners]

    def erase(owner: Owner, tip: Tip) -> None:
        with DiskArchive(root, durable=False) as other:
            other.erase(owner, tip, tip.turn)

    def search(_number: int) -> list[str]:
        with DiskArchive(root, durable=False) as other:
            return found(other, "xylophonium")

    with ThreadPoolExecutor(4) as pool:
        searched = [pool.submit(search, number) for number in range(40)]
        [*pool.map(erase, owners, tips)]
    assert {len(one.result()) for one in searched} <= {0, 1, 2, 3, 4, 5}

    assert found(archive, "xylophonium") == []
    assert b"xylophonium" not in indexed(root)
