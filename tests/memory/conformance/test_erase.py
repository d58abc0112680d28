"""Erasing: a turn is gone from wherever it was kept, its place stays, and nothing else changes."""

import base64
from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import inspect

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.schema import METADATA
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.compressions import Compression, ExtractionEntry, Item, Kind
from ebbtide.memory.turn import Part, Session, StoredTurn, Tip
from tests.memory.turns import (
    SESSION,
    best_of_each,
    commit_all,
    concluded,
    effort_in,
    opened,
    turn,
)
from tests.zipped import revealed

SAID = "The safe opens with seven left, nine right."


def test_erased_turn_keeps_its_place_without_text(archive: Archive) -> None:
    """The record stays with its id and no messages, the others as they were, and all goes on."""
    first = commit_all(archive, [turn(1)])
    told = replace(turn(2, SAID), nonce="ab")
    tip = commit_all(archive, [told], first)
    branch = archive.load(SESSION, tip)
    (before,), others = branch.turns([2]), branch.turns([1])
    found = [one.turn for one in best_of_each(branch, "safe", 9)]

    erased = archive.erase(SESSION, tip, 2)

    (after,) = archive.load(SESSION, tip).turns([2])
    assert (after.status, after.messages, after.id, after.nonce) == ("erased", (), before.id, "")
    assert (erased.turn, erased.id) == (2, before.id)
    assert (erased.quoted, erased.elsewhere) == ((), ())
    assert archive.load(SESSION, tip).turns([1]) == others
    assert (found, best_of_each(archive.load(SESSION, tip), "safe seven", 9)) == ([2], ())
    again = archive.commit(SESSION, first, told)
    assert (again.status, again.messages, again.tip) == ("erased", (), tip)
    following = [archive.commit(SESSION, tip, turn(3, said)) for said in ("on", "another way")]
    assert [one.parent for one in following] == [tip.id] * 2
    assert archive.erase(SESSION, tip, 2).id == erased.id


def holding(archive: SqlArchive, text: str) -> set[str]:
    """Return the tables that have a text."""
    with archive.database.reading() as connection:
        there = {*inspect(connection).get_table_names()}
        return {
            table.name
            for table in METADATA.sorted_tables
            if table.name in there and not table.name.startswith(("ebbtide_said", "ebbtide_headed"))
            for row in connection.execute(table.select())
            for one in row
            if text.encode() in revealed(one if isinstance(one, bytes) else str(one).encode())
        }


def test_edited_forms_and_copies_go_with_it(archive: SqlArchive) -> None:
    """On every branch, also of a copied thread that was edited from its start, with all of theirs.

    So the commands that follow a form, its parts, files, compressions, logs and state block.
    """
    copy = Session(SESSION.user, "copy")
    file = base64.b64encode(f"{SAID} Mind it.".encode() * 1_200).decode()
    block = {"type": "file", "mime_type": "text/plain", "base64": file}
    told, anchor = HumanMessage([{"type": "text", "text": SAID}, block]), {"Facts": SAID}
    events = [opened("a", goal=SAID), {"type": "anchored", "anchor": anchor}]
    asked = StoredTurn(2, (told,), "2026-01-01T00:00:00+00:00", ("a",), tuple(events))
    state = {"memory": {"anchor": anchor}}
    first = commit_all(archive, [turn(1)])
    anew = archive.commit(copy, Tip(), replace(turn(1, "edited"), origin=first.id)).tip
    places, root = [(SESSION, first, ""), (SESSION, first, "other"), (copy, anew, "copied")], ""
    tips = list[tuple[Session, Tip]]()
    for session, before, said in places:
        form = replace(asked, nonce=f"{len(tips):02}", origin=root or None, state=state)
        part = Part(form.nonce, "", (AIMessage(f"{SAID} {said}"),))
        whole = replace(form, messages=(told, *part.messages), part=archive.add_part(session, part))
        tip = archive.commit(session, before, whole).tip
        root = root or tip.id
        by_hand = replace(asked, messages=(), status="command", events=(opened("b", goal=SAID),))
        tip = archive.commit(session, tip, by_hand).tip
        tip = archive.commit(session, tip, turn(3, f"after {said}", ["a"])).tip
        made = Compression("a", 3, 2, (Item(Kind.FACT, SAID, 2),), SAID)
        entry = ExtractionEntry("a", tip.id, 3, (2,), asked.at, {"quotes": [SAID]})
        archive.commit_compression(session, entry, made)
        tips.append((session, tip))
    held, files = holding(archive, SAID), holding(archive, file[:60])

    erased = archive.erase(SESSION, tips[0][1], 2)

    assert held >= {f"ebbtide_{one}" for one in ("turns", "compressions", "extractions", "blocks")}
    assert files == {"ebbtide_attachments"}
    assert holding(archive, SAID) | holding(archive, file[:60]) == set()
    statuses = [tuple(t.status for t in archive.load(*one).turns([1, 2, 3])) for one in tips]
    assert statuses == [("done", "erased", "done")] * 3
    assert (erased.quoted, erased.elsewhere) == ((), (copy,))
    assert [f for one in (SESSION, copy) for f in archive.verify(one) if f.fatal] == []


