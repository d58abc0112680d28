"""The hard budget: how it is divided, and the least that it must be.

The fixed parts are the system message, the tool schemas, the notes and the running turn. What they
leave is divided into shares. A tier may exceed its share while everything fits.
"""

from collections.abc import Mapping

from .errors import SettingsError
from .settings import Settings

LEAST_ROOM = 1_000
"""Tokens that instructions and tool schemas must leave."""

NOTES_SHARE = 0.25
"""Share of the room that the notes may have."""


def shares(settings: Settings) -> Mapping[str, float]:
    """Return the share of each tier, those first that are cut first; at most 1 together.

    Where the settings add up to more, each is scaled down.

    >>> shares(Settings(active_share=0.8))["active"].__round__(3)
    0.533
    """
    chosen = {
        "memory": settings.summaries_share,
        "open": settings.open_share,
        "expanded": settings.expanded_share,
        "ambient": settings.ambient_share,
        "active": settings.active_share,
    }
    total = max(1.0, sum(chosen.values()))
    return {name: share / total for name, share in chosen.items()}


def checked(settings: Settings, system: int, tools: int) -> None:
    """Raise a `SettingsError` if the budget is below the floor, given what is sent in any case.

    >>> checked(Settings(context_budget=2_000), 600, 300)
    """
    floor = system + tools + LEAST_ROOM
    if settings.context_budget < floor:
        raise SettingsError(
            f"context_budget {settings.context_budget} is below the floor of {floor} tokens: "
            f"{system} for the instructions, {tools} for the tool schemas and {LEAST_ROOM} for "
            "the conversation; raise it, or give the agent fewer tools or a shorter system_prompt"
        )


def room(budget: int, fixed: int) -> int:
    """Return what a budget leaves beside what is sent in any case, never less than the least.

    >>> room(16_000, 2_500), room(3_000, 2_500)
    (13500, 1000)
    """
    return max(LEAST_ROOM, budget - fixed)
