"""What stays of an erased turn, and what in other records goes with it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ebbtide.memory.anchor import written
from ebbtide.memory.efforts import Effort
from ebbtide.memory.erasing import (
    Redaction,
    Target,
    blanked,
    changed,
    redaction,
    retelling,
    wording,
)
from ebbtide.memory.messages import digest
from ebbtide.memory.record import Event, Group, Record, place
from ebbtide.memory.state_blocks import END, START
from tests.memory.turns import answer, concluded, human, opened, turn

SAID = "The safe opens with seven left, nine right."
MARK = "(redacted: a turn of this effort was erased)"


def record(group: Group, branch: str = "main") -> Record:
    """Return a group as a record."""
    return place(group, branch, "", None)


def target(
    group: Group,
    before: Mapping[str, Effort] | None = None,
    anchor: Mapping[str, str] | None = None,
) -> Target:
    """Return a group as the turn that is to be erased, which every later turn sees."""
    one, known = record(group), before or {}
    wrote = written([one]) - {*(anchor or {}).items()}
    pieces = wording(one, wrote)
    return Target(one, known.get, lambda other: other.turn > one.turn, pieces, wrote)


def blanks(event: Event, of: Target, text: str = "") -> tuple[str, ...]:
    """Return the fields that an event of the next turn loses."""
    found = redaction(record(turn(of.record.turn + 1, text, ["a"], [event])), of)
    return found.blanks[0] if found else ()


def test_tombstone_keeps_place_and_digest() -> None:
    """A buried record has no message and no text of events; names and numbers stay."""
    before = record(turn(2, SAID, ["a"], [{**opened("a", goal=SAID), "tokens": 7}]))
    found = redaction(before, target(turn(2, SAID, ["a"], before.events)))
    assert found is not None

    after = changed(before, found)

    assert after.events == ({"type": "opened", "effort": "a", "goal": "", "tokens": 7},)
    assert (after.messages, after.status, after.tip) == ((), "erased", before.tip)
    assert changed(after, found) == after


def test_what_the_turn_only_repeats_stays() -> None:
    """The goal that an effort had before is no text of this turn; the summary made in it is."""
    known = {"a": Effort("a", "open", goal="Open it", summary="Old.", keywords=("k",))}
    event = concluded("a", "Old.", goal="Open it", keywords=["k"])

    found = redaction(
        record(turn(2, SAID, ["a"], [event])), target(turn(2, SAID, ["a"], [event]), known)
    )

    assert found is not None
    assert found.blanks == {0: ("keywords", "summary")}


def test_later_events_lose_what_the_turn_gave() -> None:
    """A goal that the turn set is repeated by later events, however short it is."""
    of = target(turn(1, SAID, ["a"], [opened("a", goal="Open")]))

    assert blanks(opened("a", goal="Open"), of) == ("goal",)
    assert blanks(opened("a", goal="Shut"), of) == ()
    assert blanks(opened("b", goal="Open"), of) == ()


def test_summaries_lose_what_they_were_made_of() -> None:
    """Each summary of an effort of the turn goes, each of another effort only if it quotes."""
    of = target(turn(1, SAID, ["a"]))

    assert blanks(concluded("a", "Of locks.", keywords=["k"]), of) == ("keywords", "summary")
    assert blanks(concluded("b", "Of locks."), of) == ()
    assert blanks(concluded("b", f"So: {SAID}"), of, SAID) == ("summary",)


def test_other_text_that_a_turn_says_itself_stays() -> None:
    """A goal that quotes the turn goes, unless its own turn says it too: that one is named."""
    of = target(turn(1, SAID))

    assert blanks(opened("b", goal=SAID), of) == ("goal",)
    assert blanks(opened("b", goal=SAID), of, SAID) == ()


def test_anchors_of_later_turns_lose_the_fields_that_tell() -> None:
    """Fields that say a sentence or a figure of the turn go, from the turns that see it alone."""
    of = target(turn(3, f"{SAID} Please use port 8080 for it."))
    anchor = {"Goal": "tidy", "summary": f"So: {SAID}", "": "port 8080"}
    later = record(turn(4, "", (), [{"type": "anchored", "anchor": anchor}]))
    ports = {"type": "anchored", "anchor": {"Ports": "8080 and 8081"}}

    found = redaction(later, of)

    assert found is not None
    after = changed(later, found)
    assert after.events == ({"type": "anchored", "anchor": {"Goal": "tidy"}},)
    assert changed(after, found) == after
    assert redaction(record(turn(2, "", (), [ports])), of) is None


def test_anchor_of_the_turn_loses_the_fields_that_tell() -> None:
    """What the turn wrote into it goes, however short; what it only repeated stays, everywhere."""
    before = {"Goal": "tidy up the whole house", "Ports": "port 8080, as ever"}
    told = {"Goal": "find out what lies in the safe", "Context": f"It is so. {SAID}", "Key": "mat"}
    anchor = {**before, **told}
    lines = "\n".join(f"{name}: {text}" for name, text in anchor.items())
    block = answer(f"I see.\n{START}\n{lines}\n{END}")
    asked = turn(2, SAID, (), [{"type": "anchored", "anchor": anchor}])
    group = replace(asked, messages=(human(SAID), block))
    later = record(turn(3, "", (), [{"type": "anchored", "anchor": {**anchor, "Goal": "tidy"}}]))
    of = target(group, anchor=before)

    found, after = redaction(of.record, of), redaction(later, of)

    assert found is not None
    assert after is not None
    kept = {"Ports": "port 8080, as ever"}
    assert changed(of.record, found).events == ({"type": "anchored", "anchor": kept},)
    assert changed(later, after).events[0]["anchor"] == {**kept, "Goal": "tidy"}


def test_anchors_of_other_branches_lose_the_fields_that_quote() -> None:
    """A turn that did not see it loses fields with its text alone, if it does not say it too."""
    of = target(turn(3, f"{SAID} Please use port 8080 for it."))
    anchor = {"Goal": "tidy", "Context": f"So: {SAID}", "Ports": "port 8080"}
    event = {"type": "anchored", "anchor": anchor}

    found = redaction(record(turn(2, "", (), [event])), of)

    assert found is not None
    assert found.blanks == {0: ("anchor.Context",)}
    assert redaction(record(turn(2, SAID, (), [event])), of) is None


def test_record_without_text_in_events_is_not_changed() -> None:
    """A turn that nothing was made in is left alone."""
    costs = {"type": "context", "tokens": {"turn": 3}, "said": 3}

    assert redaction(record(turn(2, "", ["a"], [costs])), target(turn(1, SAID, ["a"]))) is None


def test_copies_in_results_are_cut_by_effort() -> None:
    """A result that retells a redacted summary is marked; its digest afterwards is noted."""
    told = '{"effort_id":"a","summary":"Of locks."}'
    result = {"type": "tool", "data": {"name": "close_effort", "content": told}}
    before = record(Group(2, (result,), ""))

    found = retelling(before, None, lambda *told: told == ("a", "Of locks."))

    assert found is not None
    after = changed(before, found)
    assert MARK in after.messages[0]["data"]["content"]
    assert (found.retold, found.content) == ({0: ("a",)}, digest(after.messages))
    assert after.digest == before.digest


@pytest.mark.parametrize("found", [None, Redaction("main", 2, "", {0: ("goal",)})])
def test_without_copies_a_cut_is_as_it_was(found: Redaction | None) -> None:
    """Where no tool retells a redacted summary nothing is added."""
    assert retelling(record(turn(2)), found, lambda *_: True) is found


def test_lists_are_emptied_as_lists() -> None:
    """Constraints and keywords stay lists."""
    event = {"type": "opened", "effort": "a", "constraints": ["soon"]}

    assert blanked(event, ["constraints"]) == {**event, "constraints": []}
