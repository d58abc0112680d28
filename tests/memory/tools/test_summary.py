"""Summaries of efforts: what is asked, in parts if need be, and what is taken of the answers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage
from pydantic import ValidationError

from ebbtide.memory.efforts import Effort
from ebbtide.memory.errors import AnswerError
from ebbtide.memory.questions import Question
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import MESSAGE_OVERHEAD, REPLY_OVERHEAD, count
from ebbtide.memory.tools.summary import EffortSummary, characters_said, summarise
from ebbtide.memory.transcript import transcript
from ebbtide.memory.turn import StoredTurn
from ebbtide.prompts.loader import render
from tests.constants import constants
from tests.memory.asking import answered
from tests.memory.conversations import FENCES, LONG_ENOUGH, ai, call, count_words, human, tool

EFFORT = Effort("auth-bug", "open", goal="Log in again", constraints=("no downtime", "keep v1"))
OWN = [
    human("go"),
    ai("", call("open_effort", call_id="1", name="a" * 60)),
    tool("1", '{"status":"opened","effort_id":"' + "a" * 60 + '"}', "open_effort"),
    ai("ok"),
]


def log(*turns: Sequence[BaseMessage]) -> list[StoredTurn]:
    """Return a log of these turns."""
    return [
        StoredTurn(number, tuple(messages), "") for number, messages in enumerate(turns, start=1)
    ]


def asked(
    turns: Sequence[StoredTurn], answers: Sequence[EffortSummary], **chosen: Any
) -> tuple[list[Question], EffortSummary | None]:
    """Return what is asked about a log, and the summary if there are answers enough for one."""
    with constants(**chosen) as more:
        requests, effort = answered(summarise(EFFORT, turns, Settings(**more), FENCES), answers)
    if effort is None:
        return requests, None
    keywords, importance = [*effort.keywords], effort.importance
    return requests, EffortSummary(summary=effort.summary, keywords=keywords, importance=importance)


def quoted(request: Question) -> str:
    """Return the text between the fences of a request."""
    return re.sub(r"(?s).*?<log \d+>\n(.*?)\n</log \d+>.*", r"\1", request.log)


@pytest.mark.parametrize(
    ("messages", "characters"),
    [
        ([], 0),
        ([human("hello"), ai(" hi \n")], 7),
        (OWN, 4),
        ([human("go"), tool("1", "x" * 90)], 92),
        ([human("go"), ai("", call("write", call_id="1", text="x" * 90)), tool("1", "")], 104),
        ([human([{"type": "image"}])], 7),
        ([human("hello", name="read_log")], 5),
    ],
)
def test_what_was_said_is_counted(messages: list[BaseMessage], characters: int) -> None:
    """Text, calls and results count, those of the memory's own tools do not."""
    assert characters_said(log(messages)) == characters


@pytest.mark.parametrize("messages", [[], OWN, [human("x" * 49)], [human(" " * 400)]])
def test_next_to_nothing_gets_a_canned_summary(messages: list[BaseMessage]) -> None:
    """Under 50 characters of text, no call is made and the importance is 0."""
    requests, summary = asked(log(messages), [])

    assert requests == []
    assert summary == EffortSummary(
        summary="Opened and closed with next to nothing said in it.", importance=0
    )


def test_the_request_holds_the_whole_log_as_data() -> None:
    """Effort, goal, constraints and the fenced log are data; the instructions are the same."""
    turns = log([human(LONG_ENOUGH), ai("Done.")], [human("And on."), ai("Good.")])
    (request,), _ = asked(turns, [])

    assert quoted(request) == transcript(turns)
    assert request.log.startswith(
        "Effort: auth-bug\nGoal: Log in again\nConstraints: no downtime; keep v1\n"
    )
    assert request.instructions == render("summarise", words=60, key=FENCES.key)


def test_a_long_summary_is_cut_at_a_sentence_end() -> None:
    """Of a summary over the limit, the whole sentences within it are kept."""
    written = f"{'one ' * 10}end. {'two ' * 8}end. {'three ' * 5}end."
    answer = EffortSummary(summary=written)
    _, summary = asked(log([human(LONG_ENOUGH)]), [answer], summary_max_tokens=20)

    assert summary is not None
    assert summary.summary == f"{'one ' * 10}end. {'two ' * 8}end."


def words_of(log: str) -> str:
    """Return the words of a log, without what says which turn goes on, and who."""
    return " ".join(re.sub(r"\[turn \d+\]\n|user, continued:\n", "", log).split())


@given(st.integers(1, 6), st.integers(1, 400))
def test_every_part_of_a_long_log_is_read(turns: int, words: int) -> None:
    """Complaint row 9: the parts are together the whole log, and no part is over the limit."""
    raw = log(*([human(f"question {turn} " + "word " * words)] for turn in range(turns)))
    answer = EffortSummary(summary="Part.")
    requests, summary = asked([*raw, *log([human(LONG_ENOUGH)])], [answer] * 20, LOG_TOKENS=500)
    parts = [quoted(request) for request in requests]
    whole = transcript([*raw, *log([human(LONG_ENOUGH)])])

    assert summary is not None
    assert words_of("".join(parts)).startswith(words_of(whole))
    assert max(map(count_words, parts)) <= 500


