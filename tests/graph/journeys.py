"""Scripted journeys for tests: turns through the real graph, and what each of them left."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from ebbtide import Settings
from tests.agents import THREAD, Talk, talk
from tests.doubles import Scripted, call

PAGES = (
    "The gateway answers 401 because the certificate was rotated on Monday.",
    "The sidebar overlaps the footer whenever the viewport shrinks.",
    "Invoices arrive twice since the billing queue was doubled.",
    "Thumbnails of scanned receipts stay blurred after resizing.",
    "The nightly backup fills the disk with uncompressed snapshots.",
)
"""What five efforts are about; they share no word that counts."""

CEILING = 3_000
"""Tokens that no context reaches with a window of ten, however long the session."""

EXACT = Settings(rebuild="every-turn")
"""With these the context shows in each turn what the state says, as the tables of the runs do."""

TRAINS = "# Which train leaves platform"
"""How exchanges begin that are about none of them."""


@dataclass(frozen=True)
class Turn:
    """What the user says in a turn, and what the model answers, call by call."""

    said: str
    answers: tuple[Scripted, ...] = ("Done.",)


@dataclass(frozen=True)
class After:
    """What a turn left: the state, and what the model was sent in it, call by call."""

    state: dict[str, Any]
    calls: Sequence[Sequence[BaseMessage]]

    @property
    def sent(self) -> Sequence[BaseMessage]:
        """What the model was sent last."""
        return self.calls[-1]

    @property
    def text(self) -> str:
        """What the model was sent last, as one text."""
        return "\n".join(message.text for message in self.sent)

    @property
    def counters(self) -> dict[str, int]:
        """For how many turns each expanded effort was not referenced."""
        turn = self.state["memory"]["turn"]
        expanded = self.state["memory"]["expanded"].items()
        return {name: turn - entry["last_referenced_turn"] for name, entry in expanded}

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that were sent last, by part; none where there is no such part."""
        return Counter(self.state["memory"]["context_report"]["tokens"])

    @property
    def summaries_sent(self) -> list[str]:
        """The efforts whose summary was sent last."""
        return summarised(self.sent)

    @property
    def results(self) -> list[dict[str, Any]]:
        """What the memory's tools answered in the turn, before its last call."""
        return [json.loads(m.text) for m in self.sent[self._asked :] if m.type == "tool"]

    @property
    def _asked(self) -> int:
        users = [m.type == "human" and m.name != "ebbtide" for m in self.sent]
        return max(at for at, is_users in enumerate(users) if is_users)


def summarised(sent: Sequence[BaseMessage]) -> list[str]:
    """Return the efforts whose summary stands in what was sent."""
    notes = [m.text for m in sent if re.match(r"<memory \d+>concluded efforts", m.text)]
    lines = [line for note in notes for line in note.splitlines()]
    return [line[2:].partition(":")[0] for line in lines if line.startswith("- ")]


def quoted(sent: Sequence[BaseMessage], name: str) -> str | None:
    """Return the log of an effort as it is quoted in what was sent, None if it is not."""
    pattern = rf'<memory (\d+)>the stored log of the effort "{name}"[^\n]*\n(.*)\n</memory \1>'
    found = [re.search(pattern, message.text, re.DOTALL) for message in sent]
    return next((match[2] for match in found if match), None)


def first_found(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Return the first result of the search that the model is answered."""
    first: dict[str, Any] = json.loads(messages[-1].text)["results"][0]
    return first


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


def after(chat: Talk, words: str, config: RunnableConfig = THREAD) -> After:
    """Go through one turn, and return what it left."""
    before = len(chat.model.sent)
    state = chat.say(words, config)
    return After(state, [sent.messages for sent in chat.model.sent[before:]])


def play(
    root: Path, turns: Sequence[Turn], pages: Sequence[str] = PAGES, **options: Any
) -> list[After]:
    """Go through the turns, and return what each left."""
    chat = begin(root, turns, pages, **options)
    return [after(chat, turn.said) for turn in turns]
