"""Compressing an open effort: when it has outgrown its share, how far, and in which steps.

What its goal depends on stays verbatim, the rest as a few lines: extract, verify, merge with what
was quoted before, summarise, rebuild.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from math import log2
from typing import Any

import numpy as np

from ..context.budget import high_water, low_water
from ..context.layout import whole_tokens
from ..context.shortening import line_tokens, quote
from ..efforts import Effort, one_line
from ..errors import AnswerError
from ..questions import Asks
from ..record import Event, Record
from ..running_turn import RunningTurn
from ..salience import Compression, Item, Kind, Method, capped, done_in
from ..tokens import TokenCounter, count_message, cut_at_sentence
from ..transcript import Logged
from .extract import (
    BACKGROUND,
    MOST_QUOTED,
    Previous,
    Sizes,
    background,
    extract,
    readable_at_once,
)
from .merge import Likeness, merged, obsolete_quotes
from .quotes import Goals, Verdict, core, cut_quote, verify

_SHARES = ((12, 14, 16), (0.6, 0.5, 0.3))
"""By the binary logarithm of the budget, the share of the room that a live effort may have.

By simulation small passes at small budgets cost more than they save.
"""

LOW = 0.35
"""What an effort is compressed to, a fraction of its share; found by simulation."""

_LEAST = 1.0
"""What leaves at least, a fraction of the share, so that a pass is worth its calls.

On *long* of `benchmarks/context_cost.py`, 250 turns, 0.3, 0.65 and 1.0 cost 3,291, 3,157 and 3,071
tokens a turn with a budget of 4,000, and 2,691, 2,612 and 2,658 with 16,000.
"""

_LEAST_HIDDEN = 0.75
"""The same where turns that nothing stands for had to leave the context.

On *long* with a budget of 4,000, 600 turns, 0.6, 0.75 and 0.9 cost 2,863, 2,792 and 2,732 a turn.
"""

_LEAST_PRESSING = 0.65
"""The same where they would have to leave in the next turn.

There 0.5, 0.6 and 0.65 cost 2,856, 2,834 and 2,832 a turn.
"""

_LEAST_PARKED = 0.3
"""The same of an effort that is not active and had to leave: only quotes would keep it in view.

