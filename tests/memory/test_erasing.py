"""What stays of an erased turn, and what in other records goes with it."""

from collections.abc import Mapping
from dataclasses import replace

from ebbtide.memory.archive.erasures import _anchored
from ebbtide.memory.efforts import Effort
from ebbtide.memory.erasing import Target, without_copies
from ebbtide.memory.record import Event, Group, Record
from ebbtide.memory.state_blocks import END, START
from tests.memory.turns import answer, concluded, human, opened, turn

SAID = "The safe opens with seven left, nine right."
MARK = "(redacted: a turn of this effort was erased)"


def record(group: Group) -> Record:
    """Return a group as a record."""
    at, events = group.at, group.events
    return Record(group.turn, f"id{group.turn}", "", group.messages, at, group.efforts, events)


def target(
    group: Group,
    before: Mapping[str, Effort] | None = None,
    anchor: Mapping[str, str] | None = None,
) -> Target:
    """Return a group as the turn that is to be erased, which every later turn sees."""
    one, known = record(group), before or {}
    wrote = _anchored(one) - {*(anchor or {}).items()}
    return Target(one, known, wrote)


def blanks(event: Event, of: Target) -> set[str]:
    """Return the fields that an event of the next turn loses."""
    before = record(turn(of.record.turn + 1, "", ["a"], [event]))
    (after,) = of.without(before, follows=True)[0].events
    return {key for key in event if after[key] != event[key]}


def test_tombstone_keeps_place_and_digest() -> None:
    """A buried record has no message and no text of events; names and numbers stay."""
    before = record(turn(2, SAID, ["a"], [{**opened("a", goal=SAID), "tokens": 7}]))
    of = target(turn(2, SAID, ["a"], before.events))

    after = of.tombstone(before)

    assert after.events == ({"type": "opened", "effort": "a", "goal": "", "tokens": 7},)
    assert (after.messages, after.status, after.tip) == ((), "erased", before.tip)
    assert of.tombstone(after) == after


def test_what_the_turn_only_repeats_stays() -> None:
    """The goal that an effort had before is no text of this turn; the summary made in it is."""
    known = {"a": Effort("a", "open", goal="Open it", summary="Old.", keywords=("k",))}
    event = concluded("a", "Old.", goal="Open it", keywords=["k"])
    group = turn(2, SAID, ["a"], [event])

    (left,) = target(group, known).tombstone(record(group)).events

    assert left == {**event, "summary": MARK, "keywords": [], "stale": True}


def test_later_events_lose_what_the_turn_gave() -> None:
    """A goal that the turn set is repeated by later events, however short it is."""
    of = target(turn(1, SAID, ["a"], [opened("a", goal="Open")]))

    assert blanks(opened("a", goal="Open"), of) == {"goal"}
    assert blanks(opened("a", goal="Shut"), of) == set()
    assert blanks(opened("b", goal="Open"), of) == set()


def test_summaries_lose_what_they_were_made_of() -> None:
    """Each summary of an effort of the turn goes, none of another effort."""
    of = target(turn(1, SAID, ["a"]))

    assert blanks(concluded("a", "Of locks.", keywords=["k"]), of) == {"keywords", "summary"}
    assert blanks(concluded("b", "Of locks."), of) == set()


def test_what_says_the_same_stays_and_is_found() -> None:
    """Goals and summaries of other efforts stay, whatever they quote: who says it is named."""
    of = target(turn(1, SAID))
    said = turn(2, SAID), turn(2, "", ["b"], [opened("b", goal=SAID)])

    assert blanks(opened("b", goal=SAID), of) == blanks(concluded("b", SAID), of) == set()
    assert all(of.quoted_by(record(one)) for one in said)
    assert not of.quoted_by(record(turn(2, "", ["b"], [opened("b", goal="Shut")])))


def test_lists_are_emptied_as_lists() -> None:
    """Constraints and keywords stay lists."""
    event = {"type": "opened", "effort": "a", "constraints": [SAID]}
    before = record(turn(2, "", ["a"], [event]))

    (left,) = target(turn(1, SAID, ["a"], [event])).without(before, follows=True)[0].events

    assert left == {**event, "constraints": []}


def test_constraints_go_one_by_one() -> None:
    """Those that the turn added go, from it and from later events; the others stay in force."""
    known = {"a": Effort("a", "open", constraints=("in May", "no downtime"))}
    event = {"type": "constraints_updated", "effort": "a", "constraints": ["in May", SAID]}
    later = record(turn(2, "", ["a"], [{**event, "constraints": ["in May", SAID, "be quick"]}]))
    of = target(turn(1, SAID, ["a"], [event]), known)
    after, told = of.without(later, follows=True)

    assert of.tombstone(of.record).events == ({**event, "constraints": ["in May"]},)
    assert after.events == ({**event, "constraints": ["in May", "be quick"]},)
    assert told == {("a", SAID)}


def test_anchors_of_later_turns_lose_the_fields_that_tell() -> None:
    """Fields that hold a sentence of the turn go; what merely resembles it stays."""
    of = target(turn(3, f"{SAID} Please use port 8080 for it."))
    anchor = {"Goal": "tidy", "summary": f"So: {SAID}", "": "port 8080"}
    later = record(turn(4, "", (), [{"type": "anchored", "anchor": anchor}]))

    (left,) = of.without(later, follows=True)[0].events

    assert left["anchor"] == {"Goal": "tidy", "": "port 8080"}


def test_anchor_of_the_turn_loses_what_it_wrote() -> None:
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

    kept = {"Ports": "port 8080, as ever"}
    assert of.tombstone(of.record).events == ({"type": "anchored", "anchor": kept},)
    assert of.without(later, follows=True)[0].events[0]["anchor"] == {**kept, "Goal": "tidy"}


def test_anchors_of_other_branches_lose_the_fields_that_quote() -> None:
    """A turn that did not see it loses fields with its text alone, if it does not say it too."""
    of = target(turn(3, f"{SAID} Please use port 8080 for it."))
    anchor = {"Goal": "tidy", "Context": f"So: {SAID}", "Ports": "port 8080"}
    event = {"type": "anchored", "anchor": anchor}

    (left,) = of.without(record(turn(2, "", (), [event])), follows=False)[0].events

    assert left["anchor"] == {"Goal": "tidy", "Ports": "port 8080"}
    assert of.without(record(turn(2, SAID, (), [event])), follows=False)[0].events == (event,)


def test_record_without_text_in_events_is_not_changed() -> None:
    """A turn that nothing was made in is left alone."""
    costs = {"type": "context", "tokens": {"turn": 3}, "said": 3}
    before = record(turn(2, "", ["a"], [costs]))

    assert target(turn(1, SAID, ["a"])).without(before, follows=True) == (before, frozenset())


def test_results_of_tools_lose_what_they_retell() -> None:
    """Summary, goal and constraints that are gone go by effort; what others say stays."""
    listed = (
        '{"efforts":[{"id":"a","summary":"Of locks.","goal":"Open"},'
        '{"id":"b","summary":"Of locks.","constraints":["soon"]}]}'
    )
    result = {"type": "tool", "data": {"name": "effort_status", "content": listed}}
    before = record(Group(2, (result,), ""))
    told = frozenset({("a", "Of locks."), ("a", "Open"), ("b", "soon")})

    after = without_copies(before, told)

    assert after.messages[0]["data"]["content"] == (
        f'{{"efforts":[{{"id":"a","summary":"{MARK}","goal":""}},'
        '{"id":"b","summary":"Of locks.","constraints":[]}]}'
    )
    assert after.id == before.id
    assert without_copies(before, frozenset({("c", "Of locks.")})) is before
