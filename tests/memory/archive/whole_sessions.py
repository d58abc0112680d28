"""Sessions to move that have everything an archive can hold, under any names."""

from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import ToolMessage

from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.export import WholeSession, read
from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.compressions import Compression, ExtractionEntry, Item, Kind
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.memory.turns import START, answer, concluded, human, opened, turn

NAMES = ("../../etc", "CON", "nul", "NUL", "\ud800", "🌊", "", ".x.", "Büro%20", "x" * 300)
SESSIONS = (
    Session("ann", "t1"),
    Session("ann", "t1", "agent"),
    Session("../bob", "NUL", "a/b"),
    Session("🌊\ud800", "ab%20", ""),
)
SAID = "The safe opens with seven left, nine right."


def commit_session(archive: SqlArchive, session: Session) -> Tip:
    """Commit a session that has everything, and return the tip of its newest branch."""
    first = _committed(archive, session, START, [turn(1, "hello"), _begun(2), _worked(3)])
    tip = _committed(archive, session, first, [turn(4, SAID, ["a"]), _done(5), _status(6), turn(7)])
    fork = archive.commit(session, first, turn(4, "another way", ["a"])).tip
    archive.commit(session, fork, turn(5, "a fork of the fork", ["a"], [concluded("a", "Other.")]))
    archive.commit(session, fork, turn(5, "a third way", ["a"]))
    archive.commit(session, START, turn(1, "a fork before the first turn"))
    tip = archive.commit(session, tip, _reopened(8)).tip
    archive.commit_compression(session, _pass("a", tip), _compression("a", tip.turn))
    archive.commit_compression(session, _pass("b", tip), None)
    archive.erase(session, tip, 4)
    archive.reseed(session, tip)
    if not session.anonymous:
        for memory in attention(archive, session)[:1]:
            archive.attention().suppress(session.user, memory["memory"], now=datetime.now(UTC))
    return tip


def commit_sessions(archive: SqlArchive) -> None:
    """Commit such a session for each of three users, and one of them three."""
    for session in SESSIONS:
        commit_session(archive, session)


def attention(archive: SqlArchive, session: Session) -> list[Any]:
    """Return what attention has of a user, by name."""
    sessions = [read(archive, row) for row in archive.sessions(session.user)]
    memories = [memory for row in sessions for memory in row.attention or ()]
    return sorted(memories, key=lambda memory: memory["memory"])


def all_of(archive: SqlArchive) -> dict[Session, WholeSession]:
    """Return all that an archive holds."""
    return {
        session: read(archive, session)
        for user in archive.users()
        for session in archive.sessions(user)
    }


def seen_by_tips(archive: SqlArchive, session: Session) -> list[object]:
    """Return what each tip of a session sees: turns, efforts, compressions, what a search finds."""
    return [
        (
            tip,
            archive.load(session, tip).turns(range(1, tip.turn + 1)),
            archive.load(session, tip).ambient(100),
            archive.load(session, tip).efforts(100),
            [archive.load(session, tip).compression(name) for name in ("a", "b", "🌊")],
            [
                (hit.effort, hit.turn)
                for hit in find(Branches(archive.load(session, tip)), "login question", 9)
            ],
            archive.load(session, tip).saved(),
        )
        for tip in archive.tips(session)
    ]


def _committed(archive: SqlArchive, session: Session, tip: Tip, turns: list[StoredTurn]) -> Tip:
    for new in turns:
        tip = archive.commit(session, tip, new).tip
    return tip


def _begun(number: int) -> StoredTurn:
    names = ("a", *NAMES)
    events = tuple(opened(name, goal="mend the login ```\n# x") for name in names)
    return StoredTurn(
        number, (human("go \x85\x00\ud800"), answer("\r\nyes")), "2026", names, events
    )


def _worked(number: int) -> StoredTurn:
    call = {"name": "look", "args": {"at": "port"}, "id": "c1", "type": "tool_call"}
    result = ToolMessage("8443", name="look", tool_call_id="c1")
    messages = (human("which port?"), answer("", tool_calls=[call]), result, answer("Port 8443."))
    state = {"turn": number, "anchor": {"goal": "mend the login"}, "open": ["a"]}
    at = f"2026-01-01T00:00:0{number}.000000Z"
    return StoredTurn(number, messages, at, ("a", "🌊"), state=state, status="aborted")


def _done(number: int) -> StoredTurn:
    events = [concluded("a", "The login is mended.", keywords=["login"], importance=80)]
    return turn(number, "done, now b", ["b", "a"], [*events, opened("b")])


def _status(number: int) -> StoredTurn:
    call = {"name": "effort_status", "args": {}, "id": "c2", "type": "tool_call"}
    said = '{"efforts":[{"id":"a","summary":"The login is mended."}]}'
    data = {"content": said, "name": "effort_status", "tool_call_id": "c2"}
    result = ToolMessage(**data)
    messages = (human("how is it?"), answer("", tool_calls=[call]), result, answer("Well."))
    return StoredTurn(number, messages, f"2026-01-01T00:00:0{number}.000000Z", ("b",))


def _reopened(number: int) -> StoredTurn:
    events = [{"type": "reopened", "effort": "a", "goal": "again"}, concluded("b", "B is done.")]
    return turn(number, "again", ["a", "b"], events)


def _compression(effort: str, made: int) -> Compression:
    items = (Item(Kind.GOAL, "mend the login", 2, speaker="user"), Item(Kind.FACT, "8443", 3))
    return Compression(effort, made, 3, items, "A login was mended.")


def _pass(effort: str, tip: Tip) -> ExtractionEntry:
    return ExtractionEntry(effort, tip.id, tip.turn, (), "2026", {"seconds": 0.5, "q": ["x"]})


def sessions_of(archive: SqlArchive) -> dict[Session, tuple[Any, ...]]:
    """Return by session what its tips see, what is in attention, and what verifying finds."""
    return {
        session: (
            seen_by_tips(archive, session),
            attention(archive, session),
            archive.verify(session),
        )
        for session in SESSIONS
    }
