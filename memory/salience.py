"""Salient items: sentences quoted word for word because the goal of an effort depends on them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from .messages import fingerprint

DONE = re.compile(r"done (\d+)-(\d+)")
"""What `done_in` returns."""

Method: TypeAlias = Literal["salience", "protected-core"]
"""How a log was compressed: with items that a model chose, or with those that rules find."""

Speaker: TypeAlias = Literal["user", "assistant", "tool", "record", ""]
"""Who said something; "record" is what the model wrote down when it opened or changed an effort."""


class Kind(StrEnum):
    """What a salient item is, in the order in which the context shows them."""

    GOAL = "goal"
    CONSTRAINT = "constraint"
    DECISION = "decision"
    FACT = "fact"
    OUTPUT = "output"


STRENGTH = (Kind.OUTPUT, Kind.FACT, Kind.GOAL, Kind.DECISION, Kind.CONSTRAINT)
"""The kinds from what leaves first to what stays longest."""


@dataclass(frozen=True, slots=True)
class Item:
    """A quote in the words of the turn that it stands in.

    `superseded_by` is the key of a newer item that revises it, or of one that says the same, or
    what `done_in` returns; it has then left the context. `speaker` is who said it, "" if that is
    not known; two items are compared without it.
    """

    kind: Kind
    quote: str
    turn: int
    superseded_by: str = ""
    speaker: Speaker = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Name the item by its turn and its words, 12 characters.

        >>> Item(Kind.FACT, "It listens on port 8443.", 3).key
        '9619a27bb740'
        """
        return fingerprint([self.turn, self.quote], 12)


@dataclass(frozen=True, slots=True)
class Compression:
    """What stands for the older turns of an open effort: items and background.

    `turn` is the turn after which it was made, `through` the newest turn that it stands for. It is
    `stale` if a turn that it was made from was erased: then its background is missing.
    """

    effort: str
    turn: int
    through: int
    items: tuple[Item, ...] = ()
    background: str = ""
    method: Method = "salience"
    stale: bool = False

    @property
    def current(self) -> tuple[Item, ...]:
        """The items that nothing superseded, in the order of their turns."""
        return tuple(item for item in self.items if not item.superseded_by)

    def without_turn(self, turn: int) -> "Compression":
        """Return what says nothing of a turn that was erased, to be made again.

        What the turn had superseded, or may have shown to be done, holds again, unless something
        newer superseded that in turn; the background may tell of it, so it goes.

        >>> old = Item(Kind.FACT, "Port 80.", 1, superseded_by=Item(Kind.FACT, "Port 81.", 2).key)
        >>> made = Compression("a", 9, 6, (old, Item(Kind.FACT, "Port 81.", 2)), "A port.")
        >>> [item.quote for item in made.current], made.without_turn(2).items[0].superseded_by
        (['Port 81.'], '')
        """
        heirs = {item.key: item.superseded_by for item in self.items if item.turn == turn}
        for item in self.items:
            turns = DONE.fullmatch(item.superseded_by)
            if turns and int(turns[1]) <= turn <= int(turns[2]):
                heirs[item.superseded_by] = ""
        items = []
        for item in self.items:
            heir = item.superseded_by
            for _ in heirs:  # along the chain of those that were erased, which may be a ring
                heir = heirs.get(heir, heir)
            if item.turn != turn:
                items.append(replace(item, superseded_by=heir))
        return replace(self, items=tuple(items), background="", stale=True)


@dataclass(frozen=True, slots=True)
class ExtractionEntry:
    """What one pass after `turn` found and did, from the `turns` of an effort that were new.

    `told` is plain data: quotes with their verdicts, merges, tokens, seconds, models.
    """

    effort: str
    branch: str
    turn: int
    turns: tuple[int, ...]
    at: str
    told: Mapping[str, Any]


def done_in(first: int, last: int) -> str:
    """Return the `superseded_by` of an item that turns `first` to `last` showed to be done.

    >>> done_in(12, 18)
    'done 12-18'
    """
    return f"done {first}-{last}"


def as_data(made: Compression) -> dict[str, Any]:
    """Return a compression as plain data; the inverse of `from_data`."""
    items = [
        {name: value for name, value in asdict(item).items() if value != ""} for item in made.items
    ]
    fields = {**asdict(made), "items": items}
    return fields if made.stale else {name: fields[name] for name in fields if name != "stale"}


def from_data(data: Mapping[str, Any]) -> Compression:
    """Return the compression that `as_data` described.

    Raises `LookupError`, `TypeError` or `ValueError` if it is none.

    >>> made = Compression("a", 9, 6, (Item(Kind.FACT, "Port 8443.", 3),), "All is well.")
    >>> from_data(as_data(made)) == made
    True
    """
    items = tuple(Item(**{**item, "kind": Kind(item["kind"])}) for item in data["items"])
    return Compression(**{**data, "items": items})


SUPERSEDED = 100
"""The newest superseded items that are kept at most."""


def capped(items: Sequence[Item], limit: int, count: Callable[[str], int]) -> tuple[Item, ...]:
    """Return items whose quotes have `limit` tokens at most, in the order that they have.

    Superseded ones, of which `SUPERSEDED` are kept at most, leave first; then what the assistant
    or a tool said, then what is no constraint, then the oldest constraints of the user. Of each the
    oldest leave first, and of one turn outputs, facts, goals, decisions, constraints.

    >>> rule, fact = Item(Kind.CONSTRAINT, "Never delete.", 1), Item(Kind.FACT, "It rains.", 2)
    >>> capped([rule, fact], 3, lambda text: len(text.split())) == (rule,)
    True
    """

    def lasting(at: int) -> tuple[bool, bool, bool, int, int, int]:
        item, current = items[at], not items[at].superseded_by
        demanded = current and item.speaker not in {"assistant", "tool"}
        rule = demanded and item.kind is Kind.CONSTRAINT
        return current, demanded, rule, item.turn, STRENGTH.index(item.kind), at

    order = sorted(range(len(items)), key=lasting)
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
