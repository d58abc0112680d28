"""Copying an archive: to the other kind of database and back, stopped and gone on with."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from ebbtide.memory.archive.copy import Copied, copy
from ebbtide.memory.archive.export import export_folder, read
from ebbtide.memory.archive.rows import zipped
from ebbtide.memory.archive.schema import STORED, turns
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.attention.law import Memory
from ebbtide.memory.errors import ArchiveError, ArchiveFormatError, SessionNotFoundError
from ebbtide.memory.turn import Part, Session, Tip
from tests.databases import Database
from tests.draws import examples
from tests.memory.archive.whole_sessions import (
    NAMES,
    SAID,
    SESSIONS,
    all_of,
    commit_session,
    commit_sessions,
    seen_by_tips,
    sessions_of,
)
from tests.memory.turns import SESSION, START, answer, commit_all, concluded, human, opened, turn
from tests.processes import printing

DAMAGE = "UPDATE ebbtide_turns SET {} = '\\x{}' WHERE turn = {}"

PROGRAM = Path(__file__).parent / "copying.py"
MANY, TURNS = 4, 20


@pytest.fixture
def served(database: Database) -> Iterator[SqlArchive]:
    """Yield an empty archive in PostgreSQL."""
    with SqlArchive(database.url) as kept:
        yield kept


@pytest.mark.thorough
def test_to_postgresql_and_back(disk: SqlArchive, served: SqlArchive, tmp_path: Path) -> None:
    """All of three users is the same in SQLite, in PostgreSQL and in SQLite again, and goes on."""
    tips = {session: commit_session(disk, session) for session in SESSIONS}

    with SqlArchive(tmp_path / "back", durable=False) as back:
        there, again = copy(disk, served), copy(served, back)

        assert all_of(disk) == all_of(served) == all_of(back)
        assert sessions_of(disk) == sessions_of(served) == sessions_of(back)
        places = [disk, served, back]
        for session, tip in tips.items():
            pasts = [place.load(session) for place in places]
            assert [(past.tip, past.reseed) for past in pasts] == [(tip, tip)] * 3
            of_disk, *copied = [place.commit(session, tip, turn(9)) for place in places]
            assert copied == [of_disk] * 2
    assert {(one.turns, one.fresh) for one in (*there, *again)} == {(12, True)}


@pytest.mark.thorough
def test_what_is_there_is_passed_over(archive: SqlArchive, another: SqlArchive) -> None:
    """A second copy tells of each session, and writes only those that came since."""
    commit_sessions(archive)
    copy(archive, another)
    archive.commit(Session("carl", "t9"), START, turn(1))
    reports: list[Copied] = []

    moved = copy(archive, another, reports.append)

    assert [one.session.thread for one in moved if one.fresh] == ["t9"]
    assert (tuple(reports), len(reports)) == (moved, len(SESSIONS) + 1)
    assert all_of(another) == all_of(archive)


def test_threads_go_on_with_the_copy(archive: SqlArchive, another: SqlArchive) -> None:
    """The target has the secret of the source, as has who opens it later."""
    commit_session(archive, SESSION)
    assert archive.keyed_digest("said") != another.keyed_digest("said")

    copy(archive, another)

    assert another.keyed_digest("said") == archive.keyed_digest("said")
    with SqlArchive(another.database.url.render_as_string(hide_password=False)) as again:
        assert again.keyed_digest("said") == archive.keyed_digest("said")


def test_an_archive_that_is_used_keeps_its_secret(archive: SqlArchive, another: SqlArchive) -> None:
    """Its own threads go on; those that were copied into it are restored."""
    commit_session(archive, SESSION)
    another.commit(Session("carl", "t9"), START, turn(1))
    own = another.keyed_digest("said")

    copy(archive, another)

    assert another.keyed_digest("said") == own != archive.keyed_digest("said")


def test_a_session_that_went_on_is_an_error(archive: SqlArchive, another: SqlArchive) -> None:
    """A session with other turns in the target stays as it is; the others are copied."""
    tip = commit_session(archive, SESSION)
    copy(archive, another)
    archive.commit(SESSION, tip, turn(9))
    archive.commit(Session("carl", "t9"), START, turn(1))
    before = read(another, SESSION)

    with pytest.raises(ArchiveError, match="already exists with other turns"):
        copy(archive, another)

    assert read(another, SESSION) == before
    assert another.users() == ("ann", "carl")


OTHER: Mapping[str, Any] = {
    "state": None,
    "efforts": "[]",
    "nonce": "cd",
    "origin": "cd",
    "events": zipped("[]"),
}
CHANGING = {*STORED, "state"} - {"number", "messages", "id", "parent"}  # the id stands for these


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(CHANGING))
def test_another_value_in_any_column_is_an_error(
    archive: SqlArchive, another: SqlArchive, name: str
) -> None:
    """A session whose turn has another value in the target is not there already."""
    begun = replace(turn(1, "", ["a"], [opened("a")]), nonce="ab", state={"turn": 1})
    archive.commit(SESSION, Tip(), begun)
    copy(archive, another)
    with another.database.writing() as connection:
        connection.execute(update(turns).values({name: OTHER.get(name, "x")}))

    with pytest.raises(ArchiveError, match=r"with other turns \(turn 1 "):
        copy(archive, another)


def test_what_was_erased_since_is_not_brought_back(
    archive: SqlArchive, another: SqlArchive
) -> None:
    """A copy from before an erasure has other records: the text does not come back."""
    tip = commit_all(archive, [turn(1), turn(2, SAID), turn(3)])
    copy(archive, another)
    archive.erase(SESSION, tip, 2)

    with pytest.raises(ArchiveError, match=r"\(turn 2 "):
        copy(another, archive)

    assert archive.load(SESSION, tip).turns([2])[0].status == "erased"


def test_memories_of_no_session_are_copied(archive: SqlArchive, another: SqlArchive) -> None:
    """What attention was given by hand is copied too, also of who has no session; once."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    commit_all(archive, [turn(1)])
    archive.attention().add("ann", Memory("by-hand", 80, now, ("zebra",)), now=now)
    archive.attention().add("bob", Memory("by-hand", 80, now, ("zebra",)), now=now)
    archive.attention().suppress("bob", "by-hand", now=now)

    copy(archive, another)
    copy(archive, another)

    assert another.attention()._stored("ann") == archive.attention()._stored("ann") != ()
    assert another.attention()._stored("bob") == archive.attention()._stored("bob") != ()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (DAMAGE.format("messages", zipped("[]").hex(), 1), "turn 1 .*: the id does not match"),
        ("UPDATE ebbtide_turns SET messages = substring(messages, 1, 12)", "turn 1 .* is damaged"),
        ("UPDATE ebbtide_turns SET messages = '[' WHERE turn = 2", "turn 2 .* is damaged"),
        (DAMAGE.format("events", zipped("[{}]").hex(), 2), "turn 2 .*: damaged"),
        ("DELETE FROM ebbtide_turns WHERE turn = 1", "turn 2 .*: damaged"),
    ],
)
def test_damage_is_not_copied(
    disk: SqlArchive, served: SqlArchive, database: Database, statement: str, said: str
) -> None:
    """What is damaged in the source is an error that names it, and is not in the target."""
    commit_all(served, [turn(1), turn(2)])
    database.run(statement)

    with pytest.raises(ArchiveFormatError, match=said):
        copy(served, disk)

    assert disk.users() == ()


