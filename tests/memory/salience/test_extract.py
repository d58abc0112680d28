"""Extraction: what a model is asked about a log, and what is taken of its answers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from ebbtide.memory.compressions import Kind
from ebbtide.memory.efforts import Effort
from ebbtide.memory.questions import Question
from ebbtide.memory.salience.extract import (
    MOST_PARTS,
    Asking,
    Extracted,
    Extraction,
    Previous,
    extract,
)
from ebbtide.memory.turn import StoredTurn
from ebbtide.prompts.loader import render
from tests.constants import constants
from tests.memory.asking import answered
from tests.memory.conversations import FENCES, ai, call, human, tool

EFFORT = Effort("auth-bug", "open", goal="Log in again", constraints=("no downtime", "keep v1"))
TURNS = [StoredTurn(n, (human(f"Step {n}: open port {n}."), ai("Done.")), "") for n in (4, 5)]


ASKING = Asking(16_000, FENCES)


def asked(
    turns: Sequence[StoredTurn],
    answers: Sequence[Extraction],
    kept: Sequence[str] = (),
    asking: Asking = ASKING,
    **chosen: Any,
) -> tuple[list[Question], Extraction | None]:
    """Return what is asked about turns, and what came of the answers if they were enough."""
    with constants(**chosen):
        return answered(extract(EFFORT, turns, Previous(quotes=tuple(kept)), asking), answers)


def found(*quotes: str, done: Sequence[int] = ()) -> Extraction:
    """Return an answer with these quotes."""
    return Extraction(new=[Extracted(quote=quote) for quote in quotes], done=[*done])


def chosen(
    answers: Sequence[Extraction], turns: Sequence[StoredTurn] = TURNS, **more: Any
) -> Extraction:
    """Return what came of answers, which were enough."""
    _, extraction = asked(turns, answers, **more)
    assert extraction is not None
    return extraction


def test_the_request_holds_goal_constraints_and_log() -> None:
    """The log is fenced data; the instructions, the system message, are always the same."""
    (request,), _ = asked(TURNS, [])

    assert request.instructions == render("extract", key=FENCES.key)
    assert request.log.startswith(
        "Effort: auth-bug\nGoal: Log in again\nConstraints: no downtime; keep v1\n"
    )
    assert "[turn 4]\nuser: Step 4: open port 4.\nassistant: Done.\n\n[turn 5]\n" in request.log
    assert "The log, part 1 of 1:\n<log " in request.log


def test_outputs_of_tools_are_read_as_previews() -> None:
    """Head and tail, and no call that the model cannot make; a quote is verified by all of it."""
    output = " ".join(f"row-{n}" for n in range(2_000))
    looked = (human("Look."), ai("", call("look_up", call_id="1")), tool("1", output), ai("Seen."))

    (request,), _ = asked([StoredTurn(1, looked, "")], [])

    assert all(row in request.log for row in ("row-0 ", "row-1999"))
    assert "tokens left out" in request.log
    assert "read_log" not in request.log
    assert len(request.log) < len(output) / 2


def test_what_is_quoted_already_is_told() -> None:
    """Quotes are listed as they stand in the context."""
    old = ["Port 1\n is open."]

    (request,), _ = asked(TURNS, [], old)

    assert "\n1. Port 1\n|  is open.\n</quoted" in request.log


def test_the_newest_quotes_are_told_within_the_limit() -> None:
    """The list of quotes is no longer than what quotes may have; the others keep their numbers."""
    old = [f"Port {n} is open." for n in range(60)]

    (request,), _ = asked(TURNS, [], old, asking=Asking(16_000, FENCES, quotes=100))

    assert "\n60. Port 59 is open.\n" in request.log
    assert request.log.count("is open.") == 20


def test_numbers_of_quotes_that_are_not_told_are_dropped() -> None:
    """A model that counts from the top of a list that is cut names nothing that it cannot see."""
    old = [f"Port {n} is open." for n in range(60)]
    answer = Extraction(new=[Extracted(quote="Step 4.", replaces=[2, 42])], done=[1, 40, 41])

    extraction = chosen([answer], kept=old, asking=Asking(16_000, FENCES, quotes=100))

    assert ([one.replaces for one in extraction.new], extraction.done) == ([[42]], [41])


def test_nothing_is_asked_about_an_empty_log() -> None:
    """Without turns, or with turns in which nothing is said, no call is made."""
    silent = [StoredTurn(1, (), ""), StoredTurn(2, (), "", status="erased")]

    nothing: tuple[list[Question], Extraction] = ([], found())
    assert [asked(turns, []) for turns in ([], silent)] == [nothing] * 2


def test_a_long_log_is_asked_about_in_parts() -> None:
    """The quotes of all parts come together, once each; a part is shown those of parts before."""
    turns = [StoredTurn(n, (human("word " * 300 + f"end {n}."),), "") for n in (1, 2, 3)]
    answers = [found("end 1."), found("end 2.", "end 1."), found("end 3.")]

    requests, extraction = asked(turns, answers, LOG_TOKENS=500)

    assert ["part 2 of 3" in request.log for request in requests] == [False, True, False]
    assert {request.instructions for request in requests} == {render("extract", key=FENCES.key)}
    assert extraction is not None
    assert [one.quote for one in extraction.new] == ["end 1.", "end 2.", "end 3."]
    assert "\n1. end 1.\n2. end 2.\n</quoted" in requests[2].log


@pytest.mark.parametrize(("second", "made"), [("Both.", "Both."), (" \n", ""), (None, "")])
def test_a_background_is_asked_for_at_once(second: Any, made: str) -> None:
    """Each part goes on from the answer before; if one part has none, the pass has none."""
    turns = [StoredTurn(n, (human("word " * 400),), "") for n in (1, 2)]
    answers = [Extraction.model_validate({"new": [], "background": s}) for s in ("First.", second)]

    requests, extraction = asked(
        turns, answers, asking=replace(ASKING, at_once=True), LOG_TOKENS=500
    )

    so_far = [re.findall(r"<background .*>\n(.+)\n</background", one.log) for one in requests]
    assert so_far == [["nothing"], ["First."]]
    assert extraction is not None
    assert extraction.background == made


def test_a_huge_log_is_asked_about_as_previews() -> None:
    """All messages of a log of more parts than a pass may ask about are read in short."""
    turns = [StoredTurn(1, (human("word " * 500 * (MOST_PARTS + 1)),), "")]

    requests, _ = asked(turns, [found()] * MOST_PARTS, LOG_TOKENS=500)

    assert len(requests) == 1


def test_a_call_fits_the_context_budget() -> None:
    """With a small budget the parts are smaller, but never so small that nothing is read."""
    turns = [StoredTurn(n, (human("word " * 400),), "") for n in range(10)]

    counts = [
        len(asked(turns, [found()] * 20, asking=Asking(n, FENCES))[0]) for n in (2_000, 16_000)
    ]

    assert counts == [10, 1]


def test_more_is_asked_for_where_there_is_room() -> None:
    """A model is told a number that fits into what the kept quotes leave of their tokens."""
    old = [f"Port {n} is open." for n in range(8)]

    logs = [
        asked(TURNS, [], old, asking=Asking(16_000, FENCES, quotes=n))[0][0].log
        for n in (100, 300, 3_000)
    ]

    assert [log.split("At most ")[1] for log in logs] == [
        f"{most} new items, rather fewer." for most in (3, 6, 12)
    ]


def test_numbers_name_kept_quotes() -> None:
    """A new quote names those that it revises, `done` those that matter no longer; first is 1."""
    old = [f"Port {n} is open." for n in (7, 8, 9)]
    revising = Extraction(new=[Extracted(quote="Port 7 is shut.", replaces=[1])], done=[3])

    extraction = chosen([revising], kept=old)

    assert [one.replaces for one in extraction.new] == [[1]]
    assert extraction.done == [3]


def test_numbers_that_name_nothing_are_dropped() -> None:
    """Zero, what is greater than the last number, and with it a quote that revises itself."""
    old = ["Port 1 is open."]
    wrong = Extraction(new=[Extracted(quote="Port 7 is shut.", replaces=[0, 1, 2])], done=[5, 0])

    extraction = chosen([wrong], kept=old)

    assert ([one.replaces for one in extraction.new], extraction.done) == ([[1]], [])


def test_a_quote_given_twice_revises_what_either_names() -> None:
    """It is taken once, with the numbers of both."""
    old = [f"Port {n} is open." for n in (7, 8)]
    twice = [Extracted(quote="Ports are shut.", replaces=[n]) for n in (1, 2)]

    extraction = chosen([Extraction(new=[Extracted(quote="Ports are shut."), *twice])], kept=old)

    assert [one.replaces for one in extraction.new] == [[1, 2]]


def test_a_later_part_revises_an_earlier_one() -> None:
    """What was picked of one part has the next numbers in the part after it."""
    turns = [StoredTurn(n, (human("word " * 300 + f"end {n}."),), "") for n in (1, 2)]
    second = Extraction(new=[Extracted(quote="end 2.", replaces=[1])])

    extraction = chosen([found("end 1."), second], turns, LOG_TOKENS=500)

    assert [one.replaces for one in extraction.new] == [[], [1]]


@pytest.mark.parametrize(
    ("sent", "item"),
    [
        ({"quote": "a", "kind": "goal", "turn": 3}, ("a", Kind.GOAL, 3)),
        ({"quote": "a", "kind": "Decision", "turn": "3"}, ("a", Kind.DECISION, 3)),
        ({"quote": "a", "kind": "preference", "turn": "[turn 12]"}, ("a", Kind.FACT, 12)),
        ({"quote": "a", "kind": None, "turn": "last"}, ("a", Kind.FACT, None)),
        ({"quote": "a"}, ("a", Kind.FACT, None)),
        ({"quote": "a", "turn": True}, ("a", Kind.FACT, None)),
        ({"quote": "a", "turn": 3.0}, ("a", Kind.FACT, 3)),
        ({"quote": "a", "turn": "turn 3, line 12"}, ("a", Kind.FACT, 3)),
        ({"quote": 8443, "why": "?"}, ("8443", Kind.FACT, None)),
        ("a", ("a", Kind.FACT, None)),
    ],
)
def test_answers_are_read_leniently(sent: Any, item: tuple[str, Kind, int | None]) -> None:
    """An unknown kind is a fact, a turn its first number, and what is missing is empty."""
    (one,) = Extraction.model_validate({"new": [sent]}).new

    assert (one.quote, one.kind, one.turn) == item


@pytest.mark.parametrize(
    ("sent", "numbers"),
    [
        ([1, 2], [1, 2]),
        (["1", "2."], [1, 2]),
        ("1, 2", [1, 2]),
        ("[1, 2]", [1, 2]),
        (2, [2]),
        ([2.0], [2]),
        (["quote 2", "#3", "No. 4"], [2, 3, 4]),
        (["The limit is 10 MB.", None, True], []),
        ("none", []),
    ],
)
def test_numbers_are_read_leniently(sent: Any, numbers: list[int]) -> None:
    """Numbers come as numbers or texts, alone or in a list; other texts name no quote."""
    answer = Extraction.model_validate({"new": [{"quote": "a", "replaces": sent}], "done": sent})

    assert (answer.new[0].replaces, answer.done) == (numbers, numbers)


def test_what_is_no_item_is_dropped() -> None:
    """Numbers, lists and empty quotes among the items are left out."""
    sent = [3, ["a"], None, "", "None.", {"quote": None}, {"kind": "goal"}]

    assert Extraction.model_validate({"new": sent}).new == []


@pytest.mark.parametrize("sent", [{"new": []}, {"new": None, "done": []}])
def test_an_answer_may_be_empty(sent: Any) -> None:
    """A list without quotes, in whatever form, is an answer."""
    assert Extraction.model_validate(sent) == Extraction(new=[], done=[])


@pytest.mark.parametrize("sent", [{}, {"done": []}, {"new": "text", "done": []}, [], None])
def test_an_answer_in_no_form_is_refused(sent: Any) -> None:
    """What has no list of quotes is not taken for nothing salient."""
    with pytest.raises(ValidationError):
        Extraction.model_validate(sent)
