"""Commands by hand: commits without a turn number, in their place between turns."""

from dataclasses import replace

from ebbtide.memory.archive.copy import copy
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.rows import mark
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip
from ebbtide.testing import InMemoryArchive
from tests.memory.turns import (
    SESSION,
    START,
    best_of_each,
    commit_all,
    concluded,
    effort_in,
    elsewhere,
    opened,
    turn,
)

OTHER = Session("ann", "t2")


def command(*events: Event, after: int = 1, nonce: str = "") -> StoredTurn:
    """Return a command with these events."""
    at = "2026-01-02T00:00:00.000000Z"
    return StoredTurn(
        after, (), at, events=events, status="command", nonce=nonce, state={"after": 1}
    )


def test_command_is_no_ambient_turn_and_in_no_log(archive: Archive) -> None:
    """Nothing that counts turns counts it."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")]), turn(2)])

    done = archive.commit(
        SESSION, tip, command(concluded("a", "Renewed the certificate."), after=2)
    )

    assert archive.load(SESSION, done.tip).ambient(9) == (2,)
    assert archive.load(SESSION, done.tip).turns_of("a") == (1,)
    found = best_of_each(archive.load(SESSION, done.tip), "certificate", 9)
    assert [hit.effort for hit in found] == ["a"]


def test_state_after_a_command(archive: Archive) -> None:
    """The state of a tip is that of its last commit, of an earlier turn the one it left."""
    first = archive.commit(SESSION, START, replace(turn(1), state={"after": 0}))
    done = archive.commit(SESSION, first.tip, command(opened("a")))
    second = archive.commit(SESSION, done.tip, replace(turn(2), state={"after": 2}))

    found = [archive.load(SESSION, tip).saved() for tip in (first.tip, done.tip, second.tip)]

    assert [saved and saved["after"] for saved in found] == [0, 1, 2]
    assert archive.load(SESSION, Tip(1, second.id)).saved() == {"after": 1}


def test_messages_find_the_command_after_their_turn(archive: Archive) -> None:
    """Whoever knows a turn by its last message goes on from the command that followed it."""
    first = archive.commit(SESSION, START, turn(1))
    done = archive.commit(SESSION, first.tip, command(opened("a")))
    ends = mark(first.messages)

    assert archive.ended(SESSION, [ends]) == ((ends, done.tip), (ends, first.tip))


def test_erased_summary_of_a_command(archive: Archive) -> None:
    """A summary that a command wrote is emptied with its log, and the command stays sound."""
    tip = commit_all(archive, [turn(1, "the password", efforts=["a"], events=[opened("a")])])
    done = archive.commit(SESSION, tip, command(concluded("a", "It was about the password.")))

    archive.erase(SESSION, done.tip, 1)

    effort = effort_in(archive, SESSION, done.tip, "a")
    assert effort is not None
    assert effort.stale
    assert not [finding for finding in archive.verify(SESSION) if finding.fatal]
    archive.resummarised(SESSION, done.tip, replace(effort, summary="Something.", stale=False))
    renewed = effort_in(archive, SESSION, done.tip, "a")
    assert renewed is not None
    assert renewed.summary == "Something."


def test_other_sessions_find_what_a_command_concluded(archive: Archive) -> None:
    """The tip that they are given is the command's, which sees the effort concluded."""
    tip = commit_all(archive, [turn(1, efforts=["a"], events=[opened("a")])])
    done = archive.commit(SESSION, tip, command(concluded("a", "Chose ochre.")))

    (found,) = elsewhere(archive, OTHER, "ochre", 9)

    assert found.turn == done.tip.turn
    effort = effort_in(archive, SESSION, done.tip, "a")
    assert effort is not None
    assert effort.status == "concluded"


def test_copied_session_keeps_its_commands(archive: InMemoryArchive) -> None:
    """A copy has the same commits under the same ids."""
    first = archive.commit(SESSION, START, turn(1))
    done = archive.commit(SESSION, first.tip, command(opened("a"), nonce="01"))
    second = archive.commit(SESSION, done.tip, turn(2))

    with InMemoryArchive() as target:
        copy(archive, target)
        assert target.load(SESSION, second.tip).commits([1, 2]) == (first, done, second)
        assert target.verify(SESSION) == ()


def test_command_that_lost_its_text_stays_sound(archive: Archive) -> None:
    """Erasing its turn once more changes nothing that it has left, and its nonce is gone."""
    tip = archive.commit(SESSION, START, turn(1)).tip
    tip = archive.commit(SESSION, tip, command(opened("a", goal="secret"), nonce="01")).tip
    for _ in range(2):
        archive.erase(SESSION, tip, 1)

    assert {one.nonce for one in archive.load(SESSION, tip).commits([1])} == {""}
    assert not [finding for finding in archive.verify(SESSION) if finding.fatal]
