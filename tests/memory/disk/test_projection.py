"""The manifest's file: edited, damaged, deleted, and gone on with."""

import logging
from pathlib import Path

import pytest
import yaml

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.efforts import Effort
from ebbtide.memory.record import Tip
from tests.memory.disk.answers import answers, populate
from tests.memory.turns import OWNER, commit_all, concluded, opened, turn


@pytest.fixture
def manifest(folder: Path) -> Path:
    """Return the path of the manifest."""
    return folder / "manifest.yaml"


def effort(archive: DiskArchive, tip: Tip, name: str = "a") -> Effort:
    """Return an effort that is there."""
    found = archive.effort(OWNER, tip, name)
    assert found is not None
    return found


def in_block_form(path: Path, **values: object) -> None:
    """Write the manifest in ordinary YAML with these values in its last entry."""
    items = yaml.safe_load(path.read_bytes())
    items[-1] |= values
    path.write_text("# my notes\n" + yaml.safe_dump(items), "utf-8")


def concluded_session(archive: DiskArchive) -> Tip:
    """Write a session with one concluded effort, and close the archive."""
    groups = [
        turn(1, efforts=["a"], events=[opened("a")]),
        turn(2, events=[concluded("a", "Old.")]),
    ]
    tip = commit_all(archive, groups)
    archive.close()
    return tip


def test_edited_line_wins(archive: DiskArchive, manifest: Path) -> None:
    """A summary that was edited in place is the effort's summary from the next opening on."""
    tip = concluded_session(archive)
    manifest.write_bytes(manifest.read_bytes().replace(b"Old.", b"Edited."))

    assert effort(archive, tip).summary == "Edited."
    assert archive.efforts(OWNER, tip, 1).efforts[0].summary == "Edited."


def test_edited_yaml_wins(archive: DiskArchive, manifest: Path) -> None:
    """A manifest that was edited into ordinary YAML is read."""
    tip = concluded_session(archive)
    in_block_form(manifest, summary="Edited.", keywords=["k", 401], importance=80)

    found = effort(archive, tip)

    assert (found.summary, found.keywords, found.importance) == ("Edited.", ("k", "401"), 80)


def test_reading_does_not_rewrite_an_edit(archive: DiskArchive, manifest: Path) -> None:
    """What was edited stands as it is until there is something to add."""
    concluded_session(archive)
    in_block_form(manifest, summary="Edited.")
    written = manifest.read_bytes()

    archive.newest(OWNER)

    assert manifest.read_bytes() == written


def test_commit_goes_on_after_an_edit(archive: DiskArchive, manifest: Path) -> None:
    """The next entry follows the edited ones, which keep what they say."""
    tip = concluded_session(archive)
    in_block_form(manifest, summary="Edited.")

    tip = commit_all(archive, [turn(3, events=[opened("b")])], tip)

    assert [item["id"] for item in yaml.safe_load(manifest.read_bytes())] == ["a", "a", "b"]
    assert effort(archive, tip).summary == "Edited."


def test_edit_is_noticed_by_the_next_commit(archive: DiskArchive, manifest: Path) -> None:
    """An edit while the session is open counts from the next commit on."""
    tip = commit_all(archive, [turn(1, events=[opened("a")])])
    in_block_form(manifest, goal="Edited.")

    tip = commit_all(archive, [turn(2)], tip)

    assert effort(archive, tip).goal == "Edited."


def test_edit_outlives_the_index(archive: DiskArchive, manifest: Path) -> None:
    """An edit is still there when the index is rebuilt."""
    tip = concluded_session(archive)
    in_block_form(manifest, summary="Edited.")
    manifest.with_name("index.sqlite").unlink()

    assert effort(archive, tip).summary == "Edited."


def test_edit_counts_for_its_own_turn(archive: DiskArchive, manifest: Path) -> None:
    """An edit of an older entry is seen from the tips that see that entry as the newest."""
    tip = concluded_session(archive)
    manifest.write_bytes(manifest.read_bytes().replace(b"do a", b"edited"))

    assert effort(archive, Tip("main", 1)).goal == "edited"
    assert effort(archive, tip).summary == "Old."


def test_edit_taken_back_is_gone(archive: DiskArchive, manifest: Path) -> None:
    """When the old text is put back, the record counts again."""
    tip = concluded_session(archive)
    old = manifest.read_bytes()
    manifest.write_bytes(old.replace(b"Old.", b"Edited."))
    archive.newest(OWNER)
    archive.close()
    manifest.write_bytes(old)

    assert effort(archive, tip).summary == "Old."


def test_unknown_entry_is_ignored_and_reported(archive: DiskArchive, manifest: Path) -> None:
    """An entry that matches no record makes no effort; verifying names it, not as fatal."""
    tip = concluded_session(archive)
    in_block_form(manifest, id="invented")

    assert archive.effort(OWNER, tip, "invented") is None
    assert effort(archive, tip).summary == "Old."
    assert [(finding.where, finding.fatal) for finding in archive.verify(OWNER)] == [
        ("manifest.yaml", False)
    ]


def test_deleted_manifest_is_rebuilt(archive: DiskArchive, root: Path, manifest: Path) -> None:
    """A manifest that is missing is written again from the records."""
    populate(archive)
    expected, written = answers(root), manifest.read_bytes()
    archive.close()
    manifest.unlink()

    assert answers(root) == expected
    assert sorted(manifest.read_bytes().split(b"\n")) == sorted(written.split(b"\n"))


def test_damaged_manifest_is_kept_aside(
    archive: DiskArchive, manifest: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A manifest that cannot be read is kept under another name and written again."""
    tip = concluded_session(archive)
    manifest.write_text("- [unclosed", "utf-8")

    with caplog.at_level(logging.WARNING, "ebbtide.archive"):
        assert effort(archive, tip).summary == "Old."
    assert manifest.with_name("manifest.yaml.damaged").read_text("utf-8") == "- [unclosed"
    assert len(manifest.read_bytes().splitlines()) == 2
    assert "cannot be read" in caplog.text


def test_verify_names_a_damaged_manifest(archive: DiskArchive, manifest: Path) -> None:
    """Verifying reports a manifest that cannot be read, or lacks entries, not as fatal."""
    concluded_session(archive)
    manifest.write_text("- [unclosed", "utf-8")
    damaged = archive.verify(OWNER)
    manifest.write_text("- text\n", "utf-8")
    lacking = archive.verify(OWNER)

    assert [finding.fatal for finding in damaged] == [False]
    assert ["items are no entries" in lacking[0].what, len(lacking)] == [True, 3]


def test_session_without_efforts_has_no_manifest(archive: DiskArchive, manifest: Path) -> None:
    """As long as there is no effort there is no manifest, and nothing is missing."""
    commit_all(archive, [turn(1)])

    assert not manifest.exists()
    assert archive.verify(OWNER) == ()
