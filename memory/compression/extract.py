"""What a model is asked about a log: which sentences must stay, and what the rest says.

Read, and quoted, is what was said in it, not what the memory said or read again.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, model_validator

from ...prompts.loader import render
from ..anchor import shown
from ..context.shortening import Limits, marked_lines, previewed
from ..efforts import Effort
from ..errors import AnswerError
from ..messages import Message, calls, fenced, text
from ..questions import LOG_TOKENS, Asks, Question
from ..record import Group
from ..salience import Item, Kind, Speaker
from ..tokens import TokenCounter, cut_at_sentence, slices
from ..transcript import OWN_TOOLS, Logged, transcript

_SPEAKERS: Mapping[str, Speaker] = {"human": "user", "ai": "assistant", "tool": "tool"}
"""Whose messages may be quoted: instructions of the application hold without being quoted."""

_JOINT = 2
"""Tokens at most of the empty line between two turns."""

_FEWEST, _MOST = 3, 12
"""How many quotes a model is asked for at most, with little room for them and with much.

The truth of our templates has 3 to 9 at a point; asked for 37, models collected all they saw.
"""

_QUOTE_TOKENS = 40
"""Tokens of a quote in the context as it is expected, by which that number is chosen."""

MOST_QUOTED = 1_500
"""Tokens of the quotes of one effort; never more than their share of the context budget."""

_EXTRACTION = 2_000
"""Tokens of an answer that extracts: all the quotes above and their JSON fit."""

BACKGROUND = 500
"""Tokens of a background, about a page."""

_WORDS = 90
"""Words that a model is asked for at most: two or three sentences."""

_PREVIEW = 150
"""Tokens that a long content of the log has for a call that writes the background."""

_LEAST_READ = 500
"""Tokens of log that one call reads at least, however small the context budget is."""

MOST_PARTS = 16
"""Parts of a log that one pass asks about at most, for quotes and again for the background."""

_NUMBER = re.compile(
    r"\s*(?:(?:quote|item|number|no\.?)\s*)?[#\[]?(\d{1,6})(?:\.0*)?\]?\s*", re.IGNORECASE
)
"""The number of a quote, in the forms in which models name it."""

_NOTHING = frozenset(["", "none", "nothing", "null", "n/a"])
"""What models quote where there is nothing to quote."""


def speaker(message: Message) -> Speaker:
    """Return who said a message."""
    return _SPEAKERS.get(message["type"], "")


def quotable(turn: Logged) -> tuple[Message, ...]:
    """Return the messages of a turn that a quote may stand in, without state blocks.

    None are results of the memory's own tools, which retell summaries or quote other turns; of an
    erased turn there is none.
    """
    messages = [
        message
        for message in turn.messages
        if message["type"] != "tool" or message["data"].get("name") not in OWN_TOOLS
    ]
    return shown(messages) if turn.status != "erased" else ()


def legible(turns: Iterable[Logged]) -> tuple[Group, ...]:
    """Return turns as they are read for quotes: without calls of the memory's own tools too."""
    groups = []
    for turn in turns:
        messages = []
        for message in quotable(turn):
            data = dict(message["data"])
            for key in ("tool_calls", "invalid_tool_calls"):
                if data.get(key):
                    data[key] = [call for call in data[key] if call.get("name") not in OWN_TOOLS]
            if text(read := {**message, "data": data}).strip() or calls(read):
                messages.append(read)
        if turn.status != "erased":
            groups.append(Group(turn.turn, tuple(messages), ""))
    return tuple(groups)


def parts(turns: Iterable[Logged], limit: int, count: TokenCounter) -> list[str]:
    r"""Render turns as texts of at most `limit` tokens each, whole turns together where they fit.

    A turn that is too long is cut at line ends; each piece stands under the number of the turn.

    >>> log = [Group(n, ({"type": "human", "data": {"content": "one two"}},), "") for n in (1, 2)]
    >>> parts(log, 5, lambda text: len(text.split()))
    ['[turn 1]\nuser: one two', '[turn 2]\nuser: one two']
    """
    pieces: list[str] = []
    for turn in legible(turns):
        whole = transcript([turn]) if turn.messages else ""
        if count(whole) <= limit:
            pieces += [whole] if whole else []
        else:
            head, _, body = whole.partition("\n")
            room = max(1, limit - count(f"{head}\n"))
            pieces += [f"{head}\n{piece}" for piece in slices(body, room, count)]
    texts: list[list[str]] = []
    room = 0
    for piece in pieces:
        size = count(piece) + _JOINT
        if not texts or size > room:
            texts.append([])
            room = limit + _JOINT
        texts[-1].append(piece)
        room -= size
    return ["\n\n".join(together) for together in texts]


