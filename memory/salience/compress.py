"""Compressing an open effort: when it has outgrown its share, how far, and in which steps.

A pass extracts quotes, verifies them, merges them with older ones and writes a background. What
the goal depends on stays verbatim, the rest becomes a few lines.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from math import log2
from typing import Any

from ...prompts.loader import render
from ..banners import banner_of
from ..compressions import DONE, Compression, Item, Kind, Method, capped
from ..context.budget import high_water, low_water, part_limit, quotes_limit
from ..context.forms import whole_tokens
from ..context.quotes import line_tokens, quote
from ..efforts import Effort, happened
from ..errors import AnswerError
from ..questions import Asks
from ..running_turn import Turn
from ..state_block import rendered_fields
from ..tokens import count_message, count_messages
from ..turn import Event, StoredTurn
from .core import Goals, core
from .extract import Asking, Previous, background, extract, readable_at_once
from .merge import Merged, Similarity, merged
from .verify import Verdict, verify

_SHARES = ((12, 0.6), (14, 0.5), (16, 0.3))
"""Binary logarithms of the budget, and the share of the room that the active effort may then have.

By simulation small passes at small budgets cost more than they save.
"""

LOW = 0.35
"""The fraction of its share that an effort is compressed to; found by simulation."""

_LEAST = 1.0
"""The fraction of the share that must leave, so that a pass is worth its calls.

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

SECONDS = 20.0
"""Seconds that a pass may take: the user waits for it."""

FAILED = "not_compressed"
"""The event of a pass that failed."""

_LONGEST_WAIT = 8
"""Turns after which a pass that failed is tried again, at most: 1 at first, then 2 and 4."""

RECENT_TURNS = 3
"""Newest turns of an effort, or of all if it had to leave, that stay: they are talked about."""

_BACKGROUND_SHARE = 0.25  # the share of its block that a background has in any case
_STEPS = 32  # sizes of the quotes that are tried, so that they fill their block
_READ_SHARES = 3  # shares of an effort that one pass reads: more than it has, unless passes fail
_SAMPLE = 3  # newest turns whose mean size is the guess for the next turn
_CHUNK = 50  # turns that are read at once; a pass seldom reads more


@dataclass(frozen=True, slots=True)
class Due:
    """An effort to be compressed: its old compression, and the turns that leave the context now.

    `live` are its tokens in the context, `kept` those of the turns that stay. Where passes have
    failed for long, both count only the oldest turns.
    """

    effort: Effort
    old: Compression | None
    leaving: tuple[StoredTurn, ...]
    live: int
    kept: int

    @property
    def through(self) -> int:
        """The newest turn that the new compression stands for."""
        return self.leaving[-1].number if self.leaving else self.old.through if self.old else 0


def outgrown(work: Turn) -> Due | None:
    """Return an open effort to compress now, preferably the active one; None if there is none."""
    if work.run.settings.compression == "off" or not work.efforts.open:
        return None
    active, tip = work.efforts.active, work.view.tip.turn
    sample = work.view.past.turns(range(max(1, tip - _SAMPLE + 1), tip + 1))
    next_turn = sum(whole_tokens(work, sample)) // max(1, len(sample))
    names = dict.fromkeys([*([active] if active else []), *reversed([*work.efforts.open])])
    for effort in work.known([*names]):
        due = _due(work, effort, next_turn)
        turn, turns = last_failure(work, effort.id) if due else (0, 0)
        if due and work.view.running.number >= turn + turns:
            return due
    return None


def last_failure(work: Turn, effort: str) -> tuple[int, int]:
    """Return the turn in which the last pass failed, and in how many turns the next one is due.

    Both are 0 if the last pass did not fail.
    """
    tip = work.view.tip.turn
    for turn in reversed(work.view.past.turns(range(max(1, tip - _LONGEST_WAIT + 1), tip + 1))):
        for event in reversed(turn.events):
            if event["type"] in {"compressed", FAILED} and event["effort"] == effort:
                return turn.number, event.get("wait", 0)
    return 0, 0


def failed(work: Turn, effort: str, reason: str) -> Turn:
    """Return the turn after a pass that failed; the first of several in a row is told."""
    wait = min(_LONGEST_WAIT, 2 * last_failure(work, effort)[1] or 1)
    event = {"type": FAILED, "effort": effort, "wait": wait, "reason": reason}
    line = banner_of(FAILED, effort=effort) if wait == 1 else ""
    return work.put(happened(work.efforts, event, line))