On *day* of the same benchmark with a budget of 4,000, 0.3, 0.5 and 0.75 cost 1,768, 1,692 and 1,655
tokens a turn: in conversations read by hand parked work was out of view for 20 calls with 0.75.
"""

RECENT_TURNS = 3
"""Newest turns of an effort, or of all if it had to leave, that stay: they are talked about."""

_QUOTED_SHARE = 0.5
"""What the salient items of an effort may have of what it is compressed to, a fraction."""

_LOOKED_AT = 3
"""Shares of an effort that one pass looks at: more than it ever has, unless passes fail."""

_LAST = 3
"""Turns by whose mean the size of the next one is guessed."""

_CHUNK = 50
"""Turns that are read at once; a pass seldom looks at more."""

_LONGEST_SHARE = 0.25
"""What one quote may have of the tokens of all, a fraction; a longer one is cut."""


@dataclass(frozen=True, slots=True)
class Due:
    """An effort to be compressed: the turns that leave, and what stands for older ones.

    `live` are its tokens in the context now, `kept` those of its newest turns, as far as they are
    looked at: where passes have failed for long, only the oldest turns are.
    """

    effort: Effort
    old: Compression | None
    leaving: tuple[Record, ...]
    live: int
    kept: int

    @property
    def through(self) -> int:
        """The newest turn that the compression will stand for."""
        return self.leaving[-1].turn if self.leaving else self.old.through if self.old else 0


def adoptable(work: RunningTurn) -> Compression | None:
    """Return a stored compression that the state does not name yet, as after a crash; else None."""
    named = work.state.compressed
    stored = filter(None, map(work.view.compression, work.state.open))
    return next((made for made in stored if made.turn > named.get(made.effort, 0)), None)


def to_do(work: RunningTurn) -> Compression | Due | None:
    """Return the compression that is to be taken up, else what is to be compressed now."""
    return adoptable(work) or outgrown(work)


def outgrown(work: RunningTurn) -> Due | None:
    """Return the open effort to be compressed now, the active one first; None if there is none."""
    if work.settings.compression == "off" or not work.state.open:
        return None
    active, tip = work.state.active, work.view.tip.turn
    last = work.view.turns(range(max(1, tip - _LAST + 1), tip + 1))
    # The next turn is taken to be as large as the last ones.
    coming = sum(whole_tokens(work, record) for record in last) // max(1, len(last))
    others = [name for name in reversed([*work.state.open]) if name != active]
    names = [active, *others] if active else others
    dues = (_to_compress(work, effort, coming) for effort in work.known(names))
    return next(filter(None, dues), None)


def item_limit(work: RunningTurn) -> int:
    """Return how many tokens the salient items of one effort may have."""
    return min(MOST_QUOTED, int(_QUOTED_SHARE * LOW * share_of(work)))


def share_of(work: RunningTurn) -> float:
    """Return how many tokens the active effort may have; another one may have half of it."""
    return float(np.interp(log2(work.settings.context_budget), *_SHARES)) * work.room


def leaving(sizes: Sequence[int], recent: int, low: float, least: float) -> int:
    """Return how many of the oldest turns leave until the others have `low` tokens, by their sizes.

    The newest `recent` never; none, if those that may leave have less than `least` tokens, or than
    half of what the newest have: a pass must be worth its calls.

    >>> leaving([300] * 5, recent=2, low=700, least=300), leaving([100, 100, 900], 1, 700, 300)
    (3, 0)
    """
    most = max(0, len(sizes) - recent)
    if sum(sizes[:most]) < max(least, sum(sizes[most:]) / 2):
        return 0
    return next((gone for gone in range(most) if sum(sizes[gone:]) <= low), most)


def standing(work: RunningTurn, made: Compression | None) -> int:
    """Return the tokens of what stands for compressed turns, 0 if nothing does."""
    shown = quote(made, 1, work.count) if made else None
    return count_message(shown, work.count) if shown else 0


def _to_compress(work: RunningTurn, effort: Effort, coming: int) -> Due | None:
    """Return what of an effort is to be compressed; `coming` are the tokens of the next turn."""
    log, old = work.view.log_turns(effort.id), work.view.compression(effort.id)
    stands, active = standing(work, old), effort.id == work.state.active
    share = share_of(work) if active else share_of(work) / 2
    turns = log[bisect_right(log, old.through) if old else 0 :]
    records, sizes = _oldest(work, turns, _LOOKED_AT * share)
    live, gone, unread = stands + sum(sizes), 0, len(turns) - len(records)
    hidden = pressing = False
    if work.line is not None:
        hidden = any(turn < work.line.first for turn in turns[:1])
        # The next turn would make a cut that takes turns of this effort.
        cut = work.used + coming > high_water(work.room, work.line.size)
        cut_to = low_water(work.room, work.settings.context_budget)
        pressing = not hidden and cut and live + coming > cut_to
    if live > share or hidden or pressing:
        low = 0 if unread or hidden or pressing else LOW * share - max(stands, item_limit(work))
        least, recent = _LEAST_PRESSING if pressing else _LEAST, RECENT_TURNS
        if hidden:
            least = _LEAST_HIDDEN if active else _LEAST_PARKED
        if hidden and not active:
            recent = sum(turn > work.view.tip.turn - RECENT_TURNS for turn in turns)
        gone = leaving(sizes, max(0, recent - unread), low, least * share)
        # No more than a pass can read, but one turn in any case.
        limit = readable_at_once(work.settings.context_budget)
        fitting = sum(total <= limit for total in accumulate(sizes[:gone]))
        gone = max(fitting, min(1, gone))
    if not gone and not (old and old.stale):
        return None
    return Due(effort, old, records[:gone], live, sum(sizes[gone:]))


def _oldest(
    work: RunningTurn, turns: Sequence[int], enough: float
) -> tuple[tuple[Record, ...], list[int]]:
    """Return the oldest of these turns, with their sizes, until they have enough tokens."""
    records: tuple[Record, ...] = ()
    sizes: list[int] = []
    for first in range(0, len(turns), _CHUNK):
        if sum(sizes) > enough:
            break
        part = work.view.turns(turns[first : first + _CHUNK])
        records, sizes = (*records, *part), [*sizes, *(whole_tokens(work, turn) for turn in part)]
    return records, sizes


@dataclass(frozen=True, slots=True)
class Compressed:
    """What a pass made, None if it failed and nothing changes; `told` is for the log."""

    made: Compression | None
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Items of new turns, how they were found, what became of each quote, and why by rules.

    `gone` are the keys of items that leave, each with that of what superseded it.
    """

    items: tuple[Item, ...]
    method: Method
    verdicts: tuple[Verdict, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    fallback: str = ""


def compress(work: RunningTurn, due: Due, alike: Likeness) -> Asks[Compressed]:
    """Make what stands for the older turns of an effort; nothing if no background is written.

    A failed extraction falls back to what rules find. By rules alone the background stays as it is.
    """
    old = due.old or Compression(due.effort.id, 0, 0)
    chosen = yield from _chosen(work, due, old)
    threshold = work.settings.similarity_threshold
    pool = merged(old.items, chosen.items, alike, threshold, chosen.gone)
    items = capped(pool.items, item_limit(work), partial(line_tokens, work.count))
    turn, method = work.view.tip.turn, chosen.method
    made = replace(old, turn=turn, through=due.through, items=items, method=method, stale=False)
    told = _report(chosen, [asdict(merge) for merge in pool.merges])
    if work.settings.compression == "protected-core":
        return Compressed(made, told)
    try:
        written = yield from _background(work, due, made, pool.items)
    except AnswerError as error:
        return Compressed(None, {**told, "failed": str(error)})
    return Compressed(replace(made, background=written), {**told, "background": written})


def choose(
    effort: Effort,
    turns: Sequence[Logged],
    old: Sequence[Item],
    sizes: Sizes,
    count: TokenCounter,
) -> Asks[Chosen]:
    """Ask a model what matters in the new turns, and verify its quotes; there may be none.

    Of an answer that quotes only what is not there nothing is believed: its `fallback` says so.
    What was made up revises nothing; of what is said to be revised and done, the new quote decides.
    """
    kept = [item for item in old if not item.superseded_by]
    asked = yield from extract(effort, turns, [item.quote for item in kept], sizes, count)
    longest = int(_LONGEST_SHARE * sizes.quotes)
    numbers = {number for quote in asked.new for number in quote.replaces}
    sources = [item for number, item in enumerate(kept, start=1) if number in numbers]
    verdicts = verify(asked.new, turns, sources, longest=longest, count=count)
    items = tuple(verdict.item for verdict in verdicts if verdict.item)
    if verdicts and not items:
        why = f"none of {len(verdicts)} quotes is in the log"
        return Chosen((), "salience", verdicts, fallback=why)
    revised = [
        (number, verdict.item.key)
        for quote, verdict in zip(asked.new, verdicts, strict=True)
        if verdict.item
        for number in quote.replaces
    ]
    end = done_in(turns[0].turn, turns[-1].turn) if turns else ""
    done = [(number, end) for number in asked.done if number not in dict(revised)]
    named = [*kept, *(verdict.item for verdict in verdicts)]
    pairs = [(named[number - 1], by) for number, by in (*done, *revised)]
    return Chosen(items, "salience", verdicts, tuple((item.key, by) for item, by in pairs if item))


def _chosen(work: RunningTurn, due: Due, old: Compression) -> Asks[Chosen]:
    """Let a model choose; where it may not, or cannot, rules look through the turns."""
    goals, why = _goals(work, due), ""
    aims = _aims(work, due, goals)
    verdicts: tuple[Verdict, ...] = ()
    if work.settings.compression != "protected-core":
        known = {item.key for item in old.items}
        new = tuple(item for item in aims if item.key not in known)
        sizes = Sizes(work.settings.context_budget, item_limit(work))
        quoted = (*old.items, *new)
        try:
            chosen = yield from choose(due.effort, due.leaving, quoted, sizes, work.count)
            if not chosen.fallback:
                return replace(chosen, items=(*new, *chosen.items))
            verdicts, why = chosen.verdicts, chosen.fallback
        except AnswerError as error:
            why = str(error)
    items = (replace(item, quote=_cut(work, item.quote)) for item in core(goals, due.leaving))
    return Chosen((*aims, *items), "protected-core", verdicts, fallback=why)


def _cut(work: RunningTurn, quote: str) -> str:
    return cut_quote(quote, int(_LONGEST_SHARE * item_limit(work)), work.count)


def _goals(work: RunningTurn, due: Due) -> Goals:
    """Return what an effort was to reach: at first, now, and how that changed in the new turns."""
    effort = due.effort

    def events(records: Sequence[Record], kind: str) -> list[tuple[int, Event]]:
        every = [(record.turn, event) for record in records for event in record.events]
        return [(at, e) for at, e in every if e["type"] == kind and e["effort"] == effort.id]

    first = work.view.turns(work.view.log_turns(effort.id)[:1])
    opened = [event["goal"] for _, event in events(first, "opened")]
    updated = events(due.leaving, "goal_updated")
    changes = tuple((turn, event["goal"], event.get("rationale", "")) for turn, event in updated)
    return Goals([*opened, effort.goal][0], effort.goal, changes, effort.constraints)


def _aims(work: RunningTurn, due: Due, goals: Goals) -> tuple[Item, ...]:
    """Return the first goal, once there is another, and the reasons of its changes, as given.

    They stand in calls of the memory's own tools, which are no log. The first goal is quoted where
    the effort changed since the last pass: later it may have left.
    """
    changed = due.old is None or due.effort.turn > due.old.turn
    begun = work.view.log_turns(due.effort.id)[:1] if changed else ()
    aims = [(Kind.GOAL, goals.original, turn) for turn in begun if goals.original != goals.current]
    aims += [(Kind.DECISION, why, turn) for turn, _, why in goals.changes]
    return tuple(
        Item(kind, _cut(work, words), turn, speaker="record") for kind, words, turn in aims if words
    )


def _background(work: RunningTurn, due: Due, made: Compression, items: Sequence[Item]) -> Asks[str]:
    """Ask for a background that goes on from the old one and what the cap took of the `items`."""
    turns: Sequence[Record] = due.leaving
    before = due.old.items if due.old else ()
    # It is made anew if a turn that it was made from was erased.
    if due.old is not None and due.old.stale:
        log, before = work.view.log_turns(due.effort.id), ()
        turns = work.view.turns([turn for turn in log if turn <= due.through])
    dropped = " ".join(
        one_line(item.quote) for item in items if item not in made.items and not item.superseded_by
    )
    dropped = cut_at_sentence(dropped, BACKGROUND, work.count)
    previous = Previous(
        background=" ".join(filter(None, (made.background, dropped))),
        quotes=tuple(item.quote for item in made.current),
        obsolete=obsolete_quotes(before, items),
    )
    sizes = Sizes(work.settings.context_budget)
    return (yield from background(due.effort, turns, previous, sizes, work.count))


def _report(chosen: Chosen, merges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the log says: the quotes of a model, the items that rules found, the merges."""
    quotes = []
    for verdict in chosen.verdicts:
        item = verdict.item
        mended = {"words": item.quote} if item and verdict.verdict == "mended" else {}
        given = {"quote": verdict.quote, "verdict": verdict.verdict}
        quotes.append({**(_row(item) if item else {}), **given, **mended})
    verified = {verdict.item for verdict in chosen.verdicts}
    report = {
        "method": chosen.method,
        "quotes": quotes,
        "by_rules": [_row(item) for item in chosen.items if item not in verified],
        "merges": merges,
    }
    return {**report, "fallback": chosen.fallback} if chosen.fallback else report


def _row(item: Item) -> dict[str, Any]:
    return {"key": item.key, "quote": item.quote, "turn": item.turn, "kind": str(item.kind)}
