"""Facts and rules of a state block, which are memories of their user in every session."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rapidfuzz import fuzz

from .efforts import Effort
from .names import is_qualified, parted, qualified
from .search.terms import query_terms, words
from .turn import Session, Tip
from .veto import differ

Field: TypeAlias = Literal["Facts", "Rules"]
"""The fields of a state block whose items are memories."""

BASE: Mapping[Field, int] = {"Facts": 60, "Rules": 90}
"""The importance of an item: unused, a fact fades from attention in 34 days, a rule in 56."""

_LIKENESS = 85
"""Percent of equal letters from which two wordings may say the same: the merging of items has it.

The veto decides then: "allergic to peanuts" and "not allergic to peanuts" are two facts.
"""

_ITEMS = re.compile(r"[\n;；]+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_NOTHING = frozenset({"", "none", "n a", "nothing", "unknown"})
"""What models write into an empty field, normalised."""


@dataclass(frozen=True, slots=True)
class Item:
    """A fact or a rule as a state block says it."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A remembered item in its newest wording, and the turn of a session that said it so."""

    id: str
    field: Field
    text: str
    session: Session
    tip: Tip
    at: str

    def effort(self, importance: int) -> Effort:
        """Return it as what is surfaced of other sessions: a concluded effort of one turn."""
        return Effort(
            self.id,
            "concluded",
            summary=self.text,
            keywords=keywords_of(self.text),
            importance=importance,
            turn=self.tip.turn,
        )


def items(block: Mapping[str, str]) -> tuple[Item, ...]:
    r"""Return the facts and rules of a state block; lines and semicolons divide them.

    >>> items({"Goal": "ship", "Facts": "- allergic to peanuts\n- lives in Lyon", "Rules": "none"})
    (Item(field='Facts', text='allergic to peanuts'), Item(field='Facts', text='lives in Lyon'))
    """
    found: dict[str, Item] = {}
    for name in BASE:
        for line in _ITEMS.split(block.get(name, "")):
            text = " ".join(_BULLET.sub("", line).split()).rstrip(".")
            if fold(text) not in _NOTHING:
                found.setdefault(fold(text), Item(name, text))
    return tuple(found.values())


def fold(text: str) -> str:
    """Return a text by which equal items are told: its words as they are compared.

    >>> fold("Allergic to PEANUTS!")
    'allergic to peanuts'
    """
    return " ".join(words(text))


def same(text: str, other: str) -> bool:
    """Tell whether two wordings state one fact.

    >>> same("Allergic to peanuts.", "allergic to peanuts"), same("Rent is 900", "Rent is 950")
    (True, False)
    """
    one, two = fold(text), fold(other)
    if one == two:
        return True
    alike = fuzz.ratio(" ".join(sorted(one.split())), " ".join(sorted(two.split())))
    return alike >= _LIKENESS and not differ(text, other)


def keywords_of(text: str) -> tuple[str, ...]:
    """Return the words of a fact by which a message is related to it.

    >>> keywords_of("She is allergic to peanuts")
    ('allergic', 'peanuts')
    """
    return tuple(dict.fromkeys(word for word in words(text) if query_terms(word)))


def fact_id(session: Session, turn: int, number: int) -> str:
    """Return the id of an item by the turn that said it first.

    >>> fact_id(Session("ann", "t1"), 3, 1)
    't1/turn-3/fact-1'
    """
    return qualified(session, f"turn-{turn}/fact-{number}")


def is_fact(memory_id: str) -> bool:
    """Tell whether the id of a memory is that of a fact or a rule, and not of an effort.

    >>> is_fact("t1/turn-3/fact-1"), is_fact("t1/auth-bug")
    (True, False)
    """
    return is_qualified(parted(memory_id)[1])
