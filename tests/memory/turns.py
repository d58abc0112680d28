"""Turns to commit: small groups of messages whose texts say where they belong."""

import sys
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.load import Past
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.query import Found
from ebbtide.memory.archive.search import find
from ebbtide.memory.compressions import Compression, ExtractionEntry
from ebbtide.memory.efforts import Effort
from ebbtide.memory.search.embeddings import QueryEmbedding
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip

SESSION = Session("ann", "t1")
START = Tip()


human, answer = HumanMessage, AIMessage


def turn(
    number: int,
    text: str = "",
    efforts: Sequence[str] = (),
    events: Sequence[Event] = (),
) -> StoredTurn:
    """Return a group that asks `text`, and is of these efforts."""
    said = text or f"question {number}"
    at = f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z"
    return StoredTurn(
        number, (human(said), answer(f"about {said}")), at, tuple(efforts), tuple(events)
    )


def opened(effort: str, **said: Any) -> dict[str, Any]:
    """Return the event of an effort that was opened."""
    return {"type": "opened", "effort": effort, "goal": f"do {effort}", **said}


def concluded(effort: str, summary: str, **said: Any) -> dict[str, Any]:
    """Return the event of an effort that was concluded."""
    return {"type": "concluded", "effort": effort, "summary": summary, **said}


def commit_all(archive: Archive, turns: Sequence[StoredTurn], tip: Tip = START) -> Tip:
    """Commit groups one after the other, and return the tip of the last."""
    for turn in turns:
        tip = archive.commit(SESSION, tip, turn).tip
    return tip


def texts(turns: Sequence[StoredTurn]) -> list[str]:
    """Return what the user said in each record."""
    return [str(turn.messages[0].content) for turn in turns]


def effort_in(archive: Archive, session: Session, tip: Tip, name: str) -> Effort | None:
    """Return an effort as `tip` sees it, None if it does not."""
    return next(iter(archive.load(session, tip).efforts_named([name])), None)


def put_compression(
    archive: Archive, tip: Tip, made: Compression, session: Session = SESSION
) -> Compression:
    """Store a compression that a pass made at `tip`, and return the stored one."""
    entry = ExtractionEntry(made.effort, tip.id, tip.turn, (), "2026", {})
    stored = archive.commit_compression(session, entry, made)
    assert stored is not None
    return stored


def best_of_each(
    past: Past,
    query: str,
    limit: int,
    meaning: QueryEmbedding | None = None,
) -> tuple[Found, ...]:
    """Return the best passage of each effort and ambient turn that a query finds."""
    best: dict[str | int, Found] = {}
    for hit in find(Branches(past), query, sys.maxsize, meaning):
        best.setdefault(hit.turn if hit.effort is None else hit.effort, hit)
    return tuple(best.values())[:limit]


def elsewhere(archive: Archive, session: Session, query: str, limit: int = 5) -> tuple[Found, ...]:
    """Return the best passage of each effort and turn of the user's other sessions."""
    best: dict[object, Found] = {}
    for hit in find(Branches(archive.load(session), session), query, sys.maxsize):
        if hit.branch and not hit.newest_with:
            best.setdefault((hit.branch.session, hit.effort or hit.turn), hit)
    return tuple(best.values())[:limit]


def visible(archive: Archive, tip: Tip, session: Session = SESSION) -> list[str]:
    """Return what the user said in each turn that `tip` sees."""
    return texts(archive.load(session, tip).turns(range(1, tip.turn + 1)))
