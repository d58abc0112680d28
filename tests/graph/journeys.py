"""Scripted journeys for tests: turns through the real graph, and what each of them left."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from tests.agents import Talk, talk
from tests.doubles import Scripted, call

PAGES = (
    "The gateway answers 401 because the certificate was rotated on Monday.",
    "The sidebar overlaps the footer whenever the viewport shrinks.",
    "Invoices arrive twice since the billing queue was doubled.",
    "Thumbnails of scanned receipts stay blurred after resizing.",
    "The nightly backup fills the disk with uncompressed snapshots.",
)
"""What five efforts are about; they share no word that counts."""

TRAINS = "# Which train leaves platform"
"""How exchanges begin that are about none of them."""


@dataclass(frozen=True)
class Turn:
    """What the user says in a turn, and what the model answers, call by call."""

    said: str
    answers: tuple[Scripted, ...] = ("Done.",)


@dataclass(frozen=True)
class After:
    """What a turn left: the state, and what the model was sent last in it."""

    state: dict[str, Any]
    sent: Sequence[BaseMessage]

    @property
    def counters(self) -> dict[str, int]:
        """For how many turns each expanded effort was not referenced."""
        turn = self.state["turn"]
        expanded = self.state["expanded"].items()
        return {name: turn - entry["last_referenced_turn"] for name, entry in expanded}

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that were sent last, by tier."""
        found: dict[str, int] = self.state["context_report"]["tokens"]
        return found

    @property
    def summaries_sent(self) -> list[str]:
        """The efforts whose summary was sent."""
        notes = [m.text for m in self.sent if m.text.startswith("[Memory: concluded")]
        lines = [line for note in notes for line in note.splitlines()]
        return [line[2:].partition(":")[0] for line in lines if line.startswith("- ")]

    @property
    def ambient_sent(self) -> int:
        """How many ambient exchanges were sent, the running one aside."""
        asked = [m.text for m in self.sent if m.type == "human"]
        return sum(text.startswith("#") for text in asked) - asked[-1].startswith("#")


def using(tool: str, **args: Any) -> tuple[Scripted, ...]:
    """Return the answers of a turn that calls one tool."""
    return (call(tool, **args), "Done.")


def trains(turns: int, first: int = 1) -> list[Turn]:
    """Return turns about nothing that is an effort."""
    return [Turn(f"{TRAINS} {number}?") for number in range(first, first + turns)]


def effort(name: str, page: str) -> list[Turn]:
    """Return the two turns in which an effort is opened and concluded."""
    opening = Turn(page, using("open_effort", name=name))
    return [opening, Turn("That was all.", using("close_effort", effort_id=name))]


def summaries(*pages: str) -> list[dict[str, Any]]:
    """Return what a summariser answers for these efforts."""
    return [{"summary": page, "keywords": [], "importance": 50} for page in pages]


def begin(root: Path, turns: Sequence[Turn], pages: Sequence[str] = PAGES, **options: Any) -> Talk:
    """Return an agent whose model knows the answers of these turns."""
    answers = [answer for turn in turns for answer in turn.answers]
    return talk(root, answers, summaries(*pages), **options)


def play(
    root: Path, turns: Sequence[Turn], pages: Sequence[str] = PAGES, **options: Any
) -> list[After]:
    """Go through the turns, and return what each left."""
    here = begin(root, turns, pages, **options)
    return [After(here.say(turn.said), here.last) for turn in turns]
