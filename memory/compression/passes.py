"""Compressing an open effort: what its goal depends on stays verbatim, the rest as a few lines.

The steps are extract, verify, merge with what was quoted before, summarise, rebuild.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ..context.excerpts import line_tokens
from ..efforts import Effort, one_line
from ..errors import AnswerError
from ..questions import Asks
from ..record import Record
from ..running_turn import RunningTurn
from ..salience import Compression, Item, Kind, Method, capped, done_in
from ..tokens import TokenCounter, cut_at_sentence
from ..transcript import Logged
from .core import Goals, core
from .due import Due, item_limit
from .extract import BACKGROUND, Known, Sizes, background, extract
from .merge import Likeness, merged, over
from .quotes import Verdict, cut_quote, verify

_LONGEST = 0.25
"""What one quote may have of the tokens of all, a fraction; a longer one is cut."""


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
    """Make what stands for the older turns of an effort.

    A failed extraction falls back to what rules find; without a background nothing is made. By
    rules alone, no background is written: what there is stays.
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
    asked = yield from extract(effort, turns, old, sizes, count)
    longest = int(_LONGEST * sizes.quotes)
    numbers = {number for quote in asked.new for number in quote.replaces}
    sources = [item for number, item in enumerate(asked.kept, start=1) if number in numbers]
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
    named = [*asked.kept, *(verdict.item for verdict in verdicts)]
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
    return cut_quote(quote, int(_LONGEST * item_limit(work)), work.count)


def _goals(work: RunningTurn, due: Due) -> Goals:
    """Return what an effort was to reach: at first, now, and how that changed in the new turns."""
    effort = due.effort

    def events(records: Sequence[Record], kind: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for record in records:
            for event in record.events:
                if event["type"] == kind and event["effort"] == effort.id:
                    yield record.turn, event

    first = work.view.turns(work.view.log_turns(effort.id)[:1])
    opened = [event["goal"] for _, event in events(first, "opened")]
    updated = events(due.leaving, "goal_updated")
    changes = tuple((turn, event["goal"], event.get("rationale", "")) for turn, event in updated)
    return Goals([*opened, effort.goal][0], effort.goal, changes, effort.constraints)


def _aims(work: RunningTurn, due: Due, goals: Goals) -> tuple[Item, ...]:
    """Return the first goal, once there is another, and the reasons of its changes, as given.

    No log is searched for them, since the model wrote them in calls of the memory's own tools. The
    first goal is quoted where the effort changed since the last pass: later it may have left.
    """
    changed = due.old is None or due.effort.turn > due.old.turn
    begun = work.view.log_turns(due.effort.id)[:1] if changed else ()
    aims = [(Kind.GOAL, goals.original, turn) for turn in begun if goals.original != goals.current]
    aims += [(Kind.DECISION, why, turn) for turn, _, why in goals.changes]
    return tuple(
        Item(kind, _cut(work, words), turn, speaker="record") for kind, words, turn in aims if words
    )


def _background(work: RunningTurn, due: Due, made: Compression, items: Sequence[Item]) -> Asks[str]:
    """Ask for the background: it goes on from the old one, or is made anew if that was erased.

    What the cap took of the `items` stands with the old one.
    """
    turns: Sequence[Record] = due.leaving
    before = due.old.items if due.old else ()
    if due.old is not None and due.old.stale:
        log, before = work.view.log_turns(due.effort.id), ()
        turns = work.view.turns([turn for turn in log if turn <= due.through])
    dropped = " ".join(
        one_line(item.quote) for item in items if item not in made.items and not item.superseded_by
    )
    dropped = cut_at_sentence(dropped, BACKGROUND, work.count)
    known = Known(
        background=" ".join(filter(None, (made.background, dropped))),
        quoted=tuple(item.quote for item in made.current),
        gone=over(before, items),
    )
    sizes = Sizes(work.settings.context_budget)
    return (yield from background(due.effort, turns, known, sizes, work.count))


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
    """Return an item with the key by which merges name it."""
    return {"key": item.key, "quote": item.quote, "turn": item.turn, "kind": str(item.kind)}
