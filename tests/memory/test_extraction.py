"""Extraction: what a model is asked about a log, and what is taken of its answers."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from ebbtide.memory.efforts import Effort
from ebbtide.memory.errors import SalienceError
from ebbtide.memory.extraction import (
    MOST_PARTS,
    Extracted,
    Extraction,
    ExtractionRequest,
    extract,
)
from ebbtide.memory.record import Group
from ebbtide.memory.salience import Item, Kind
from ebbtide.memory.settings import Settings
from ebbtide.prompts.loader import text as prompt
from tests.memory.asking import answered
from tests.memory.desks import ai, call, count_words, human, tool

EFFORT = Effort("auth-bug", "open", goal="Log in again", constraints=("no downtime", "keep v1"))
TURNS = [Group(n, (human(f"Step {n}: open port {n}."), ai("Done.")), "") for n in (4, 5)]


def asked(
    turns: Sequence[Group],
    answers: Sequence[Extraction],
    quoted: Sequence[Item] = (),
    **chosen: Any,
) -> tuple[list[ExtractionRequest], tuple[Extracted, ...] | None]:
    """Return what is asked about turns, and what came of the answers if they were enough."""
    return answered(extract(EFFORT, turns, quoted, Settings(**chosen), count_words), answers)


def found(*quotes: str) -> Extraction:
    """Return an answer with these quotes."""
    return Extraction(items=[Extracted(quote=quote) for quote in quotes])


def test_the_request_holds_goal_constraints_and_log() -> None:
    """The log is fenced data; the instructions, the system message, are always the same."""
    (request,), _ = asked(TURNS, [])

    assert request.instructions == prompt("extract", most=37)
    assert request.log.startswith(
        "Effort: auth-bug\nGoal: Log in again\nConstraints: no downtime; keep v1\n"
    )
    assert "[turn 4]\nuser: Step 4: open port 4.\nassistant: Done.\n\n[turn 5]\n" in request.log
    assert '<log part="part 1 of 1" key="' in request.log


def test_outputs_of_tools_are_read_in_full() -> None:
    """Whatever a preview would show of them."""
    output = " ".join(f"row-{n}" for n in range(2_000))
    looked = (human("Look."), ai("", call("look_up", call_id="1")), tool("1", output), ai("Seen."))

    (request,), _ = asked([Group(1, looked, "")], [])

    assert output in request.log


def test_what_is_quoted_already_is_told() -> None:
    """Current items are listed in one line each; superseded ones are not."""
    old = [Item(Kind.FACT, "Port 1\n is open.", 1), Item(Kind.FACT, "Port 0.", 1, "gone")]

    (request,), _ = asked(TURNS, [], old)

    assert "- Port 1 is open.\n</quoted" in request.log
    assert "Port 0." not in request.log


def test_the_newest_quotes_are_told_within_the_limit() -> None:
    """The list of quotes is no longer than `salience_max_tokens`; the oldest are left out."""
    old = [Item(Kind.FACT, f"Port {n} is open.", n) for n in range(60)]

    (request,), _ = asked(TURNS, [], old, salience_max_tokens=100)

    assert "- Port 59 is open.\n" in request.log
    assert request.log.count("is open.") == 20


def test_nothing_is_asked_about_an_empty_log() -> None:
    """Without turns, or with turns in which nothing is said, no call is made."""
    silent = [Group(1, (), ""), Group(2, (human("x"),), "", status="erased")]

    assert [asked(turns, []) for turns in ([], silent)] == [([], ()), ([], ())]


def test_nothing_may_be_salient() -> None:
    """An answer without items is an answer."""
    assert asked(TURNS, [found()])[1] == ()


def test_a_long_log_is_asked_about_in_parts() -> None:
    """The items of all parts come together, the same quote of the same turn once."""
    turns = [Group(n, (human("word " * 300 + f"end {n}."),), "") for n in (1, 2, 3)]
    answers = [found("end 1."), found("end 2.", "end 1."), found("end 3.")]

    requests, items = asked(turns, answers, summary_input_tokens=500)

    assert ["part 2 of 3" in request.log for request in requests] == [False, True, False]
    assert {request.instructions for request in requests} == {prompt("extract", most=37)}
    assert [item.quote for item in items or ()] == ["end 1.", "end 2.", "end 3."]


def test_a_huge_log_is_not_asked_about() -> None:
    """More parts than a pass may ask about are refused before the first call."""
    turns = [Group(1, (human("word " * 500 * (MOST_PARTS + 1)),), "")]

    with pytest.raises(SalienceError, match=f"parts, more than {MOST_PARTS}"):
        asked(turns, [], summary_input_tokens=500)


def test_a_call_fits_the_context_budget() -> None:
    """With a small budget the parts are smaller, but never so small that nothing is read."""
    turns = [Group(n, (human("word " * 400),), "") for n in range(10)]

    counts = [len(asked(turns, [found()] * 20, context_budget=n)[0]) for n in (2_000, 16_000)]

    assert counts == [10, 1]


def test_five_hundred_items() -> None:
    """An answer of 500 items is taken as it is."""
    answer = found(*(f"Fact {n}." for n in range(500)))

    assert len(asked(TURNS, [answer])[1] or ()) == 500


@pytest.mark.parametrize(
    ("sent", "item"),
    [
        ({"quote": "a", "kind": "goal", "turn": 3}, ("a", Kind.GOAL, 3)),
        ({"quote": "a", "kind": "Decision", "turn": "3"}, ("a", Kind.DECISION, 3)),
        ({"quote": "a", "kind": "preference", "turn": "[turn 12]"}, ("a", Kind.FACT, 12)),
        ({"quote": "a", "kind": None, "turn": "last"}, ("a", Kind.FACT, None)),
        ({"quote": "a"}, ("a", Kind.FACT, None)),
        ({"quote": None, "turn": True}, ("", Kind.FACT, None)),
        ({"quote": 8443, "why": "?"}, ("8443", Kind.FACT, None)),
        ("a", ("a", Kind.FACT, None)),
    ],
)
def test_answers_are_read_leniently(sent: Any, item: tuple[str, Kind, int | None]) -> None:
    """An unknown kind is a fact, a turn is its digits, and what is missing is empty."""
    read = [Extraction.model_validate(given) for given in ({"items": [sent]}, [sent])]

    assert [(one.quote, one.kind, one.turn) for answer in read for one in answer.items] == [
        item
    ] * 2


def test_what_is_no_item_is_dropped() -> None:
    """Numbers and lists among the items are left out."""
    assert Extraction.model_validate({"items": [3, ["a"], None]}).items == []


@pytest.mark.parametrize("sent", [{}, {"items": "none"}, "text", None, 3])
def test_an_answer_without_items_is_refused(sent: Any) -> None:
    """What has no list of items is not taken for nothing salient."""
    with pytest.raises(ValidationError):
        Extraction.model_validate(sent)