def test_nothing_to_copy(archive: SqlArchive, another: SqlArchive) -> None:
    """An empty archive is copied at once; a session that is not there cannot be read."""
    assert copy(archive, another) == ()
    with pytest.raises(SessionNotFoundError):
        read(archive, SESSION)


@pytest.mark.thorough
@pytest.mark.parametrize("lines", [1, 3])
def test_killed_it_goes_on_where_it_was(
    disk: SqlArchive, database: Database, tmp_path: Path, lines: int
) -> None:
    """Killed in the middle of a session, a copy has whole sessions alone, and goes on."""
    for number in range(MANY):
        session, tip = Session(f"user{number % 3}", f"t{number}"), START
        for at in range(1, TURNS + 1):
            tip = disk.commit(session, tip, turn(at, f"turn {at} of {number} says " * 9)).tip

    with printing([str(PROGRAM), str(tmp_path / "disk"), database.url], Path.cwd()) as said:
        for _ in range(lines):
            said.readline()

    with SqlArchive(database.url) as target:
        left, wanted = all_of(target), all_of(disk)
        assert lines <= len(left) <= MANY
        assert {session: wanted[session] for session in left} == left
        assert sum(not one.fresh for one in copy(disk, target)) == len(left)
        assert all_of(target) == wanted


TEXTS = st.text(max_size=12) | st.sampled_from(NAMES)
EVENTS = st.lists(
    st.builds(opened, TEXTS, goal=TEXTS)
    | st.builds(concluded, TEXTS, TEXTS, keywords=st.lists(TEXTS, max_size=2))
    | st.just({"type": "switched", "effort": "a"}),
    max_size=2,
)
STATE = st.none() | st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS), max_size=2)
GROUPS = st.lists(
    st.tuples(st.integers(0, 9), TEXTS, st.lists(TEXTS, max_size=3), EVENTS, STATE), max_size=8
)
IDS = st.text(st.characters(exclude_categories=["Cc"]), max_size=40) | st.sampled_from(NAMES)
ANY_SESSION = st.builds(Session, IDS, IDS, TEXTS)


