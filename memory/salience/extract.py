"""Asking a model about a log: which sentences must stay, and a background for the rest.

The model reads what was said in the log, without what the memory's own tools said or repeated.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from langchain_core.messages import BaseMessage
from pydantic import AfterValidator, BaseModel, BeforeValidator

from ...prompts.loader import render
from ..compressions import CUT, Kind
from ..context.forms import PREVIEW
from ..context.previews import Limits, previewed
from ..context.quotes import marked_lines
from ..efforts import Effort, one_line
from ..errors import AnswerError
from ..fences import Fences
from ..messages import calls, text
from ..metrics import without_calls
from ..questions import LOG_TOKENS, Asks, Question
from ..search.terms import LETTER
from ..state_block import as_users_see
from ..tokens import TokenCounter, cut_at_sentence, fit_end
from ..tool_names import MEMORY_TOOLS
from ..transcript import in_parts, transcript
from ..turn import StoredTurn

_SEPARATOR = 2  # tokens at most of the empty line between two turns

_FEWEST, _MOST = 3, 12
"""The most quotes that a model is asked for, with little room for them and with much.

The truth of our templates has 3 to 9 at a point; asked for 37, models collected all they saw.
"""

_QUOTE_TOKENS = 40  # tokens of a quote in the context as expected, by which that number is chosen

MOST_QUOTED = 1_500
"""Tokens of the kept quotes that a model is shown where nothing else limits them."""

_LONGEST_SHARE = 0.25  # the fraction of the tokens of all quotes that one may have; else it is cut
_HEAD_SHARE = 2 / 3  # the fraction of a quote that is cut which its head may have
_EXTRACTION = 2_000  # tokens of its answer: all quotes above, a background and their JSON fit

BACKGROUND = 500
"""Tokens of a background, about a page."""

_LEAST_READ = 500  # tokens of log that one call reads at least, however small the context budget is

MOST_PARTS = 16
"""Parts of a log that one pass asks about at most, for quotes and again for the background."""

_NUMBER = re.compile(r"\D{0,8}(\d{1,6})(?:\.0*)?\D?")
"""The number of a quote in the forms that models write: 2, "2.", "quote 2"."""

_NOTHING = frozenset(["", "none", "nothing", "null", "n/a"])
"""What models quote where there is nothing to quote."""


EDGE = re.compile(rf"(?:(?<!{LETTER})|(?!{LETTER}))(?!(?<=\d)[.,:]\d|(?<=\d[.,:])\d)")
"""A place between two characters that is inside no word and no number.

