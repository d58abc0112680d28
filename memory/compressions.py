"""Salient items: verbatim quotes on which the goal of an effort depends."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from .search.terms import content
from .serialised import fingerprint

DONE = "done"
"""In place of a key, the mark of an item that matters no longer, though none took its place."""

CUT = "[…]"
"""The mark between head and end of a quote that is cut."""

Method: TypeAlias = Literal["salience", "protected-core"]
"""How the items of a compression were chosen: by a model, or by rules."""


class Kind(StrEnum):
    """The kind of a salient item, in the order in which the context shows them."""

    GOAL = "goal"
    CONSTRAINT = "constraint"
    DECISION = "decision"
    FACT = "fact"
    OUTPUT = "output"


STRENGTH = (Kind.OUTPUT, Kind.FACT, Kind.GOAL, Kind.DECISION, Kind.CONSTRAINT)
"""The kinds from the first to leave to the last."""


@dataclass(frozen=True, slots=True)
class Item:
    """A verbatim quote from a turn.

    `superseded_by` is the key of the item that revises or repeats it, or `DONE`;
    such an item is no longer in the context. `speaker` is who said it, with his name, "record" for
    the goal or constraints that the model gave an effort, "" if unknown; `confirmed` is the last
    turn after which a model quoted it again. Neither is compared.
    """

    kind: Kind
    quote: str
    turn: int
    superseded_by: str = ""
    speaker: str = field(default="", compare=False)
    confirmed: int = field(default=0, compare=False)

    @property
    def key(self) -> str:
        """The id of the item: 12 hex digits made of its turn and quote.

        >>> Item(Kind.FACT, "It listens on port 8443.", 3).key
        '9619a27bb740'
        """
        return fingerprint([self.turn, self.quote], 12)


def role(speaker: str) -> str:
    """Return whose words a speaker's are.

    >>> role("user (Ann)"), role("tool look_up")
    ('user', 'tool')
    """
    return speaker.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Compression:
    """The items and background that replace the older turns of an open effort in the context.

    `turn` is the turn after which it was made, `through` the newest turn that it replaces. It is
    `stale`, and without background, if one of its turns was erased. `left_out` has the turn of each
    item for which there was no room.
    """

    effort: str
    turn: int
    through: int
    items: tuple[Item, ...] = ()
    background: str = ""
    method: Method = "salience"
    stale: bool = False
    left_out: tuple[int, ...] = ()

    @property
    def current(self) -> tuple[Item, ...]:
        """The items that are not superseded, in the order of their turns.

        >>> old = Item(Kind.FACT, "Port 80.", 1, superseded_by="x")
        >>> Compression("a", 9, 6, (old,)).current
        ()
        """
        return tuple(item for item in self.items if not item.superseded_by)

    def without_turn(self, turn: int) -> "Compression":
        """Return a stale compression without the items of an erased turn and the background.

        What such an item superseded is current again, or superseded by what took the item's place.

        >>> new = Item(Kind.FACT, "Port 81.", 2)
        >>> both = Item(Kind.FACT, "Port 80.", 1, superseded_by=new.key), new
        >>> Compression("a", 9, 6, both).without_turn(2).current[0].quote
        'Port 80.'
        """
        heirs = {item.key: item.superseded_by for item in self.items if item.turn == turn}
        items = (
            replace(item, superseded_by=heirs.get(item.superseded_by, item.superseded_by))
            for item in self.items
            if item.turn != turn
        )
        left_out = tuple(number for number in self.left_out if number != turn)
        return replace(self, items=tuple(items), background="", stale=True, left_out=left_out)


@dataclass(frozen=True, slots=True)
class ExtractionEntry:
    """The log of one extraction pass, run after `turn`, whose id is `id`, over the new `turns`.

    `told` is plain data: quotes with their verdicts, merges, tokens, seconds, models.
    """

    effort: str
    id: str
    turn: int
    turns: tuple[int, ...]
    at: str
    told: Mapping[str, Any]


def as_data(compression: Compression) -> dict[str, Any]:
    """Return a compression as plain data; the inverse of `from_data`.

    Items have no empty fields, and only a compression that has them has `stale` and `left_out`.

    >>> as_data(Compression("a", 9, 6, (Item(Kind.FACT, "Port 8443.", 3),)))["items"]
    [{'kind': <Kind.FACT: 'fact'>, 'quote': 'Port 8443.', 'turn': 3}]
    """
    fields = asdict(compression)
    for name in ("stale", "left_out"):
        if not fields[name]:
            del fields[name]
    items = [
        {name: item[name] for name in item if item[name] or name in {"turn", "quote"}}
        for item in fields["items"]
    ]
    return {**fields, "items": items}


def from_data(data: Mapping[str, Any]) -> Compression:
    """Return the compression of what `as_data` returned.

    Raises `LookupError`, `TypeError` or `ValueError` for damaged data.

    >>> made = Compression("a", 9, 6, (Item(Kind.FACT, "Port 8443.", 3),), "All is well.")
    >>> from_data(as_data(made)) == made
    True
    """
    items = tuple(Item(**{**item, "kind": Kind(item["kind"])}) for item in data["items"])
    left_out = tuple(data.get("left_out", ()))
    return Compression(**{**data, "items": items, "left_out": left_out})


SHARED = 2
"""Terms that a quote shares with the goal it is about, as many as a reference needs."""

SUPERSEDED = 100
"""Superseded items that are kept at most, the newest."""


def capped(
    items: Sequence[Item], limit: int, count: Callable[[str], int], goal: str = ""
) -> tuple[Item, ...]:
    """Return the items whose quotes fit into `limit` tokens, in their order.

    Superseded items, of which at most `SUPERSEDED` stay, leave first; then those that share fewer
    than `SHARED` terms with the goal; then those of the assistant and of tools, then those that are
    no constraint, then the user's constraints, which the goal does not rank. Of each those leave
    first that were said or confirmed longest ago, within a turn in the order of `STRENGTH`.

    >>> rule, fact = Item(Kind.CONSTRAINT, "Never delete.", 1), Item(Kind.FACT, "It rains.", 2)
    >>> capped([rule, fact], 3, lambda text: len(text.split())) == (rule,)
    True
    """
    about = {*content(goal)}

    def rank(index: int) -> tuple[bool, bool, bool, bool, int, int, int]:
        item, current = items[index], not items[index].superseded_by
        from_user = current and role(item.speaker) not in {"assistant", "tool"}
        constraint = from_user and item.kind is Kind.CONSTRAINT
        newest = max(item.turn, item.confirmed)
        meant = constraint or (current and len(about.intersection(content(item.quote))) >= SHARED)
        return current, meant, from_user, constraint, newest, STRENGTH.index(item.kind), index

    superseded = sum(bool(item.superseded_by) for item in items)
    staying = sorted(range(len(items)), key=rank)[max(0, superseded - SUPERSEDED) :]
    totals = [*accumulate(count(items[index].quote) for index in reversed(staying))]
    fitting = {*staying[len(staying) - bisect_right(totals, limit) :]}
    return tuple(item for index, item in enumerate(items) if index in fitting)
