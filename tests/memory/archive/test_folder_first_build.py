"""Archives of the first build, a folder of files for each session, read into a database.

`first_build` was written by it: two users, of whom ann's `t1` has forks, a fork of a fork, efforts,
a compression, a turn that was erased, and one that lost a copy of it; her other session has names
that no file can have. What it kept beside its logs to be faster is left out.
"""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from ebbtide.memory.archive.folder import import_folder
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.archive.transfer import Moved, read
from ebbtide.memory.errors import ArchiveFormatError
from ebbtide.memory.record import Owner, Record, Tip
from ebbtide.memory.salience import Compression, Item, Kind
from tests.memory.archive.whole_sessions import all_of, attention
from tests.memory.turns import turn

FIRST = Path(__file__).parent / "first_build"
ANN, ODD = Owner("ann", "t1"), Owner("ann", "../../etc", "agent/sub")
BOB = Owner("bob", "t1")
TIP = Tip("main", 8, "94ac087b210aa50d")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return a copy of the archive, to be changed."""
    return copytree(FIRST, tmp_path / "first")


def records(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the records that stand in the files of a session, by their places."""
    paths = [folder / "raw.jsonl", *folder.glob("efforts/*.jsonl")]
    texts = [path.read_text("utf-8") for path in paths if path.exists()]
    entries = [json.loads(line) for text in texts for line in text.split("\n") if line]
    return {(entry["branch"], entry["turn"]): entry for entry in entries if "ref" not in entry}


def changed(path: Path, change: Callable[[str], str]) -> None:
    """Change the text of a file, its line ends left as they are."""
    path.write_bytes(change(path.read_bytes().decode()).encode())


FIELDS = ("digest", "parent", "status", "at", "messages", "events", "efforts", "from")
"""What a line of `raw.jsonl` says of a record."""


def as_line(record: Record) -> dict[str, Any]:
    """Return a record as a line of a file holds it."""
    return {
        **{name: getattr(record, name) for name in ("digest", "parent", "status", "at")},
        **{name: [*getattr(record, name)] for name in ("messages", "events", "efforts")},
        "from": [*record.origin] if record.origin else None,
    }


def test_every_record_is_there_as_it_was(archive: SqlArchive) -> None:
    """Branch, digest, parent, origin, efforts, events, status and time are those of the files."""
    import_folder(archive, FIRST)

    turns = {turn.place: turn.record for turn in read(archive, ANN).turns}
    lines = records(FIRST / "ann/t1")
    assert {place: as_line(record) for place, record in turns.items()} == {
        place: {name: line[name] for name in FIELDS} for place, line in lines.items()
    }


def test_sessions_of_all_users_are_there_and_sound(archive: SqlArchive) -> None:
    """Each session is there under its own names, verifies, and its newest branch is the newest."""
    moved = import_folder(archive, FIRST)

    assert {(one.owner, one.turns, one.fresh) for one in moved} == {
        *((ANN, 12, True), (ODD, 3, True), (BOB, 3, True))
    }
    assert [one for one in archive.verify(ANN) if one.fatal] == []
    assert [one for one in archive.verify(ODD) if one.fatal] == []
    assert [one for one in archive.verify(BOB) if one.fatal] == []
    assert archive.newest(ANN) == TIP


def test_what_a_tip_sees(archive: SqlArchive) -> None:
    """Efforts, ambient turns, the tombstone, the compression: as the first build showed them."""
    import_folder(archive, FIRST)

    efforts = archive.efforts(ANN, TIP, 10)
    assert [(one.id, one.status, one.turn) for one in efforts.efforts] == [
        ("auth-bug", "open", 8),
        ("büro-2", "open", 5),
    ]
    assert archive.ambient(ANN, TIP, 10) == (1, 7)
    assert archive.effort_turns(ANN, TIP, "auth-bug") == (2, 3, 4, 5, 8)
    assert archive.turns(ANN, TIP, [4])[0].status == "erased"
    goal = Item(Kind.GOAL, "find a desk", 5, speaker="user")
    fact = Item(Kind.FACT, "A desk by the window.", 6)
    assert archive.compression(ANN, TIP, "büro-2") == Compression(
        "büro-2", 7, 6, (goal, fact), "A desk was sought."
    )


def test_attention_follows_from_the_turns(archive: SqlArchive) -> None:
    """What was concluded is a memory, what was reopened is withdrawn."""
    import_folder(archive, FIRST)

    kept = [(one["memory"], one["base"], one["withdrawn"]) for one in attention(archive, ANN)]
    assert kept == [("..%2F..%2Fetc@agent%2Fsub/con", 55, False), ("t1/auth-bug", 70, True)]


