"""Facts and rules of a state block, which are memories of their user in every session."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from rapidfuzz import fuzz, process

from .dates import day_of
from .efforts import Effort
from .names import is_qualified, parted
from .search.terms import query_terms, words
from .turn import Session, Tip
from .veto import claim, differ

Field: TypeAlias = Literal["Facts", "Rules"]
"""The fields of a state block whose items are memories."""

BASE: Mapping[Field, int] = {"Facts": 60, "Rules": 90}
"""The importance of an item: unused, a fact fades from attention in 34 days, a rule in 56."""

_LIKENESS = 85
"""Percent of equal letters from which two wordings may say the same: the merging of items has it.

The veto decides then: "allergic to peanuts" and "not allergic to peanuts" are two facts.
"""

ENDED: Final = "no longer"
"""What stands before a line that ends a fact or rule, and is the field of that item."""

_ENDS = re.compile(rf"(?i)[\s*]*{ENDED}[\s*]*[:：][\s*]*")
_ITEMS = re.compile(r"[\n;；]+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_NOTHING = frozenset({"", "none", "n a", "nothing", "unknown"})
"""What models write into an empty field, normalised."""


@dataclass(frozen=True, slots=True)
class Item:
    """A fact or a rule as a state block says it, or that it no longer holds."""

    field: Field | Literal["no longer"]
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A remembered item in its newest wording, and the turn of a session that said it so.

    It no longer `holds` if it was `lifted` at a time, or said on abandoned branches alone. It was
    said in several `wordings`, folded.
    """

    id: str
    field: Field
    text: str
    session: Session
    tip: Tip
    at: str
    holds: bool = True
    lifted: str = ""
    wordings: frozenset[str] = frozenset()

    @property
    def order(self) -> tuple[str, int]:
        """By which the newer of two facts is told; those of one turn are equal."""
        return self.at, self.tip.turn

    @property
    def told(self) -> str:
        """Its text, and since when it no longer holds."""
        return f"{self.text} ({ENDED} since {day_of(self.lifted)})" if self.lifted else self.text

    @property
    def effort(self) -> Effort:
        """It as what is surfaced of other sessions: a concluded effort of one turn."""
        effort = Effort(self.id, "concluded", summary=self.told, keywords=keywords_of(self.text))
        return replace(effort, importance=BASE[self.field], turn=self.tip.turn)


def items(block: Mapping[str, str]) -> tuple[Item, ...]:
    r"""Return the facts and rules of a state block; lines and semicolons divide them.

    >>> items({"Goal": "ship", "Facts": "- allergic to peanuts\n- lives in Lyon", "Rules": "none"})
    (Item(field='Facts', text='allergic to peanuts'), Item(field='Facts', text='lives in Lyon'))
    """
    found: dict[str, Item] = {}
    for name in BASE:
        for line in _ITEMS.split(block.get(name, "")):
            item = _item(name, line)
            if fold(item.text) not in _NOTHING:
                found.setdefault(f"{item.field == ENDED} {fold(item.text)}", item)
    return tuple(found.values())


def _item(name: Field, line: str) -> Item:
    text = " ".join(_BULLET.sub("", line).split()).rstrip(".")
    ended = _ENDS.match(text)
    return Item(ENDED, text[ended.end() :]) if ended else Item(name, text)


def without_lines(block: Mapping[str, str], folded: Collection[str]) -> dict[str, str]:
    r"""Return a state block without the lines that equal one of these texts, see `fold`.

    >>> without_lines({"Goal": "ship", "Facts": "- lives in Lyon\n- likes tea"}, ["likes tea"])
    {'Goal': 'ship', 'Facts': '- lives in Lyon'}
    """
    left = dict[str, str]()
    for name, text in block.items():
        lines = _ITEMS.split(text)
        kept = [one for one in lines if fold(_item("Facts", one).text) not in folded]
        if kept:
            left[name] = text if kept == lines else "\n".join(kept)
    return left


@lru_cache(maxsize=8_000)  # as `claim`
def fold(text: str) -> str:
    """Return a text by which equal items are told: its words as they are compared.

    >>> fold("Allergic to PEANUTS!")
    'allergic to peanuts'
    """
    return " ".join(words(text))


def alike(text: str, known: Mapping[str, str]) -> str:
    """Return the key of a wording that states the same fact, the closest one, "" if none does.

    >>> alike("Is allergic to peanuts.", {"a": "rent is 900", "b": "allergic to peanuts"})
    'b'
    """
    one, *others = (" ".join(sorted(fold(each).split())) for each in (text, *known.values()))
    found = process.extract(one, others, scorer=fuzz.ratio, score_cutoff=_LIKENESS, limit=None)
    keys = [*known]
    return next((keys[at] for *_, at in found if not differ(text, known[keys[at]])), "")


def competes(text: str, other: str) -> bool:
    """Tell whether of two lines the newer may revoke the older: a wrong guess costs few tokens.

    Half of the words of the shorter frame are in the other, and a value or a negation differs.

    >>> competes("always answer in Dutch", "answer in English from now on, no more Dutch")
    True
    >>> competes("lives in Oslo", "lives in Århus")
    True
    >>> competes("always answer in Dutch", "answer briefly"), competes("is 42", "lives in Lyon")
    (False, False)
    """
    (values, negated, frame), (others, other_negated, other_frame) = _framed(text), _framed(other)
    if not 0 < min(len(frame), len(other_frame)) <= 2 * len(frame & other_frame):
        return False
    return negated != other_negated or bool(values and others and values != others)


@lru_cache(maxsize=8_000)  # as `claim`
def _framed(text: str) -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
    values, negated, said = claim(text)
    frame = frozenset(word for word in said if word not in values and query_terms(word))
    return frozenset(values), negated, frame


def behind(known: Mapping[str, Fact]) -> Mapping[str, Sequence[Fact]]:
    """Return by id of each fact, newest first, the older ones in force that compete with it."""
    return _behind(tuple(known.values()))


@lru_cache(maxsize=100)  # of so many users: each prompt of a turn shows the same facts
def _behind(facts: tuple[Fact, ...]) -> Mapping[str, Sequence[Fact]]:
    found, near = dict[str, list[Fact]](), defaultdict[str, list[Fact]](list)
    for fact in sorted(facts, key=attrgetter("order")):
        frame = _framed(fact.text)[2]
        older = {one.id: one for word in frame for one in near[word] if one.order < fact.order}
        rivals = [one for one in older.values() if competes(one.text, fact.text)]
        found[fact.id] = sorted(rivals, key=attrgetter("order"), reverse=True)
        for word in frame if fact.holds else ():
            near[word].append(fact)
    return dict(reversed(found.items()))


def holding(known: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return by id the fact that holds in place of each one: the newest that competes, or itself.

    One that only competes with what does not hold itself stays, so each is told somewhere.
    """
    found = dict[str, Fact]()
    for name, older in behind(known).items():
        if known[name].holds and found.setdefault(name, known[name]).id == name:
            for one in older:
                found.setdefault(one.id, known[name])
    return found


def keywords_of(text: str) -> tuple[str, ...]:
    """Return the words of a fact by which a message is related to it.

    >>> keywords_of("She is allergic to peanuts")
    ('allergic', 'peanuts')
    """
    return tuple(dict.fromkeys(word for word in words(text) if query_terms(word)))


def is_fact(memory_id: str) -> bool:
    """Tell whether the id of a memory is that of a fact or a rule, and not of an effort.

    >>> is_fact("t1/turn-3/fact-1"), is_fact("t1/auth-bug")
    (True, False)
    """
    return is_qualified(parted(memory_id)[1])