def _kind(value: Any) -> Any:
    kind = str(getattr(value, "value", value)).strip().lower()
    return kind if kind in set(Kind) else Kind.FACT


def _first_number(value: Any) -> str | None:
    return next(iter(re.findall(r"\d{1,9}", str(value))), None)


def _numbers(value: Any) -> list[int]:
    """Return the numbers of quotes, in whatever form they were sent; what is none is left out.

    >>> _numbers([3, "4", "quote 5", 6.0, None, "port 8443"]), _numbers("1, 2"), _numbers(7)
    ([3, 4, 5, 6], [1, 2], [7])
    """
    given = value if isinstance(value, list | tuple) else str(value).split(",")
    numbers = (_NUMBER.fullmatch(str(number)) for number in given)
    return [int(number[1]) for number in numbers if number]


class Extracted(BaseModel):
    """A quote as a model gave it, and the numbers of the kept quotes that it revises."""

    quote: Annotated[str, BeforeValidator(lambda given: "" if given is None else str(given))] = ""
    kind: Annotated[Kind, BeforeValidator(_kind)] = Kind.FACT
    turn: Annotated[int | None, BeforeValidator(_first_number)] = None
    replaces: Annotated[list[int], BeforeValidator(_numbers)] = []


def _quotes(value: Any) -> list[Any]:
    """Return the quotes of an answer, also of one, of the text of their JSON, and of bare texts."""
    try:
        read = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        read = value
    listed = read if isinstance(read, list) else [value]
    quotes = ({"quote": quote} if isinstance(quote, str) else quote for quote in listed)
    return [quote for quote in quotes if isinstance(quote, Mapping | Extracted)]


def _telling(quotes: list[Extracted]) -> list[Extracted]:
    return [quote for quote in quotes if quote.quote.strip(" .").lower() not in _NOTHING]


class Extraction(BaseModel):
    """What a model chooses: new quotes, and the numbers of kept ones that no longer matter."""

    new: Annotated[list[Extracted], BeforeValidator(_quotes), AfterValidator(_telling)]
    done: Annotated[list[int], BeforeValidator(_numbers)] = []

    @model_validator(mode="before")
    @classmethod
    def _lenient(cls, given: Any) -> Any:
        """Take a bare list, or what was called `items`, for `new`."""
        answer = {"new": given} if isinstance(given, list) else given
        if not isinstance(answer, Mapping) or not {"new", "items", "done"} & answer.keys():
            return given
        return {"new": answer.get("new", answer.get("items")), "done": answer.get("done", [])}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens at most: of the context, which a call must fit as well, and of an effort's quotes."""

    budget: int
    quotes: int = MOST_QUOTED


@dataclass(frozen=True, slots=True)
class Selection:
    """What was chosen in a log: quotes, numbered from 1 on through `kept` and `new` ones."""

    kept: tuple[Item, ...]
    new: tuple[Extracted, ...]
    done: tuple[int, ...]


