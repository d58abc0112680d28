"""LoCoMo's conversations, replayed into an archive: a session is an effort, its summary given."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.record import Event, Group, Owner, Tip

_SOMETIME = "12:00 am on 1 January, 2026"


@dataclass(frozen=True, slots=True)
class Said:
    """One utterance: its id (D3:5), and its text with its speaker."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the utterances that hold its answer."""

    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: its sessions with their times and summaries, and the questions about it."""

    id: str
    sessions: tuple[tuple[Said, ...], ...]
    times: tuple[str, ...]
    summaries: tuple[str, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """A conversation in an archive: the turn, the effort and the text of each utterance."""

    owner: Owner
    tip: Tip
    turns: Mapping[str, int]
    efforts: Mapping[str, str]
    said: Mapping[str, str]


def load(path: Path) -> tuple[Conversation, ...]:
    """Read the conversations; questions without evidence that exists are left out."""
    return tuple(_conversation(item) for item in json.loads(path.read_text(encoding="utf-8")))


def replayed(archive: Archive, talk: Conversation, size: int) -> Replay:
    """Commit a conversation, `size` utterances to a turn."""
    owner, tip = Owner("locomo", talk.id), Tip()
    turns: dict[str, int] = {}
    efforts: dict[str, str] = {}
    texts: dict[str, str] = {}
    for number, said in enumerate(talk.sessions):
        name = f"session-{number:02}"
        for first in range(0, len(said), size):
            part = said[first : first + size]
            last = first + size >= len(said)
            event = {"type": "concluded", "effort": name, "summary": talk.summaries[number]}
            turn = group(tip.turn + 1, part, name, [event] if last else [])
            turn = replace(turn, at=talk.times[number])
            tip = archive.commit(owner, tip, turn).tip
            turns |= dict.fromkeys((one.id for one in part), tip.turn)
            efforts |= dict.fromkeys((one.id for one in part), name)
            texts |= {one.id: one.text for one in part}
    return Replay(owner, tip, turns, efforts, texts)


def group(turn: int, said: tuple[Said, ...], effort: str, events: Sequence[Event]) -> Group:
    """Return utterances as a turn of an effort: a question, its answer."""
    roles = ("human", "ai")
    messages = tuple(
        {"type": roles[at % 2], "data": {"content": one.text}} for at, one in enumerate(said)
    )
    return Group(turn, messages, "2026-01-01T00:00:00Z", (effort,), tuple(events))


def _conversation(item: Mapping[str, Any]) -> Conversation:
    talk = item["conversation"]
    names = [key for key in talk if re.fullmatch(r"session_\d+", key)]
    names.sort(key=lambda key: int(key.removeprefix("session_")))
    sessions = tuple(tuple(Said(one["dia_id"], _text(one)) for one in talk[key]) for key in names)
    known = frozenset(one.id for said in sessions for one in said)
    summaries = tuple(item["session_summary"][f"{key}_summary"] for key in names)
    questions = tuple(_questions(item["qa"], known))
    times = tuple(_time(talk.get(f"{key}_date_time", _SOMETIME)) for key in names)
    return Conversation(item["sample_id"], sessions, times, summaries, questions)


def _questions(items: list[Mapping[str, Any]], known: frozenset[str]) -> Iterator[Question]:
    for item in items:
        places = (
            place for text in item["evidence"] for place in re.findall(r"D:?(\d+):(\d+)", text)
        )
        evidence = known & {f"D{int(session)}:{int(said)}" for session, said in places}
        if evidence:
            yield Question(item["question"], evidence)


def _time(said: str) -> str:
    """Return `1:56 pm on 8 May, 2023` as an archive has it."""
    return f"{datetime.strptime(said, '%I:%M %p on %d %B, %Y').isoformat()}Z"  # noqa: DTZ007


def _text(said: Mapping[str, Any]) -> str:
    caption = said.get("blip_caption")
    return f"{said['speaker']}: {said['text']}" + (f" [image: {caption}]" if caption else "")
