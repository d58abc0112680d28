"""The day that is told before a message."""

from dataclasses import replace

import pytest

from ebbtide.memory.context.hints import dated
from ebbtide.memory.running_turn import Turn
from tests.memory.conversations import Conversation


def at(talk: Conversation, now: str, zone: str = "UTC") -> Turn:
    """Return what tools work on in the running turn, at a time."""
    settings = talk.settings.model_copy(update={"timezone": zone})
    return replace(talk.work, now=now, run=replace(talk.work.run, settings=settings))


def test_first_turn_tells_the_day(talk: Conversation) -> None:
    """In the time zone of the user."""
    talk.ask("Hello.")

    (event,) = dated(at(talk, "2026-03-20T20:00:00.000Z", "Asia/Tokyo"))

    assert event["day"] == "2026-03-21"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("2026-11-21T12:10:00.000Z", []),
        ("2026-11-21T14:59:00.000Z", []),
        ("2026-11-21T18:00:00.000Z", ["2026-11-21 18:00"]),
        ("2026-11-22T00:10:00.000Z", ["2026-11-22"]),
    ],
)
def test_later_turn_tells_another_day(talk: Conversation, now: str, told: list[str]) -> None:
    """And the hour, where the turn before was of the same day, hours ago."""
    talk.turn("Hello.")
    talk.ask("And now?")

    assert [event["day"] for event in dated(at(talk, now))] == told
