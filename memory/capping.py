"""How many salient items an effort may have: what was superseded leaves first, then the oldest."""

from collections.abc import Callable, Sequence

from .salience import Item, Kind

SUPERSEDED = 100
"""The newest superseded items that are kept at most."""

_LEAVING = (Kind.OUTPUT, Kind.FACT, Kind.GOAL, Kind.DECISION, Kind.CONSTRAINT)


def capped(items: Sequence[Item], limit: int, count: Callable[[str], int]) -> tuple[Item, ...]:
    """Return items whose quotes have `limit` tokens at most, in the order that they have.

    Superseded ones, of which `SUPERSEDED` are kept at most, leave first; then what the assistant
    or a tool said, then what is no constraint, then the oldest constraints of the user. Of each the
    oldest leave first, and of one turn outputs, facts, goals, decisions, constraints.

    >>> rule, fact = Item(Kind.CONSTRAINT, "Never delete.", 1), Item(Kind.FACT, "It rains.", 2)
    >>> capped([rule, fact], 3, lambda text: len(text.split())) == (rule,)
    True
    """
    order = sorted(range(len(items)), key=lambda at: (*_lasting(items[at]), at))
    old = [at for at in order if items[at].superseded_by]
    gone = set(old[: max(0, len(old) - SUPERSEDED)])
    sizes = [count(item.quote) for item in items]
    total = sum(size for at, size in enumerate(sizes) if at not in gone)
    for at in order:
        if total <= limit:
            break
        if at not in gone:
            gone.add(at)
            total -= sizes[at]
    return tuple(item for at, item in enumerate(items) if at not in gone)


def _lasting(item: Item) -> tuple[bool, bool, bool, int, int]:
    """Return a key by which items sort that leave first to those that leave last."""
    current = not item.superseded_by
    demanded = current and item.speaker not in {"assistant", "tool"}
    rule = demanded and item.kind is Kind.CONSTRAINT
    return current, demanded, rule, item.turn, _LEAVING.index(item.kind)
