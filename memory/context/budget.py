"""The parts of a context, and its hard budget: its floor, and the share of each part.

The fixed parts are the system message and the tool schemas; what they leave is the *room*.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Literal, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage, SystemMessage
from pydantic import Field
from sqlalchemy.util import memoized_property

from ...prompts.loader import render
from ..errors import SettingsError
from ..fences import KEY_PLACE
from ..serialised import digest
from ..settings import Settings
from ..state_block import ANCHOR_TOKENS, anchor_instructions
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_message, count_messages

T = TypeVar("T")

PartName: TypeAlias = Literal[
    "system", "tools", "memory", "quotes", "turns", "expanded", "anchor", "turn"
]


DIGITS = 6
"""Hex digits of the digest of a message: 24 bits tell the messages of one context apart."""


@dataclass(frozen=True)  # without slots: `memoized_property` needs a `__dict__`
class Part:
    """A piece of the context, its size in tokens, and the turn that it shows, if any."""

    name: PartName
    messages: Annotated[tuple[BaseMessage, ...], Field(exclude=True)]  # in JSON once, in order
    tokens: int
    turn: int | None = None

    @memoized_property
    def digests(self) -> str:
        """The digests of the messages: enough to compare two prompts."""
        return "".join(digest([message], DIGITS) for message in self.messages)

    @classmethod
    def of(
        cls,
        name: PartName,
        messages: Iterable[BaseMessage],
        count: TokenCounter,
        turn: int | None = None,
    ) -> "Part":
        """Make a part of these messages, and count its tokens."""
        part_messages = tuple(messages)
        return cls(name, part_messages, count_messages(part_messages, count), turn)


def size(parts: Iterable[Part]) -> int:
    """Return the tokens of all these parts."""
    return sum(map(attrgetter("tokens"), parts))


LEAST_ROOM = 1_000
"""Tokens that the fixed parts must leave for the conversation."""

TURN_SHARE = 0.46
"""Share of the room that the running turn may always have."""

LOG_SHARE, LOGS_SHARE = 0.23, 1 / 3
"""Shares of the room that one expanded or reopened log may have, and all expanded ones together."""

SHARES: Mapping[str, float] = {"memory": 1 / 8, "open": 1 / 8, "quotes": 0.15, "anchor": 1 / 4}
"""Shares of the room for summary lines, open efforts, quotes and the state block, at most.

In a small room quotes may have less, see `quotes_limit`.
"""

GOAL_TOKENS = 100
"""Tokens of a goal that the context shows: a longer one is cut."""

_OWN_FIXED_TOKENS = 1_200  # tokens of Ebbtide's own instructions and tool schemas
_ANCHOR_FRAME = 66  # tokens around the state block in its message

_HIGH_WATER, _GROWTH, MOST = 0.85, 0.12, 0.97
"""Shares of the room at which a context is cut, see `high_water`; found by simulation."""

_LOW_WATER, _LOW_WATER_SMALL, _SMALL_BUDGET = 0.65, 0.5, 6_000
"""Share of the room that a context is cut to; less with a budget below `_SMALL_BUDGET` tokens.

Found by simulation. A small context is soon full again, and each cut costs its cached prefix.
"""

TURN_LOW_WATER = 0.3
"""Share of the room beside what always stands that a context is cut to whose running turn is large.

