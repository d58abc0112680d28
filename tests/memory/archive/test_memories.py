"""What turns do to attention, in the transaction that commits them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from ebbtide.memory.archive.memories import accessed
from ebbtide.memory.archive.schema import users
from ebbtide.memory.archive.sql import DiskArchive, SqlArchive
from ebbtide.memory.attention.law import Attention, Explanation, Memory
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip
from tests.databases import Server
from tests.memory.remembering import ids
from tests.memory.turns import SESSION, START, concluded, opened, turn

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MEMORY = "t1/a"
AT = "2026-04-21T00:00:00.000Z"
CONCLUDED = concluded("a", "It is done.", importance=70, keywords=["gate"])
REOPENED: Event = {"type": "reopened", "effort": "a"}
USED: Event = {"type": "expanded", "effort": "a"}


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[DiskArchive]:
    """Yield an empty archive."""
    with DiskArchive(tmp_path / "sessions", durable=False) as kept:
        yield kept


def commit(
    archive: SqlArchive,
    *events: Event,
    after: Tip = START,
    at: str = AT,
    session: Session = SESSION,
) -> StoredTurn:
    """Commit a turn in which this happened; another one if other events did."""
    names = " ".join(event["type"] for event in events) or "nothing"
    new = replace(turn(after.turn + 1, f"{names} at {at}", events=events), at=at)
    return archive.commit(session, after, new)


def attended(archive: SqlArchive, user: str = "ann") -> list[tuple[str, float]]:
    """Return what is in attention, and what it holds."""
    return [(one.id, one.effective) for one in archive.attention().top(user, 9, now=NOW)]


def explained(attention: Attention, memory_id: str = MEMORY) -> Explanation:
    """Return how a stored memory stands."""
    explanation = attention.explain("ann", memory_id, now=NOW)
    assert explanation is not None
    return explanation


@pytest.mark.parametrize(
    ("at", "held"),
    [(AT, 63.0), ("2026-04-21T00:00:00", 63.0), ((NOW + timedelta(days=1)).isoformat(), 70.0)],
)
def test_what_is_concluded_has_the_date_of_its_turn(
    archive: DiskArchive, at: str, held: float
) -> None:
    """Ten days after its turn a memory of 70 holds 63, in UTC if no zone is said."""
    commit(archive, CONCLUDED, at=at)

    assert attended(archive) == [(MEMORY, held)]


@pytest.mark.parametrize("at", ["", "yesterday", "9999-12-31T23:59:59-23:00"])
def test_a_date_that_cannot_be_read_is_now(archive: DiskArchive, at: str) -> None:
    """A record without a moment in time gives a memory of today."""
    commit(archive, CONCLUDED, at=at)

    age = datetime.now(UTC) - (explained(archive.attention()).fades or NOW) + timedelta(days=43)
    assert timedelta(0) <= age < timedelta(minutes=5)


def test_what_is_reopened_leaves(archive: DiskArchive) -> None:
    """An effort that goes on is in nobody's attention, and that is no fading."""
    turn = commit(archive, CONCLUDED)

    commit(archive, REOPENED, after=turn.tip)

    attention = archive.attention()
    attention.suppress("ann", MEMORY, now=NOW)
    attention.unsuppress("ann", MEMORY, now=NOW)
    assert attended(archive) == []
    assert attention.prune("ann", now=NOW) == 0


def test_concluded_again_it_keeps_its_accesses(archive: DiskArchive) -> None:
    """It is renewed, with the date of its last conclusion."""
    turn = commit(archive, CONCLUDED)
    turn = commit(archive, USED, after=turn.tip)
    turn = commit(archive, REOPENED, after=turn.tip)

    commit(archive, CONCLUDED, after=turn.tip, at=NOW.isoformat())

    assert attended(archive) == [(MEMORY, 71.4)]


@pytest.mark.parametrize(("values", "expected"), [({}, [50.0]), ({"importance": 0}, [])])
def test_the_base_is_the_importance(
    archive: DiskArchive, values: dict[str, int], expected: list[float]
) -> None:
    """A memory holds 50 if nothing was said of its importance; a canned summary's 0 stays out."""
    commit(archive, concluded("a", "Done.", **values), at=NOW.isoformat())

    assert archive.attention().prune("ann", now=NOW) == 0
    assert [holds for _, holds in attended(archive)] == expected
    assert explained(archive.attention()).attended == bool(expected)


def test_memories_of_other_sessions_keep_their_name(archive: DiskArchive) -> None:
    """An access of a qualified id counts for the session that it names."""
    commit(archive, CONCLUDED)

    expanded = {"type": "expanded", "effort": MEMORY}
    commit(archive, expanded, session=Session("ann", "t2"))
    commit(archive, expanded, session=Session("bob", "t2"))

    assert explained(archive.attention()).accesses == 1


def test_a_retry_counts_nothing_twice(archive: DiskArchive) -> None:
    """A turn that is committed again, as after a crash, is one access."""
    turn = commit(archive, CONCLUDED)
    for _ in range(3):
        commit(archive, USED, after=turn.tip)

    assert explained(archive.attention()).accesses == 1


