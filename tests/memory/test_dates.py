"""Dates that queries name."""

from datetime import date

import pytest

from ebbtide.memory.dates import When, dates, period, undated

TODAY = date(2026, 3, 20)


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("What did James say in April?", ["2025-04-01", "2026-04-01"]),
        ("on the 8th of May, 2026", ["2026-05-08"]),
        ("May 8", ["2025-05-08", "2026-05-08"]),
        ("since 2026-02-11", ["2026-02-11"]),
        ("boiler 12.03.2026 or 3/12/2026 or 2026/03/12", ["2026-03-12"]),
        ("in 2026", ["2026-01-01"]),
        ("yesterday", ["2026-03-19"]),
        ("last week", ["2026-03-09"]),
        ("last month", ["2026-02-01"]),
        ("eight days ago", ["2026-03-12"]),
        ("two weeks ago", ["2026-03-02"]),
        ("on Monday", ["2026-03-16"]),
        ("Monday?", ["2026-03-16"]),
        ("Friday last week", ["2026-03-13"]),
        ("last week on Tuesday", ["2026-03-10"]),
        ("last weekend", ["2026-03-14"]),
        ("last night", ["2026-03-19"]),
        ("boiler this morning", ["2026-03-20"]),
        ("in the past week", ["2026-03-13"]),
        ("last 2 weeks", ["2026-03-06"]),
        ("logs/2026/03/12, release 10.11.12, version 10.20.1.7 of 31.02.2026, port 2026", []),
        ("2026-00-10 or 2026-00 or 2026-03-00", []),
        ("two weeks of work, the Tuesday meeting", []),
        ("May I march on?", []),
        ("", []),
    ],
)
def test_periods_begin_like_this(query: str, days: list[str]) -> None:
    """Days, months and years are known as people write them; a verb is no month."""
    found = dates(query, [2025, 2026], TODAY)

    assert [str(first) for first, _ in found] == days


def test_dates_are_taken_out_of_a_query() -> None:
    """What they name is a day, and no word to look for."""
    query = "Hollberg on 2026-03-12, last week and in April"

    assert undated(query, TODAY).split() == ["Hollberg", "on", ",", "and"]


@pytest.mark.parametrize(
    ("query", "period"),
    [
        ("between March 3 and March 10", ["2025-03-03 2025-03-11", "2026-03-03 2026-03-11"]),
        ("from 2026-03-03 to 2026-03-10", ["2026-03-03 2026-03-11"]),
        ("March 3 - March 10, 2025", ["2025-03-03 2025-03-11"]),
        ("from December 30 to January 2", ["2025-12-30 2026-01-03"]),
        ("before March 4", ["0001-01-01 2026-03-04"]),
        ("until last Friday", ["0001-01-01 2026-03-14"]),
        ("after 9 March", ["2026-03-10 9999-12-31"]),
        ("after December 5", ["2025-12-06 9999-12-31"]),
        ("since May", ["2025-05-01 9999-12-31"]),
        ("first week of 2024", ["2024-01-01 2024-01-08"]),
        ("the last week of February 2026", ["2026-02-22 2026-03-01"]),
    ],
)
def test_ranges_are_read_with_their_words(query: str, period: list[str]) -> None:
    """Between two days, both inclusive, or with an open end."""
    found = dates(query, [2025, 2026], TODAY)

    assert [f"{first} {end}" for first, end in found] == period
    assert undated(query, TODAY).strip() == ""


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31", "9999-12", "9999"])
def test_first_and_last_days_of_the_calendar_are_dates(text: str, zone: str) -> None:
    """Programs write them for a time that was never set, or as no bound."""
    days = period(text)

    assert days is not None
    since, until = When(zone=zone).times(days)
    assert "0001" <= since <= until <= "9999-12-32"
    assert (until < "2026") == text.startswith("0001")
    assert (since > "2026") == text.startswith("9999")


def test_months_and_days_of_zero_are_no_dates() -> None:
    """Nothing tells which month or day is meant."""
    assert [period(text) for text in ("2026-00", "2026-00-10", "2026-03-00")] == [None] * 3
