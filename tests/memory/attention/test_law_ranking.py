"""What is kept of a memory, how memories are ranked, and how one is explained."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.attention.law import Kept, Memory, ranked
from tests.memory.remembering import day, ids, memory

THRESHOLD = 40.0

drawn = st.builds(
    Kept,
    st.builds(memory, st.text(max_size=2), st.integers(0, 100), st.integers(0, 90)),
    accesses=st.integers(0, 30),
    suppressed=st.booleans(),
    withdrawn=st.booleans(),
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
