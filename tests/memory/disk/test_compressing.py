"""Compressions on disk: crashes between line and index, damage, erasing, export."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.record import Tip
from ebbtide.memory.salience import Compression, ExtractionEntry, Item, Kind
from tests.memory.turns import OWNER, commit_all, opened, turn

PORT = Item(Kind.FACT, "It listens on port 8443.", 1)
FOLDER = Path("ann") / "t1"


def talked(archive: DiskArchive, turns: int = 3) -> Tip:
    """Commit turns of one effort; the first says what is quoted from it."""
    first = turn(1, PORT.quote, ["a"], [opened("a")])
    later = (turn(number, efforts=["a"]) for number in range(2, turns + 1))
    return commit_all(archive, [first, *later])


def made(tip: Tip) -> Compression:
    """Return what stands for the first two turns."""
    return Compression("a", tip.turn, 2, (PORT,), "A port was chosen.")


def told(tip: Tip, turns: tuple[int, ...] = (1, 2)) -> ExtractionEntry:
    """Return what the log says of a pass over these turns."""
    quotes = [{"quote": PORT.quote, "verdict": "verbatim", "turn": 1}]
    return ExtractionEntry("a", tip.branch, tip.turn, turns, "2026-01-01", {"quotes": quotes})


def holding(folder: Path, text: str) -> list[str]:
    """Return the files that hold a text."""
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    )


def test_line_without_its_index_row_is_found(tmp_path: Path) -> None:
    """A process that died after the line, or an index that was deleted, loses nothing."""
    with DiskArchive(tmp_path) as archive:
        tip = talked(archive)
        stored = archive.commit_compression(OWNER, tip, made(tip))
    for path in (tmp_path / FOLDER).glob("index.sqlite*"):
        path.unlink()

    with DiskArchive(tmp_path) as archive:
        assert archive.compression(OWNER, tip, "a") == stored
        assert archive.verify(OWNER) == ()


def test_torn_line_is_cut_off_and_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a line was never stored: the next one stands in its place."""
    with DiskArchive(tmp_path) as archive:
        tip = talked(archive)
        archive.commit_compression(OWNER, tip, made(tip))
    log = tmp_path / FOLDER / "compressed.jsonl"
    log.write_bytes(log.read_bytes()[:-20])

    with DiskArchive(tmp_path) as archive, caplog.at_level(logging.WARNING):
        assert archive.compression(OWNER, tip, "a") is None
        again = archive.commit_compression(OWNER, tip, made(tip))
        assert archive.compression(OWNER, tip, "a") == again
    assert "torn last line" in caplog.text


def test_damaged_line_falls_back_to_the_one_before(tmp_path: Path) -> None:
    """The older one is found, and `verify` names the file and the line."""
    with DiskArchive(tmp_path) as archive:
        tip = talked(archive, 3)
        first = archive.commit_compression(OWNER, tip, made(tip))
        later = commit_all(archive, [turn(4, efforts=["a"])], tip)
        archive.commit_compression(OWNER, later, made(later))
    log = tmp_path / FOLDER / "compressed.jsonl"
    one, two = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(one + two.replace(b'"items"', b'"itemz"'))

    with DiskArchive(tmp_path) as archive:
        assert archive.compression(OWNER, later, "a") == first
        assert [finding.where for finding in archive.verify(OWNER)] == ["compressed.jsonl:2"]


def test_another_process_sees_what_one_made(tmp_path: Path) -> None:
    """Two archives over one folder agree."""
    with DiskArchive(tmp_path) as one, DiskArchive(tmp_path) as two:
        tip = talked(one)
        assert two.compression(OWNER, tip, "a") is None
        stored = one.commit_compression(OWNER, tip, made(tip))
        assert two.compression(OWNER, tip, "a") == stored
        assert two.commit_compression(OWNER, tip, replace(made(tip), background="")) == stored


def test_log_of_extractions_has_a_line_for_each_pass(tmp_path: Path) -> None:
    """It is JSON, a line each, in the order of the passes."""
    with DiskArchive(tmp_path) as archive:
        tip = talked(archive)
        archive.log_extraction(OWNER, told(tip))
        archive.log_extraction(OWNER, told(tip, (3,)))

    lines = (tmp_path / FOLDER / "extractions.jsonl").read_text().splitlines()
    assert [json.loads(line)["turns"] for line in lines] == [[1, 2], [3]]
    assert json.loads(lines[0])["told"]["quotes"][0]["quote"] == PORT.quote


def test_erased_text_is_in_no_file(tmp_path: Path) -> None:
    """Neither the items nor the log of how they were found, later passes included, hold it."""
    with DiskArchive(tmp_path) as archive:
        tip = talked(archive)
        archive.commit_compression(OWNER, tip, made(tip))
        archive.log_extraction(OWNER, told(tip))
        archive.log_extraction(OWNER, told(tip, (3,)))
        assert "compressed.jsonl" in holding(tmp_path, PORT.quote)

        erased = archive.erase(OWNER, tip, 1)

        assert archive.compression(OWNER, tip, "a") == replace(
            made(tip), items=(), background="", stale=True
        )
    lines = (tmp_path / FOLDER / "extractions.jsonl").read_text().splitlines()
    assert [json.loads(line)["told"] for line in lines] == [{"erased": True}] * 2
    assert (erased.left, holding(tmp_path, PORT.quote)) == ((), [])


def test_export_takes_compressions_along(tmp_path: Path) -> None:
    """The exported folder is a session with the same compressions and the same log."""
    with DiskArchive(tmp_path / "from") as archive:
        tip = talked(archive)
        stored = archive.commit_compression(OWNER, tip, made(tip))
        archive.log_extraction(OWNER, told(tip))
        archive.export(OWNER, tmp_path / "to" / FOLDER)

    with DiskArchive(tmp_path / "to") as archive:
        assert archive.compression(OWNER, tip, "a") == stored
    assert (tmp_path / "to" / FOLDER / "extractions.jsonl").exists()
