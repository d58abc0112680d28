"""Extraction: a model is asked which sentences of a log must stay, word for word."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, model_validator

from ..prompts.loader import text as prompt
from .efforts import Effort
from .errors import SalienceError
from .quotes import fenced
from .salience import Item, Kind
from .settings import Settings
from .sources import parts
from .tokens import TokenCounter
from .transcript import Logged

_FEWEST = 6
_ITEM_TOKENS = 40
"""Tokens of an item in the context as it is expected, for how many a model is asked."""

LEAST_READ = 500
"""Tokens of log that one call reads at least, however small the context budget is."""

MOST_PARTS = 16
"""Parts of a log that one pass asks about at most, for quotes and again for the background."""


def _kind(value: Any) -> Any:
    said = str(getattr(value, "value", value)).strip().lower()
    return said if said in set(Kind) else Kind.FACT


def _turn(value: Any) -> int | None:
    digits = "".join(filter(str.isdecimal, str(value)))[:9]
    return int(digits) if digits and not isinstance(value, bool) else None


def _quote(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


class Extracted(BaseModel):
    """A quote as a model gave it; it is an item only when its source was found."""

    quote: Annotated[str, BeforeValidator(_quote)] = ""
    kind: Annotated[Kind, BeforeValidator(_kind)] = Kind.FACT
    turn: Annotated[int | None, BeforeValidator(_turn)] = None


class Extraction(BaseModel):
    """What a model picks out of one part of a log; nothing, if nothing matters."""

    items: list[Extracted]

    @model_validator(mode="before")
    @classmethod
    def _lenient(cls, given: Any) -> Any:
        """Take a bare list for the items, a bare text for a quote; drop what is neither."""
        items = given.get("items") if isinstance(given, Mapping) else given
        if not isinstance(items, list):
            return given
        listed = ({"quote": item} if isinstance(item, str) else item for item in items)
        return {"items": [item for item in listed if isinstance(item, Mapping | Extracted)]}


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    """One call to the model that extracts: its instructions, always the same, and the log."""

    instructions: str
    log: str


def extract(
    effort: Effort,
    turns: Sequence[Logged],
    quoted: Sequence[Item],
    settings: Settings,
    count: TokenCounter,
) -> Generator[ExtractionRequest, Extraction, tuple[Extracted, ...]]:
    """Ask what of `turns` must stay, in parts if they are long; `quoted` need not be found again.

    Yields requests, is sent the answers, returns what they hold, each quote once. Nothing is
    asked about turns in which nothing was said. Raises `SalienceError` if there are more than
    `MOST_PARTS` parts.
    """
    most = max(_FEWEST, settings.salience_max_tokens // _ITEM_TOKENS)
    instructions = prompt("extract", most=most)
    known = fenced_quotes(quoted, settings.salience_max_tokens, count)
    taken = count(instructions) + count(known) + settings.extraction_max_tokens
    logs = parts(turns, readable(settings, taken), count)
    if len(logs) > MOST_PARTS:
        raise SalienceError(f"the log has {len(logs)} parts, more than {MOST_PARTS}")
    found: list[Extracted] = []
    for number, log in enumerate(logs, start=1):
        part = f"part {number} of {len(logs)}"
        named = prompt(
            "extract_log",
            **heading(effort),
            quoted=known,
            part=part,
            log=fenced("log", log, part=part),
        )
        found += (yield ExtractionRequest(instructions, named)).items
    return tuple({(item.quote, item.turn): item for item in found}.values())


def heading(effort: Effort) -> dict[str, str]:
    """Return what a request says of the effort before its log.

    >>> heading(Effort("auth-bug", "open", goal="Log in again"))
    {'effort': 'auth-bug', 'goal': 'Log in again', 'constraints': 'none'}
    """
    return {
        "effort": effort.id,
        "goal": effort.goal or "not stated",
        "constraints": "; ".join(effort.constraints) or "none",
    }


def fenced_quotes(items: Sequence[Item], limit: int, count: TokenCounter) -> str:
    """Return what is quoted already, a line for each item, the newest that fit into `limit`."""
    lines: list[str] = []
    room = limit
    for item in reversed([item for item in items if not item.superseded_by]):
        line = f"- {' '.join(item.quote.split())}"
        room -= count(line)
        if room < 0:
            break
        lines.append(line)
    return fenced("quoted", "\n".join(reversed(lines)) or "nothing")


def readable_at_once(settings: Settings) -> int:
    """Return how many tokens of log a pass takes on at most, so that they have few enough parts.

    Parts may be half empty, so it is half of what `MOST_PARTS` of them hold.

    >>> readable_at_once(Settings())
    96000
    """
    taken = settings.salience_max_tokens + settings.extraction_max_tokens
    return MOST_PARTS // 2 * readable(settings, taken)


def readable(settings: Settings, taken: int) -> int:
    """Return how many tokens of log one call reads: what a call sends and gets fits the budget.

    >>> readable(Settings(), taken=4_000)
    12000
    >>> readable(Settings(context_budget=8_000), taken=4_000)
    4000
    """
    room = settings.context_budget - taken
    return min(settings.summary_input_tokens, max(LEAST_READ, room))