@pytest.mark.thorough
@settings(max_examples=examples(8))
@given(session=ANY_SESSION, drawn=GROUPS.filter(bool))
def test_any_session_is_copied(session: Session, drawn: list[Any]) -> None:
    """Turns of any texts, names, events and states, committed after any earlier turn, are there."""
    with (
        TemporaryDirectory() as folder,
        SqlArchive(f"{folder}/from", durable=False) as one,
        SqlArchive(f"{folder}/to", durable=False) as two,
    ):
        tips = [Tip()]
        for back, said, efforts, events, state in drawn:
            tip = tips[max(0, len(tips) - 1 - back)]
            new = replace(turn(tip.turn + 1, said, efforts, events), state=state)
            tips.append(one.commit(session, tip, new).tip)
        one.erase(session, tips[-1], tips[-1].turn)

        copy(one, two)
        export_folder(two, session, f"{folder}/out")

        assert all_of(two) == all_of(one)
        assert seen_by_tips(two, session) == seen_by_tips(one, session)
        assert [finding for finding in two.verify(session) if finding.fatal] == []


def test_running_turns_go_on_with_the_copy(archive: SqlArchive, another: SqlArchive) -> None:
    """The rounds that left a turn are copied, also those of a fork inside a committed turn."""
    rounds = tuple(answer(f"round {number}") for number in range(4))
    joined = archive.add_part(SESSION, Part("aa", "", rounds[:2]))
    said = (human("Mend it."), *rounds, answer("Mended."))
    archive.commit(SESSION, START, replace(turn(1), messages=said, nonce="aa", part=joined))
    running = archive.add_part(SESSION, Part("bb", "", rounds[2:]))
    text = "a file " * 10_000
    archive.attach(SESSION, {"ab" * 16: text})

    copy(archive, another)
    copy(archive, another)

    for last in (joined, running):
        assert another.parts(SESSION, last) == archive.parts(SESSION, last) != ()
    assert another.attachments(SESSION, ["ab" * 16]) == {"ab" * 16: text}
    assert another.verify(SESSION) == archive.verify(SESSION)


def test_turn_that_ran_when_it_was_copied(archive: SqlArchive, another: SqlArchive) -> None:
    """A first turn has no session yet; once it is committed, the next copy joins its parts."""
    rounds = tuple(answer(f"round {number}") for number in range(2))
    last = archive.add_part(SESSION, Part("aa", "", rounds))
    copy(archive, another)
    said = (human("Mend it."), *rounds, answer("Mended."))
    archive.commit(SESSION, START, replace(turn(1), messages=said, nonce="aa", part=last))

    copy(archive, another)

    assert another.parts(SESSION, last) == archive.parts(SESSION, last) != ()
    assert another.verify(SESSION) == archive.verify(SESSION) == ()