Compiled once: as part of a pattern for each quote it took 3 ms.
"""


def quotable(turn: StoredTurn) -> tuple[BaseMessage, ...]:
    """Return the messages of a turn that may be quoted, without state blocks.

    Results of the memory's own tools are left out: they repeat summaries or other turns.
    """
    return as_users_see(
        [
            message
            for message in turn.messages
            if message.type != "tool" or message.name not in MEMORY_TOOLS
        ]
    )


def legible(turns: Iterable[StoredTurn]) -> tuple[StoredTurn, ...]:
    """Return turns as a model reads them: quotable messages, without calls of memory tools.

    >>> said = HumanMessage("It rains.")
    >>> legible([StoredTurn(3, (said,), at=""), StoredTurn(4, (), at="")])[0].messages == (said,)
    True
    """
    new_turns = []
    for turn in turns:
        messages = without_calls(quotable(turn), MEMORY_TOOLS)
        legible_messages = (one for one in messages if text(one).strip() or calls(one))
        new_turns.append(StoredTurn(turn.number, tuple(legible_messages), ""))
    return tuple(new_turns)


def split_log(turns: Iterable[StoredTurn], limit: int, count: TokenCounter) -> list[str]:
    r"""Render turns as texts of at most `limit` tokens each, with as many turns as fit.

    A turn that is too long is cut at line ends; each piece begins with the number of the turn and,
    after the first one, with who goes on.

    >>> log = [StoredTurn(n, (HumanMessage("one two"),), "") for n in (1, 2)]
    >>> split_log(log, 5, lambda text: len(text.split()))
    ['[turn 1]\nuser: one two', '[turn 2]\nuser: one two']
    """
    pieces: list[str] = []
    for turn in legible(turns):
        # What the application says stays in force without being quoted.
        said = tuple(message for message in turn.messages if message.type != "system")
        log = transcript([replace(turn, messages=said)]) if said else ""
        if count(log) <= limit:
            pieces += [log] if log else []
        else:
            pieces += in_parts(log, limit, count)
    parts: list[list[str]] = []
    room = 0
    for piece in pieces:
        size = count(piece) + _SEPARATOR
        if not parts or size > room:
            parts.append([])
            room = limit + _SEPARATOR
        parts[-1].append(piece)
        room -= size
    return ["\n\n".join(part) for part in parts]


def _kind(value: Any) -> Any:
    """Return the kind that a model wrote, a fact if there is no such kind."""
    kind = str(getattr(value, "value", value)).strip().lower()
    return kind if kind in set(Kind) else Kind.FACT


def _numbers(value: Any) -> list[int]:
    """Return the numbers of quotes in any form that models write; anything else is left out.

    >>> _numbers([3, "4", "quote 5", 6.0, None, "The port is 8443."]), _numbers("1, 2")
    ([3, 4, 5, 6], [1, 2])
    """
    values = value if isinstance(value, list | tuple) else str(value).split(",")
    numbers = (_NUMBER.fullmatch(str(number)) for number in values)
    return [int(number[1]) for number in numbers if number]


class Extracted(BaseModel):
    """A quote as a model gave it, and the numbers of the kept quotes that it revises."""

    quote: Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value))] = ""
    kind: Annotated[Kind, BeforeValidator(_kind)] = Kind.FACT
    turn: Annotated[
        int | None, BeforeValidator(lambda v: next(iter(re.findall(r"\d{1,9}", str(v))), None))
    ] = None
    replaces: Annotated[list[int], BeforeValidator(_numbers)] = []


def _quotes(value: Any) -> Any:
    """Return the quotes of an answer, objects or bare text; what is no list is left as it is."""
    if not isinstance(value, list):
        return value or []
    quotes = ({"quote": item} if isinstance(item, str) else item for item in value)
    return [quote for quote in quotes if isinstance(quote, Mapping | Extracted)]


def _without_blanks(quotes: list[Extracted]) -> list[Extracted]:
    return [quote for quote in quotes if quote.quote.strip(" .").lower() not in _NOTHING]


class Quotes(BaseModel):
    """What a model chooses: new quotes, and the numbers of kept ones that no longer matter."""

    new: Annotated[list[Extracted], BeforeValidator(_quotes), AfterValidator(_without_blanks)]
    done: Annotated[list[int], BeforeValidator(_numbers)] = []


class Extraction(Quotes):
    """The same with a new background, where one model gives both in one answer."""

    background: Annotated[str, BeforeValidator(lambda v: v if isinstance(v, str) else "")] = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """How a model is asked: the most tokens of the context, which a call must fit as well.

    `quotes` are the most tokens of an effort's quotes; `at_once` asks for quotes and background in
    one call.
    """

    budget: int
    fences: Fences
    quotes: int = MOST_QUOTED
    at_once: bool = False

    def cut(self, quote: str) -> str:
        """Return a quote, or as much of its head and its end as may be kept, with a mark between.

        >>> Asking(0, Fences("", lambda text: len(text.split())), 16).cut("It rains. It snows now.")
        'It rains. […] now.'
        """
        limit, count = int(_LONGEST_SHARE * self.quotes), self.fences.count
        if count(quote) <= limit:
            return quote
        quote, room = quote.strip(), limit - count(f" {CUT} ")
        head = cut_at_sentence(quote, int(_HEAD_SHARE * room), count)
        head = head if quote.startswith(head) else head.removesuffix("…")
        last = range(len(head), 0, -1)
        head = head[: next((at for at in last if EDGE.match(quote, at)), len(head))]
        rest = quote[len(head) :]
        begin = fit_end(rest, room - count(head), count)
        begin = next(at for at in range(begin, len(rest) + 1) if EDGE.match(rest, at))
        # A quote that is kept may have been cut before.
        head, end = head.partition(CUT)[0].rstrip(), rest[begin:].rpartition(CUT)[2].strip()
        return f"{head} {CUT} {end}".rstrip()


@dataclass(frozen=True, slots=True)
class Previous:
    """What stands so far: the background, the quotes beside it, and obsolete quotes.

    `written` is the next background if it came with the quotes.
    """

    background: str = ""
    quotes: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()
    written: str = ""


def extract(
    effort: Effort, turns: Sequence[StoredTurn], old: Previous, asking: Asking
) -> Asks[Extraction]:
    """Ask which quotes of `turns` must stay, and which of the old ones need not.

    Quotes are numbered from 1 on, the old ones first. A long log comes in parts; a later part is
    shown the new quotes and the background of earlier ones. A background is asked for only
    `at_once`; it is empty if one part has none. Nothing is asked about turns in which nothing was
    said.
    """
    fences, schema, form = asking.fences, Quotes, "extraction_as_text"
    count, instructions, written = fences.count, render("extract", key=fences.key), list[str]()
    if asking.at_once:
        schema, form = Extraction, "extraction_at_once_as_text"
        instructions += "\n" + render("extract_background", rules=render("background_rules"))
    other_tokens = count(instructions) + _EXTRACTION + asking.quotes
    logs = _parts(turns, _readable(asking.budget, other_tokens), count)
    new: dict[tuple[str, int | None], Extracted] = {}
    done: list[int] = []
    for number, log in enumerate(logs, start=1):
        quotes = [*old.quotes, *(quote.quote for quote in new.values())]
        lines = _quote_lines(quotes, asking.quotes, count, numbered=True)
        free = asking.quotes - sum(map(count, quotes))
        so_far = fences.around("background", [old.background, *written][-1] or "nothing")
        request = render(
            "extract_log",
            **_effort_and_log(effort, log, number, len(logs), fences),
            so_far=f"\n{so_far}" if asking.at_once else "",
            quoted=_fenced(lines, fences),
            most=min(_MOST, max(_FEWEST, free // _QUOTE_TOKENS)),
        )
        answer = yield Question("extraction", instructions, request, schema, form, _EXTRACTION)
        if asking.at_once:
            written.append(cut_at_sentence(answer.background, BACKGROUND, count))
        # The oldest quotes may not be listed; a model cannot mean those.
        numbers = range(len(quotes) - len(lines) + 1, len(quotes) + 1)
        for quote in answer.new:
            copy = quote.model_copy(update={"replaces": []})
            first = new.setdefault((quote.quote, quote.turn), copy)
            first.replaces += [number for number in quote.replaces if number in numbers]
        done += [number for number in answer.done if number in numbers]
    background = written[-1] if written and all(written) else ""
    return Extraction(new=[*new.values()], done=done, background=background)


def _parts(turns: Sequence[StoredTurn], limit: int, count: TokenCounter) -> list[str]:
    """Return the log in parts with previews of outputs, or of all messages if it is too long.

    What can be read again need not be read whole. Of too many parts the newest are read.
    """
    logs: list[str] = []
    for texts in (None, PREVIEW):
        limits = Limits(results=PREVIEW, texts=texts, arguments=PREVIEW)
        short = [
            replace(turn, messages=previewed(turn, turn.messages, limits, count, reads_on=False))
            for turn in legible(turns)
        ]
        logs = split_log(short, limit, count)
        if len(logs) <= MOST_PARTS:
            break
    return logs[-MOST_PARTS:]


def _effort_and_log(
    effort: Effort, log: str, number: int, parts: int, fences: Fences
) -> dict[str, str]:
    """Return the variables of a request that describe the effort and hold a part of its log."""
    return {
        "effort": effort.id,
        "goal": fences.without_key(one_line(effort.goal)) or "not stated",
        "constraints": fences.without_key(one_line("; ".join(effort.constraints))) or "none",
        "part": f"part {number} of {parts}",
        "log": fences.around("log", log),
    }


def _fenced(lines: Sequence[str], fences: Fences) -> str:
    return fences.around("quoted", "\n".join(lines) or "nothing")


def _quote_lines(
    quotes: Sequence[str], limit: int, count: TokenCounter, *, numbered: bool = False
) -> list[str]:
    """Return the newest quotes that fit into `limit` tokens, each on lines of its own."""
    lines: list[str] = []
    for number in range(len(quotes), 0, -1):
        words = marked_lines(quotes[number - 1])
        mark = "" if words.startswith("- ") else "- "  # a quote may be an item of a list itself
        line = f"{f'{number}. ' if numbered else mark}{words}"
        limit -= count(line)
        if limit < 0:
            break
        lines.append(line)
    return lines[::-1]


def readable_at_once(budget: int) -> int:
    """Return how many tokens of log a pass reads: half its parts, as each may be half empty.

    >>> readable_at_once(16_000)
    96000
    """
    return MOST_PARTS // 2 * _readable(budget, MOST_QUOTED + _EXTRACTION)


def _readable(budget: int, other_tokens: int) -> int:
    """Return how many tokens of log one call reads beside the other ones that it sends and gets."""
    return min(LOG_TOKENS, max(_LEAST_READ, budget - other_tokens))


def background(
    effort: Effort, turns: Sequence[StoredTurn], old: Previous, asking: Asking
) -> Asks[str]:
    """Ask for a background that continues the old one, and tells as past what is obsolete.

    Of a long log each part continues the answer before. Nothing is asked if one is `written`
    already. Raises `AnswerError` if an answer is empty.
    """
    if old.written:
        return old.written
    fences, count = asking.fences, asking.fences.count
    instructions = render("background", rules=render("background_rules"), key=fences.key)
    quoted = _fenced(_quote_lines(old.quotes, MOST_QUOTED, count), fences)
    obsolete = _fenced(_quote_lines(old.obsolete, MOST_QUOTED, count), fences)
    gone = obsolete if old.obsolete else "nothing"
    other_tokens = count(instructions) + count(quoted) + count(gone) + 2 * BACKGROUND
    logs = _parts(turns, _readable(asking.budget, other_tokens), count)
    newest = old.background
    for number, log in enumerate(logs, start=1):
        request = render(
            "background_log",
            **_effort_and_log(effort, log, number, len(logs), fences),
            background=fences.around("background", newest or "nothing"),
            quoted=quoted,
            gone=gone,
        )
        answer = yield Question("background", instructions, request, limit=BACKGROUND)
        newest = cut_at_sentence(answer, BACKGROUND, count)
        if not newest:
            raise AnswerError("the background that the model wrote is empty")
    return newest
