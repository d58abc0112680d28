"""Nudges: one line, once, for an effort that is left open."""

from collections.abc import Sequence

import pytest

from ebbtide.memory.context.notes import notes
from ebbtide.memory.context.timeline import Timeline
from ebbtide.memory.messages import text
from ebbtide.memory.terms import telling
from tests.memory.contexts import begins
from tests.memory.conversations import OWNER, Conversation, call

MIXED = (
    ("What is the capital of Australia?", "Canberra. Any other questions?"),
    ("How many ounces are in a cup?", "Eight. Any other questions?"),
    ("Tell me a joke about scarecrows.", "He is outstanding. Any other questions?"),
    ("Who wrote Dune?", "Frank Herbert. Any other questions?"),
)
STILL_OPEN = (
    '[Memory: the effort "css" is still open; none of the last 3 turns seems to mention it.]'
)


def held(talk: Conversation, turns: Sequence[tuple[str, str]]) -> None:
    """Go through turns of these questions and answers."""
    for question, answer in turns:
        talk.turn(question, answer=answer)


def nudged(talk: Conversation, question: str) -> str:
    """Return the nudge beside this question."""
    talk.ask(question)
    return nudge(talk)


def nudge(talk: Conversation) -> str:
    """Return the nudge that the running message has now."""
    events = notes(talk.work, Timeline(0))
    return "".join(event["said"] for event in events if event["type"] == "nudged")


def shown(talk: Conversation, questions: Sequence[str]) -> list[bool]:
    """Go through turns, and return in which of them there was a nudge."""
    found = []
    for question in questions:
        talk.ask(question)
        found.append(any(event["type"] == "nudged" for event in talk.state.events))
        talk.answer()
    return found


@pytest.mark.parametrize("said", ["thanks", "ok, go on", "Great idea!", "谢谢", "继续", "好的"])
def test_small_talk_tells_nothing(said: str) -> None:
    """What every talk has does not count as a topic."""
    assert telling(said) == frozenset()


def left_open(talk: Conversation, turns: int = 3) -> None:
    """Open an effort, and go through turns that do not mention it."""
    talk.turn("The sidebar overlaps the footer.", call("open_effort", name="css"))
    held(talk, (MIXED * 5)[:turns])


def test_an_effort_that_is_left_open_is_nudged_once(talk: Conversation) -> None:
    """The line stands after three turns without a reference, and in that turn only."""
    left_open(talk, 0)

    found = shown(talk, [question for question, _ in (*MIXED, *MIXED)])

    assert found == [at == 3 for at in range(8)]


@pytest.mark.parametrize(
    ("small", "there"),
    [(["thanks"], True), (["ok", "go on", ""], True), (["ok"] * 10, True), (["ok"] * 11, False)],
)
def test_small_talk_puts_the_nudge_off(
    talk: Conversation, small: Sequence[str], *, there: bool
) -> None:
    """It waits for a message with a topic, ten turns at most, and stands in that turn only."""
    left_open(talk)

    found = shown(talk, [*small, "Who wrote Emma?", "How old is Rome?", "thanks", "Name a river!"])

    assert found == [*[False] * len(small), there, False, False, False]


def test_small_talk_brings_no_nudge_back(talk: Conversation) -> None:
    """However much of it comes after the turn with the nudge, it is not said again."""
    left_open(talk)

    found = shown(talk, ["Who wrote Emma?", *["ok"] * 12, "How old is Rome?", "Name a river!"])

    assert [at for at, there in enumerate(found) if there] == [0]


def test_an_erased_turn_may_have_had_the_nudge(talk: Conversation) -> None:
    """Where the text of a turn is gone, the nudge counts as said in it."""
    left_open(talk)
    found = shown(talk, ["Who wrote Emma?"])
    talk.archive.erase(OWNER, talk.tip, talk.tip.turn)

    found += shown(talk, ["How old is Rome?"])

    assert found == [True, False]


@pytest.mark.parametrize(
    "question", ["And the CSS?", "Why does the sidebar overlap it?", "thanks", "go on", "继续"]
)
def test_who_returns_to_an_effort_needs_no_nudge(talk: Conversation, question: str) -> None:
    """A message that mentions the effort, or says nothing of a topic, has none."""
    left_open(talk)

    assert nudged(talk, question) == ""


def test_a_reference_puts_the_nudge_off(talk: Conversation) -> None:
    """The turns are counted from the last mention."""
    left_open(talk, 2)
    talk.turn("The CSS is odd.")

    found = shown(talk, ["Who wrote Emma?", "How old is Rome?", "Name a river!", "And a lake?"])

    assert found == [False, False, False, True]


@pytest.mark.parametrize(
    "decision",
    [
        call("switch_effort", effort_id="auth"),
        call("switch_effort"),
        call("open_effort", name="api"),
        call("close_effort"),
    ],
)
def test_a_decision_ends_the_nudge(talk: Conversation, decision: dict[str, object]) -> None:
    """Whatever becomes active in the turn, it has just been decided."""
    talk.turn("The certificates.", call("open_effort", name="auth"))
    left_open(talk)
    before = nudged(talk, "Who wrote Emma?")

    talk.run(decision)

    assert before == STILL_OPEN
    assert nudge(talk) == ""


def test_an_effort_that_became_active_again_has_its_time(talk: Conversation) -> None:
    """The turns in which another effort was active do not count."""
    left_open(talk, 0)
    talk.turn("The certificates.", call("open_effort", name="auth"))
    held(talk, MIXED)
    talk.turn("That was it.", call("close_effort"), call("switch_effort", effort_id="css"))

    found = shown(talk, [question for question, _ in (*MIXED, *MIXED)])

    assert found == [at == 3 for at in range(8)]


@pytest.mark.parametrize("tool", ["effort_status", "close_effort", "switch_effort"])
def test_a_nudge_stands_in_every_call_of_its_turn(talk: Conversation, tool: str) -> None:
    """It stands before the question, whatever is decided, and stays there until a rebuild."""
    left_open(talk)
    nudged(talk, "Who wrote Emma?")
    before = talk.context
    talk.call(tool)
    after = talk.context
    talk.answer()
    talk.ask("Go on.")

    assert [text(message) for message in before.messages[-2:]] == [STILL_OPEN, "Who wrote Emma?"]
    assert begins(after, before)
    assert begins(talk.context, after)
    talk.line = None
    assert STILL_OPEN not in map(text, talk.context.messages)


def test_a_paused_effort_is_not_nudged(talk: Conversation) -> None:
    """Where no effort is active nothing is said, however many are open."""
    left_open(talk, 0)
    talk.turn("Let us pause.", call("switch_effort"))

    found = shown(talk, [question for question, _ in (*MIXED, *MIXED)])

    assert not any(found)


def test_nudges_can_be_switched_off(talk: Conversation) -> None:
    """With `nudges=False` nothing is said."""
    talk.set(nudges=False)
    left_open(talk)

    assert nudged(talk, "Who wrote Emma?") == ""


def test_a_nudge_is_no_reference(talk: Conversation) -> None:
    """What a nudge names is not mentioned by it; it is an event of its turn and no message."""
    left_open(talk)
    nudged(talk, "Who wrote Emma?")

    record = talk.answer("Jane Austen.")

    assert record.events == ({"type": "nudged", "said": STILL_OPEN},)
    assert [text(message) for message in record.messages] == ["Who wrote Emma?", "Jane Austen."]
