"""The folder of a session: what is written where."""

import json
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.record import Owner, Tip
from tests.memory.turns import OWNER, START, commit_all, concluded, opened, turn

KEYS = [
    "v",
    "turn",
    "branch",
    "from",
    "parent",
    "digest",
    "efforts",
    "status",
    "at",
    "messages",
    "events",
]


def lines(path: Path) -> list[dict[str, object]]:
    """Return the lines of a log as JSON."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_ambient_turn_is_a_line_of_the_raw_log(archive: DiskArchive, folder: Path) -> None:
    """An ambient turn is one line with exactly the keys of the format."""
    record = archive.commit(OWNER, START, turn(1))

    (line,) = lines(folder / "raw.jsonl")
    assert list(line) == KEYS
    assert (line["v"], line["turn"], line["branch"], line["from"]) == (1, 1, "main", None)
    assert (line["digest"], line["messages"]) == (record.digest, list(record.messages))


def test_branch_says_where_it_comes_from(archive: DiskArchive, folder: Path) -> None:
    """The first record of a branch, and only that, names its parent."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2)], before)
    commit_all(archive, [turn(2, "other"), turn(3)], before)

    origins = [line["from"] for line in lines(folder / "raw.jsonl")]

    assert origins == [None, None, ["main", 1], None]


def test_gap_is_a_key_of_its_own(archive: DiskArchive, folder: Path) -> None:
    """A record after a gap has one key more."""
    archive.commit(OWNER, Tip("main", 3, "3" * 16), turn(4))

    (line,) = lines(folder / "raw.jsonl")
    assert list(line) == [*KEYS, "gap"]


def test_turn_of_two_efforts_stands_in_the_first(archive: DiskArchive, folder: Path) -> None:
    """A turn of two efforts stands in the log of the first; the second's refers to it."""
    events = [concluded("a", "Done."), opened("b")]
    archive.commit(OWNER, START, turn(1, efforts=["b", "a"], events=events))

    (record,) = lines(folder / "efforts" / "b.jsonl")
    (reference,) = lines(folder / "efforts" / "a.jsonl")
    assert record["efforts"] == ["b", "a"]
    assert reference == {"v": 1, "ref": {"branch": "main", "turn": 1, "file": "efforts/b.jsonl"}}
    assert not (folder / "raw.jsonl").exists()


def test_manifest_has_a_line_per_change(archive: DiskArchive, folder: Path) -> None:
    """Each status change is a line of the manifest, newest last."""
    commit_all(archive, [turn(1, events=[opened("a")]), turn(2, events=[concluded("a", "Done.")])])

    text = (folder / "manifest.yaml").read_text("utf-8")

    assert [json.loads(line[2:])["status"] for line in text.splitlines()] == ["open", "concluded"]


def test_session_file_names_the_owner(archive: DiskArchive, root: Path) -> None:
    """The format's version and the owner in clear stand in the folder."""
    archive.commit(Owner("Ann", "T/1", "sub"), START, turn(1))

    (path,) = root.glob("*/*/session.json")

    assert path.parent.relative_to(root).as_posix() == "%41nn/%54%2f1@sub"
    assert json.loads(path.read_bytes()) == {
        "format": 1,
        "user": "Ann",
        "thread": "T/1",
        "namespace": "sub",
    }


def test_text_is_readable_in_the_file(archive: DiskArchive, folder: Path) -> None:
    """Text stands in the log as UTF-8, not as escapes."""
    archive.commit(OWNER, START, turn(1, "héllo 日本 🌊"))

    assert "héllo 日本 🌊".encode() in (folder / "raw.jsonl").read_bytes()


def test_reading_makes_no_folder(archive: DiskArchive, root: Path) -> None:
    """Asking for a session that does not exist leaves no trace."""
    assert archive.turns(OWNER, START, [1]) == ()
    assert archive.newest(OWNER) is None
    assert archive.sessions("ann") == ()
    assert not root.exists()


def test_copied_folder_is_no_session(archive: DiskArchive, folder: Path) -> None:
    """A copy of a session's folder under another name is not listed as that session again."""
    archive.commit(OWNER, START, turn(1))
    copy = folder.with_name("copy")
    copy.mkdir()
    (copy / "session.json").write_bytes((folder / "session.json").read_bytes())

    assert archive.sessions("ann") == (OWNER,)


@pytest.mark.parametrize("owner", [OWNER, Owner("ann", "T/1"), Owner("ann", "T/1", "sub|Ä")])
def test_damaged_session_file_is_listed_by_its_folder(
    archive: DiskArchive, root: Path, caplog: pytest.LogCaptureFixture, owner: Owner
) -> None:
    """A session that does not say whose it is is listed by its folder's name, with a warning."""
    archive.commit(owner, START, turn(1))
    (path,) = root.glob("*/*/session.json")
    path.write_text("{")

    assert archive.sessions("ann") == (owner,)
    assert "session.json" in caplog.text


def test_damaged_session_file_in_a_folder_of_another_name(
    archive: DiskArchive, folder: Path
) -> None:
    """A folder whose name no thread has is not listed if it does not say whose it is."""
    folder.with_name("Foreign").mkdir(parents=True)
    (folder.with_name("Foreign") / "session.json").write_text("{")

    assert archive.sessions("ann") == ()


def test_stray_files_are_no_sessions(archive: DiskArchive, folder: Path) -> None:
    """Files and empty folders beside the sessions are ignored."""
    archive.commit(OWNER, START, turn(1))
    folder.with_name("notes.txt").write_text("mine")
    folder.with_name("empty").mkdir()

    assert archive.sessions("ann") == (OWNER,)


@pytest.mark.parametrize("durable", [True, False])
def test_durable_or_not_is_written_alike(root: Path, durable: bool) -> None:  # noqa: FBT001
    """Durability changes when bytes reach the disk, not which."""
    with DiskArchive(root, durable=durable) as archive:
        record = archive.commit(OWNER, START, turn(1, efforts=["a"], events=[opened("a")]))

    with DiskArchive(str(root)) as again:
        assert again.turns(OWNER, record.tip, [1]) == (record,)
