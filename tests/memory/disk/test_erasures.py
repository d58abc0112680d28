"""Erasing on disk: which bytes are left, what is finished by whom, what verify says."""

import json
import shutil
from pathlib import Path

import pytest

from ebbtide.memory.archive.protocol import Finding
from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.erasing import _begun
from ebbtide.memory.disk.folder import Folder
from ebbtide.memory.disk.schema import connect
from ebbtide.memory.errors import ArchiveFormatError
from ebbtide.memory.record import Tip
from tests.memory.turns import OWNER, commit_all, concluded, human, opened, turn, visible

SAID = "The safe opens with seven left, nine right."


@pytest.fixture
def tip(archive: DiskArchive) -> Tip:
    """Write a session in which turn 2, of two efforts, is the one to be erased."""
    groups = [
        turn(1, "", ["a"], [opened("a")]),
        turn(2, SAID, ["b", "a"], [concluded("a", SAID), opened("b", goal=SAID)]),
        turn(3, "", ["b"]),
        turn(4, "", ["b"], [concluded("b", "Of a safe.", goal=SAID)]),
    ]
    return commit_all(archive, groups)


def holding(folder: Path, text: str = SAID) -> list[str]:
    """Return the names of the files that hold a text."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.name for path in files if text.encode() in path.read_bytes()]


def begin(archive: DiskArchive, tip: Tip, number: int) -> None:
    """Write down an erasure as a process does that is killed right after."""
    session = archive._sessions.get(OWNER)
    session.write((), lambda opened: _begun(session.folder, opened, tip, number))


def findings(archive: DiskArchive) -> list[tuple[str, str]]:
    """Return place and words of each finding."""
    return [(found.where, found.what) for found in archive.verify(OWNER)]


def test_no_file_holds_the_text(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """Logs, manifest and index are without the text, the index's own log included."""
    assert {"b.jsonl", "manifest.yaml"} <= set(holding(folder))

    erased = archive.erase(OWNER, tip, 2)

    assert holding(folder) == []
    assert erased.left == ()
    assert archive.verify(OWNER) == (Finding("erased.json", "1 turn erased", fatal=False),)


def test_manifest_keeps_its_order_and_its_edits(
    archive: DiskArchive, folder: Path, tip: Tip
) -> None:
    """What is redacted stands where it stood, and what was edited by hand elsewhere is kept."""
    path = folder / "manifest.yaml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0].replace("do a", "do a well"), *lines[1:], ""]))

    archive.erase(OWNER, tip, 2)

    listed = [json.loads(line[2:]) for line in path.read_text().splitlines()]
    assert [(one["id"], one["status"], one["goal"]) for one in listed] == [
        *(("a", "open", "do a well"), ("a", "concluded", "")),
        *(("b", "open", ""), ("b", "concluded", "")),
    ]
    assert [one.get("stale", False) for one in listed] == [False, True, False, True]


