"""What the events of a session say, as figures."""

from typing import Any

import pytest

from ebbtide.memory.messages import Message
from ebbtide.memory.metrics import Report, TurnTokens, cost, report, without_calls
from ebbtide.memory.record import Event, Record


def records(turns: int, **events: list[Event]) -> list[Record]:
    """Return turns, of which those named `t3` have these events."""
    return [
        Record(turn, "", "", (), "", events=tuple(events.get(f"t{turn}", ())))
        for turn in range(1, turns + 1)
    ]


def expanded(name: str = "a", tokens: int = 100) -> Event:
    """Return the event of an expansion."""
    return {"type": "expanded", "effort": name, "turns": [1], "tokens": tokens}


def collapsed(name: str = "a", *, auto: bool = True) -> Event:
    """Return the event of a collapse."""
    return {"type": "collapsed", "effort": name, "auto": auto}


def context(said: int, *, answer: int = 0, alone: int = 0, **tokens: int) -> Event:
    """Return the event of what a turn cost."""
    return {
        "type": "context",
        "tokens": tokens,
        "said": said,
        "answer": answer,
        "alone": alone,
    }


def message(kind: str, content: Any, **data: Any) -> Message:
    """Return a message."""
    return {"type": kind, "data": {"content": content, **data}}


NOTHING = Report(
    auto_collapses=0,
    manual_collapses=0,
    manual_vs_auto=None,
    avg_expansion_duration=None,
    false_decay_rate=None,
    tokens_saved_by_decay=0,
    expansion_overhead=None,
    savings_vs_full_history=None,
    sent=0,
    full_history=0,
    evictions=0,
    returns=0,
    compressions=0,
    fallbacks=0,
    fabricated=0,
    quotes_left_out=0,
    tokens_compressed=0,
    compression_calls=0,
    compression_tokens=0,
    searches=0,
    searches_expanded=0,
    turns=(),
)


@pytest.mark.parametrize("turns", [0])
def test_without_events_all_is_nothing(turns: int) -> None:
    """Counts are 0 and ratios are None."""
    assert report(records(turns)) == NOTHING


def test_collapses_are_counted_by_who_did_them() -> None:
    """One collapse by hand to two automatic ones is a ratio of a half."""
    ends = [collapsed("a"), collapsed("b"), collapsed("c", auto=False)]
    found = report(records(5, t1=[expanded("a"), expanded("b"), expanded("c")], t4=ends))

    assert (found.auto_collapses, found.manual_collapses, found.manual_vs_auto) == (2, 1, 0.5)


@pytest.mark.parametrize(
    ("events", "duration"),
    [
        ({"t2": [expanded()], "t5": [collapsed()]}, 3),
        ({"t2": [expanded()], "t3": [expanded()], "t5": [collapsed()]}, 3),
        ({"t2": [expanded()]}, 8),
        ({"t2": [expanded()], "t4": [{"type": "reopened", "effort": "a"}]}, 2),
    ],
)
def test_durations_of_expansions(events: dict[str, Any], duration: float) -> None:
    """From expansion to collapse, or to the last turn; a refresh does not restart it."""
    assert report(records(10, **events)).avg_expansion_duration == duration


@pytest.mark.parametrize(("again", "rate"), [("t6", 1.0), ("t7", 1.0), ("t8", 0.0)])
def test_a_collapse_that_is_soon_undone_was_false(again: str, rate: float) -> None:
    """An expansion within two turns of the collapse at turn 5 counts, one after three does not."""
    events = {"t2": [expanded()], "t5": [collapsed()], again: [expanded()]}

    assert report(records(10, **events)).false_decay_rate == rate


@pytest.mark.parametrize(
    ("later", "saved"),
    [
        ({}, 500),  # turns 6, 7, 8, 9, 10
        ({"t8": [expanded(tokens=70)]}, 200),  # turns 6 and 7
        ({"t6": [expanded()]}, 0),
        ({"t7": [expanded()], "t9": [collapsed()]}, 200),  # turns 6 and 10
        ({"t8": [expanded("b")]}, 500),
    ],
)
def test_tokens_saved_by_decay(later: dict[str, Any], saved: int) -> None:
    """The log's 100 tokens count for each turn that was sent without them."""
    # The turn that expands again has them, and so has the turn at whose end they collapse.
    events = {"t2": [expanded()], "t5": [collapsed()], **later}

    assert report(records(10, **events)).tokens_saved_by_decay == saved


def test_the_cost_of_the_context() -> None:
    """Each turn stands beside its baselines; shares are means, or those of the last turn."""
    # Full history in turn 2: 20 in front, 100 of turn 1, 100 of turn 2 without the answer's 30.
    concluded = {"type": "concluded", "effort": "a", "tokens": 300}
    events: dict[str, list[Event]] = {
        "t1": [concluded, context(100, answer=30, alone=20, system=40)],
        "t2": [expanded(), context(100, answer=30, alone=20, system=40, expanded=55)],
        "t3": [{"type": "reopened", "effort": "a"}, context(200, answer=10, alone=20, system=40)],
    }

    found = report(records(3, **events))

    assert found.turns == (
        TurnTokens(1, {"system": 40}, 40 + 300, 20 + 70),
        TurnTokens(2, {"system": 40, "expanded": 55}, 95 + 300 - 100, 20 + 100 + 70),
        TurnTokens(3, {"system": 40}, 40, 20 + 200 + 190),
    )
    assert (found.sent, found.full_history) == (175, 690)
    assert [turn.savings for turn in found.turns] == [50 / 90, 0.5, 370 / 410]
    assert found.savings_vs_full_history == 370 / 410
    assert found.expansion_overhead == pytest.approx(55 / 95 / 3)


