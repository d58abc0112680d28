"""The hard budget: the least that it must be, what each part may have of it, the safety factor.

The fixed parts are the system message and the tool schemas; what they leave is the *room*.
"""

from collections.abc import Mapping

from ...prompts.loader import render
from ..anchor import keeping
from ..errors import SettingsError
from ..messages import Message
from ..settings import Settings
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_message
from .timeline import Part

LEAST_ROOM = 1_000
"""Tokens that instructions and tool schemas must leave."""

TURN_SHARE = 0.46
"""Share of the room that the running turn may always have."""

LOG_SHARE = 0.23
"""Share of the room that one expanded or reopened log may have."""

SHARES: Mapping[str, float] = {"memory": 0.12, "quotes": 0.15, "open": 0.11, "anchor": 0.13}
"""Shares of the room that what stands beside the turns may have.

With `TURN_SHARE` they come to `MOST`: so a cut always fits, if need be without any older turn.
"""

_OURS = 1_200
"""Tokens of the instructions and of the tool schemas without an application's own."""

_AROUND_ANCHOR = 66
"""Tokens of what stands around the state block in its message."""

_HIGH_WATER, _GROWTH, MOST = 0.85, 0.12, 0.97
"""Shares of the room at which it is cut, see `high_water`; found by simulation, as `_LOW_WATER`."""

_LOW_WATER, _LOW_WATER_SMALL, _SMALL = 0.65, 0.5, 6_000
"""What it is cut to, a share of the room; less with a budget below `_SMALL`.

A small context is soon full again, and each cut costs its cached prefix.
"""

LEAST_PREVIEW = 32
"""The shortest preview, in tokens of its head and tail."""

MOST_FACTOR = 1.5
"""The largest safety factor. What a provider reports beyond it is logged and not made room for."""


def high_water(room: int, built: int) -> int:
    """Return the tokens beyond which a context is cut; `built` had it when it was rebuilt last.

    >>> high_water(10_000, 3_000), high_water(10_000, 8_000), high_water(10_000, 9_500)
    (8500, 9200, 9700)
    """
    return int(min(MOST * room, max(_HIGH_WATER * room, built + _GROWTH * room)))


def low_water(room: int, budget: int) -> int:
    """Return the tokens that it is cut to.

    >>> low_water(14_000, 16_000), low_water(3_000, 4_000)
    (9100, 1500)
    """
    return int((_LOW_WATER if budget >= _SMALL else _LOW_WATER_SMALL) * room)


def log_limit(room: int) -> int:
    """Return how many tokens of a log are brought back at most."""
    return int(room * LOG_SHARE)


def ladder(limit: int) -> list[int]:
    """Return the lengths that previews have: halved again and again, so that few are used.

    >>> ladder(300)
    [256, 128, 64, 32]
    """
    lengths = (limit // LEAST_PREVIEW).bit_length() if limit > LEAST_PREVIEW else 1
    return [LEAST_PREVIEW << doublings for doublings in reversed(range(lengths))]


def instructions(application: str, settings: Settings) -> str:
    """Return the system message: Ebbtide's instructions, then the application's own.

    They say how long a state block may be, by the room without an application's own part.
    """
    share = int(SHARES["anchor"] * room(settings.context_budget, _OURS))
    state_block = keeping(settings, share - _AROUND_ANCHOR)
    return "\n\n".join(filter(None, (render("system"), state_block, application.strip())))


def fixed_parts(system: str, tools: int, count: TokenCounter) -> tuple[Part, Part]:
    """Return what is sent in any case: the system message, with the reply's overhead, and tools.

    `tools` are the tokens of the tool schemas.
    """
    message: Message = {"type": "system", "data": {"content": system}}
    tokens = REPLY_OVERHEAD + count_message(message, count)
    return Part("system", (message,), tokens), Part("tools", (), tools)


def checked(settings: Settings, system: int, tools: int) -> None:
    """Raise a `SettingsError` if the budget is below the floor, given what is sent in any case."""
    floor = system + tools + LEAST_ROOM
    if settings.context_budget < floor:
        raise SettingsError(
            f"context_budget {settings.context_budget} is below the floor of {floor} tokens: "
            f"{system} for the instructions, {tools} for the tool schemas and {LEAST_ROOM} for "
            "the conversation; raise it, or give the agent fewer tools or a shorter system_prompt"
        )


def room(budget: int, fixed: int) -> int:
    """Return what a budget leaves beside what is sent in any case, never less than the least."""
    return max(LEAST_ROOM, budget - fixed)


def safety_factor(now: float, counted: int, reported: object) -> float:
    """Return the factor after a call: `reported / counted` in hundredths, rounded up, at most 1.5.

    It never falls below what it is `now`; what is `reported` may be no number of tokens at all.

    >>> safety_factor(1.0, 1_000, 1_234), safety_factor(1.3, 1_000, 1_234)
    (1.24, 1.3)
    >>> safety_factor(1.0, 1_000, 3_000), safety_factor(1.0, 1_000, None)
    (1.5, 1.0)
    """
    if type(reported) is not int or not 0 < counted < reported:
        return now
    hundredths = -(-100 * reported // counted)
    return max(now, min(MOST_FACTOR, hundredths / 100))


def effective_budget(context_budget: int, factor: float) -> int:
    """Return the tokens, as counted here, that a provider reports as `context_budget` at most.

    >>> effective_budget(16_000, 1.3), effective_budget(16_000, 1.0)
    (12307, 16000)
    """
    return context_budget * 100 // round(factor * 100)
