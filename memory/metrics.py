"""What the events of a session say of its memory, as figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import TypeAlias

from .messages import Message
from .record import Event, Record
from .tokens import TokenCounter, count_messages

Happening: TypeAlias = tuple[int, Event]
"""A turn, and something that happened in it."""

SOON = 2
"""Turns after an automatic collapse in which an expansion says that it was wrong."""

_ENDING = frozenset({"collapsed", "reopened", "evicted"})


@dataclass(frozen=True, slots=True)
class Expansion:
    """A log in the context: from which turn to which, None if it still is; its tokens.

    `auto` tells who ended it: the decay or a tool; None if it was reopened or evicted.
    """

    effort: str
    start: int
    tokens: int
    end: int | None = None
    auto: bool | None = None


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """The context of a turn's last call in tokens, by tier, beside the two baselines.

    `always_expanded` has the log of every concluded effort in it, `full_history` is all that was
    said up to this turn.
    """

    turn: int
    tiers: Mapping[str, int]
    always_expanded: int
    full_history: int

    @property
    def total(self) -> int:
        """The tokens of the whole context."""
        return sum(self.tiers.values())

    @property
    def savings(self) -> float | None:
        """The share of the full history that was not sent."""
        return ratio(self.full_history - self.total, self.full_history)


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of a session; a ratio with nothing below the line is None."""

    auto_collapses: int
    manual_collapses: int
    manual_vs_auto: float | None
    avg_expansion_duration: float | None
    false_decay_rate: float | None
    tokens_saved_by_decay: int
    expansion_overhead: float | None
    savings_vs_full_history: float | None
    evictions: int
    returns: int
    compressions: int
    fallbacks: int
    fabricated: int
    tokens_compressed: int
    searches: int
    searches_expanded: int
    turns: tuple[TurnTokens, ...]


def report(records: Sequence[Record]) -> Report:
    """Fold the events of consecutive turns, oldest first."""
    events = [(record.turn, event) for record in records for event in record.events]
    last = records[-1].turn if records else 0
    expansions = [*expanded(events)]
    auto = [one for one in expansions if one.auto is True]
    manual = [one for one in expansions if one.auto is False]
    again = [(one, _next(one, expansions)) for one in auto]
    turns = tuple(_turns(events))
    searches = [*_searches(events)]
    return Report(
        auto_collapses=len(auto),
        manual_collapses=len(manual),
        manual_vs_auto=ratio(len(manual), len(auto)),
        avg_expansion_duration=_mean((one.end or last) - one.start for one in expansions),
        false_decay_rate=ratio(sum(_soon(one, turn) for one, turn in again), len(auto)),
        tokens_saved_by_decay=sum(
            one.tokens * ((turn or last) - (one.end or last)) for one, turn in again
        ),
        expansion_overhead=_mean(one.tiers.get("expanded", 0) / one.total for one in turns),
        savings_vs_full_history=turns[-1].savings if turns else None,
        evictions=_count(events, "evicted"),
        returns=_count(events, "returned"),
        compressions=_count(events, "compressed"),
        fallbacks=sum("fallback" in event for _, event in events),
        fabricated=sum(event.get("fabricated", 0) for _, event in events),
        tokens_compressed=sum(_compressed(event) for _, event in events),
        searches=len(searches),
        searches_expanded=sum(searches),
        turns=turns,
    )


def cost(tiers: Mapping[str, int], said: Sequence[Message], count: TokenCounter) -> Event:
    """Return the event that says what a turn cost: its context by tier, and what was said in it.

    >>> cost({"turn": 6, "notes": 0}, [], len)
    {'type': 'context', 'tokens': {'turn': 6}, 'said': 0}
    """
    tokens = {tier: size for tier, size in tiers.items() if size}
    return {
        "type": "context",
        "tokens": tokens,
        "said": count_messages(said, count),
    }


def ratio(part: float, whole: float) -> float | None:
    """Divide, or return None if there is nothing below the line.

    >>> ratio(1, 2), ratio(1, 0)
    (0.5, None)
    """
    return part / whole if whole else None


def expanded(events: Iterable[Happening]) -> Iterator[Expansion]:
    """Yield every expansion: those that ended in the order of their ends, then the others."""
    running: dict[str, Expansion] = {}
    for turn, event in events:
        name = event.get("effort", "")
        if event["type"] == "expanded":
            first = running.get(name) or Expansion(name, turn, 0)
            running[name] = replace(first, tokens=event["tokens"])
        elif event["type"] in _ENDING and name in running:
            yield replace(running.pop(name), end=turn, auto=event.get("auto"))
    yield from running.values()


def _next(ended: Expansion, expansions: Iterable[Expansion]) -> int | None:
    """Return the turn in which the effort was expanded again."""
    starts = [one.start for one in expansions if one.effort == ended.effort]
    return min((start for start in starts if start > (ended.end or 0)), default=None)


def _soon(ended: Expansion, again: int | None) -> bool:
    return again is not None and again - (ended.end or 0) <= SOON


def _turns(events: Iterable[Happening]) -> Iterator[TurnTokens]:
    logs: dict[str, int] = {}
    said = 0
    for turn, event in events:
        if event["type"] == "concluded":
            logs[event["effort"]] = event["tokens"]
        elif event["type"] == "reopened":
            logs.pop(event["effort"], None)
        elif event["type"] == "context":
            tiers, said = event["tokens"], said + event["said"]
            collapsed = sum(tiers.values()) - tiers.get("expanded", 0)
            yield TurnTokens(turn, tiers, collapsed + sum(logs.values()), said)


def _searches(events: Sequence[Happening]) -> Iterator[bool]:
    """Yield for each search whether an effort that it found was expanded then or a turn later."""
    for at, (turn, event) in enumerate(events):
        if event["type"] == "searched":
            found = event.get("efforts", ())
            later = (one for when, one in events[at:] if when <= turn + 1)
            yield any(one["type"] == "expanded" and one["effort"] in found for one in later)


def _compressed(event: Event) -> int:
    """Return by how many tokens a pass shortened the context, 0 for any other event."""
    tokens = event.get("tokens") if event["type"] == "compressed" else None
    return tokens["before"] - tokens["after"] if tokens else 0


def _count(events: Iterable[Happening], kind: str) -> int:
    return sum(event["type"] == kind for _, event in events)


def _mean(values: Iterable[float]) -> float | None:
    listed = [*values]
    return mean(listed) if listed else None
