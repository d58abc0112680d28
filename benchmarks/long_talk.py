"""A long conversation of a user with an assistant, and what plain full-text search finds of it.

A line of the conversation is a turn, `{"turn": 1, "at": …, "effort": "kitchen", "user": …,
"assistant": …}` with null for no effort, or what became of an effort, `{"effort": …, "concluded":
57, "summary": …}`. A line of the questions is `{"question": …, "evidence": [{"turn": 12, "who":
"user", "quote": …}]}`.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.record import Group, Owner, Tip
from ebbtide.memory.terms import query_terms, words

_ROLES = {"user": "human", "assistant": "ai"}


@dataclass(frozen=True, slots=True)
class Sought:
    """A question, and the texts that answer it with the turns in which they stand."""

    text: str
    evidence: tuple[tuple[int, str], ...]


def read(path: Path) -> list[Any]:
    """Return the lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def questions(path: Path) -> list[Sought]:
    """Return the questions of a file."""
    return [
        Sought(one["question"], tuple((two["turn"], two["quote"]) for two in one["evidence"]))
        for one in read(path)
    ]


def committed(archive: Archive, owner: Owner, lines: Sequence[Any]) -> Tip:
    """Commit a conversation; an effort is concluded in its last turn."""
    ends = [one for one in lines if "turn" not in one]
    tip = Tip()
    for one in (one for one in lines if "turn" in one):
        messages = tuple(
            {"type": kind, "data": {"content": one[who]}} for who, kind in _ROLES.items()
        )
        events = tuple(
            {"type": "concluded", "effort": end["effort"], "summary": end["summary"]}
            for end in ends
            if end["concluded"] == one["turn"]
        )
        efforts = (one["effort"],) if one["effort"] else ()
        tip = archive.commit(
            owner, tip, Group(one["turn"], messages, one["at"], efforts, events)
        ).tip
    return tip


def by_full_text(lines: Sequence[Any], who: Sequence[str], query: str) -> Iterator[tuple[int, str]]:
    """Yield messages as SQLite's FTS5 ranks them, with their turns, of these speakers."""
    with sqlite3.connect(":memory:") as found:
        found.execute("CREATE VIRTUAL TABLE said USING fts5(text, turn UNINDEXED, tokenize=porter)")
        rows = [(one[name], one["turn"]) for one in lines if "turn" in one for name in who]
        found.executemany("INSERT INTO said VALUES (?, ?)", rows)
        known = set(query_terms(query))
        kept = [word for word in words(query) if set(query_terms(word)) & known]
        match = " OR ".join(f'"{word}"' for word in kept)
        sql = "SELECT turn, text FROM said WHERE said MATCH ? ORDER BY rank"
        yield from found.execute(sql, [match]) if match else ()
