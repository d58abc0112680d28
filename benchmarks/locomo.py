"""LoCoMo's conversations in an archive: each session is an effort with its summary.

The published file, `locomo10.json`, has ten. The kept results are of its first five (`conv-26`,
`conv-30`, `conv-41`, `conv-42` and `conv-43`), on which the rules were developed.
"""

import json
import re
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from made_up import exchange

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.turn import Session, Tip

_SOMETIME = "12:00 am on 1 January, 2026"


class Utterance(NamedTuple):
    """One utterance: its id (D3:5), and its text with its speaker."""

    id: str
    text: str


class Question(NamedTuple):
    """A question with the utterances that hold its answer."""

    text: str
    evidence: frozenset[str]


class Place(NamedTuple):
    """An utterance in an archive: its turn, its effort and its text."""

    turn: int
    effort: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: its sessions with their times and summaries, and the questions about it."""

    id: str
    sessions: tuple[tuple[Utterance, ...], ...]
    times: tuple[str, ...]
    summaries: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def speakers(self) -> frozenset[str]:
        """The names of those who speak in it."""
        texts = (utterance.text for session in self.sessions for utterance in session)
        return frozenset(text.split(":")[0] for text in texts)


@dataclass(frozen=True, slots=True)
class Replay:
    """A conversation in an archive: by their ids the places of its utterances."""

    talk: Conversation
    session: Session
    tip: Tip
    places: Mapping[str, Place]


def add_options(parser: ArgumentParser) -> None:
    """Add the options that name the file and choose conversations of it."""
    parser.add_argument("--data", type=Path, help="LoCoMo's file, locomo10.json, or a part of it")
    half = "the places of the first and the last conversation in it; 0-4 is the development half"
    parser.add_argument("--conversations", default="0-9", help=f"{half} (default: %(default)s)")


def load(path: Path, conversations: str = "0-9") -> tuple[Conversation, ...]:
    """Read the conversations; questions without evidence that exists are left out."""
    first, last = (int(place) for place in conversations.split("-"))
    items = json.loads(path.read_text(encoding="utf-8"))[first : last + 1]
    return tuple(_conversation(item) for item in items)


def replayed(archive: Archive, talk: Conversation, size: int) -> Replay:
    """Commit a conversation, of a user of its own, `size` utterances to a turn."""
    session, tip, places = Session(talk.id, "locomo"), Tip(), dict[str, Place]()
    for number, named in enumerate(talk.sessions):
        name = f"session-{number:02}"
        for first in range(0, len(named), size):
            part = named[first : first + size]
            last = first + size >= len(named)
            event = {"type": "concluded", "effort": name, "summary": talk.summaries[number]}
            turn = exchange(tip.turn + 1, [text for _, text in part], name, [event] if last else [])
            tip = archive.commit(session, tip, replace(turn, at=talk.times[number])).tip
            places |= {at: Place(tip.turn, name, text) for at, text in part}
    return Replay(talk, session, tip, places)


def _conversation(item: Mapping[str, Any]) -> Conversation:
    talk = item["conversation"]
    names = [key for key in talk if re.fullmatch(r"session_\d+", key)]
    names.sort(key=lambda key: int(key.removeprefix("session_")))
    sessions = tuple(
        tuple(Utterance(utterance["dia_id"], _text(utterance)) for utterance in talk[key])
        for key in names
    )
    ids = frozenset(utterance.id for session in sessions for utterance in session)
    summaries = tuple(item["session_summary"][f"{key}_summary"] for key in names)
    questions = tuple(_questions(item["qa"], ids))
    times = tuple(_time(talk.get(f"{key}_date_time", _SOMETIME)) for key in names)
    return Conversation(item["sample_id"], sessions, times, summaries, questions)


def _questions(items: list[Mapping[str, Any]], ids: frozenset[str]) -> Iterator[Question]:
    for item in items:
        places = (
            place for text in item["evidence"] for place in re.findall(r"D:?(\d+):(\d+)", text)
        )
        evidence = ids & {f"D{int(session)}:{int(number)}" for session, number in places}
        if evidence:
            yield Question(item["question"], evidence)


def _time(text: str) -> str:
    """Return `1:56 pm on 8 May, 2023` in the archive's format."""
    return f"{datetime.strptime(text, '%I:%M %p on %d %B, %Y').isoformat()}Z"  # noqa: DTZ007 (it names no zone)


def _text(utterance: Mapping[str, Any]) -> str:
    caption = utterance.get("blip_caption")
    return f"{utterance['speaker']}: {utterance['text']}" + (
        f" [image: {caption}]" if caption else ""
    )
