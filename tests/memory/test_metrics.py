"""What the events of a session say, as figures."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from ebbtide.memory.metrics import (
    MEANINGS,
    CallTokens,
    Cost,
    Report,
    TurnTokens,
    cost,
    report,
    without_calls,
)
from ebbtide.memory.turn import Event, StoredTurn
from tests.memory.conversations import call


def records(turns: int, **events: list[Event]) -> list[StoredTurn]:
    """Return turns, of which those named `t3` have these events."""
    return [
        StoredTurn(turn, (), "", events=tuple(events.get(f"t{turn}", ())))
        for turn in range(1, turns + 1)
    ]


def expanded(name: str = "a", tokens: int = 100) -> Event:
    """Return the event of an expansion."""
    return {"type": "expanded", "effort": name, "turns": [1], "tokens": tokens}


def part(turns: list[int], tokens: int, **more: bool) -> Event:
    """Return the event of an expansion of some turns of a log."""
    return {**expanded(tokens=tokens), "turns": turns, **more}


FOLDED: Event = {"type": "collapsed", "effort": "a", "auto": False}
"""The event of a collapse by hand."""


def sent(**tokens: int) -> Event:
    """Return the event of a call."""
    return {"type": "sent", "tokens": tokens}


def context(said: int, *before: int, answer: int = 0, alone: int = 0) -> Event:
    """Return the event of what a turn said."""
    sizes = {"said": said, "answer": answer, "alone": alone, "before": [*before]}
    return {"type": "context", **sizes}


NOTHING = Report(
    auto_collapses=0,
    manual_collapses=0,
    manual_vs_auto_collapse=None,
    avg_expansion_duration=None,
    running_expansions=0,
    false_decay_rate=None,
    tokens_saved_by_decay=0,
    expansion_overhead=None,
    savings_vs_full_history=None,
    savings_of_last_call=None,
    sent=0,
    always_expanded=0,
    full_history=0,
    evictions=0,
    returns=0,
    compressions=0,
    fallbacks=0,
    fabricated=0,
    quotes_left_out=0,
    tokens_compressed=0,
    searches=0,
    searches_used=0,
    costs=(),
    turns=(),
)


@pytest.mark.parametrize("turns", [0])
def test_without_events_all_is_nothing(turns: int) -> None:
    """Counts are 0 and ratios are None."""
    assert report(records(turns)) == NOTHING


def test_the_cost_of_the_context() -> None:
    """All calls stand beside what they would have sent with everything said."""
    # Full history in turn 2: 20 in front, 100 of turn 1, 50 before the first answer, 70 before the
    # last one.
    events: dict[str, list[Event]] = {
        "t1": [sent(system=40), context(100, 70, answer=30, alone=20)],
        "t2": [
            sent(system=40),
            sent(system=40, expanded=60),
            context(100, 50, 70, answer=30, alone=20),
        ],
    }

    found = report(records(2, **events))

    first, second = (
        CallTokens(2, {"system": 40}, 40),
        CallTokens(2, {"system": 40, "expanded": 60}, 100),
    )
    assert found.turns[1] == TurnTokens(2, (first, second), 170 + 190, 20 + 100 + 70)
    assert (found.sent, found.full_history) == (180, 90 + 170 + 190)
    assert found.savings_vs_full_history == 270 / 450
    assert found.savings_of_last_call == 90 / 190
    assert found.expansion_overhead == 60 / 140 / 2


@pytest.mark.parametrize(
    ("t1", "t2", "missing"),
    [
        ([part([1], 40), part([2], 60)], [], 100),
        ([part([1], 40), part([1, 2], 100)], [], 100),
        ([part([1], 40)], [part([2], 60)], 60),
        ([part([1, 2], 100)], [part([1], 40, again=True)], 100),
        ([part([1, 2], 100), FOLDED, part([1], 40)], [], 40),
    ],
    ids=["parts", "a part and the whole", "moved", "again", "collapsed between"],
)
def test_what_is_missing_of_a_log(t1: list[Event], t2: list[Event], missing: int) -> None:
    """What was shown of it at last: parts of one turn stand side by side, a later one alone."""
    faded = {**FOLDED, "auto": True}

    found = report(records(3, t1=t1, t2=[*t2, faded], t3=[sent(system=10)]))

    assert found.tokens_saved_by_decay == missing
    assert found.always_expanded == 10 + missing


def test_what_a_turn_said() -> None:
    """The event has what was said, how much of it the answer, and what stands before each call."""
    said = [HumanMessage("one two"), AIMessage("three")]

    assert cost(said, 20, lambda text: len(text.split())) == {
        "type": "context",
        "said": 6 + 5,
        "answer": 5,
        "alone": 20,
        "before": [6],
    }


def test_each_figure_has_its_meaning() -> None:
    """What `ebbtide stats` shows of a report is all of it but costs and turns."""
    assert [*MEANINGS, "costs", "turns"] == [*Report.__dataclass_fields__]


def test_a_history_without_a_memory_has_none_of_its_calls() -> None:
    """Calls of its tools and their results are left out, and messages that hold nothing else."""
    # An id that comes again in a later round is another call.
    ours, theirs = call("open_effort", call_id="1"), call("look_up", call_id="2")
    talk = [
        HumanMessage("Go on."),
        AIMessage("", tool_calls=[ours]),
        ToolMessage("{}", tool_call_id="1"),
        AIMessage("I look.", tool_calls=[ours, theirs]),
        ToolMessage("{}", tool_call_id="1"),
        ToolMessage("Found.", tool_call_id="2"),
        AIMessage("", tool_calls=[{**theirs, "id": "1"}]),
        ToolMessage("Found.", tool_call_id="1"),
        AIMessage("Done."),
    ]

    assert [*without_calls(talk, {"open_effort"})] == [
        talk[0],
        AIMessage("I look.", tool_calls=[theirs], invalid_tool_calls=[]),
        *talk[5:],
    ]


def test_calls_are_left_out_wherever_a_provider_repeats_them() -> None:
    """Content blocks and extras repeat calls; one that came out invalid stays invalid."""
    ours = call("open_effort", call_id="1")
    theirs = {
        **call("look_up", call_id="2"),
        "args": "{",
        "error": None,
        "type": "invalid_tool_call",
    }
    blocks: list[str | dict[Any, Any]] = [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", **ours},
    ]
    talk = [
        AIMessage(blocks[1:], tool_calls=[ours], additional_kwargs={"tool_calls": [ours]}),
        AIMessage(blocks, tool_calls=[ours], invalid_tool_calls=[theirs]),
    ]

    assert [*without_calls(talk, {"open_effort"})] == [
        AIMessage(blocks[:1], tool_calls=[], invalid_tool_calls=[theirs])
    ]


def test_compressions_are_counted_with_what_they_saved() -> None:
    """One that was only named again saved nothing; fallbacks and made up quotes count."""
    sizes = {"before": 900, "after": 400}
    first = {"type": "compressed", "effort": "a", "tokens": sizes}
    again = {"type": "compressed", "effort": "a"}
    last = {**first, "fallback": True, "fabricated": 2, "tokens": {"before": 800, "after": 500}}

    found = report(records(5, t2=[first], t3=[again], t4=[last]))

    assert (found.compressions, found.fallbacks, found.fabricated) == (3, 1, 2)
    assert found.tokens_compressed == 800


def test_cost_by_purpose() -> None:
    """A turn's own calls are answers; cached tokens are told apart, unreported calls counted."""
    usage = {"input_tokens": 900, "output_tokens": 50, "input_token_details": {"cache_read": 600}}
    sent = {"type": "sent", "tokens": {"system": 1}, "usage": usage}
    summary = {"type": "asked", "purpose": "summary", "model": "m"}
    extraction = {**summary, "purpose": "extraction", "usage": {**usage, "input_tokens": 700}}

    found = report(records(3, t1=[sent, summary], t2=[sent, extraction])).costs

    assert found == (
        Cost("answer", 2, 0, read=1_800, cached=1_200, written=100),
        Cost("summary", 1, 1, read=0, cached=0, written=0),
        Cost("extraction", 1, 0, read=700, cached=600, written=50),
    )
    assert found[0].money(2.0, 10.0, 0.5) == pytest.approx(0.0028)
