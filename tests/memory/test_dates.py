"""Dates that queries name."""

from datetime import date
from time import process_time

import pytest

from ebbtide.memory.dates import When, dates, period, undated

TODAY = date(2026, 3, 20)


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("What did James say in April?", ["2025-04-01", "2026-04-01"]),
        ("april 2026", ["2026-04-01"]),
        ("on the 8th of May, 2026", ["2026-05-08"]),
        ("May 8", ["2025-05-08", "2026-05-08"]),
        ("March 3rd, 2026", ["2026-03-03"]),
        ("boiler 12 Mar 2026", ["2026-03-12"]),
        ("am 12. März 2026", ["2026-03-12"]),
        ("le 1er février 2026", ["2026-02-01"]),
        ("since 2026-02-11", ["2026-02-11"]),
        ("boiler 12.03.2026", ["2026-03-12"]),
        ("boiler 3/12/2026", ["2026-03-12"]),
        ("in 2026", ["2026-01-01"]),
        ("in March and June", ["2025-03-01", "2026-03-01", "2025-06-01", "2026-06-01"]),
        ("yesterday", ["2026-03-19"]),
        ("vorgestern", ["2026-03-18"]),
        ("last week", ["2026-03-09"]),
        ("two weeks ago", ["2026-03-02"]),
        ("last month", ["2026-02-01"]),
        ("eight days ago", ["2026-03-12"]),
        ("vor neun Tagen", ["2026-03-11"]),
        ("on Monday", ["2026-03-16"]),
        ("am Dienstag", ["2026-03-17"]),
        ("on Tuesday of this week", ["2026-03-17"]),
        ("Friday last week", ["2026-03-13"]),
        ("Mittwoch letzter Woche", ["2026-03-11"]),
        ("am Dienstag der letzten Woche", ["2026-03-10"]),
        ("last week on Tuesday", ["2026-03-10"]),
        ("vergangene Woche Dienstag", ["2026-03-10"]),
        ("last weekend", ["2026-03-14"]),
        ("diese Woche am Montag", ["2026-03-16"]),
        ("last night", ["2026-03-19"]),
        ("boiler this morning", ["2026-03-20"]),
        ("Monday?", ["2026-03-16"]),
        ("boiler 2026/03/12", ["2026-03-12"]),
        ("logs/2026/03/12", []),
        ("boiler 12.03.26", ["2026-03-12"]),
        ("boiler 3/12/26", ["2026-03-12"]),
        ("am 5.3.26", ["2026-03-05"]),
        ("am 12.3. wegen des Kessels", ["2025-03-12", "2026-03-12"]),
        ("le 12/03", ["2025-03-12", "2026-03-12"]),
        ("el 12 de marzo de 2026", ["2026-03-12"]),
        ("il 3 febbraio 2026", ["2026-02-03"]),
        ("in the past week", ["2026-03-13"]),
        ("the past three days", ["2026-03-17"]),
        ("last 2 weeks", ["2026-03-06"]),
        ("in den letzten drei Tagen", ["2026-03-17"]),
        ("ces trois derniers jours", ["2026-03-17"]),
        ("los últimos dos meses", ["2026-01-19"]),
        ("qu'est-ce que j'ai dit hier ?", ["2026-03-19"]),
        ("avant-hier", ["2026-03-18"]),
        ("la semaine dernière", ["2026-03-09"]),
        ("le mois dernier", ["2026-02-01"]),
        ("l'an dernier", ["2025-01-01"]),
        ("cette semaine", ["2026-03-16"]),
        ("il y a trois jours", ["2026-03-17"]),
        ("lundi dernier", ["2026-03-16"]),
        ("el lunes", ["2026-03-16"]),
        ("¿qué dije ayer?", ["2026-03-19"]),
        ("la semana pasada", ["2026-03-09"]),
        ("hace dos semanas", ["2026-03-02"]),
        ("cosa ho detto ieri?", ["2026-03-19"]),
        ("l'altro ieri", ["2026-03-18"]),
        ("il mese scorso", ["2026-02-01"]),
        ("quest'anno", ["2026-01-01"]),
        ("tre giorni fa", ["2026-03-17"]),
        ("fin de semana pasado", ["2026-03-14"]),
        ("quel jour, hier ?", ["2026-03-19"]),
        ("Qui a appelé hier ?", ["2026-03-19"]),
        ("Wer ist hier?", []),
        ("Chris Hoy and Julio", []),
        ("spring 5.3.26 or 1.12.03.26", []),
        ("release 10.11.12", []),
        ("2026-00-10 or 2026-00 or 2026-03-00", []),
        ("bis 3.5 Prozent", []),
        ("a week of work", []),
        ("the Tuesday meeting", []),
        ("May I march on?", []),
        ("port 2026", []),
        ("version 10.20.1.7 of 31.02.2026", []),
        ("two weeks of work", []),
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
    "query", ["in the past week", "in den letzten drei Tagen", "ces deux derniers jours"]
)
def test_articles_of_a_date_are_no_words_to_look_for(query: str) -> None:
    """A query of a date alone finds what was said then, in any language."""
    assert undated(query, TODAY).strip() == ""


@pytest.mark.parametrize("query", ["am 29.2.", "le 29/02", "February 29"])
def test_leap_days_without_a_year_are_dates(query: str) -> None:
    """Those of the years that have one."""
    assert undated(query).strip() == ""
    assert [str(first) for first, _ in dates(query, [2024, 2025])] == ["2024-02-29"]


@pytest.mark.parametrize("zone", ["", "UTC", "Asia/Tokyo", "America/Los_Angeles"])
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


def test_time_to_read_hier_grows_with_the_length_of_a_query() -> None:
    """Whether a query is French is looked for once, not for each of its words."""

    def time_for(query: str) -> float:
        begin = process_time()
        dates(query, today=TODAY)
        return process_time() - begin

    assert time_for("hier " * 4_000) < 20 * time_for("heer " * 4_000) + 0.5
