"""What stays of an erased turn, and what the turns after it lose."""

from collections.abc import Mapping
from dataclasses import replace

from langchain_core.messages import ToolMessage

from ebbtide.memory.efforts import Effort
from ebbtide.memory.erasing import Carried, Target, quoted_by
from ebbtide.memory.turn import Event, StoredTurn
from tests.memory.turns import concluded, opened, turn

SAID = "The safe opens with seven left, nine right."
MARK = "(redacted: a turn of this effort was erased)"


def record(turn: StoredTurn) -> StoredTurn:
    """Return a turn as one that is stored."""
    return replace(turn, id=f"id{turn.number}")


def target(
    turn: StoredTurn,
    before: Mapping[str, Effort] | None = None,
    anchor: Mapping[str, str] | None = None,
) -> Target:
    """Return a group as the turn that is to be erased."""
    return Target(record(turn), before or {}, anchor or {})


def lost(event: Event, of: Target) -> set[str]:
    """Return the fields that an event of the next turn loses."""
    following = record(turn(of.turn.number + 1, "", ["a"], [event]))
    (after,) = of.without(following, of.carried())[0].events
    return {key for key in event if after[key] != event[key]}


def test_tombstone_keeps_place_and_digest() -> None:
    """It has no message and no text of events; names and numbers stay."""
    event = {**opened("a", goal=SAID), "tokens": 7}
    of = target(turn(2, SAID, ["a"], [event]))

    after = of.tombstone()

    assert after.events == ({"type": "opened", "effort": "a", "goal": "", "tokens": 7},)
    assert (after.messages, after.status, after.tip) == ((), "erased", of.turn.tip)


def test_what_the_turn_only_repeats_stays() -> None:
    """The goal that an effort had before is no text of this turn; the summary made in it is."""
    known = {"a": Effort("a", "open", goal="Open it", summary="Old.", keywords=("k",))}
    event = concluded("a", "Old.", goal="Open it", keywords=["k"])

    (left,) = target(turn(2, SAID, ["a"], [event]), known).tombstone().events

    assert left == {**event, "summary": MARK, "keywords": [], "stale": True}


def test_later_events_lose_what_the_turn_gave() -> None:
    """A goal that the turn set is repeated by later events of the same effort."""
    of = target(turn(1, SAID, ["a"], [opened("a", goal="Open")]))

    assert lost(opened("a", goal="Open"), of) == {"goal"}
    assert lost(opened("a", goal="Shut"), of) == set()
    assert lost(opened("b", goal="Open"), of) == set()


def test_summaries_of_its_efforts_go() -> None:
    """Whatever they say; those of another effort stay, even if they quote it."""
    of = target(turn(1, SAID, ["a"]))

    assert lost(concluded("a", "Of locks.", keywords=["k"]), of) == {"keywords", "summary"}
    assert lost(concluded("b", SAID), of) == set()
    later = record(turn(2, "", ["b"], [concluded("b", SAID)]))
    assert [*quoted_by([of.turn], [later])] == [later.tip]


def test_constraints_go_one_by_one() -> None:
    """Those that the turn added go, from it and from later events; the others stay in force."""
    known = {"a": Effort("a", "open", constraints=("in May", "no downtime"))}
    event = {"type": "constraints_updated", "effort": "a", "constraints": ["in May", SAID]}
    later = record(turn(2, "", ["a"], [{**event, "constraints": ["in May", SAID, "be quick"]}]))
    of = target(turn(1, SAID, ["a"], [event]), known)

    after, _ = of.without(later, of.carried())

    assert of.tombstone().events == ({**event, "constraints": ["in May"]},)
    assert after.events == ({**event, "constraints": ["in May", "be quick"]},)


def test_state_blocks_lose_its_fields() -> None:
    """A field that it wrote goes, however short; one that a later turn wrote stays."""
    told = {"Goal": "tidy", "Key": "mat"}
    events = [{"type": "anchored", "anchor": told}]
    of = target(turn(3, f"{SAID} Please use port 8080.", (), events), anchor={"Goal": "tidy"})
    block = {**told, "summary": f"So: {SAID}", "": "port 8080"}

    left = of.remaining(block, of.carried())

    assert left == {"Goal": "tidy", "summary": f"So: {SAID}", "": "port 8080"}
    assert of.tombstone().events[0]["anchor"] == {"Goal": "tidy"}


def test_turn_without_text_of_it_is_not_changed() -> None:
    """A turn that nothing was made in is left alone."""
    costs = {"type": "context", "tokens": {"turn": 3}, "said": 3}
    before, of = record(turn(2, "", ["a"], [costs])), target(turn(1, SAID, ["a"]))

    assert of.without(before, of.carried()) == (before, of.carried())


def test_results_of_tools_lose_what_they_repeat() -> None:
    """Texts go by effort, from a log that is then one that has the turn; what others say stays."""
    listed = (
        '{"efforts":[{"id":"a","summary":"Of locks.","goal":"Open"},'
        '{"id":"b","summary":"Of locks.","constraints":["soon"]}]}'
    )
    result = ToolMessage(listed, tool_call_id="1", name="effort_status")
    before = record(StoredTurn(2, (result,), "", ("c",), (concluded("c", "Of status."),)))
    carried = Carried(frozenset({("a", "Of locks."), ("a", "Open"), ("b", "soon")}))

    after, carried = target(turn(1, SAID)).without(before, carried)

    assert after.messages[0].content == (
        f'{{"efforts":[{{"id":"a","summary":"{MARK}","goal":""}},'
        '{"id":"b","summary":"Of locks.","constraints":[]}]}'
    )
    assert after.events[0]["summary"] == MARK
    assert carried.logs == {"c"}


def test_log_that_quotes_the_turn_is_summarised_without_it() -> None:
    """A result that refers to the turn makes the log, whose summary goes, one that has it."""
    artifact = {"recalled": [{"turn": 1, "offset": 0, "end": 9}]}
    content = '{"turns":[{"turn":1,"text":""}]}'
    result = ToolMessage(content, tool_call_id="1", name="read_log", artifact=artifact)
    reading = record(StoredTurn(2, (result,), "", ("c",), (concluded("c", "Of safes."),)))
    of = target(turn(1, SAID))

    after, _ = of.without(reading, of.carried())

    assert after.messages == reading.messages
    assert after.events[0]["summary"] == MARK


def test_reasons_of_references_go() -> None:
    """The words that a reference counted by are the turn's; a goal of one such word stays."""
    event = {"type": "referenced", "effort": "a", "kind": "keywords", "words": ["safe", "left"]}
    of = target(turn(2, SAID, ["a"], [event]))

    assert of.tombstone().events == ({**event, "words": []},)
    assert lost(opened("a", goal="safe"), of) == set()