def test_the_conversation_goes_on(archive: SqlArchive) -> None:
    """The next turn follows on the branch that was the newest."""
    import_folder(archive, FIRST)

    record = archive.commit(ANN, TIP, turn(9))

    assert (record.branch, record.parent) == ("main", TIP.digest)


@pytest.mark.parametrize(
    ("name", "owners"), [("", {ANN, ODD, BOB}), ("ann", {ANN, ODD}), ("bob/t1", {BOB})]
)
def test_root_user_or_session(disk: SqlArchive, name: str, owners: set[Owner]) -> None:
    """The whole root, the folder of a user or that of a session can be named."""
    assert {one.owner for one in import_folder(disk, FIRST / name)} == owners
    assert {*all_of(disk)} == owners


@pytest.mark.parametrize("name", ["raw.jsonl", "efforts/büro-2.jsonl", "extractions.jsonl"])
def test_a_torn_last_line_is_left_out_and_noted(disk: SqlArchive, first: Path, name: str) -> None:
    """Half a line that a crash left at the end of a file is no damage, and is told of."""
    path = first / "ann/t1" / name
    changed(path, lambda text: f'{text}{{"v":1,"turn":9,"messages":["é'[:-1])

    (moved,) = import_folder(disk, first / "ann/t1")

    (found,) = moved.findings
    assert (found.what, found.fatal) == ("torn last line: it is left out", False)
    assert found.where.startswith(str(path))
    assert moved.turns == 12


def _half(text: str) -> str:
    return text[: len(text) // 3] + "\n" + text[len(text) // 3 :]


DAMAGE = [
    ("raw.jsonl", _half, r"raw.jsonl:\d: damaged"),
    ("raw.jsonl", lambda text: text[text.index("\n") + 1 :], "damaged: the parent of turn 2"),
    ("efforts/auth-bug.jsonl", _half, r"auth-bug.jsonl:3: damaged"),
    ("efforts/büro-2.jsonl", lambda _: "", "the turn is not in 'efforts/büro-2.jsonl'"),
    ("erased.json", lambda _: "[]", r"raw.jsonl:2: damaged: the digest does not match"),
    ("erased.json", lambda text: text.replace('"branch"', '"b"'), "erased.json: damaged"),
    ("compressed.jsonl", lambda text: text.replace('"goal"', '"gaol"'), r"compressed.jsonl:1: dam"),
    ("erasing.json", lambda _: "{}", "a turn was being erased"),
]


@pytest.mark.parametrize(("name", "change", "said"), DAMAGE)
def test_damage_is_named_and_nothing_of_the_session_is_there(
    disk: SqlArchive, first: Path, name: str, change: Callable[[str], str], said: str
) -> None:
    """A damaged line is an error with file and line; the other sessions are taken over."""
    (first / "ann/t1/erasing.json").touch() if name == "erasing.json" else None
    changed(first / "ann/t1" / name, change)
    reports: list[Moved] = []

    with pytest.raises(ArchiveFormatError, match=said):
        import_folder(disk, first, reports.append)

    assert {report.owner for report in reports} == {ODD, BOB} == {*all_of(disk)}


def test_text_that_was_erased_does_not_come_back(disk: SqlArchive, first: Path) -> None:
    """A turn that is noted as erased and is there with its text is damage."""
    noted = {"branch": "main", "turn": 1, "digest": "", "content": "", "at": ""}
    noted["digest"] = str(records(first / "bob/t1")["main", 1]["digest"])
    (first / "bob/t1/erased.json").write_text(json.dumps([noted]), "utf-8")

    with pytest.raises(ArchiveFormatError, match="was erased, and is here with its text"):
        import_folder(disk, first / "bob")


def test_a_gap_is_closed_and_noted(disk: SqlArchive, first: Path) -> None:
    """A turn whose parent the first build did not hold follows what there is before it."""
    path = first / "bob/t1/raw.jsonl"
    changed(path, _without_second)

    (moved,) = import_folder(disk, first / "bob")

    one, three = disk.turns(BOB, Tip("main", 3), [1, 2, 3])
    assert (three.turn, three.parent) == (3, one.digest)
    assert [one.what for one in moved.findings] == [
        "the turn before turn 3 was missing: it follows what there is"
    ]
    assert disk.verify(BOB) == ()


def _without_second(text: str) -> str:
    one, _, three, _ = text.split("\n")
    return f'{one}\n{three[:-1]},"gap":true}}\n'
