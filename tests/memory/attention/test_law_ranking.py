"""What is kept of a memory, how memories are ranked, and how one is explained."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.attention.law import Kept, Memory, Ranked, ranked
from tests.memory.remembering import day, ids, memory

THRESHOLD = 40.0

drawn = st.builds(
    Kept,
    st.builds(memory, st.text(max_size=2), st.integers(0, 100), st.integers(0, 90)),
    accesses=st.integers(0, 30),
    suppressed=st.booleans(),
    withdrawn=st.booleans(),
)


def test_what_it_holds_is_the_law() -> None:
    """A memory holds what its base, its days and its accesses give."""
    kept = Kept(memory("t1/a", 80), accesses=5)

    assert kept.holds(day(25)) == pytest.approx(66)
    assert kept.holds(day(-1)) == pytest.approx(88)


def test_ranking_leaves_out_those_below_and_those_taken_out() -> None:
    """Who is at the threshold is ranked, unless it was taken out."""
    kept = [
        Kept(memory("t1/a", 40)),
        Kept(memory("t1/b", 39)),
        Kept(memory("t1/c", 90), suppressed=True),
        Kept(memory("t1/d", 90), withdrawn=True),
        Kept(memory("t1/e", 39), accesses=2),
    ]

    assert ids(ranked(kept, THRESHOLD, now=day(0))) == ["t1/e", "t1/a"]


def test_a_message_ranks_again() -> None:
    """Beside a message a memory is ranked with what it holds there, and with its relevance."""
    kept = [Kept(memory("t1/a", 59)), Kept(memory("t1/b", 35, keywords=["axios"]))]
    kept.append(Kept(memory("t1/c", 50, keywords=["axios"])))

    assert ranked(kept, THRESHOLD, now=day(0), message="axios") == (
        Ranked("t1/c", 60.0, 1.0),
        Ranked("t1/a", 59.0),
        Ranked("t1/b", 42.0, 1.0),
    )


@given(st.lists(drawn, max_size=8), st.integers(0, 120))
def test_the_order_is_total(kept: list[Kept], on: int) -> None:
    """In whatever order memories come, they are ranked alike: most, newest, by id."""
    found = ranked(kept, THRESHOLD, now=day(on))

    assert ids(found) == ids(ranked(kept[::-1], THRESHOLD, now=day(on)))
    assert [one.effective for one in found] == sorted(
        (one.effective for one in found), reverse=True
    )


@given(drawn, st.integers(0, 120), st.booleans())
def test_an_explanation_agrees_with_itself(kept: Kept, on: int, attended: bool) -> None:
    """The level, the day of fading and what is held tell one story."""
    found = kept.explained(THRESHOLD, attended=attended, now=day(on))
    moment = max(day(on), kept.memory.created)

    assert found.effective == kept.holds(day(on))
    assert (found.level == "low") == (found.effective < THRESHOLD)
    assert (found.level == "low") == (found.fades is not None and found.fades <= moment)
    assert (found.days, found.attended) == (
        max(0, on - (kept.memory.created - day(0)).days),
        attended,
    )


def test_it_fades_whole_days_later_where_clocks_are_changed() -> None:
    """The moment of fading is the moment at which the memory is below, in summer time too."""
    vienna = ZoneInfo("Europe/Vienna")
    kept = Kept(Memory("t1/a", 50, datetime(2026, 3, 20, 12, tzinfo=vienna)))
    found = kept.explained(THRESHOLD, attended=True, now=day(0))

    assert found.fades is not None
    assert kept.holds(found.fades) == pytest.approx(39.5)
    assert kept.holds(found.fades - timedelta(days=1)) == 40.0