@pytest.mark.parametrize(
    ("ends", "sent"),
    [(collapsed(), 120), ({"type": "evicted", "effort": "a"}, 120), (collapsed(auto=False), 0)],
)
def test_always_expanded_has_each_log_once(ends: Event, sent: int) -> None:
    """A log of 120 tokens stands in the context or beside it: always 500 together."""
    # What fades was sent in its turn, what is collapsed by a tool had left before the last call.
    concluded = {"type": "concluded", "effort": "a", "tokens": 120}
    events: dict[str, list[Event]] = {
        "t1": [concluded, expanded(tokens=120), context(9, system=380, expanded=120)],
        "t2": [ends, context(9, system=380, expanded=sent)],
        "t3": [context(9, system=380)],
    }

    found = report(records(3, **events))

    assert [turn.always_expanded for turn in found.turns] == [500, 500, 500]


def test_what_a_turn_cost() -> None:
    """The event has the tiers that hold anything, what was said, and how much of it the answer."""
    said = [message("human", "one two"), message("ai", "three")]

    assert cost({"turn": 6, "notes": 0}, said, 20, lambda text: len(text.split())) == {
        "type": "context",
        "tokens": {"turn": 6},
        "said": 6 + 5,
        "answer": 5,
        "alone": 20,
    }


def test_a_history_without_a_memory_has_none_of_its_calls() -> None:
    """Calls of its tools and their results are left out, and messages that hold nothing else."""
    # An id that comes again in a later round is another call.
    ours, theirs = {"name": "open_effort", "id": "1"}, {"name": "look_up", "id": "2"}
    talk = [
        message("human", "Go on."),
        message("ai", "", tool_calls=[ours]),
        message("tool", "{}", tool_call_id="1"),
        message("ai", "I look.", tool_calls=[ours, theirs]),
        message("tool", "{}", tool_call_id="1"),
        message("tool", "Found.", tool_call_id="2"),
        message("ai", "", tool_calls=[{**theirs, "id": "1"}]),
        message("tool", "Found.", tool_call_id="1"),
        message("ai", "Done."),
    ]

    assert [*without_calls(talk, {"open_effort"})] == [
        talk[0],
        message("ai", "I look.", tool_calls=[theirs], invalid_tool_calls=[]),
        *talk[5:],
    ]


def test_calls_are_left_out_wherever_a_provider_repeats_them() -> None:
    """Content blocks and extras repeat calls; one that came out invalid stays invalid."""
    ours, theirs = {"name": "open_effort", "id": "1"}, {"name": "look_up", "id": "2", "args": "{"}
    blocks = [{"type": "text", "text": "I look."}, {"type": "tool_use", **ours}]
    talk = [
        message("ai", blocks[1:], tool_calls=[ours], additional_kwargs={"tool_calls": [ours]}),
        message("ai", blocks, tool_calls=[ours], invalid_tool_calls=[theirs]),
    ]

    assert [*without_calls(talk, {"open_effort"})] == [
        message("ai", blocks[:1], tool_calls=[], invalid_tool_calls=[theirs])
    ]


def test_evictions_returns_and_searches_are_counted() -> None:
    """A search counts as used if what it found is expanded in its turn or the next one."""
    search = {"type": "searched", "efforts": ["a"]}
    gone, back = {"type": "evicted", "effort": "a"}, {"type": "returned", "effort": "a"}
    events: dict[str, list[Event]] = {
        "t2": [gone],
        "t3": [search, back, expanded("a")],
        "t5": [search],
        "t6": [expanded("b")],
        "t8": [search],
        "t9": [expanded("a")],
    }

    found = report(records(9, **events))

    assert (found.evictions, found.returns, found.searches, found.searches_expanded) == (1, 1, 3, 2)


def test_compressions_are_counted_with_what_they_saved() -> None:
    """One that was only named again saved nothing; fallbacks, made up quotes and calls count."""
    cost = {"calls": 2, "spent": 3_100}
    sizes = {"before": 900, "after": 400}
    first = {"type": "compressed", "effort": "a", "tokens": sizes, **cost}
    again = {"type": "compressed", "effort": "a"}
    last = {**first, "fallback": True, "fabricated": 2, "tokens": {"before": 800, "after": 500}}

    found = report(records(5, t2=[first], t3=[again], t4=[last]))

    assert (found.compressions, found.fallbacks, found.fabricated) == (3, 1, 2)
    assert found.tokens_compressed == 800
    assert (found.compression_calls, found.compression_tokens) == (4, 6_200)
