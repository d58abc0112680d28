"""Processes that are killed in the middle of a turn, on SQLite and on PostgreSQL.

Page 01, "What must be shown"; page 00, invariant 3; page 03, "Erasing".
"""

import json
from typing import Any

import pytest

from ebbtide import erase
from tests.acceptance.dying import CONFIG, opened
from tests.faults.places import Place
from tests.processes import ended

pytestmark = pytest.mark.kills

KILLS = 5


def killed(place: Place, durability: str, kills: int = KILLS) -> dict[str, Any]:
    """Talk in children that are killed; return what was said, answered and kept."""
    arguments = [str(place.root), place.uri, durability, str(kills), "7"]
    done = ended(["-m", "tests.acceptance.dying", *arguments])
    assert done.code == 0, done.failed[-4_000:]
    found: dict[str, Any] = json.loads(done.printed)
    return found


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_kills(place: Place, durability: str) -> None:
    """01: at the end every answered turn is in the branch exactly once, in order, byte for byte."""
    found = killed(place, durability)

    kept = [text for kind, text in found["kept"] if kind == "human"]
    answers = [text for kind, text in found["kept"] if kind == "ai"]
    assert kept == sorted({*kept}, key=found["said"].index)
    assert [said for said, _ in found["answered"] if said not in kept] == []
    assert [told for _, told in found["answered"] if told not in answers] == []


def test_kills_lose_no_message(place: Place) -> None:
    """00, One turn: with `sync` a message whose turn began is kept, answered or not."""
    found = killed(place, "sync")

    kept = [text for kind, text in found["kept"] if kind == "human"]
    assert kept[-1] == found["said"][-1]
    assert len(kept) >= len(found["answered"])


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_many_kills(place: Place, durability: str) -> None:
    """01: so it is after a hundred kills, with passes that compress among them."""
    found = killed(place, durability, 100)

    kept = [text for kind, text in found["kept"] if kind == "human"]
    assert kept == sorted({*kept}, key=found["said"].index)
    assert [said for said, _ in found["answered"] if said not in kept] == []
    assert found["compressed"] > 0


def test_nothing_is_left_of_an_erased_turn(place: Place) -> None:
    """03, Erasing: the byte search over archive and checkpoints, on both databases."""
    with opened(place) as chat:
        for words in ("1 Hello.", "2 The zirconium gate is open.", "3 Good night."):
            chat.agent.invoke({"messages": words}, CONFIG)
        before = place.holding(["zirconium gate"])
        erase(chat.agent, CONFIG, 2)

    assert before != []
    assert place.holding(["zirconium gate"], ["zirconium"]) == []
