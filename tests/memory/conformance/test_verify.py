"""Verifying: a sound session has no fatal finding, a damaged one says what is wrong and where."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, text

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.rows import zipped
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.errors import ArchiveFormatError
from ebbtide.memory.turn import Tip
from tests.memory.turns import SESSION, commit_all, concluded, opened, turn

JUNK = zipped("junk")


def test_leaf_branch_is_listed(archive: Archive) -> None:
    """Every branch that ends without being the newest is listed, not as fatal."""
    before = commit_all(archive, [turn(1)])
    commit_all(archive, [turn(2)], before)
    commit_all(archive, [turn(2, "another"), turn(3)], before)

    findings = archive.verify(SESSION)

    assert [(finding.what, finding.fatal) for finding in findings] == [
        ("turn 2 is the leaf of a branch", False)
    ]


def told(archive: SqlArchive) -> Tip:
    """Commit three turns, one of an effort that begins and one of an effort that ends."""
    begun, done = turn(1, "", ["a"], [opened("a")]), turn(2, "", ["a"], [concluded("a", "Well.")])
    return commit_all(archive, [begun, done, turn(3)])


def damaged(archive: SqlArchive, statement: str, **values: Any) -> None:
    """Run a statement behind the archive's back, and let it read anew."""
    with archive.database.writing() as connection:
        connection.execute(text(statement), values)
    archive.close()


@pytest.mark.parametrize(
    ("statement", "where", "what"),
    [
        ("DELETE FROM ebbtide_turns WHERE turn = 3", "session", "3 turns are noted"),
        ("DELETE FROM ebbtide_turns WHERE turn = 3", "session", "has other turns than it says"),
        ("DELETE FROM ebbtide_turns WHERE turn = 2", "turn 3", "the parent of turn 3 is missing"),
        (
            "UPDATE ebbtide_turns SET parent = :junk WHERE turn = 2",
            "turn 2",
            "the parent of turn 2",
        ),
        (
            "UPDATE ebbtide_turns SET nonce = :junk WHERE turn = 3",
            "turn 3",
            "the id does not match",
        ),
        ("UPDATE ebbtide_turns SET messages = :junk WHERE turn = 3", "turn 3", "it is no turn"),
        ("UPDATE ebbtide_turns SET events = :junk WHERE turn = 3", "turn 3", "it is no turn"),
        ("UPDATE ebbtide_turns SET state = :junk WHERE turn = 3", "turn 3", "it is no turn"),
        ("UPDATE ebbtide_sessions SET newest = 9", "session", "the last in row 9"),
        ("UPDATE ebbtide_sessions SET turns = 9", "session", "9 turns are noted"),
        ("UPDATE ebbtide_runs SET last = 9", "session", "has other turns than it says"),
        ("DELETE FROM ebbtide_runs", "session", "has other turns than it says"),
        ("DELETE FROM ebbtide_members WHERE turn = 3", "turn 3", "listed under other efforts"),
        ("UPDATE ebbtide_members SET effort = 'b' WHERE turn = 1", "turn 1", "other efforts"),
        ("DELETE FROM ebbtide_changes WHERE turn = 2", "turn 2", "the manifest has other changes"),
        ("UPDATE ebbtide_changes SET status = 'open'", "turn 2", "the manifest has other changes"),
    ],
)
def test_damage_is_found(archive: SqlArchive, statement: str, where: str, what: str) -> None:
    """Whatever row is gone or changed, a fatal finding names the place and what is wrong there."""
    told(archive)

    damaged(archive, statement, **({"junk": JUNK} if ":junk" in statement else {}))

    findings = archive.verify(SESSION)
    found = [one.where for one in findings if what in one.what and one.fatal]
    assert [name.partition(" (")[0] for name in found] == [where]


@pytest.mark.parametrize("column", ["messages", "events", "state"])
def test_junk_is_named_by_who_reads_it(archive: SqlArchive, column: str) -> None:
    """A row that cannot be read is an error that names session and turn."""
    tip = told(archive)
    damaged(archive, f"UPDATE ebbtide_turns SET {column} = :junk", junk=JUNK)  # noqa: S608 (ours)

    with pytest.raises(
        ArchiveFormatError, match=r"session 't1' is damaged \(turn 3 \([0-9a-f]+\) is damaged"
    ):
        archive.load(SESSION, tip).saved() if column == "state" else archive.load(
            SESSION, tip
        ).turns([3])


def test_junk_in_the_manifest_is_named(archive: SqlArchive) -> None:
    """So is a change of an effort that is no JSON."""
    tip = told(archive)
    damaged(archive, "UPDATE ebbtide_changes SET entry = 'junk'")

    with pytest.raises(ArchiveFormatError, match="session 't1' is damaged"):
        archive.load(SESSION, tip).efforts_named(["a"])


def test_nothing_is_locked(archive: SqlArchive) -> None:
    """Verifying only reads: no lock is taken, and others write meanwhile."""
    tip = told(archive)
    statements: list[str] = []
    event.listen(
        archive.database._engine,
        "before_cursor_execute",
        lambda _connection, _cursor, statement, *_rest: statements.append(statement),
    )

    archive.verify(SESSION)

    assert [one for one in statements if "IMMEDIATE" in one or "FOR UPDATE" in one] == []
    assert archive.commit(SESSION, tip, turn(4)).number == 4


def test_state_block_is_stored_once_and_missed_where_it_is_needed(archive: SqlArchive) -> None:
    """Turns that keep a block name its row; it goes with its session, and verifying misses it."""
    blocks = [{"Goal": "tidy"}, {"Goal": "tidy"}, {"Goal": "rest"}, {"Goal": "rest"}]
    tip = commit_all(
        archive,
        [
            replace(turn(number), state={"memory": {"turn": number, "anchor": block}})
            for number, block in enumerate(blocks, 1)
        ],
    )
    saved = [archive.load(SESSION, Tip(number, tip.id)).saved() for number in range(1, 5)]

    stored = _count(archive)
    damaged(archive, "DELETE FROM ebbtide_blocks WHERE id % 2 = 1")
    findings = archive.verify(SESSION)
    archive.delete_session(SESSION)

    assert [one and one["memory"]["anchor"] for one in saved] == blocks
    assert (stored, _count(archive)) == (2, 0)
    assert {one.what for one in findings} == {"its state block is missing"}


def _count(archive: SqlArchive) -> int:
    with archive.database.reading() as connection:
        return int(connection.execute(text("SELECT count(*) FROM ebbtide_blocks")).scalar_one())
