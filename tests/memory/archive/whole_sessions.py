"""Sessions to move that have everything an archive can hold, under any names."""

from datetime import UTC, datetime
from typing import Any

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.archive.transfer import WholeSession, read
from ebbtide.memory.compressions import Compression, ExtractionEntry, Item, Kind
from ebbtide.memory.record import Group, Owner, Tip
from tests.memory.turns import START, answer, concluded, human, opened, turn

NAMES = ("../../etc", "CON", "nul", "NUL", "\ud800", "🌊", "", ".x.", "Büro%20", "x" * 300)
OWNERS = (
    Owner("ann", "t1"),
    Owner("ann", "t1", "agent"),
    Owner("../bob", "NUL", "a/b"),
    Owner("🌊\ud800", "ab%20", ""),
)
SAID = "The safe opens with seven left, nine right."


def commit_session(archive: SqlArchive, owner: Owner) -> Tip:
    """Commit a session that has everything, and return the tip of its newest branch."""
    first = _committed(archive, owner, START, [turn(1, "hello"), _begun(2), _worked(3)])
    tip = _committed(archive, owner, first, [turn(4, SAID, ["a"]), _done(5), _status(6), turn(7)])
    fork = archive.commit(owner, first, turn(4, "another way", ["a"])).tip
    archive.commit(owner, fork, turn(5, "a fork of the fork", ["a"], [concluded("a", "Other.")]))
    archive.commit(owner, fork, turn(5, "a third way", ["a"]))
    archive.commit(owner, START, turn(1, "a fork before the first turn"))
    tip = archive.commit(owner, tip, _reopened(8)).tip
    archive.commit_compression(owner, tip, _compression("a", tip.turn))
    archive.log_extraction(owner, _pass("b", tip))
    archive.erase(owner, tip, 4)
    archive.reseed(owner, tip)
    if not owner.anonymous:
        for memory in attention(archive, owner)[:1]:
            archive.attention().suppress(owner.user, memory["memory"], now=datetime.now(UTC))
    return tip


def commit_sessions(archive: SqlArchive) -> None:
    """Commit such a session for each of three users, and one of them three."""
    for owner in OWNERS:
        commit_session(archive, owner)


def attention(archive: SqlArchive, owner: Owner) -> list[Any]:
    """Return what attention has of a user, by name."""
    sessions = [read(archive, session) for session in archive.sessions(owner.user)]
    memories = [memory for session in sessions for memory in session.attention or ()]
    return sorted(memories, key=lambda memory: memory["memory"])


def all_of(archive: SqlArchive) -> dict[Owner, WholeSession]:
    """Return all that an archive holds."""
    return {
        owner: read(archive, owner) for user in archive.users() for owner in archive.sessions(user)
    }


def seen_by_tips(archive: SqlArchive, owner: Owner) -> list[object]:
    """Return what each tip of a session sees: turns, efforts, compressions, what a search finds."""
    return [
        (
            tip,
            archive.at(owner, tip).turns(range(1, tip.turn + 1)),
            archive.at(owner, tip).turns_of(None, 100),
            archive.at(owner, tip).efforts(100),
            [archive.at(owner, tip).compression(name) for name in ("a", "b", "🌊")],
            [(hit.effort, hit.turn) for hit in archive.at(owner, tip).search("login question", 9)],
            archive.at(owner, tip).saved(),
        )
        for tip in archive.tips(owner)
    ]


def _committed(archive: SqlArchive, owner: Owner, tip: Tip, groups: list[Group]) -> Tip:
    for group in groups:
        tip = archive.commit(owner, tip, group).tip
    return tip


def _begun(number: int) -> Group:
    names = ("a", *NAMES)
    events = tuple(opened(name, goal="mend the login ```\n# x") for name in names)
    return Group(number, (human("go \x85\x00\ud800"), answer("\r\nyes")), "2026", names, events)


def _worked(number: int) -> Group:
    call = {"name": "look", "args": {"at": "port"}, "id": "c1", "type": "tool_call"}
    result = {"type": "tool", "data": {"content": "8443", "name": "look", "tool_call_id": "c1"}}
    messages = (human("which port?"), answer("", tool_calls=[call]), result, answer("Port 8443."))
    state = {"turn": number, "anchor": {"goal": "mend the login"}, "open": ["a"]}
    at = f"2026-01-01T00:00:0{number}.000000Z"
    return Group(number, messages, at, ("a", "🌊"), state=state, status="aborted")


def _done(number: int) -> Group:
    events = [concluded("a", "The login is mended.", keywords=["login"], importance=80)]
    return turn(number, "done, now b", ["b", "a"], [*events, opened("b")])


def _status(number: int) -> Group:
    call = {"name": "effort_status", "args": {}, "id": "c2", "type": "tool_call"}
    said = '{"efforts":[{"id":"a","summary":"The login is mended."}]}'
    data = {"content": said, "name": "effort_status", "tool_call_id": "c2"}
    result = {"type": "tool", "data": data}
    messages = (human("how is it?"), answer("", tool_calls=[call]), result, answer("Well."))
    return Group(number, messages, f"2026-01-01T00:00:0{number}.000000Z", ("b",))


def _reopened(number: int) -> Group:
    events = [{"type": "reopened", "effort": "a", "goal": "again"}, concluded("b", "B is done.")]
    return turn(number, "again", ["a", "b"], events)


def _compression(effort: str, made: int) -> Compression:
    items = (Item(Kind.GOAL, "mend the login", 2, speaker="user"), Item(Kind.FACT, "8443", 3))
    return Compression(effort, made, 3, items, "A login was mended.")


def _pass(effort: str, tip: Tip) -> ExtractionEntry:
    return ExtractionEntry(effort, tip.id, tip.turn, (), "2026", {"seconds": 0.5, "q": ["x"]})


def sessions_of(archive: SqlArchive) -> dict[Owner, tuple[Any, ...]]:
    """Return by session what its tips see, what is in attention, and what verifying finds."""
    return {
        owner: (seen_by_tips(archive, owner), attention(archive, owner), archive.verify(owner))
        for owner in OWNERS
    }