def test_turn_that_says_the_same_is_named_and_stays(archive: Archive) -> None:
    """One that quotes it and one that repeats it are named and not touched, unlike an edit."""
    first = commit_all(archive, [turn(1)])
    quoting = commit_all(archive, [turn(2, SAID), turn(3, f'You said: "{SAID}" Why?')], first)
    tip = commit_all(archive, [turn(4, SAID)], quoting)
    original = archive.load(SESSION, tip).ids([2])[2]
    edited = archive.commit(SESSION, first, replace(turn(2, f"{SAID} Hm."), origin=original))

    erased = archive.erase(SESSION, tip, 2)

    assert {*erased.quoted} == {quoting, tip}
    assert archive.load(SESSION, edited.tip).turns([2])[0].status == "erased"
    assert [one.status for one in archive.load(SESSION, tip).turns([3, 4])] == ["done"] * 2


@pytest.mark.parametrize("kept", [{}, {"Password": "mat"}])
def test_state_block_keeps_what_the_turn_did_not_write(
    archive: Archive, kept: dict[str, str]
) -> None:
    """A field stays if the turn before had it, also in states and blocks after; so on a sibling."""

    def blocked(number: int, block: dict[str, str]) -> StoredTurn:
        events = [{"type": "anchored", "anchor": block}] if block else []
        state = {"memory": {"anchor": block}}
        return replace(turn(number, f"turn {number}", events=events), state=state)

    told = {"Password": "mat"}
    first = commit_all(archive, [blocked(1, kept)])
    sibling = commit_all(archive, [replace(blocked(2, told), nonce="ab")], first)
    after = replace(turn(4), state=blocked(4, told).state)
    said = [blocked(2, kept), blocked(3, told), after, blocked(5, {"Goal": "tidy", **told})]
    tip = commit_all(archive, said, first)

    archive.erase(SESSION, tip, 3)

    saved = [
        archive.load(SESSION, one).saved() for one in (sibling, Tip(3, tip.id), Tip(4, tip.id), tip)
    ]
    assert [one and one["memory"]["anchor"] for one in saved] == [
        *(told, kept, kept),
        {"Goal": "tidy", **kept},
    ]
    turns = archive.load(SESSION, tip).turns([3, 5])
    assert [event["anchor"] for stored in turns for event in stored.events] == [
        kept,
        {"Goal": "tidy", **kept},
    ]


def test_summary_made_from_it_is_redacted_and_stale(archive: Archive) -> None:
    """A summary that the turn went into is redacted, however it says it; one of another stays."""
    other = [opened("b"), concluded("b", "All about cables.")]
    turns = [
        turn(1, SAID, ["a"], [opened("a", goal=SAID)]),
        turn(2, "", ["a"], [concluded("a", "How a lock is opened.", goal=SAID)]),
        turn(3, "", ["b"], other),
    ]
    tip = commit_all(archive, turns)

    erased = archive.erase(SESSION, tip, 1)

    kept = archive.load(SESSION, tip).efforts(9).efforts
    assert [(one.id, one.summary, one.goal, one.stale) for one in kept] == [
        ("b", "All about cables.", "", False),
        ("a", "(redacted: a turn of this effort was erased)", "", True),
    ]
    assert erased.stale == ("a",)


