"""The protected core: goals, hard constraints and key decisions, found by rules, with no model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .extraction import Extracted
from .messages import text
from .protected_words import kind_of
from .salience import Item, Kind
from .sentences import sentences
from .sources import legible, speaker
from .transcript import Logged
from .verifying import verify

MOST = 200
"""Sentences that are kept at most: constraints before others, of each the newest."""

LONGEST = 600
"""Characters of a sentence that is looked at; what is longer is no sentence that somebody said."""

_SPEAKERS = frozenset({"human", "ai"})
_FENCE = re.compile(r"^```.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Goals:
    """What an effort was opened for, what it is for now, and how that changed.

    `changes` are the turn of each change, the goal since then, and why.
    """

    original: str
    current: str
    changes: tuple[tuple[int, str, str], ...] = ()
    constraints: tuple[str, ...] = ()


def core(goals: Goals, turns: Sequence[Logged]) -> tuple[Item, ...]:
    """Return the protected core of a log as quotes, in the order of their turns.

    These are the goals, reasons and constraints that were said in the log as they were stated, and
    the sentences of users and of the model that say a goal, a hard constraint or a decision. Of
    sentences with the same words the newest stays.
    """
    stated = (verdict.item for verdict in verify([*_stated(goals)], turns) if verdict.item)
    newest = {_words(item.quote): item for item in (*stated, *_said(turns))}
    lasting = sorted(newest.values(), key=lambda one: (one.kind is Kind.CONSTRAINT, one.turn))
    return tuple(sorted(lasting[-MOST:], key=lambda item: item.turn))


def _stated(goals: Goals) -> Iterator[Extracted]:
    yield Extracted(quote=goals.original, kind=Kind.GOAL)
    for turn, goal, reason in goals.changes:
        yield Extracted(quote=goal, kind=Kind.GOAL, turn=turn)
        yield Extracted(quote=reason, kind=Kind.DECISION, turn=turn)
    yield Extracted(quote=goals.current, kind=Kind.GOAL)
    for constraint in goals.constraints:
        yield Extracted(quote=constraint, kind=Kind.CONSTRAINT)


def _said(turns: Sequence[Logged]) -> Iterator[Item]:
    for turn in legible(turns):
        for message in turn.messages:
            if message["type"] in _SPEAKERS:
                for sentence in sentences(_FENCE.sub("\n", text(message))):
                    kind = kind_of(sentence) if len(sentence) <= LONGEST else None
                    if kind:
                        yield Item(kind, sentence, turn.turn, speaker=speaker(message))


def _words(quote: str) -> str:
    return " ".join(re.findall(r"\w+", quote.casefold()))