def quoted_limit(work: Turn) -> int:
    """Return how many tokens the block of one compressed effort may have."""
    anchor = rendered_fields(work.efforts.anchor)
    note = work.fences.note(render("anchor_note", how="", quote=anchor))
    block = min(count_message(note, work.run.count), part_limit("anchor", work.room))
    return quotes_limit(work.room, block if anchor else 0)


def share_of(work: Turn) -> float:
    """Return how many tokens the active effort may have; any other one may have half of that."""
    size = log2(work.run.settings.context_budget)
    (small, share), *more = _SHARES
    for large, smaller in more:
        if size < large:
            return (
                share - (share - smaller) * max(0.0, size - small) / (large - small)
            ) * work.room
        small, share = large, smaller
    return share * work.room


def leaving(sizes: Sequence[int], recent: int, *, low: float, least: float) -> int:
    """Return how many of the oldest turns leave, by their sizes, so that `low` tokens stay.

    The newest `recent` turns always stay. None leaves if all others have less than `least` tokens,
    or than half of what the newest have: a pass must be worth its calls.

    >>> leaving([300] * 5, recent=2, low=700, least=300)
    3
    >>> leaving([100, 100, 900], recent=1, low=700, least=300)
    0
    """
    most = max(0, len(sizes) - recent)
    if sum(sizes[:most]) < max(least, sum(sizes[most:]) / 2):
        return 0
    return next((number for number in range(most) if sum(sizes[number:]) <= low), most)


def quote_tokens(work: Turn, compression: Compression) -> int:
    """Return the tokens of the note that stands for compressed turns."""
    return count_messages(quote(compression, 1, work.fences).notes, work.run.count)


def _due(work: Turn, effort: Effort, next_turn: int) -> Due | None:
    """Return what to compress of an effort; `next_turn` is the guessed size of the next turn.

    It is due if it has outgrown its share, if turns of it had to leave the context already
    (`hidden`), or if the next turn would make some leave (`pressing`).
    """
    log, old = work.view.log_turns(effort.id), work.view.compression(effort.id)
    note_tokens = quote_tokens(work, old) if old else 0
    active = effort.id == work.efforts.active
    share = share_of(work) if active else share_of(work) / 2
    turns = log[bisect_right(log, old.through) if old else 0 :]
    stored_turns, sizes = _oldest(work, effort.id, turns, _READ_SHARES * share)
    live, number, unread = note_tokens + sum(sizes), 0, len(turns) - len(stored_turns)
    hidden = pressing = False
    if work.plan is not None:
        is_quoted = bool(work.plan.logs.get(effort.id))
        hidden = bool(turns) and not (is_quoted or work.plan.shows(turns[0]))
        cut = work.used + next_turn > high_water(work.room, work.plan.size)
        cut_to = low_water(work.room, work.run.settings.context_budget)
        pressing = not hidden and cut and live + next_turn > cut_to
    if live > share or hidden or pressing:
        urgent = unread or hidden or pressing
        low = 0 if urgent else LOW * share - max(note_tokens, quoted_limit(work))
        least, recent = _LEAST_PRESSING if pressing else _LEAST, RECENT_TURNS
        if hidden:
            least = _LEAST_HIDDEN if active else _LEAST_PARKED
        if hidden and not active:
            recent = sum(turn > work.view.tip.turn - RECENT_TURNS for turn in turns)
        number = leaving(sizes, max(0, recent - unread), low=low, least=least * share)
        # No more than a pass can read, but one turn in any case.
        limit = readable_at_once(work.run.settings.context_budget)
        readable = sum(total <= limit for total in accumulate(sizes[:number]))
        number = max(readable, min(1, number))
    if not number and not (old and old.stale):
        return None
    return Due(effort, old, stored_turns[:number], live, sum(sizes[number:]))


def _oldest(
    work: Turn, effort: str, turns: Sequence[int], limit: float
) -> tuple[tuple[StoredTurn, ...], list[int]]:
    """Return what the oldest of these turns have of an effort, until it exceeds `limit` tokens."""
    stored_turns: tuple[StoredTurn, ...] = ()
    sizes: list[int] = []
    for first in range(0, len(turns), _CHUNK):
        if sum(sizes) > limit:
            break
        chunk = work.view.turns_of(effort, turns[first : first + _CHUNK])
        stored_turns, sizes = (*stored_turns, *chunk), [*sizes, *whole_tokens(work, chunk)]
    return stored_turns, sizes


