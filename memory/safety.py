"""The safety factor of a thread: how much more a provider reports than was counted."""

from .shares import LEAST_ROOM

MOST = 1.5
"""The largest factor. What a provider reports beyond it is logged and not made room for."""


def safety_factor(now: float, counted: int, reported: object) -> float:
    """Return the factor after a call: `reported / counted` in hundredths, rounded up, at most 1.5.

    `now` is the factor so far, which never falls. `counted` are the tokens that were counted for
    the call, `reported` is what its provider says it read; what is no number of tokens says
    nothing.

    >>> safety_factor(1.0, 1_000, 1_234), safety_factor(1.3, 1_000, 1_234)
    (1.24, 1.3)
    >>> safety_factor(1.0, 1_000, 3_000), safety_factor(1.0, 1_000, None)
    (1.5, 1.0)
    """
    if type(reported) is not int or not 0 < counted < reported:
        return now
    hundredths = -(-100 * reported // counted)
    return max(now, min(MOST, hundredths / 100))


def effective_budget(context_budget: int, factor: float) -> int:
    """Return the tokens, as counted here, that a provider reports as `context_budget` at most.

    >>> effective_budget(16_000, 1.3), effective_budget(16_000, 1.0)
    (12307, 16000)
    """
    return context_budget * 100 // round(factor * 100)


def below_floor(context_budget: int, factor: float, fixed: int) -> dict[str, int]:
    """Return the budget that the factor leaves, and the floor, if it is below it; else nothing.

    `fixed` are the tokens of instructions and tool schemas. Contexts are built for the floor then,
    which a provider may read as more than `context_budget`.

    >>> below_floor(4_000, 1.5, 2_000), below_floor(16_000, 1.5, 2_000)
    ({'effective': 2666, 'floor': 3000}, {})
    """
    effective, floor = effective_budget(context_budget, factor), fixed + LEAST_ROOM
    return {"effective": effective, "floor": floor} if effective < floor else {}