80 rounds of work with a budget of 8,000 cost 124,472 tokens with 0.5, in 15 cuts, and 106,933 with
0.3, in 11: a round of tools fills the room several times faster than a conversation.
"""

LEAST_PREVIEW = 32
"""Tokens of the shortest preview, head and tail together."""


def high_water(room: int, size: int) -> int:
    """Return the tokens at which a context is cut that had `size` tokens after its last rebuild.

    >>> high_water(10_000, 3_000), high_water(10_000, 8_000), high_water(10_000, 9_500)
    (8500, 9200, 9700)
    """
    return int(min(MOST * room, max(_HIGH_WATER * room, size + _GROWTH * room)))


def low_water(room: int, budget: int) -> int:
    """Return the tokens that a context is cut to.

    >>> low_water(14_000, 16_000), low_water(3_000, 4_000)
    (9100, 1500)
    """
    return int((_LOW_WATER if budget >= _SMALL_BUDGET else _LOW_WATER_SMALL) * room)


def log_limit(room: int) -> int:
    """Return the most tokens that one expanded or reopened log may have.

    >>> log_limit(14_000)
    3220
    """
    return int(room * LOG_SHARE)


def part_limit(part: str, room: int) -> int:
    """Return the most tokens that a part of the context may have.

    >>> [part_limit(part, 14_000) for part in ("memory", "open", "quotes", "anchor")]
    [1750, 1750, 2100, 466]
    """
    share = int(SHARES[part] * room)
    return min(ANCHOR_TOKENS + _ANCHOR_FRAME, share) if part == "anchor" else share


def quotes_limit(room: int, anchor: int) -> int:
    """Return the most tokens that quotes may have beside a state block of `anchor` tokens.

    They leave before the state block: together with it, `TURN_SHARE` and the other shares they have
    at most `MOST` of the room, so that a cut always fits, if need be without any older turn.

    >>> quotes_limit(14_000, 466), quotes_limit(1_500, 100), quotes_limit(1_500, 375)
    (2100, 225, 15)
    """
    others = TURN_SHARE + SHARES["memory"] + SHARES["open"]
    return max(0, min(part_limit("quotes", room), int((MOST - others) * room) - anchor))


def ladder(limit: int) -> list[int]:
    """Return the lengths that a preview may have: each half of the one before, so few are tried.

    >>> ladder(300)
    [256, 128, 64, 32]
    """
    lengths = (limit // LEAST_PREVIEW).bit_length() if limit > LEAST_PREVIEW else 1
    return [LEAST_PREVIEW << doublings for doublings in reversed(range(lengths))]


def first_below(limit: int, steps: Iterable[T], tokens: Callable[[T], int]) -> T:
    """Return the first of ever deeper cuts that has at most `limit` tokens, else the last.

    >>> first_below(5, [9, 7, 4, 2], int)
    4
    """
    cuts = [*steps]
    place = bisect_left(cuts, -limit, key=lambda step: -tokens(step))
    # What is left out may be named, so that a deeper cut can be a little larger.
    return next((step for step in cuts[place:] if tokens(step) <= limit), cuts[-1])


def instructions(application: str, settings: Settings) -> str:
    """Return the system message: Ebbtide's instructions, then those of the application.

    They say how long a state block may be, whatever the length of the application's part. The key
    of the fences is filled in later.
    """
    share = part_limit("anchor", room(settings.context_budget, _OWN_FIXED_TOKENS))
    state_block = anchor_instructions(settings, share - _ANCHOR_FRAME)
    ours = render("system", key=KEY_PLACE)
    return "\n\n".join(filter(None, (ours, state_block, application.strip())))


def fixed_parts(system: str, tools: int, count: TokenCounter) -> tuple[Part, Part]:
    """Return the system message and the tool schemas as parts; `tools` is the schemas' tokens.

    The tokens that begin the reply count with the system message.
    """
    message: BaseMessage = SystemMessage(system)
    tokens = REPLY_OVERHEAD + count_message(message, count)
    return Part("system", (message,), tokens), Part("tools", (), tools)


def check_budget(settings: Settings, system: int, tools: int) -> None:
    """Raise a `SettingsError` if the budget is below the floor; sizes in tokens."""
    floor = system + tools + LEAST_ROOM
    if settings.context_budget < floor:
        raise SettingsError(
            f"context_budget {settings.context_budget} is below the floor of {floor} tokens: "
            f"{system} for the instructions, {tools} for the tool schemas and {LEAST_ROOM} for "
            "the conversation; raise it, or give the agent fewer tools or a shorter system_prompt"
        )


def room(budget: int, fixed: int) -> int:
    """Return the tokens that the fixed parts leave of a budget, at least `LEAST_ROOM`.

    >>> room(16_000, 1_500), room(2_000, 1_900)
    (14500, 1000)
    """
    return max(LEAST_ROOM, budget - fixed)
