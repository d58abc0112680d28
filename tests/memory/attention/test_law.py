"""The law by which memories fade and are ranked: its numbers, and what holds for all of them."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.attention.law import (
    Kept,
    Memory,
    effective,
    fading_day,
    ranked,
    relevance,
)
from ebbtide.memory.search.terms import terms
from tests.memory.remembering import day, ids, memory

THRESHOLD = 40.0

bases = st.integers(0, 100)
days = st.floats(0, 5_000)
accesses = st.integers(0, 1_000)
shares = st.floats(0, 1)
drawn = st.builds(
    Kept,
    st.builds(memory, st.text(max_size=2), st.integers(0, 100), st.integers(0, 90)),
    accesses=st.integers(0, 30),
    suppressed=st.booleans(),
    withdrawn=st.booleans(),
)


@pytest.mark.parametrize(
    ("base", "found"),
    [(70, "high"), (69, "medium"), (40, "medium"), (39, "low")],
)
def test_levels(base: int, found: str) -> None:
    """From 70 on a memory is high, from the threshold on medium, else it is not in attention."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    kept = Kept(Memory("t1/a", base, now))

    assert kept.explained(THRESHOLD, attended=True, now=now).level == found


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 40))
def test_whole_days_decide_as_fractions_would(base: int, on: int, times: int) -> None:
    """On a whole day no rounding decides whether a memory is at the threshold."""
    left = max(Fraction(3, 10), 1 - Fraction(on, 100))
    exact = min(Fraction(100), base * left * min(Fraction(3, 2), 1 + Fraction(times, 50)))

    assert (effective(base, on, times) >= THRESHOLD) == (exact >= 40)


@given(bases, st.lists(days, min_size=2), st.lists(accesses, min_size=2))
def test_time_takes_and_accesses_add(base: int, on: list[float], times: list[int]) -> None:
    """Between the floor of its base and its boost, and 100, whatever the days and accesses."""
    held = effective(base, max(on), min(times))

    assert min(100, 0.3 * base) <= held <= min(100, 1.5 * base)
    assert held <= effective(base, min(on), min(times))
    assert held <= effective(base, max(on), max(times))


@given(bases, accesses, st.integers(0, 200))
def test_the_day_is_the_first(base: int, times: int, on: int) -> None:
    """A memory is at the threshold on each day before it fades, and on none after."""
    fades = fading_day(base, times, THRESHOLD)

    assert (effective(base, on, times) < THRESHOLD) == (fades is not None and on >= fades)


def test_a_day_has_24_hours_where_clocks_are_changed() -> None:
    """The hour that a zone skips in spring is not counted."""
    vienna = ZoneInfo("Europe/Vienna")
    created, now = (datetime(2026, 3, day, 12, tzinfo=vienna) for day in (28, 29))

    assert Memory("t1/a", 50, created).days(now) == pytest.approx(23 / 24)


@pytest.mark.parametrize(
    ("keywords", "message", "found"),
    [
        (["axios", "redis"], "Axios again", 0.5),
        (["refresh token"], "a token", 0.0),
        (["refresh token"], "Tokens that were refreshed", 1.0),
        (["the", "axios"], "axios", 1.0),
        ([], "anything", 0.0),
        (["数据库"], "修复数据库", 1.0),
        (["401"], "a 4012", 0.0),
    ],
)
def test_relevance(keywords: list[str], message: str, found: float) -> None:
    """The share counts keywords that say something, each with all its words."""
    assert relevance(keywords, terms(message)) == found


@pytest.mark.parametrize(("base", "found"), [(39, []), (40, ["t1/a"])])
def test_the_threshold_is_in(base: int, found: list[str]) -> None:
    """Exactly at the threshold a memory is in attention, a point below it is not."""
    assert ids(ranked([Kept(memory("t1/a", base))], THRESHOLD, now=day(0))) == found


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
