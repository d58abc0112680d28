"""A long conversation of a user with an assistant, and a plain full-text search in it.

A line of the conversation is a turn, `{"turn": 1, "at": …, "effort": "kitchen", "user": …,
"assistant": …}` with null for no effort, or the end of an effort, `{"effort": …, "concluded":
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
class Evidenced:
    """A question, and the texts that answer it with the turns in which they stand."""

    text: str
    evidence: tuple[tuple[int, str], ...]


def read(path: Path) -> list[Any]:
    """Return the lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def questions(path: Path) -> list[Evidenced]:
    """Return the questions of a file."""
    return [
        Evidenced(
            line["question"],
            tuple((evidence["turn"], evidence["quote"]) for evidence in line["evidence"]),
        )
        for line in read(path)
    ]


def committed(archive: Archive, owner: Owner, lines: Sequence[Any]) -> Tip:
    """Commit a conversation; an effort is concluded in its last turn."""
    ends = [line for line in lines if "turn" not in line]
    tip = Tip()
    for line in (line for line in lines if "turn" in line):
        messages = tuple(
            {"type": kind, "data": {"content": line[role]}} for role, kind in _ROLES.items()
        )
        events = tuple(
            {"type": "concluded", "effort": end["effort"], "summary": end["summary"]}
            for end in ends
            if end["concluded"] == line["turn"]
        )
        efforts = (line["effort"],) if line["effort"] else ()
        tip = archive.commit(
            owner, tip, Group(line["turn"], messages, line["at"], efforts, events)
        ).tip
    return tip


def by_full_text(
    lines: Sequence[Any], roles: Sequence[str], query: str
) -> Iterator[tuple[int, str]]:
    """Yield turns and messages of these roles, ranked by SQLite's FTS5."""
    with sqlite3.connect(":memory:") as database:
        database.execute(
            "CREATE VIRTUAL TABLE said USING fts5(text, turn UNINDEXED, tokenize=porter)"
        )
        rows = [(line[name], line["turn"]) for line in lines if "turn" in line for name in roles]
        database.executemany("INSERT INTO said VALUES (?, ?)", rows)
        terms = set(query_terms(query))
        matching = [word for word in words(query) if set(query_terms(word)) & terms]
        match = " OR ".join(f'"{word}"' for word in matching)
        sql = "SELECT turn, text FROM said WHERE said MATCH ? ORDER BY rank"
        yield from database.execute(sql, [match]) if match else ()
