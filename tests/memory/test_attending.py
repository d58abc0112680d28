"""What the turns of a session do to attention, event by event."""

from datetime import UTC, datetime, timedelta

import pytest
from langgraph.store.memory import InMemoryStore

from ebbtide.memory.attending import accessed, attend
from ebbtide.memory.record import Event, Owner, Record
from ebbtide.memory.store_attention import StoreAttention

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ANN = Owner("ann", "t1")
CONCLUDED = {"type": "concluded", "effort": "a", "importance": 70, "keywords": ["gate"]}


def record(*events: dict[str, object], at: str = "2026-04-21T00:00:00.000Z") -> Record:
    """Return a record with these events."""
    return Record(1, "main", "", "d", (), at, events=events)


@pytest.fixture
def attention() -> StoreAttention:
    """Return an empty attention."""
    return StoreAttention(InMemoryStore())


def test_what_is_concluded_is_kept_with_the_date_of_its_turn(attention: StoreAttention) -> None:
    """Ten days after its turn a memory of 70 holds 63."""
    attend(attention, ANN, record(CONCLUDED), NOW)

    assert [(one.id, one.effective) for one in attention.top("ann", 9, now=NOW)] == [("t1/a", 63.0)]


@pytest.mark.parametrize("at", ["", "yesterday", "2026-04-21T00:00:00"])
def test_a_date_that_cannot_be_read_is_now(attention: StoreAttention, at: str) -> None:
    """A record without a moment in time gives a memory of today."""
    attend(attention, ANN, record(CONCLUDED, at=at), NOW)

    assert [one.effective for one in attention.top("ann", 9, now=NOW)] == [70.0]


def test_what_is_reopened_leaves(attention: StoreAttention) -> None:
    """An effort that goes on is in nobody's attention."""
    attend(attention, ANN, record(CONCLUDED), NOW)

    attend(attention, ANN, record({"type": "reopened", "effort": "a"}), NOW)

    assert attention.top("ann", 9, now=NOW) == ()


@pytest.mark.parametrize(("given", "held"), [({}, [50.0]), ({"importance": 0}, [])])
def test_the_base_is_the_importance(
    attention: StoreAttention, given: dict[str, int], held: list[float]
) -> None:
    """A memory holds 50 if nothing was said of its importance; a canned summary's 0 stays out."""
    at = NOW.isoformat()

    attend(attention, ANN, record({"type": "concluded", "effort": "a", **given}, at=at), NOW)

    assert [one.effective for one in attention.top("ann", 9, now=NOW)] == held
    assert attention.explain("ann", "t1/a", now=NOW) is not None


def test_memories_of_other_sessions_keep_their_name(attention: StoreAttention) -> None:
    """An access of a qualified id counts for the session that it names."""
    attend(attention, ANN, record(CONCLUDED), NOW)

    attend(attention, Owner("ann", "t2"), record({"type": "expanded", "effort": "t1/a"}), NOW)

    found = attention.explain("ann", "t1/a", now=NOW)
    assert found is not None
    assert found.accesses == 1


def test_an_effort_is_accessed_once_a_turn() -> None:
    """Expanding what a search found, and naming it, is one access."""
    events: list[Event] = [
        {"type": "searched", "efforts": ["a"]},
        {"type": "expanded", "effort": "a"},
        {"type": "referenced", "effort": "a"},
        {"type": "returned", "effort": "a"},
    ]

    assert accessed(events) == ("a",)


def test_a_mention_alone_is_no_access() -> None:
    """What no search of the turn found is only referenced."""
    assert accessed([{"type": "referenced", "effort": "a"}]) == ()


def test_the_past_is_not_the_future(attention: StoreAttention) -> None:
    """A record of tomorrow holds as much as one of today."""
    tomorrow = (NOW + timedelta(days=1)).isoformat()

    attend(attention, ANN, record(CONCLUDED, at=tomorrow), NOW)

    assert [one.effective for one in attention.top("ann", 9, now=NOW)] == [70.0]
