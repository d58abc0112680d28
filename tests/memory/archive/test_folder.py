"""Sessions as folders: files for people, from every database."""

import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.memory.archive.export import export_folder, read
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.compressions import as_data
from ebbtide.memory.errors import ArchiveError, SessionNotFoundError
from ebbtide.memory.serialised import to_dict
from ebbtide.memory.turn import Session
from tests.memory.archive.whole_sessions import NAMES, SAID, SESSIONS, commit_session
from tests.memory.turns import SESSION, commit_all, opened, turn

RAW, MANIFEST = "raw.jsonl", "manifest.yaml"


def lines(path: Path) -> list[Any]:
    """Return what the lines of a file say."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def test_a_line_has_the_whole_turn(disk: SqlArchive, tmp_path: Path) -> None:
    """A turn of several efforts stands in the file of each."""
    turns = [turn(1), turn(2, "", ["a", "b"], [opened("a"), opened("b")]), turn(3, "", ["b"])]
    tip = commit_all(disk, turns)

    export_folder(disk, SESSION, tmp_path / "out")

    assert [line["turn"] for line in lines(tmp_path / "out" / RAW)] == [1]
    first, second = disk.load(SESSION, tip).turns([1, 2])
    assert lines(tmp_path / "out/efforts/a.jsonl")[0] == {
        "turn": 2,
        "id": second.id,
        "parent": first.id,
        "origin": None,
        "efforts": ["a", "b"],
        "status": "done",
        "at": turns[1].at,
        "messages": [*map(to_dict, turns[1].messages)],
        "events": list(turns[1].events),
    }
    of_a, of_b = (lines(tmp_path / f"out/efforts/{name}.jsonl") for name in "ab")
    assert (of_b[0], len(of_b)) == (of_a[0], 2)


def test_all_turns_are_exported(archive: SqlArchive, tmp_path: Path) -> None:
    """Each turn of each branch is in the files, as are the compressions and the extractions."""
    commit_session(archive, SESSION)
    session = read(archive, SESSION)

    export_folder(archive, SESSION, tmp_path / "out")

    logged = [line for path in tmp_path.glob("out/**/*.jsonl") for line in lines(path)]
    turns = {line["id"]: line for line in logged if "messages" in line}
    assert turns.keys() == {turn.id for turn in session.turns}
    assert [turns[turn.id]["messages"] for turn in session.turns] == [
        [*map(to_dict, turn.messages)] for turn in session.turns
    ]
    assert lines(tmp_path / "out/compressed.jsonl") == [
        {"id": number, **as_data(made)} for number, made in session.compressions
    ]
    assert lines(tmp_path / "out/extractions.jsonl") == [*session.extractions]


def test_the_owner_is_named(disk: SqlArchive, tmp_path: Path) -> None:
    """`session.json` has the names as they are, even those that UTF-8 cannot hold."""
    for number, session in enumerate(SESSIONS):
        commit_session(disk, session)
        export_folder(disk, session, tmp_path / str(number))

    texts = [(tmp_path / str(number) / "session.json").read_bytes() for number in range(4)]
    assert [Session(**json.loads(text)) for text in texts] == [*SESSIONS]


def test_no_name_leaves_the_folder(disk: SqlArchive, tmp_path: Path) -> None:
    """Whatever an effort is called, its file lies in the folder, under a name of its own."""
    commit_session(disk, SESSION)

    export_folder(disk, SESSION, tmp_path / "out")

    files = [path for path in tmp_path.rglob("*.jsonl") if "disk" not in path.parts]
    assert {path.parent for path in files} == {tmp_path / "out", tmp_path / "out/efforts"}
    assert len([*(tmp_path / "out/efforts").iterdir()]) == len(NAMES) + 2


def test_nothing_erased_is_exported(disk: SqlArchive, tmp_path: Path) -> None:
    """No file holds what was erased; the turn is a tombstone."""
    commit_session(disk, SESSION)

    export_folder(disk, SESSION, tmp_path / "out")

    texts = [path.read_text("utf-8") for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [text for text in texts if SAID in text or "login is mended" in text] == []
    assert sum('"status":"erased"' in text for text in texts) == 1


def test_only_new_or_empty_folders_are_written(disk: SqlArchive, tmp_path: Path) -> None:
    """A folder that holds something, or a file, is an error and stays as it is."""
    commit_all(disk, [turn(1)])
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine", "utf-8")

    for name in ("full", "full/mine"):
        with pytest.raises(ArchiveError, match="is not empty"):
            export_folder(disk, SESSION, tmp_path / name)
    with pytest.raises(SessionNotFoundError):
        export_folder(disk, Session("bob", "t1"), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "full"]
