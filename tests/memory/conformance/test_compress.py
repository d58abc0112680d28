"""Compressions: stored once, seen by their own lineage only, gone where a turn was erased."""

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.compressions import Compression, Item, Kind
from ebbtide.memory.errors import ArchiveError
from ebbtide.memory.turn import Session, Tip
from tests.memory.turns import SESSION, START, commit_all, opened, put_compression, turn

PORT = Item(Kind.FACT, "It listens on port 8443.", 1)
NEWER = Item(Kind.FACT, "It listens on port 9443.", 2)


def talked(archive: Archive, turns: int = 3, tip: Tip = START) -> Tip:
    """Commit turns of one effort, the first of which opens it."""
    first = turn(1, "let us begin", ["a"], [opened("a")])
    new_turns = [first, *(turn(number, efforts=["a"]) for number in range(2, turns + 1))]
    return commit_all(archive, new_turns[tip.turn :], tip)


def made(tip: Tip, *items: Item, effort: str = "a", through: int = 2) -> Compression:
    """Return what stands for the turns up to `through`, made after the turn of `tip`."""
    return Compression(effort, tip.turn, through, items or (PORT,), "They talked about ports.")


def test_compression_is_read_back_as_it_was_stored(archive: Archive) -> None:
    """Items, background and method come back equal, whatever script they are in."""
    tip = talked(archive)
    chinese = Item(Kind.CONSTRAINT, "端口不能改。\n“绝不”", 2, superseded_by=PORT.key)
    stored = put_compression(archive, tip, made(tip, PORT, chinese))

    assert archive.load(SESSION, tip).compression("a") == stored == made(tip, PORT, chinese)


def test_there_is_none_before_one_is_made(archive: Archive) -> None:
    """Neither another effort, another turn, another session, nor an unknown session has one."""
    tip = talked(archive)
    put_compression(archive, tip, made(tip))

    assert archive.load(SESSION, tip).compression("b") is None
    assert archive.load(SESSION, Tip(2, tip.id)).compression("a") is None
    assert archive.load(Session("eve", SESSION.thread), tip).compression("a") is None
    assert archive.load(Session("eve", "unknown"), tip).compression("a") is None


def test_retry_keeps_the_first_one(archive: Archive) -> None:
    """What a resumed run makes in its place is not stored: the first one stays."""
    tip = talked(archive)
    first = put_compression(archive, tip, made(tip, PORT))

    again = put_compression(archive, tip, made(tip, NEWER))

    assert again == first == archive.load(SESSION, tip).compression("a")


def test_newest_one_counts_and_older_turns_see_the_older(archive: Archive) -> None:
    """A state that went back sees what there was then."""
    before = talked(archive, 3)
    first = put_compression(archive, before, made(before, PORT))
    after = talked(archive, 5, before)
    second = put_compression(archive, after, made(after, NEWER, through=3))

    assert archive.load(SESSION, before).compression("a") == first
    assert archive.load(SESSION, after).compression("a") == second


def test_branches_see_their_own_and_what_was_before_them(archive: Archive) -> None:
    """A fork sees what its past made and nothing of its sibling."""
    tip = talked(archive, 3)
    shared = put_compression(archive, tip, made(tip))
    left = commit_all(archive, [turn(4, "left", ["a"])], tip)
    right = commit_all(archive, [turn(4, "right", ["a"])], tip)
    own = put_compression(archive, left, made(left, NEWER, through=3))

    assert archive.load(SESSION, left).compression("a") == own
    assert archive.load(SESSION, right).compression("a") == shared
    other = put_compression(archive, right, made(right, NEWER, PORT))
    assert archive.load(SESSION, left).compression("a") == own
    assert archive.load(SESSION, right).compression("a") == other


def test_one_made_for_another_turn_is_refused(archive: Archive) -> None:
    """Its turn is that of the tip; anything else would be found by nobody."""
    tip = talked(archive)

    with pytest.raises(ArchiveError, match="made after turn 2"):
        put_compression(archive, tip, made(Tip(2, tip.id)))


def test_erased_turn_leaves_the_compressions_that_were_made_from_it(archive: Archive) -> None:
    """Its items and every background go, what it had superseded holds again, the rest stays."""
    tip = talked(archive, 3)
    old = Item(Kind.FACT, PORT.quote, 1, superseded_by=NEWER.key)
    other = Item(Kind.DECISION, "We use TLS.", 1)
    put_compression(archive, tip, made(tip, old, other, NEWER))

    archive.erase(SESSION, tip, 2)

    after = archive.load(SESSION, tip).compression("a")
    assert after is not None
    assert after.items == (PORT, other)
    assert (after.background, after.stale, after.through) == ("", True, 2)


def test_erasing_what_was_not_compressed_changes_no_compression(archive: Archive) -> None:
    """A turn that still stands in the context, or of another effort, is in none."""
    tip = commit_all(archive, [turn(4, efforts=["b"], events=[opened("b")])], talked(archive, 3))
    kept = put_compression(archive, tip, made(tip))

    archive.erase(SESSION, tip, 3)
    archive.erase(SESSION, tip, 4)

    assert archive.load(SESSION, tip).compression("a") == kept