def test_what_is_suppressed_stays_out(archive: DiskArchive) -> None:
    """Neither an access nor a conclusion in a turn brings it back."""
    turn = commit(archive, CONCLUDED)
    archive.attention().suppress("ann", MEMORY, now=NOW)

    turn = commit(archive, USED, after=turn.tip)
    commit(archive, CONCLUDED, after=turn.tip)

    assert attended(archive) == []
    assert archive.attention().prune("ann", now=NOW) == 0
    assert explained(archive.attention()).accesses == 1


def test_an_access_in_a_turn_brings_back_what_had_left(archive: DiskArchive) -> None:
    """What faded and is lifted to the threshold is in attention again."""
    at = (NOW - timedelta(days=43)).isoformat()
    turn = commit(archive, CONCLUDED, at=at)
    assert archive.attention().prune("ann", now=NOW) == 1

    commit(archive, USED, after=turn.tip)

    assert ids(archive.attention().top("ann", 9, now=NOW)) == [MEMORY]


def test_of_more_than_fit_the_lowest_are_not_attended(archive: DiskArchive) -> None:
    """What turns concluded is cut by the next reading, and before it by `explain`."""
    events = [concluded(name, "Done.", importance=base) for name, base in (("a", 60), ("b", 90))]
    commit(archive, *events, at=NOW.isoformat())
    small = archive.attention(capacity=1)

    assert [explained(small, name).attended for name in (MEMORY, "t1/b")] == [False, True]
    assert ids(small.top("ann", 9, now=NOW)) == ["t1/b"]
    assert attended(archive) == [("t1/b", 90.0)]


@pytest.mark.parametrize("other", [(), (opened("a"),), (opened("b"),)])
def test_what_a_fork_did_not_conclude_is_none(
    archive: DiskArchive, other: tuple[Event, ...]
) -> None:
    """Neither what it left open nor what it never opened is in attention, and that is no fading."""
    commit(archive, CONCLUDED)

    commit(archive, *other)

    assert attended(archive) == []
    assert archive.attention().prune("ann", now=NOW) == 0


def test_a_fork_undoes_a_reopening(archive: DiskArchive) -> None:
    """What it sees concluded is a memory again, with its date and the accesses that it had."""
    first = commit(archive, CONCLUDED)
    second = commit(archive, USED, after=first.tip)
    commit(archive, REOPENED, after=second.tip)

    commit(archive, after=first.tip)

    assert attended(archive) == [(MEMORY, 64.26)]


def test_going_back_to_the_branch_that_was_left(archive: DiskArchive) -> None:
    """Where a session goes on decides, on a branch that is new or on an older one."""
    first = commit(archive, CONCLUDED)
    commit(archive)
    assert attended(archive) == []

    commit(archive, after=first.tip)

    assert attended(archive) == [(MEMORY, 63.0)]


def test_a_fork_brings_nothing_back_that_had_left(archive: DiskArchive) -> None:
    """What did not fit in, and is concluded on both branches, stays out."""
    low = concluded("b", "Done.", importance=50)
    first = commit(archive, CONCLUDED, low, at=NOW.isoformat())
    archive.attention(capacity=1).prune("ann", now=NOW)
    commit(archive, after=first.tip)

    commit(archive, after=first.tip, at=NOW.isoformat())

    assert attended(archive) == [(MEMORY, 70.0)]


@pytest.fixture(params=["sqlite", "postgresql"])
def unused(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return the place of an archive that nobody has used."""
    if request.param == "sqlite":
        return tmp_path
    server: Server = request.getfixturevalue("postgres")
    return server.database().url


def test_reading_makes_no_user(unused: Path | str, tmp_path: Path) -> None:
    """Whoever asks for what is not there leaves nothing behind, not even a file."""
    with SqlArchive(unused) as archive:
        attention = archive.attention()
        attention.top("ann", 1, now=NOW)
        attention.prune("ann", now=NOW)
        attention.refresh_for_context("ann", "gate", 1, now=NOW)
        attention.explain("ann", MEMORY, now=NOW)
        attention.suppressed("ann", now=NOW)
        attention.touch("ann", MEMORY, now=NOW)
        attention.suppress("ann", MEMORY, now=NOW)
        attention.forget("ann", MEMORY, now=NOW)
        files = [*tmp_path.iterdir()]
        attention.add("bob", Memory("t/x", 60, NOW), now=NOW)
        attention.touch("ann", MEMORY, now=NOW)
        with archive.database.reading() as connection:
            names = connection.execute(select(users.c.name)).scalars().all()

    assert (files, names) == ([], ["bob"])


def test_an_effort_is_accessed_once_a_turn() -> None:
    """Expanding what a search found, and naming it, is one access; a mention alone is none."""
    events: list[Event] = [
        {"type": "searched", "efforts": ["a"]},
        {"type": "expanded", "effort": "a"},
        {"type": "referenced", "effort": "a"},
        {"type": "returned", "effort": "a"},
    ]

    assert accessed(events) == ("a",)
    assert accessed([{"type": "referenced", "effort": "a"}]) == ()