def test_effort_that_says_the_same_is_named_and_stays(archive: Archive) -> None:
    """What is said of an effort whose log does not hold the turn is not guessed to be of it."""
    events = [opened("b", goal=SAID), concluded("b", f"Noted. {SAID}", keywords=["safe"])]
    tip = commit_all(archive, [turn(1, SAID), turn(2, "", ["b"], events), turn(3)])
    before = effort_in(archive, SESSION, tip, "b")

    erased = archive.erase(SESSION, tip, 1)

    assert effort_in(archive, SESSION, tip, "b") == before
    assert ([quoted.turn for quoted in erased.quoted], erased.stale) == ([2], ())


def test_summary_of_what_was_before_stays(archive: Archive) -> None:
    """A summary that was made before the turn was said is as it was, also where it is repeated."""
    early = concluded("a", "Nothing but cables.", goal="Count cables")
    again = {"type": "reopened", "effort": "a", "summary": "Nothing but cables."}
    turns = [
        turn(1, "", ["a"], [opened("a", goal="Count cables"), early]),
        turn(2, SAID, ["a"], [{**again, "goal": "Count cables"}]),
    ]
    tip = commit_all(archive, turns)

    archive.erase(SESSION, tip, 2)

    effort = effort_in(archive, SESSION, tip, "a")
    assert effort is not None
    assert (effort.summary, effort.goal, effort.stale) == (
        *("Nothing but cables.", "Count cables"),
        False,
    )


def test_summary_written_again_is_no_longer_stale(archive: Archive) -> None:
    """A stale summary is replaced by one that was made from what remains."""
    turns = [turn(1, SAID, ["a"], [opened("a")]), turn(2, "", ["a"], [concluded("a", SAID)])]
    tip = commit_all(archive, turns)
    archive.erase(SESSION, tip, 1)
    stale = effort_in(archive, SESSION, tip, "a")
    assert stale is not None

    archive.resummarised(
        SESSION, tip, type(stale)("a", "concluded", summary="New.", turn=stale.turn)
    )

    fresh = effort_in(archive, SESSION, tip, "a")
    assert fresh is not None
    assert (fresh.summary, fresh.stale, fresh.turn) == ("New.", False, 2)


def test_what_a_turn_that_ran_meanwhile_repeats_goes_with_that_turn(archive: Archive) -> None:
    """A goal, a constraint and a summary that came back with a later turn."""
    aims = {"goal": SAID, "constraints": ["Tell nobody."]}
    tip = commit_all(archive, [turn(1, SAID, ["a"], [opened("a", **aims)]), turn(2)])
    archive.erase(SESSION, tip, 1)
    events = [
        {"type": "constraints_updated", "effort": "a", **aims},
        concluded("a", SAID, **aims),
    ]
    tip = commit_all(archive, [turn(3, "Close it.", ["a"], events), turn(4)], tip)

    erased = archive.erase(SESSION, tip, 3)

    effort = effort_in(archive, SESSION, tip, "a")
    assert effort is not None
    assert (effort.goal, effort.constraints, effort.stale) == ("", (), True)
    assert SAID not in effort.summary
    assert erased.stale == ("a",)


def test_erased_session_verifies_and_says_how_many(archive: Archive) -> None:
    """A session with tombstones is sound; how many there are is said."""
    tip = commit_all(archive, [turn(1), turn(2, SAID), turn(3)])
    archive.erase(SESSION, tip, 2)
    archive.erase(SESSION, tip, 3)

    findings = archive.verify(SESSION)

    assert [(found.what, found.fatal) for found in findings] == [("2 turns erased", False)]
