"""Threads: one archive is used by many threads at once."""

from concurrent.futures import ThreadPoolExecutor

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.turn import Session, StoredTurn
from tests.memory.turns import SESSION, START, commit_all, turn


def test_same_turn_at_once_is_stored_once(archive: Archive) -> None:
    """Threads that commit the same turn get the same record."""
    before = commit_all(archive, [turn(1)])

    with ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(lambda _: archive.commit(SESSION, before, turn(2)), range(16)))

    assert {stored.tip for stored in turns} == {turns[0].tip}
    assert len(archive.tips(SESSION)) == 1


def test_other_turns_at_once_get_branches(archive: Archive) -> None:
    """Threads that commit different turns after one tip get a branch each."""
    before = commit_all(archive, [turn(1)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: archive.commit(SESSION, before, turn(2, f"way {n}")), range(12)))

    assert len(archive.tips(SESSION)) == 12
    assert [finding for finding in archive.verify(SESSION) if finding.fatal] == []


def test_many_sessions_at_once(archive: Archive) -> None:
    """More sessions than are kept open at a time are written and read by several threads."""
    sessions = [Session("ann", f"t{number}") for number in range(100)]

    def written(session: Session) -> tuple[StoredTurn, ...]:
        stored = archive.commit(session, START, turn(1, session.thread))
        return archive.load(session, stored.tip).turns([1])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(written, sessions * 2))

    assert [turns[0].messages[0].content for turns in found] == [
        session.thread for session in sessions * 2
    ]
