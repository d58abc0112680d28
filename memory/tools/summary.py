"""Summaries of efforts: what is asked of a model, what it answers, in parts if need be."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, StringConstraints

from ...prompts.loader import render
from ..anchor import shown
from ..efforts import Effort
from ..errors import AnswerError
from ..messages import Message, compact, fenced
from ..questions import LOG_TOKENS, Asks, Question
from ..record import Group
from ..references import MOST_KEYWORDS
from ..settings import Settings
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_messages, cut_at_sentence, slices
from ..transcript import Logged, countable, transcript

_CANNED_BELOW = 50
"""Characters of a log below which no model is asked: there is nothing to sum up."""

_PART_SHARE = 4
"""Each part's summary may have a fourth of a request, so that each pass has fewer parts."""

_LEAST = 200
"""Tokens of the log that a call reads at least."""

_PURPOSE_SHARE = 8
"""The goal may have an eighth of the budget, and the constraints another one."""

_SEAMS = 16
"""Spare tokens for joining a log and its fences: a text may have more than its parts."""

_WORDS_IN_TEN_TOKENS = 5
"""Words that are asked for; English has seven or eight, other languages fewer."""


def _clamped(value: Any) -> int:
    with suppress(TypeError, ValueError, OverflowError):
        return round(min(100.0, max(0.0, float(value))))
    return 50


class EffortSummary(BaseModel):
    """A concluded effort in one paragraph, with its keywords and its importance."""

    summary: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    keywords: list[str] = []
    importance: Annotated[int, BeforeValidator(_clamped)] = 50


def summarise(
    effort: Effort, log: Sequence[Logged], settings: Settings, count: TokenCounter
) -> Asks[EffortSummary]:
    """Summarise a raw log: canned if there is next to nothing in it, in parts if it is long."""
    if characters_said(log) < _CANNED_BELOW:
        return EffortSummary(summary=render("canned_summary"), importance=0)
    # State blocks of the model tell of other work too.
    seen = [Group(turn.turn, shown(turn.messages), "") for turn in log]
    parts = slices(transcript(seen), _limit(effort, settings, count), count)
    answer = yield from _in_parts(effort, parts, settings, count)
    summary = cut_at_sentence(answer.summary, settings.summary_max_tokens, count)
    keywords = [*dict.fromkeys(answer.keywords)][:MOST_KEYWORDS]
    return answer.model_copy(update={"summary": summary, "keywords": keywords})


def readable(settings: Settings, around: int) -> int:
    """Return how many tokens of a log one call may read beside `around` others that it sends.

    >>> readable(Settings(context_budget=4_000), 500), readable(Settings(), 500)
    (3500, 12000)
    """
    return max(_LEAST, min(LOG_TOKENS, settings.context_budget - around))


def call_overhead(instructions: str, data: str, count: TokenCounter) -> int:
    """Return the tokens of a call with these two messages, whose second one takes a log in."""
    opening: Message = {"type": "system", "data": {"content": instructions}}
    asked: Message = {"type": "human", "data": {"content": data}}
    return REPLY_OVERHEAD + count_messages([opening, asked], count) + _SEAMS


def characters_said(log: Sequence[Logged]) -> int:
    """Count the characters of a log, without white space at the ends and the memory's own tools."""
    messages = (message for turn in log for message in turn.messages)
    return sum(len(part.strip()) for message in messages for part in countable(message))


def _in_parts(
    effort: Effort,
    parts: Sequence[str],
    settings: Settings,
    count: TokenCounter,
    what: str = "part",
) -> Asks[EffortSummary]:
    """Ask part by part, then for a summary of the summaries; each pass has fewer parts."""
    answers: list[EffortSummary] = []
    limit, asked = _limit(effort, settings, count), _purpose(effort, settings, count)
    for number, part in enumerate(parts, start=1):
        answers.append((yield _question(asked, part, f"{what} {number} of {len(parts)}", settings)))
    if len(answers) == 1:
        return answers[0]
    short = (cut_at_sentence(answer.summary, limit // _PART_SHARE, count) for answer in answers)
    fewer = slices("\n\n".join(short), limit, count)
    if len(fewer) >= len(parts):
        raise AnswerError(f"the summaries of its {len(parts)} parts are as long as the parts")
    return (yield from _in_parts(effort, fewer, settings, count, "records of its parts,"))


def _limit(effort: Effort, settings: Settings, count: TokenCounter) -> int:
    """Return how many tokens of a log a request reads: the rest of the budget at most."""
    longest = "records of its parts, 9999 of 9999"
    empty = _question(_purpose(effort, settings, count), "", longest, settings)
    forms = (render("summary_as_text"), compact(EffortSummary.model_json_schema()))
    around = call_overhead(empty.instructions, empty.log, count) + max(map(count, forms))
    return readable(settings, around)


def _purpose(effort: Effort, settings: Settings, count: TokenCounter) -> Mapping[str, str]:
    """Return what the effort is called and is for, each within its share of the budget."""
    longest = settings.context_budget // _PURPOSE_SHARE
    constraints = "; ".join(effort.constraints) or "none"
    return {
        "effort": effort.id,
        "goal": cut_at_sentence(effort.goal or "not stated", longest, count),
        "constraints": cut_at_sentence(constraints, longest, count),
    }


def _question(purpose: Mapping[str, str], log: str, part: str, settings: Settings) -> Question:
    words = settings.summary_max_tokens * _WORDS_IN_TEN_TOKENS // 10
    named = render("summarise_log", **purpose, part=part, log=fenced("log", log, part=part))
    asked = render("summarise", words=words)
    return Question("summary", asked, named, EffortSummary, as_text="summary_as_text")