@dataclass(frozen=True, slots=True)
class Compressed:
    """The compression that a pass made, None if it made none; `told` goes to the extraction log."""

    made: Compression | None
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The items chosen from new turns, by which method, and the verdict on each quote of a model.

    `revisions` are the keys of older items that leave and of their heirs, `confirmed` those of
    older items that the model quoted again. `fallback` is why rules chose where a model should
    have, else empty. `background` came with the quotes, "" if it has to be asked for.
    """

    items: tuple[Item, ...]
    method: Method
    verdicts: tuple[Verdict, ...] = ()
    revisions: tuple[tuple[str, str], ...] = ()
    confirmed: frozenset[str] = frozenset()
    fallback: str = ""
    background: str = ""

    def merged_into(
        self, old: Compression, turn: int, similarity: Similarity, threshold: float
    ) -> Merged:
        """Merge the items into those of a compression; old ones may be confirmed after `turn`."""
        keys = self.confirmed
        before = [replace(i, confirmed=turn) if i.key in keys else i for i in old.items]
        return merged(before, self.items, similarity, threshold, self.revisions)


def compress(
    work: Turn, due: Due, similarity: Similarity, *, at_once: bool = False
) -> Asks[Compressed]:
    """Compress the turns that leave; `at_once` asks for quotes and background in one call.

    If the extraction fails, rules choose instead; if the background fails, the one before stays.
    Nothing is made if there is neither a quote nor a background. If the settings ask for rules
    only, no model is asked, and the background stays as it is.
    """
    old, settings = due.old or Compression(due.effort.id, 0, 0), work.run.settings
    # A stale background is written anew, from all turns.
    at_once = at_once and not old.stale
    asking = Asking(settings.context_budget, work.fences, quoted_limit(work), at_once)
    goals = _goals(work, due, asking)
    if settings.compression == "protected-core":
        chosen = by_rules(goals, due.leaving, asking)
    else:
        chosen = yield from choose(goals, due.leaving, old, asking)
    turn, threshold = work.view.tip.turn, settings.similarity_threshold
    pool = chosen.merged_into(old, turn, similarity, threshold)
    new = replace(old, turn=turn, through=due.through, items=pool.items, stale=False)
    new = replace(new, method=chosen.method)
    report = _report(chosen, [asdict(merge) for merge in pool.merges])
    if settings.compression != "protected-core":
        turns, quotes = due.leaving, tuple(item.quote for item in new.current)
        if old.stale:
            log = work.view.log_turns(old.effort)
            turns = work.view.turns_of(old.effort, [turn for turn in log if turn <= new.through])
        previous = Previous(old.background, quotes, pool.obsolete, chosen.background)
        try:
            text = yield from background(due.effort, turns, previous, asking)
            new, report = replace(new, background=text), {**report, "background": text}
        except (AnswerError, TimeoutError) as error:
            report["failed"] = str(error)
            # A stale background is due again, in the next turn.
            new = replace(new, stale=old.stale)
    new = _in_room(work, new, due.effort.goal)
    nothing = "failed" in report and not (due.leaving and (new.items or new.background))
    return Compressed(None if nothing else new, report)


def _in_room(work: Turn, made: Compression, goal: str) -> Compression:
    """Return a compression whose items have room in its block, so that the block cuts none."""

    def within(limit: int, tokens: Callable[[str], int]) -> Compression:
        items = capped(made.items, limit, tokens, goal)
        dropped = (item.turn for item in made.current if item not in items)
        return replace(made, items=items, left_out=(*made.left_out, *dropped))

    count, limit = work.run.count, quoted_limit(work)
    room = limit - quote_tokens(work, replace(within(0, count), background=""))
    room -= min(count(made.background), int(_BACKGROUND_SHARE * room))
    least = within(room, partial(line_tokens, count))
    # A line may take less than it may at most.
    larger = (within(size, count) for size in range(limit, 0, -max(1, limit // _STEPS)))
    fitting = (one for one in larger if quote_tokens(work, one) <= limit)
    return max(least, next(fitting, least), key=lambda one: len(one.current))


def choose(
    goals: Goals, turns: Sequence[StoredTurn], old: Compression, asking: Asking
) -> Asks[Chosen]:
    """Ask a model what matters in the new turns, and verify its quotes; there may be none.

    Rules choose if the model fails, or if all of its quotes are made up; `fallback` says so. A
    quote of what is kept already is confirmed, and not made up. A quote that is made up revises
    nothing; an item called both revised and done counts as revised.
    """
    effort, keys = goals.effort, {item.key for item in old.items}
    kept = (*old.current, *(item for item in goals.recorded if item.key not in keys))
    so_far = Previous(old.background, tuple(item.quote for item in kept))
    try:
        answer = yield from extract(effort, turns, so_far, asking)
    except (AnswerError, TimeoutError) as error:
        return replace(by_rules(goals, turns, asking), fallback=str(error))
    gone = (item.quote for item in old.items if item.superseded_by)
    known = (effort.goal, *effort.constraints, *gone)
    verdicts = verify(answer.new, turns, kept, known, asking.cut)
    if verdicts and all(verdict.verdict == "fabricated" for verdict in verdicts):
        reason = f"none of {len(verdicts)} quotes is in the log"
        return replace(by_rules(goals, turns, asking), verdicts=verdicts, fallback=reason)
    items = tuple(verdict.item for verdict in verdicts if verdict.item)
    revised = [
        (number, verdict.item.key)
        for quote, verdict in zip(answer.new, verdicts, strict=True)
        if verdict.item
        for number in quote.replaces
    ]
    done = [(number, DONE) for number in answer.done if number not in dict(revised)]
    numbered = [*kept, *(verdict.item for verdict in verdicts)]
    pairs = [(numbered[number - 1], heir) for number, heir in (*revised, *done)]
    return Chosen(
        (*goals.recorded, *items),
        "salience",
        verdicts,
        revisions=tuple((item.key, heir) for item, heir in pairs if item),
        confirmed=frozenset(item.key for item in items if item in kept),
        background=answer.background,
    )


def by_rules(goals: Goals, turns: Sequence[StoredTurn], asking: Asking) -> Chosen:
    """Return what rules choose, each quote cut."""
    items = (replace(item, quote=asking.cut(item.quote)) for item in core(goals, turns))
    return Chosen((*goals.recorded, *items), "protected-core")


def _goals(work: Turn, due: Due, asking: Asking) -> Goals:
    """Return the first goal of an effort, and its changes in the turns that leave.

    The log has neither: they stand in calls of the memory's own tools. The first goal is quoted
    again after each change of the effort, as the cap may have taken it.
    """
    effort, begin = due.effort, work.view.log_turns(due.effort.id)[:1]

    def events(turns: Sequence[StoredTurn], kind: str) -> list[tuple[int, Event]]:
        pairs = [(stored.number, event) for stored in turns for event in stored.events]
        return [(turn, e) for turn, e in pairs if e["type"] == kind and e["effort"] == effort.id]

    opened = [event["goal"] for _, event in events(work.view.past.turns(begin), "opened")]
    original = [*opened, effort.goal][0]
    updated = events(due.leaving, "goal_updated")
    changes = tuple((turn, event["goal"], event.get("rationale", "")) for turn, event in updated)
    changed = due.old is None or effort.turn > due.old.turn
    given = [(Kind.GOAL, original, t) for t in begin if changed and original != effort.goal]
    given += [(Kind.DECISION, reason, turn) for turn, _, reason in changes if reason]
    quotes = ((kind, asking.cut(text), turn) for kind, text, turn in given)
    recorded = tuple(Item(*quote, speaker="record") for quote in quotes)
    return Goals(effort, original, changes, recorded)


def _report(chosen: Chosen, merges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entry of the extraction log: a model's quotes, the items by rules, the merges."""
    quotes, verified = [], {verdict.item for verdict in chosen.verdicts}
    for one in chosen.verdicts:
        mended = {"words": one.item.quote} if one.item and one.verdict == "mended" else {}
        row = _row(one.item) if one.item else {}
        quotes.append({**row, "quote": one.quote, "verdict": one.verdict, **mended})
    report = {
        "method": chosen.method,
        "quotes": quotes,
        "by_rules": [_row(item) for item in chosen.items if item not in verified],
        "merges": merges,
    }
    return {**report, "fallback": chosen.fallback} if chosen.fallback else report


def _row(item: Item) -> dict[str, Any]:
    return {"key": item.key, "quote": item.quote, "turn": item.turn, "kind": str(item.kind)}
