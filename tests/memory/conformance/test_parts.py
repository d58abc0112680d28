"""Parts: rounds of a running turn that are stored before its commit, which joins them."""

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from sqlalchemy import select

from ebbtide import SqlArchive
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.schema import parts
from ebbtide.memory.errors import SessionNotFoundError
from ebbtide.memory.turn import Part, Session, StoredTurn, Tip
from tests.memory.turns import SESSION, START, answer, commit_all, human, opened, turn

ROUNDS = tuple(answer(f"round {number}") for number in range(6))
FIRST = Part("aa", "", ROUNDS[:2], ({"type": "sent", "total": 9},))


def chain(archive: Archive, *groups: tuple[Any, ...], session: Session = SESSION) -> str:
    """Store parts, each after the one before, and return the id of the last one."""
    last = ""
    for messages in groups:
        last = archive.add_part(session, Part("aa", last, messages))
    return last


def joined(last: str, *rounds: Any) -> StoredTurn:
    """Return the turn of these rounds that joins a chain."""
    said = (human("Mend it."), *rounds, answer("Mended."))
    return replace(turn(1), messages=said, nonce="aa", part=last)


def test_parts_are_read_in_their_order(archive: Archive) -> None:
    """A part that is stored again is the same; one that follows another is another."""
    last = chain(archive, ROUNDS[:2], ROUNDS[2:3])
    again = chain(archive, ROUNDS[:2], ROUNDS[2:3])
    fork = chain(archive, ROUNDS[:2], ROUNDS[3:5])

    assert again == last != fork
    assert [part.messages for part in archive.parts(SESSION, last)] == [ROUNDS[:2], ROUNDS[2:3]]
    assert [part.messages for part in archive.parts(SESSION, fork)] == [ROUNDS[:2], ROUNDS[3:5]]


def test_parts_of_others_are_not_seen(archive: Archive) -> None:
    """Another user has no part by its id; a copied thread of the same user has it."""
    last = archive.add_part(SESSION, FIRST)

    assert archive.parts(replace(SESSION, user="bob"), last) == ()
    assert archive.parts(replace(SESSION, thread="copy"), last) == (FIRST,)


def test_commit_joins_parts(archive: Archive) -> None:
    """Parts of a committed turn are read from it, in a fork too, and are no leaves any more."""
    last = chain(archive, ROUNDS[:2], ROUNDS[2:4])
    archive.commit(SESSION, START, joined(last, *ROUNDS))
    fork = archive.add_part(SESSION, Part("aa", last, ROUNDS[5:]))

    assert [part.messages for part in archive.parts(SESSION, last)] == [ROUNDS[:2], ROUNDS[2:4]]
    assert archive.parts(SESSION, fork)[-1].messages == ROUNDS[5:]
    assert [found.where for found in archive.verify(SESSION)] == [f"part {fork[:12]}"]


def test_commit_without_the_rounds_leaves_parts(archive: Archive) -> None:
    """A turn with other rounds joins nothing, whatever part it names."""
    last = chain(archive, ROUNDS[:2])
    archive.commit(SESSION, START, joined(last, *ROUNDS[3:]))

    assert [part.messages for part in archive.parts(SESSION, last)] == [ROUNDS[:2]]


def test_parts_go_with_their_turn(archive: Archive) -> None:
    """Erasing a turn deletes its parts, and those that no turn joined; others stay."""
    stored = archive.commit(SESSION, START, joined(chain(archive, ROUNDS[:2]), *ROUNDS))
    joined_part = chain(archive, ROUNDS[:2])
    other = replace(turn(2), messages=(human("More."), *ROUNDS[:1], answer("Yes.")), nonce="bb")
    kept = archive.add_part(SESSION, Part("bb", "", ROUNDS[:1]))
    archive.commit(SESSION, stored.tip, replace(other, part=kept))
    loose = archive.add_part(SESSION, Part("cc", "", ROUNDS[4:]))

    archive.erase(SESSION, Tip(1, stored.id), 1)

    assert archive.parts(SESSION, joined_part) == archive.parts(SESSION, loose) == ()
    assert [part.messages for part in archive.parts(SESSION, kept)] == [ROUNDS[:1]]


def test_parts_of_a_turn_that_lost_a_copy_go_with_it(archive: SqlArchive) -> None:
    """Although its nonce has gone with the copy."""
    tip = archive.commit(SESSION, START, turn(1, events=[opened("a", goal="secret")])).tip
    body = '{"effort_id":"a","goal":"secret"}'
    copied = ToolMessage(body, tool_call_id="1", name="expand_effort")
    last = chain(archive, (*ROUNDS[:1], copied))
    tip = archive.commit(SESSION, tip, replace(joined(last, *ROUNDS[:1], copied), number=2)).tip

    archive.erase(SESSION, tip, 1)
    (without,) = archive.load(SESSION, tip).turns([2])
    archive.erase(SESSION, tip, 2)

    assert (without.nonce, "secret" in str(without.messages)) == ("", False)
    with archive.database.reading() as connection:
        assert connection.execute(select(parts.c.id)).all() == []


@pytest.mark.parametrize("what", ["session", "user"])
def test_parts_go_with_their_session(archive: Archive, what: str) -> None:
    """Deleting a session or a user deletes the parts."""
    commit_all(archive, [turn(1)])
    last = archive.add_part(SESSION, FIRST)

    if what == "session":
        archive.delete_session(SESSION)
    else:
        archive.delete_user(SESSION.user)

    assert archive.parts(SESSION, last) == ()
    with pytest.raises(SessionNotFoundError):
        archive.verify(SESSION)