def test_a_long_log_is_read_in_parts_and_then_once_more() -> None:
    """The summaries of the parts are summarised together; requests say which part they hold."""
    answers = [EffortSummary(summary=f"Part {number}.") for number in (1, 2, 3)]
    last = EffortSummary(summary="All of it.", keywords=["all"], importance=9)
    requests, summary = asked(log([human("word " * 1_200)]), [*answers, last], LOG_TOKENS=500)

    assert ["part 2 of 3" in request.log for request in requests] == [
        False,
        True,
        False,
        False,
    ]
    assert quoted(requests[3]) == "Part 1.\n\nPart 2.\n\nPart 3."
    assert summary == last


def test_a_summariser_that_repeats_the_log_comes_to_an_end() -> None:
    """Complaint row 6: summaries as long as their parts are cut before they are read again."""
    answer = EffortSummary(summary="word " * 490)
    requests, summary = asked(log([human("word " * 3_000)]), [answer] * 40, LOG_TOKENS=500)

    assert len(requests) < 12
    assert summary is not None
    assert count_words(summary.summary) <= 120


@pytest.mark.parametrize(
    ("script", "goal"),
    [
        ("word ", "Log in again"),
        ("数据库", "Log in again. " * 5_000),
        ("🙂", "目" * 20_000),
        ("xxxxxxxx", "目" * 20_000),
        ("a\n", "Log in again. " * 5_000),
    ],
)
def test_a_call_is_within_the_budget(script: str, goal: str) -> None:
    """With a small budget a log is read in more parts: all that a call sends is within it."""
    effort = Effort("auth-bug", "open", goal=goal, constraints=(goal, goal))
    turns = log([human(script * 2_000)])
    steps = summarise(effort, turns, Settings(context_budget=2_000), replace(FENCES, count=count))
    around = count(render("summary_as_text")) + 2 * MESSAGE_OVERHEAD + REPLY_OVERHEAD

    requests, _ = answered(steps, repeat(EffortSummary(summary="Long. " * 5_000)))

    sizes = [around + count(one.instructions) + count(one.log) for one in requests]
    assert len(sizes) > 1
    assert max(sizes) <= 2_000


def test_keywords_are_bounded() -> None:
    """Of all that the summariser names `MOST_KEYWORDS` are kept, each once, the first ones."""
    answer = EffortSummary(summary="Done.", keywords=["a", "b", "a", *map(str, range(999))])
    _, summary = asked(log([human(LONG_ENOUGH)]), [answer], MOST_KEYWORDS=3)

    assert summary is not None
    assert summary.keywords == ["a", "b", "0"]


def test_summaries_that_do_not_get_shorter_are_an_error() -> None:
    """Where no pass has fewer parts than the one before, the summary has failed."""
    answer = EffortSummary(summary="x" * 7_000)

    with pytest.raises(AnswerError, match="as long as the parts"):
        asked(log([human("word " * 900)]), [answer] * 40, LOG_TOKENS=500)


@pytest.mark.parametrize(
    ("sent", "importance"),
    [
        (70, 70),
        (-3, 0),
        (250, 100),
        (69.6, 70),
        ("85", 85),
        (10**400, 50),
        (float("inf"), 100),
        (float("nan"), 0),
        ("high", 50),
        (None, 50),
        ([], 50),
    ],
)
def test_the_importance_is_clamped(sent: Any, importance: int) -> None:
    """Out of range becomes 0 or 100, what is no number becomes 50."""
    summary = EffortSummary.model_validate({"summary": "a", "importance": sent})

    assert summary.importance == importance


@pytest.mark.parametrize("summary", ["", "  \n", None])
def test_an_empty_summary_is_none(summary: Any) -> None:
    """An answer without words is refused, so that it is never taken for a summary."""
    with pytest.raises(ValidationError):
        EffortSummary.model_validate({"summary": summary})


def test_keywords_and_importance_may_be_missing() -> None:
    """A summary alone is enough."""
    summary = EffortSummary.model_validate({"summary": " It works. "})

    assert (summary.summary, summary.keywords, summary.importance) == ("It works.", [], 50)


def test_results_are_read_as_previews_in_few_parts() -> None:
    """However much tools returned and was said, a summary takes a bounded number of calls."""
    looked_up = [ai("", call("look_up", call_id="1")), tool("1", "word " * 90_000)]
    found = summarise(EFFORT, log([human("Which port?"), *looked_up]), Settings(), FENCES)
    long = summarise(EFFORT, log([human("word " * 900)] * 400), Settings(), FENCES)
    answer = EffortSummary(summary="It works now.")

    (request,), _ = answered(found, repeat(answer))
    requests, _ = answered(long, repeat(answer))

    assert "tokens left out" in request.log
    assert len(requests) <= 10


def test_little_is_not_cut_and_nothing_empty_is_shown() -> None:
    """A cut that saves less than it loses is none, and a message that only closed is no line."""
    result = "\n".join(f"def number_{n}(): return {n}" for n in range(50))
    closing = ai("---STATE---\nGoal: ship\n---END STATE---")

    (request,), _ = asked(log([human("Read it."), tool("1", result), closing]), [])

    assert 150 < count_words(result) < 230
    assert "left out" not in quoted(request)
    assert "assistant" not in quoted(request)
