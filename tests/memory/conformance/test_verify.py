"""Verifying: a sound session has no fatal finding."""

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.errors import SessionNotFoundError
from tests.memory.turns import OWNER, commit_all, concluded, opened, turn


def test_sound_session_has_no_findings(archive: Archive) -> None:
    """A session of one branch is verified without a finding."""
    events = [concluded("a", "Done."), opened("b")]
    groups = [
        turn(1, efforts=["a"], events=[opened("a")]),
        turn(2, efforts=["b", "a"], events=events),
    ]
    commit_all(archive, [*groups, turn(3)])

    assert archive.verify(OWNER) == ()


def test_leaf_branch_is_listed(archive: Archive) -> None:
    """Every branch that ends without being the newest is listed, not as fatal."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2)], before)
    commit_all(archive, [turn(2, "another"), turn(3)], before)

    findings = archive.verify(OWNER)

    assert [(finding.what, finding.fatal) for finding in findings] == [
        ("leaf branch 'main' ends with turn 2", False)
    ]


def test_unknown_session_is_not_found(archive: Archive) -> None:
    """A session that was never written cannot be verified."""
    with pytest.raises(SessionNotFoundError, match="'t1'"):
        archive.verify(OWNER)
