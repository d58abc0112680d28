"""The working context: when it is rebuilt, what it then shows, and how it is cut to fit."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..efforts import changes
from ..messages import fingerprint
from ..names import is_qualified, ranges, ranges_between, span
from ..record import Group
from ..running_turn import RunningTurn
from ..tokens import count_message
from .budget import MOST, TURN_SHARE, high_water, ladder, low_water
from .layout import PREVIEW, Parts, has_long_results, parts, summaries_within
from .timeline import Part, Timeline, Why, WorkingContext

LAST_TURNS = 3
"""The newest turns, always shown, so that closing an effort hides nothing that was just said."""

CACHED, _SAVED = 0.1, 0.9
"""The price of a cached token as a fraction of a fresh one, and what the cache saves of it.

Anthropic charges 0.1 (prompt caching, pricing), OpenAI 0.1 to 0.5. At 0.25 rebuilding seldom gains
less than a quarter of what it gains at 0.1, at 0.5 nothing, by simulation.
"""

_KEPT = 300
"""Seconds for which a provider keeps a prefix: Anthropic five minutes, OpenAI five to ten."""

_SMALLEST_TURN = 8
"""Tokens of the smallest turn: no more turns are read than could fit."""

_USEFUL = 128
"""Tokens of the shortest turn that says more than the line which names it as out of view."""

_CHUNK = 50
"""Turns that are read at once; with few tokens no more are needed."""


def assemble(work: RunningTurn, fixed: Sequence[Part]) -> WorkingContext:
    """Build the running turn's context within the budget, of which the `fixed` parts leave a room.

    The same inputs give the same bytes; between two rebuilds it only grows at its end.
    """
    line = work.line or rebuilt(work, "new", None)
    shown = parts(work, line)
    if size(shown) > high_water(work.room, line.size):
        line, shown = _rebuilt(work, "high-water", line)
        line = replace(line, within=len(work.view.running.messages))
    return WorkingContext((*fixed, *shown), line, _left_out(work, line))


def begun(work: RunningTurn, now: str) -> Timeline:
    """Return the timeline that a turn begins with; `now` is its time, ISO 8601 in UTC."""
    line = work.line
    if line is None:
        return rebuilt(work, "new", None)
    if line.key != _settings_key(work):
        return rebuilt(work, "settings", line)
    newest = work.view.turns([work.view.tip.turn])
    # A rebuild is free where the provider has forgotten the prefix.
    waits = (datetime.fromisoformat(now) - datetime.fromisoformat(record.at) for record in newest)
    cold = any(wait.total_seconds() > _KEPT for wait in waits)
    return rebuilt(work, "cold-cache", line) if cold else line


def after_turn(work: RunningTurn, line: Timeline, calls: int) -> Timeline:
    """Return the timeline after a turn of so many model calls, rebuilt if keeping it costs more.

    What a rebuild would take away costs a tenth of its tokens with each call; the rebuild costs the
    cached prefix of what it moves.
    """
    if work.settings.rebuild == "every-turn":
        return rebuilt(work, "every-turn", line)
    present = parts(work, line)
    if size(present) > high_water(work.room, line.size):
        return rebuilt(work, "high-water", line)
    fresh, shown = _rebuilt(work, "break-even", line)
    hold = line.hold + CACHED * calls * max(0, size(present) - fresh.size)
    if hold > 0 and hold >= _SAVED * _tokens_after_shared_prefix(present, shown):
        return fresh
    return replace(line, hold=hold)


def rebuilt(work: RunningTurn, why: Why, before: Timeline | None) -> Timeline:
    """Return what the context shows from now on; turns that had to leave before stay away."""
    return _rebuilt(work, why, before)[0]


def size(shown: Sequence[Part]) -> int:
    """Return the tokens of parts together."""
    return sum(part.tokens for part in shown)


def _rebuilt(work: RunningTurn, why: Why, before: Timeline | None) -> tuple[Timeline, Parts]:
    """Return the timeline rebuilt, and cut if it is too large or was before, and what it shows."""
    line = _wanted(work, why, before)
    shown = parts(work, line)
    line = replace(line, size=size(shown))
    full = why == "high-water" or line.size > high_water(work.room, 0)
    return _cut(work, line) if full else (line, shown)


def _left_out(work: RunningTurn, line: Timeline) -> dict[str, Any]:
    """Say what is missing: efforts without a line, turns, and turns that are shown in part."""
    older = work.view.turns([turn for turn in line.turns if turn <= line.previews])
    compressed = {}
    for name, made_after in line.quotes.items():
        made, turns = work.view.compression(name, made_after), work.view.log_turns(name)
        compressed[name] = span(turns[0], made.through) if made and turns else ""
    left_out = {
        "efforts": line.older,
        "turns": ranges_between(line.turns, line.built),
        "previews": ranges([record.turn for record in older if has_long_results(work, record)]),
        "shortened": ranges(sorted(line.short)),
        "compressed": compressed,
    }
    return {name: value for name, value in left_out.items() if value}


def _tokens_after_shared_prefix(present: Parts, new: Parts) -> int:
    """Return the tokens of a new context after the prefix that it shares with the present one."""
    before = [message for part in present for message in part.messages]
    at = 0
    for number, part in enumerate(new):
        end = at + len(part.messages)
        if before[at:end] != [*part.messages]:
            return size(new[number:])
        at = end
    return 0


def _settings_key(work: RunningTurn) -> str:
    """Return what names the settings that a timeline was made with, and its room."""
    chosen = work.settings
    named = fingerprint([chosen.ambient_window, chosen.anchor, chosen.rebuild], 8)
    return f"{named}:{work.room}"


def _wanted(work: RunningTurn, why: Why, before: Timeline | None) -> Timeline:
    """Return the timeline with all that is to be shown, as far as it could fit.

    That is: uncompressed turns of open efforts, the last ambient turns, the last of all, turns with
    logs. Earlier cuts stay where the settings are the same and there is no more room.
    """
    view, state, key = work.view, work.state, _settings_key(work)
    stays = before or Timeline(0)
    if stays.key.partition(":")[0] != key.partition(":")[0] or work.room > stays.room(work.room):
        stays = Timeline(0)
    built = view.tip.turn
    most = max(1, work.room // _SMALLEST_TURN)
    reopened, own = _of_open_efforts(work, most)
    expanded = {name: entry["expanded_turn"] for name, entry in state.expanded.items()}
    logs = {**expanded, **reopened}
    last = range(max(1, built - LAST_TURNS + 1), built + 1)
    window = work.settings.ambient_window or view.ambient_count()
    ambient = view.ambient_turns(min(window, most)) if window else ()
    named = {*last, *ambient, *own, *logs.values()}
    turns = _that_could_fit(work, sorted(t for t in named if stays.first <= t <= built)[-most:])
    older = _count_concluded(work) if built else 0
    summaries = summaries_within(work, built, older)
    return Timeline(
        built,
        turns=tuple(turns),
        previews=max([stays.previews, *turns[:-LAST_TURNS]]),
        first=stays.first,
        summaries=summaries,
        older=max(0, older - sum(not is_qualified(name) for name in summaries)),
        open=tuple(state.open),
        quotes=dict(state.compressed),
        logs=logs,
        key=key,
        why=why,
    )


def _count_concluded(work: RunningTurn) -> int:
    """Count the efforts that were concluded before the running turn, which says what it closed."""
    changed = [effort.id for effort in changes(work.state.events, 0)]
    names = [*dict.fromkeys([*work.state.open, *changed])]
    own = work.view.efforts_named([name for name in names if not is_qualified(name)], ())
    return work.view.efforts(0).total - sum(effort.status == "open" for effort in own)


def _of_open_efforts(work: RunningTurn, most: int) -> tuple[dict[str, int], set[int]]:
    """Return when efforts were reopened whose log matters, and open efforts' `most` newest turns.

    What was said before one was reopened stands as a log there, until it is compressed.
    """
    reopened: dict[str, int] = {}
    turns: set[int] = set()
    for name, entry in work.state.open.items():
        log, opened = work.view.log_turns(name), entry["opened_turn"]
        made = work.view.compression(name) if name in work.state.compressed else None
        if made is None and log and log[0] < opened:
            reopened[name] = opened
        begin = bisect_left(log, made.through + 1 if made else opened)
        turns.update(log[begin:][-most:])
    return reopened, turns


def _that_could_fit(work: RunningTurn, turns: list[int]) -> list[int]:
    """Return the newest of these turns, as many as could fit, the last ones in any case."""
    free, fitting, unread = work.room, turns[-LAST_TURNS:], turns[:-LAST_TURNS]
    while unread:
        for record in reversed(work.view.turns(unread[-_CHUNK:])):
            # It takes at least its messages with results as previews; a huge one is shortened.
            sizes = ((m["type"], count_message(m, work.count)) for m in work.messages(record))
            least = sum(min(size, PREVIEW) if kind == "tool" else size for kind, size in sizes)
            free -= min(least, work.room // 2)
            if free < 0:
                return fitting
            fitting = [record.turn, *fitting]
        unread = unread[:-_CHUNK]
    return fitting


def _cut(work: RunningTurn, line: Timeline) -> tuple[Timeline, Parts]:
    """Cut what a timeline shows to low water, the running turn counted, which is shortened last.

    Turns that are too large alone are shortened, then turns leave, oldest first, then long results
    of the last three become previews, but not of the newest one. Logs leave, and the last three are
    shortened and leave, only where they do not fit at all. A quarter is kept for what was before.
    """
    past = replace(work, view=replace(work.view, running=Group(0, (), "")))
    turn = line.size - size(parts(past, line))
    reserved = min(turn, int(TURN_SHARE * work.room))

    def tokens(step: Timeline) -> int:
        return reserved + size(parts(past, step))

    def first_below(limit: int, steps: Iterator[Timeline]) -> Timeline:
        cuts = [*steps]
        at = bisect_left(cuts, -limit, key=lambda step: -tokens(step))
        return cuts[min(at, len(cuts) - 1)]

    most = int(MOST * work.room)
    low = min(most, max(low_water(work.room, work.settings.context_budget), reserved + most // 4))
    line = first_below(low, _gentle_cuts(past, line, low - reserved, most - reserved))
    if tokens(line) > most:
        line = first_below(most, _last_cuts(work, line, most - reserved))
    shown = tokens(line) - reserved
    if shown + turn > most:
        limit = max(high_water(work.room, 0) - shown, int(TURN_SHARE * work.room))
        form = (len(work.view.running.messages), min(limit, work.room - shown))
        line = replace(line, short={**line.short, work.view.running.turn: form})
    fitting = parts(work, line)
    return replace(line, size=size(fitting)), fitting


def _gentle_cuts(work: RunningTurn, line: Timeline, free: int, most: int) -> Iterator[Timeline]:
    """Yield deeper and deeper cuts that leave the last three turns.

    Those are shortened only if together they exceed `most`, others if alone they exceed `free`.
    """
    yield line
    sizes = Counter[int | str]()
    for part in parts(work, line):
        sizes[part.turn if part.turn and part.name == "turns" else part.name] += part.tokens
    last = [turn for turn in line.turns if turn > line.built - LAST_TURNS]
    front = sizes["memory"] + sizes["quotes"]
    fit = front + sum(sizes[turn] for turn in last) <= most
    large = [turn for turn in line.turns if sizes[turn] > free and not (fit and turn in last)]
    yield (line := _shorten(work, line, dict.fromkeys(large, max(1, free // 2))))
    for turn in [turn for turn in line.turns if turn not in last]:
        yield (line := _without(line, turn))
    for turn in line.turns[:-1]:
        yield (line := replace(line, previews=max(line.previews, turn)))


def _last_cuts(work: RunningTurn, line: Timeline, free: int) -> Iterator[Timeline]:
    """Yield deeper and deeper cuts of logs and the last three turns; at last none is left.

    The newest, which the user goes on with, is shortened after the others and leaves last.
    """
    yield line
    # A log that the running turn put stands in that turn, which is shortened by itself.
    older = [name for name, at in line.logs.items() if at <= line.built]
    for name in sorted(older, key=line.logs.__getitem__):
        yield (line := replace(line, logs={**line.logs, name: 0}))
    before, newest = line.turns[:-1], line.turns[-1:]
    steps = [(before, each) for each in ladder(free // LAST_TURNS) if each >= _USEFUL]
    steps += [(newest, each) for each in ladder(free) if each >= _USEFUL]
    for turns, each in steps:
        yield (line := _shorten(work, line, dict.fromkeys(turns, each)))
    for turn in before:
        yield (line := _without(line, turn))
    for each in ladder(min(free, _USEFUL - 1)):
        yield (line := _shorten(work, line, dict.fromkeys(newest, each)))
    for turn in newest:
        yield (line := _without(line, turn))


def _shorten(work: RunningTurn, line: Timeline, limits: Mapping[int, int]) -> Timeline:
    """Return the timeline with these turns, whole, shortened to so many tokens."""
    records = work.view.turns([*limits])
    short = {record.turn: (len(record.messages), limits[record.turn]) for record in records}
    return replace(line, short={**line.short, **short})


def _without(line: Timeline, turn: int) -> Timeline:
    """Return the timeline without a turn and those before it."""
    return replace(
        line,
        first=turn + 1,
        turns=tuple(later for later in line.turns if later > turn),
        short={later: form for later, form in line.short.items() if later > turn},
    )
