"""The summary of a concluded effort: by the model that did the work, else by a call of its own.

That reads the log part by part if it is too long for one call.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, BeforeValidator, StringConstraints

from ...prompts.loader import render
from ..context.forms import PREVIEW
from ..context.previews import Limits, previewed
from ..efforts import Effort, one_line
from ..errors import AnswerError
from ..fences import Fences
from ..keywords import MOST_KEYWORDS, marks
from ..messages import arguments, calls, compact, text
from ..questions import Asks, Question
from ..search.terms import LETTER
from ..settings import Settings
from ..state_block import as_users_see
from ..tokens import TokenCounter, cut_at_sentence, slices
from ..transcript import countable, in_parts, transcript, visible_text
from ..turn import StoredTurn

_CANNED_BELOW = 50  # characters of a log below which no model is asked: there is nothing to sum up
_MOST_PARTS = 8  # calls for one summary: a session of real work took 84
_PART_SHARE = 4  # a summary of a part has a fourth of a part's tokens: each pass has fewer parts
_PURPOSE_SHARE = 8  # the goal has an eighth of the context budget at most, the constraints another
_WORDS_IN_TEN_TOKENS = 5  # words requested for ten tokens; English has 7 or 8, others fewer

_CODE = re.compile(r"\b(?!\d+[^\W\d_]{1,3}\b)(?=\w*\d)(?=\w*[^\W\d_])\w{2,}(?:\.\d+)*\b")
"""A word of letters and digits, such as v2.1, but no number with its unit, such as 20ms."""

_HYPHENED = re.compile(r"\w+(?:-\w+)+")

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_FIGURE = re.compile(
    rf"(?<![\w.])(?:(?=(?:\.?\d){{3}}){_NUMBER.pattern}|(?<=[€$£]){_NUMBER.pattern}|"
    rf"{_NUMBER.pattern}(?= ?(?:[%‰°€$£]|(?:[kKMGT]i?B|[mµn]?s|min|h|[cmk]?m|[mk]?g|[kMG]?Hz|px|"
    r"percent|(?:second|minute|hour|day|week|month|year|euro|dollar)s?)\b)))"
)
"""A number of three digits or more, or with a unit: small counts are often said in words."""


def _clamped(value: Any) -> int:
    """Return an importance within 0-100, the middle one for what is no number."""
    with suppress(TypeError, ValueError, OverflowError):
        return round(min(100.0, max(0.0, float(value))))
    return 50


Importance: TypeAlias = Annotated[int, BeforeValidator(_clamped)]


class EffortSummary(BaseModel):
    """A concluded effort in one paragraph, with its keywords and its importance."""

    summary: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    keywords: list[str] = []
    importance: Importance = 50


def summarised(
    effort: Effort, answer: EffortSummary, settings: Settings, count: TokenCounter
) -> Effort:
    """Return an effort with this summary, which is cut at a sentence end if it is too long."""
    return replace(
        effort,
        stale=False,
        summary=cut_at_sentence(answer.summary, settings.summary_max_tokens, count),
        keywords=tuple(dict.fromkeys(answer.keywords))[:MOST_KEYWORDS],
        importance=answer.importance,
    )


def unfounded(summary: str, log: Sequence[BaseMessage], *days: str) -> list[str]:
    """Return the identifiers and figures of a summary that neither a log nor its days have.

    What an earlier attempt to close the effort wrote is no evidence.

    >>> log = [HumanMessage("Port 8443 of gw_main took 1200 ms, three times.")]
    >>> unfounded("8443 on gw_main: 1,200 ms, 3 tries.", log)
    []
    >>> unfounded("Port 8444 of gw_test: 12 ms", log)
    ['gw_test', '8444', '12']
    >>> unfounded("v2.1 of gw-main and gw is a well-known one.", log)
    ['v2.1', 'gw-main']
    """
    said = [*days]
    for message in log:
        if message.name != "close_effort":
            made = (call for call in calls(message) if call.get("name") != "close_effort")
            said += [text(message), *map(arguments, made)]
    whole = "\n".join(said)
    folded, numbers = whole.casefold(), {*_NUMBER.findall(whole)}

    def occurs(name: str) -> bool:
        # The name first: after a lookbehind the engine tries it at every place.
        name = re.escape(name)
        return bool(re.search(rf"{name}(?<!{LETTER}{name})(?!{LETTER})", folded))

    numbers.update(_NUMBER.findall(_THOUSANDS.sub("", whole)))
    # Of "and/or" a slash makes no path.
    named = [one for one in marks(summary) if one.count("/") != 1 or "." in one]
    codes = (one.casefold() for one in _CODE.findall(summary))
    # A name that the log writes with underscores.
    hyphened = (one.casefold() for one in _HYPHENED.findall(summary))
    named += [*codes, *(one for one in hyphened if occurs(one.replace("-", "_")))]
    figures = dict.fromkeys(one[0] for one in _FIGURE.finditer(_THOUSANDS.sub("", summary)))
    unknown = [one for one in figures if one not in numbers]
    return [*(one for one in dict.fromkeys(named) if not occurs(one)), *unknown]


def summarise(
    effort: Effort, log: Sequence[StoredTurn], settings: Settings, fences: Fences
) -> Asks[Effort]:
    """Return an effort with a summary of its log; raise `AnswerError` if none comes about.

    A long log is summarised in parts, and these summaries again, until one is left.
    """
    count = fences.count
    if characters_said(log) < _CANNED_BELOW:
        canned = EffortSummary(summary=render("canned_summary"), importance=0)
        return summarised(effort, canned, settings, count)
    question = _question_maker(effort, settings, fences)
    # What the budget leaves beside the longest form and the longest name of a part.
    forms = (render("summary_as_text"), compact(EffortSummary.model_json_schema()))
    turns = render("records_of_parts")
    empty = question("", f"{turns} 9999 of 9999")
    limit = empty.log_room(settings.context_budget - max(map(count, forms)), count)
    parts, label = _parts(log, limit, count), "part"
    while True:
        answers: list[EffortSummary] = []
        for number, part in enumerate(parts, start=1):
            answers.append((yield question(part, f"{label} {number} of {len(parts)}")))
        if len(answers) == 1:
            break
        short = (cut_at_sentence(answer.summary, limit // _PART_SHARE, count) for answer in answers)
        fewer = slices("\n\n".join(short), limit, count)
        if len(fewer) >= len(parts):
            raise AnswerError(f"the summaries of its {len(parts)} parts are as long as the parts")
        parts, label = fewer, turns
    return summarised(effort, answers[0], settings, count)


def _parts(log: Sequence[StoredTurn], limit: int, count: TokenCounter) -> list[str]:
    """Return a log in a bounded number of parts, with previews of results and arguments.

    Where that is too long there are previews of all texts, then the first part and the newest.
    """
    parts: list[str] = []
    for texts in (None, PREVIEW):
        limits = Limits(results=PREVIEW, texts=texts, arguments=PREVIEW)
        turns = []
        for turn in log:
            # Without the model's state blocks, which describe other work too.
            said = as_users_see(turn.messages)
            short = previewed(turn, said, limits, count, reads_on=False)
            turns.append(StoredTurn(turn.number, tuple(filter(_says_something, short)), ""))
        parts = in_parts(transcript(turns), limit, count)
        if len(parts) <= _MOST_PARTS:
            return parts
    return [*parts[:1], *parts[1 - _MOST_PARTS :]]


def _says_something(message: BaseMessage) -> bool:
    """Tell whether a message is more than the closing call or the state block that left it."""
    return message.type != "ai" or bool(calls(message)) or bool(visible_text(message).strip())


def characters_said(log: Sequence[StoredTurn]) -> int:
    """Count the characters of a log without the memory's tools and white space at the ends."""
    messages = (message for turn in log for message in turn.messages)
    return sum(len(part.strip()) for message in messages for part in countable(message))


def _question_maker(
    effort: Effort, settings: Settings, fences: Fences
) -> Callable[[str, str], Question]:
    """Return a function from a part of a log, and its name, to the question about it."""
    longest, count = settings.context_budget // _PURPOSE_SHARE, fences.count
    goal = fences.without_key(effort.goal)
    constraints = fences.without_key("; ".join(effort.constraints))
    purpose = {
        "effort": effort.id,
        "goal": cut_at_sentence(one_line(goal) or "not stated", longest, count),
        "constraints": cut_at_sentence(one_line(constraints) or "none", longest, count),
    }
    words = settings.summary_max_tokens * _WORDS_IN_TEN_TOKENS // 10
    instructions = render("summarise", words=words, key=fences.key)

    def question(log: str, part: str) -> Question:
        text = render("summarise_log", **purpose, part=part, log=fences.around("log", log))
        return Question("summary", instructions, text, EffortSummary, as_text="summary_as_text")

    return question