def extract(
    effort: Effort,
    turns: Sequence[Logged],
    quoted: Sequence[Item],
    sizes: Sizes,
    count: TokenCounter,
) -> Asks[Selection]:
    """Ask what of `turns` must stay, in parts if they are long, and what of `quoted` need not.

    A later part is shown what was picked from earlier ones among the kept quotes. Nothing is asked
    about turns in which nothing was said. Raises `AnswerError` if there are more than `MOST_PARTS`
    parts.
    """
    kept = tuple(item for item in quoted if not item.superseded_by)
    known = [item.quote for item in kept]
    logs = _logs(turns, known, sizes, count)
    new: dict[tuple[str, int | None], Extracted] = {}
    done: list[int] = []
    instructions, form = render("extract"), "extraction_as_text"
    for number, log in enumerate(logs, start=1):
        listed = [*known, *(quote.quote for quote in new.values())]
        lines = _lines(listed, sizes.quotes, count, numbered=True)
        free = sizes.quotes - sum(map(count, listed))
        named = render(
            "extract_log",
            **_asked_about(effort, log, number, len(logs)),
            quoted=_fenced(lines),
            most=min(_MOST, max(_FEWEST, free // _QUOTE_TOKENS)),
        )
        answer: Extraction = yield Question(
            "extraction", instructions, named, Extraction, form, _EXTRACTION
        )
        numbers = range(len(listed) - len(lines) + 1, len(listed) + 1)
        for quote in answer.new:
            plain = quote.model_copy(update={"replaces": []})
            first = new.setdefault((quote.quote, quote.turn), plain)
            first.replaces += [number for number in quote.replaces if number in numbers]
        done += [number for number in answer.done if number in numbers]
    return Selection(kept, tuple(new.values()), tuple(done))


def _logs(
    turns: Sequence[Logged], known: Sequence[str], sizes: Sizes, count: TokenCounter
) -> list[str]:
    """Return the parts of a log that are asked about, so that each call fits the budget."""
    logs: list[str] = []
    taken = count(render("extract")) + _EXTRACTION
    listed = _fenced(_lines(known, sizes.quotes, count, numbered=True))
    # Later parts are shown what was picked from earlier ones, too, up to the limit of all quotes.
    for quotes in (count(listed), sizes.quotes):
        logs = parts(turns, _readable(sizes.budget, taken + quotes), count)
        if len(logs) <= 1:
            return logs
    if len(logs) > MOST_PARTS:
        raise AnswerError(f"the log has {len(logs)} parts, more than {MOST_PARTS}")
    return logs


def _asked_about(effort: Effort, log: str, number: int, parts: int) -> dict[str, str]:
    """Return what a request says of the effort, and the part of its log."""
    part = f"part {number} of {parts}"
    return {
        "effort": effort.id,
        "goal": effort.goal or "not stated",
        "constraints": "; ".join(effort.constraints) or "none",
        "part": part,
        "log": fenced("log", log, part=part),
    }


def _fenced(lines: Sequence[str]) -> str:
    return fenced("quoted", "\n".join(lines) or "nothing")


def _lines(
    quotes: Sequence[str], limit: int, count: TokenCounter, *, numbered: bool = False
) -> list[str]:
    """Return what is quoted already, each on lines of its own, the newest that fit into `limit`."""
    lines: list[str] = []
    for number in range(len(quotes), 0, -1):
        line = f"{f'{number}.' if numbered else '-'} {marked_lines(quotes[number - 1])}"
        limit -= count(line)
        if limit < 0:
            break
        lines.append(line)
    return lines[::-1]


def readable_at_once(budget: int) -> int:
    """Return how many tokens of log a pass takes on: half of its parts, as each may be half empty.

    >>> readable_at_once(16_000)
    96000
    """
    return MOST_PARTS // 2 * _readable(budget, MOST_QUOTED + _EXTRACTION)


def _readable(budget: int, taken: int) -> int:
    """Return how many tokens of log one call reads: what a call sends and gets fits the budget."""
    return min(LOG_TOKENS, max(_LEAST_READ, budget - taken))


@dataclass(frozen=True, slots=True)
class Known:
    """What stands beside a background: the one so far, what is quoted, what holds no longer."""

    background: str = ""
    quoted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def background(
    effort: Effort, turns: Sequence[Logged], old: Known, sizes: Sizes, count: TokenCounter
) -> Asks[str]:
    """Ask for a background that goes on from the old one, and tells as past what is gone.

    A long log comes in parts, each of which goes on from the answer before; tools' outputs are
    previews, of more than `MOST_PARTS` all messages, and then the newest parts are read. Raises
    `AnswerError` if an answer is empty.
    """
    instructions = render("background", words=_WORDS)
    quoted = _fenced(_lines(old.quoted, sizes.quotes, count))
    gone = _fenced(_lines(old.gone, sizes.quotes, count)) if old.gone else "nothing"
    taken = count(instructions) + count(quoted) + count(gone) + 2 * BACKGROUND
    logs = _in_previews(turns, _readable(sizes.budget, taken), count)
    written = old.background
    for number, log in enumerate(logs, start=1):
        named = render(
            "background_log",
            **_asked_about(effort, log, number, len(logs)),
            background=fenced("background", written or "nothing"),
            quoted=quoted,
            gone=gone,
        )
        answer = yield Question("background", instructions, named, limit=BACKGROUND)
        written = cut_at_sentence(answer, BACKGROUND, count)
        if not written:
            raise AnswerError("the background that the model wrote is empty")
    return written


def _in_previews(turns: Sequence[Logged], limit: int, count: TokenCounter) -> list[str]:
    logs: list[str] = []
    for texts in (None, _PREVIEW):
        limits = Limits(results=_PREVIEW, texts=texts, arguments=_PREVIEW)
        seen = [
            replace(turn, messages=previewed(turn, turn.messages, limits, count))
            for turn in legible(turns)
        ]
        logs = parts(seen, limit, count)
        if len(logs) <= MOST_PARTS:
            break
    return logs[-MOST_PARTS:]