def test_edit_by_hand_that_quotes_is_undone(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A manifest that quotes the turn because somebody wrote it there says what the record says."""
    path = folder / "manifest.yaml"
    path.write_text(path.read_text().replace("do a", SAID))

    archive.erase(OWNER, tip, 2)

    assert holding(folder) == []
    effort = archive.effort(OWNER, Tip("main", 1), "a")
    assert effort is not None
    assert effort.goal == "do a"


def test_manifest_set_aside_is_deleted(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A damaged manifest that was kept aside goes if it holds the text."""
    (folder / "manifest.yaml.damaged").write_text(f"{{ {SAID}")
    (folder / "raw.jsonl.new").write_text("half a file")

    archive.erase(OWNER, tip, 2)

    assert holding(folder) == []
    assert not (folder / "raw.jsonl.new").exists()


def test_manifest_that_cannot_be_read(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A manifest that is no YAML is made again from the records, without the text."""
    begin(archive, tip, 2)
    archive.close()
    (folder / "manifest.yaml").write_text(f"{{ {SAID}")

    archive.newest(OWNER)

    assert holding(folder) == []
    assert len((folder / "manifest.yaml").read_text().splitlines()) == 4


def test_deleted_manifest_is_made_again(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A manifest that is missing while a turn is erased is made from the records."""
    begin(archive, tip, 2)
    archive.close()
    (folder / "manifest.yaml").unlink()

    archive.newest(OWNER)

    assert len((folder / "manifest.yaml").read_text().splitlines()) == 4


def test_damaged_line_with_the_text_is_named(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """What cannot be read cannot be erased: the file is named."""
    archive.close()
    with (folder / "efforts" / "b.jsonl").open("ab") as file:
        file.write(b"{damaged " + SAID.encode() + b"\n")

    erased = archive.erase(OWNER, tip, 2)

    assert erased.left == ("efforts/b.jsonl",)


def test_copies_of_a_summary_go(archive: DiskArchive, folder: Path) -> None:
    """What a tool retold of a summary is redacted in other turns; verify knows why."""
    told = json.dumps({"status": "concluded", "effort_id": "a", "summary": "How safes open."})
    result = {"type": "tool", "data": {"name": "close_effort", "content": told}}
    closing = turn(2, "", ["a"], [concluded("a", "How safes open.")])
    closing = type(closing)(2, (human("close"), result), closing.at, ("a",), closing.events)
    tip = commit_all(archive, [turn(1, SAID, ["a"], [opened("a")]), closing])

    archive.erase(OWNER, tip, 1)

    (record,) = archive.turns(OWNER, tip, [2])
    assert (holding(folder, "How safes open."), record.status) == ([], "done")
    assert archive.verify(OWNER) == (Finding("erased.json", "1 turn erased", fatal=False),)
    path = folder / "efforts" / "a.jsonl"
    path.write_text(path.read_text().replace("close", "open"))
    assert ("efforts/a.jsonl:2", "the digest does not match the messages") in findings(archive)


def test_log_that_is_gone_meanwhile(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """An older copy of the session, put back while a turn is erased, can be opened."""
    begin(archive, tip, 2)
    archive.close()
    (folder / "efforts" / "b.jsonl").unlink()

    newest = archive.newest(OWNER)

    assert (newest, holding(folder)) == (Tip("main", 1, archive.tips(OWNER)[0].digest), [])


def test_next_opening_finishes(archive: DiskArchive, folder: Path, root: Path, tip: Tip) -> None:
    """Whoever opens the session next finishes an erasure, before anything can be read."""
    begin(archive, tip, 2)

    with DiskArchive(root, durable=False) as other:
        (record,) = other.turns(OWNER, tip, [2])

    assert record.status == "erased"
    assert holding(folder) == []
    assert not (folder / "erasing.json").exists()


def test_next_commit_finishes(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """So does an archive that has the session open, at its next turn."""
    begin(archive, tip, 2)

    record = archive.commit(OWNER, tip, turn(5))

    assert (record.branch, holding(folder)) == ("main", [])
    assert archive.turns(OWNER, record.tip, [2])[0].status == "erased"


def test_erasure_under_way_is_said(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """Verifying does not finish an erasure; it says that one is under way, which has no text."""
    begin(archive, tip, 2)

    found = archive.verify(OWNER)

    what = "turn 2 is being erased: it is finished at the next opening"
    assert found == (Finding("erasing.json", what, fatal=False),)
    assert SAID not in (folder / "erasing.json").read_text()


def test_damaged_journal_is_an_error(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A journal that cannot be read is named, and nothing is guessed."""
    archive.close()
    (folder / "erasing.json").write_text("{")

    with pytest.raises(ArchiveFormatError, match=r"erasing\.json' is damaged: delete it"):
        archive.commit(OWNER, tip, turn(5))


def test_damaged_list_is_an_error(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A list of erased turns that cannot be read is named."""
    archive.erase(OWNER, tip, 2)
    (folder / "erased.json").write_text("{")

    with pytest.raises(ArchiveFormatError, match=r"erased\.json' is damaged: restore it"):
        archive.verify(OWNER)


def test_forged_tombstone_is_found(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A record that somebody emptied by hand is no erased turn."""
    assert archive.newest(OWNER) == tip
    archive.close()
    path = folder / "efforts" / "b.jsonl"
    first, *rest = path.read_text().splitlines()
    emptied = {**json.loads(first), "status": "erased", "messages": []}
    path.write_text("\n".join([json.dumps(emptied), *rest, ""]))

    assert findings(archive) == [("efforts/b.jsonl:1", "turn 2 has no text, and nobody erased it")]


def test_tombstone_with_text_is_found(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A tombstone in which there are messages again does not match."""
    archive.erase(OWNER, tip, 2)
    archive.close()
    path = folder / "efforts" / "b.jsonl"
    path.write_text(
        path.read_text().replace('"messages":[]', f'"messages":[{json.dumps(human("x"))}]')
    )

    assert ("efforts/b.jsonl:1", "the digest does not match the messages") in findings(archive)


def test_text_that_came_back_is_found(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A log restored from a backup brings the text back, and verify says so."""
    archive.close()
    shutil.copy(folder / "efforts" / "b.jsonl", folder / "backup")
    archive.erase(OWNER, tip, 2)
    archive.close()
    shutil.move(folder / "backup", folder / "efforts" / "b.jsonl")

    what = "turn 2 was erased, and is here with its text"
    assert ("efforts/b.jsonl:1", what) in findings(archive)


def test_export_is_a_sound_session(
    archive: DiskArchive, root: Path, tip: Tip, tmp_path: Path
) -> None:
    """An exported session with tombstones has no text of them, and verifies."""
    archive.erase(OWNER, tip, 2)
    archive.export(OWNER, tmp_path / "out")

    shutil.copytree(tmp_path / "out", root / "ann" / "t1", dirs_exist_ok=True)

    assert holding(tmp_path / "out") == []
    assert [found.fatal for found in archive.verify(OWNER)] == [False]


def test_all_turns_can_be_erased(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """One after the other, each turn becomes a tombstone, and all are listed."""
    for number in (4, 2, 1, 3):
        archive.erase(OWNER, tip, number)

    statuses = {record.status for record in archive.turns(OWNER, tip, range(1, 5))}
    listed = json.loads((folder / "erased.json").read_text())
    assert statuses == {"erased"}
    assert [item["turn"] for item in listed] == [4, 2, 1, 3]
    assert visible_status(archive, tip) == ["concluded", "concluded"]


def visible_status(archive: DiskArchive, tip: Tip) -> list[str]:
    """Return the status of each effort."""
    return [effort.status for effort in archive.efforts(OWNER, tip, 9).efforts]


def test_index_is_built_without_it(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """The index is a new one: its pages were never those of the old one."""
    archive.erase(OWNER, tip, 2)

    connection = connect(folder / "index.sqlite", durable=False)
    goals = connection.execute("SELECT entry FROM changes").fetchall()
    free = connection.execute("PRAGMA freelist_count").fetchone()
    connection.close()
    assert SAID not in str(goals)
    assert free == (0,)


def test_session_goes_on_after_a_lost_index(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """Tombstones are indexed like any record when the index is built anew."""
    archive.erase(OWNER, tip, 3)
    archive.close()
    (folder / "index.sqlite").unlink()

    record = archive.commit(OWNER, tip, turn(5))

    assert (record.branch, record.gap) == ("main", False)
    assert archive.effort_turns(OWNER, record.tip, "b") == (2, 3, 4)
    assert visible(archive, Tip("main", 2, "")) == ["question 1", SAID]


def test_files_are_those_of_the_session(archive: DiskArchive, folder: Path, tip: Tip) -> None:
    """A session's files are all in its folder, those of the index included."""
    archive.erase(OWNER, tip, 2)

    names = {path.name for path in Folder(folder).files()}

    assert names >= {"erased.json", "index.sqlite", "manifest.yaml", "session.json", "a.jsonl"}


def test_index_that_is_wrong_erases_no_other_turn(archive: DiskArchive, folder: Path) -> None:
    """If a log was changed behind the index, it is built anew before anything is erased."""
    tip = commit_all(archive, [turn(1), turn(2), turn(3)])
    raw = folder / "raw.jsonl"
    first, second, third = raw.read_bytes().splitlines(keepends=True)
    raw.write_bytes(second + first + third)

    archive.erase(OWNER, tip, 2)

    records = archive.turns(OWNER, tip, [1, 2, 3])
    assert [(one.turn, one.status) for one in records] == [(1, "done"), (2, "erased"), (3, "done")]


def test_damaged_held_state_is_named(archive: DiskArchive, tip: Tip, folder: Path) -> None:
    """A held state that cannot be read is an error that says what to do."""
    archive.hold(OWNER, {"turn": tip.turn})
    (folder / "held.json").write_text("{")

    with pytest.raises(ArchiveFormatError, match=r"held.json' is damaged: delete it, and restore"):
        archive.held(OWNER)
