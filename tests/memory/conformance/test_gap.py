"""Gaps: a state may know more than an archive that was restored from an older backup."""

import logging

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.record import Tip
from tests.memory.turns import OWNER, commit_all, turn, visible


def test_missing_session_is_a_gap(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    """A turn whose whole past is missing is stored as a root with a gap, and logged."""
    with caplog.at_level(logging.WARNING, "ebbtide.archive"):
        record = archive.commit(OWNER, Tip("main", 5, "5" * 16), turn(6))

    assert (record.branch, record.origin, record.parent) == ("main", None, "5" * 16)
    assert record.gap
    assert "does not hold" in caplog.text


def test_missing_turns_are_a_gap(archive: Archive) -> None:
    """A turn after ones that are missing stays on its branch, and sees what is left."""
    commit_all(archive, [turn(1), turn(2)])
    record = archive.commit(OWNER, Tip("main", 5, "5" * 16), turn(6))

    assert (record.branch, record.gap) == ("main", True)
    assert visible(archive, record.tip) == ["question 1", "question 2", "question 6"]


def test_gap_is_stored_once(archive: Archive) -> None:
    """A retry of a turn after a gap finds its record."""
    commit_all(archive, [turn(1)])
    first = archive.commit(OWNER, Tip("main", 5, "5" * 16), turn(6))

    assert archive.commit(OWNER, Tip("main", 5, "5" * 16), turn(6)) == first


def test_session_goes_on_after_a_gap(archive: Archive) -> None:
    """The turn after the one with the gap has none."""
    first = archive.commit(OWNER, Tip("main", 5, "5" * 16), turn(6))

    second = archive.commit(OWNER, first.tip, turn(7))

    assert (second.branch, second.gap) == ("main", False)


def test_other_record_at_the_tip_starts_a_branch(archive: Archive) -> None:
    """If the archive has another record where the tip is, a branch leaves before that record."""
    commit_all(archive, [turn(1), turn(2)])
    record = archive.commit(OWNER, Tip("main", 2, "2" * 16), turn(3))

    assert (record.origin, record.gap) == (("main", 1), True)
    assert visible(archive, record.tip) == ["question 1", "question 3"]


def test_unknown_branch_is_a_root(archive: Archive) -> None:
    """A branch that the archive does not know begins from nothing, with a gap."""
    commit_all(archive, [turn(1)])
    record = archive.commit(OWNER, Tip("b123", 4, "4" * 16), turn(5))

    assert (record.branch, record.origin, record.gap) == ("b123", None, True)
    assert visible(archive, record.tip) == ["question 5"]


def test_gap_is_no_damage(archive: Archive) -> None:
    """Verifying reports a gap without calling it fatal."""
    archive.commit(OWNER, Tip("main", 5, "5" * 16), turn(6))

    assert [finding.fatal for finding in archive.verify(OWNER)] == [False]
