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
from ..transcript import transcript
from .budget import MOST, TURN_SHARE, high_water, ladder, log_limit, low_water
from .layout import PREVIEW, Parts, fitting_summaries, has_long_results, lay_out, loaded_in
from .timeline import Part, Timeline, Why, WorkingContext

LAST_TURNS = 3
"""The newest turns, always shown, so that closing an effort hides nothing that was just said."""

CACHED, _SAVED = 0.1, 0.9
"""The price of a cached token as a fraction of a fresh one, and what the cache saves of it.

Anthropic charges 0.1 (prompt caching, pricing), OpenAI 0.1 to 0.5. At 0.25 rebuilding seldom gains
less than a quarter of what it gains at 0.1, at 0.5 nothing, by simulation.
"""

_CACHE_SECONDS = 300  # seconds that a provider keeps a prefix: Anthropic 5 minutes, OpenAI 5 to 10
_SMALLEST_TURN = 8  # tokens of the smallest turn: no more turns are read than could fit
_SHORTEST_USEFUL = 128  # tokens of the shortest turn that says more than the note of what is hidden
_CHUNK = 50  # turns that are read at once; a small room needs no more


def assemble(work: RunningTurn, fixed: Sequence[Part]) -> WorkingContext:
    """Build the context of the running turn within the budget; the `fixed` parts stand first.

    The same inputs give the same bytes; between two rebuilds the context only grows at its end.
    """
    line = work.line or rebuild(work, "new", None)
    parts = lay_out(work, line)
    if size(parts) > high_water(work.room, line.size):
        line, parts = _rebuild(work, "high-water", line)
        line = replace(line, within=len(work.view.running.messages))
    return WorkingContext((*fixed, *parts), line, _omissions(work, line))


def before_turn(work: RunningTurn, now: str) -> Timeline:
    """Return the timeline that a turn begins with; `now` is its time, ISO 8601 in UTC."""
    line = work.line
    if line is None:
        return rebuild(work, "new", None)
    if line.key != _settings_key(work):
        return rebuild(work, "settings", line)
    newest = work.view.turns([work.view.tip.turn])
    # A rebuild is free where the provider has forgotten the prefix.
    times = (record.at for record in newest if record.at)
    pauses = (datetime.fromisoformat(now) - datetime.fromisoformat(at) for at in times)
    cold = any(pause.total_seconds() > _CACHE_SECONDS for pause in pauses)
    return rebuild(work, "cold-cache", line) if cold else line


def after_turn(work: RunningTurn, line: Timeline, calls: int) -> Timeline:
    """Return the timeline after a turn of so many model calls, rebuilt if keeping it costs more.

    With each call, what a rebuild would take away costs a tenth of its tokens. The rebuild itself
    costs the cached prefix of all that it moves.
    """
    if work.settings.rebuild == "every-turn":
        return rebuild(work, "every-turn", line)
    present = lay_out(work, line)
    if size(present) > high_water(work.room, line.size):
        return rebuild(work, "high-water", line)
    new_line, new = _rebuild(work, "break-even", line)
    hold = line.hold + CACHED * calls * max(0, size(present) - new_line.size)
    if hold > 0 and hold >= _SAVED * _tokens_after_shared_prefix(present, new):
        return new_line
    return replace(line, hold=hold)


def rebuild(work: RunningTurn, reason: Why, previous: Timeline | None) -> Timeline:
    """Return what the context shows from now on; turns that had to leave before stay away."""
    return _rebuild(work, reason, previous)[0]


def size(parts: Sequence[Part]) -> int:
    """Return the tokens of all these parts."""
    return sum(part.tokens for part in parts)


def _rebuild(work: RunningTurn, reason: Why, previous: Timeline | None) -> tuple[Timeline, Parts]:
    """Return the new timeline, cut if the context is or was too large, and its parts."""
    line = _uncut(work, reason, previous)
    parts = lay_out(work, line)
    line = replace(line, size=size(parts))
    full = reason == "high-water" or line.size > high_water(work.room, 0)
    return _cut(work, line) if full else (line, parts)


def _omissions(work: RunningTurn, line: Timeline) -> dict[str, Any]:
    """Return what is left out: efforts without a line, turns, and turns shown only in part."""
    older = work.view.turns([turn for turn in line.turns if turn <= line.previews])
    compressed = {}
    for name, turn in line.quotes.items():
        compression, log = work.view.compression(name, turn), work.view.log_turns(name)
        compressed[name] = span(log[0], compression.through) if compression and log else ""
    omissions = {
        "efforts": line.older,
        "turns": ranges_between(line.turns, line.built),
        "previews": ranges([record.turn for record in older if has_long_results(work, record)]),
        "shortened": ranges(sorted(line.short)),
        "compressed": compressed,
    }
    return {name: value for name, value in omissions.items() if value}


def _tokens_after_shared_prefix(present: Parts, new: Parts) -> int:
    """Return the tokens of a new context after the prefix that it shares with the present one."""
    present_messages = [message for part in present for message in part.messages]
    begin = 0
    for number, part in enumerate(new):
        end = begin + len(part.messages)
        if present_messages[begin:end] != [*part.messages]:
            return size(new[number:])
        begin = end
    return 0


def _settings_key(work: RunningTurn) -> str:
    """Return the fingerprint of the settings that shape a timeline, and the room."""
    settings = work.settings
    shaping = fingerprint([settings.ambient_window, settings.anchor, settings.rebuild], 8)
    return f"{shaping}:{work.room}"


def _uncut(work: RunningTurn, reason: Why, previous: Timeline | None) -> Timeline:
    """Return a timeline with all turns that should be shown, as many as could fit.

    These are uncompressed turns of open efforts, the last ambient turns, the last of all, and turns
    with logs. Earlier cuts stay, unless settings changed or there is more room.
    """
    view, state, key = work.view, work.state, _settings_key(work)
    cut = previous or Timeline(0)
    if cut.key.partition(":")[0] != key.partition(":")[0] or work.room > cut.room(work.room):
        cut = Timeline(0)
    built = view.tip.turn
    limit = max(1, work.room // _SMALLEST_TURN)
    reopened, own_turns = _open_effort_turns(work, limit)
    expanded = {name: entry["expanded_turn"] for name, entry in state.expanded.items()}
    logs = {**expanded, **reopened}
    last = range(max(1, built - LAST_TURNS + 1), built + 1)
    window = work.settings.ambient_window or view.ambient_count()
    ambient = view.ambient_turns(min(window, limit)) if window else ()
    candidates = {*last, *ambient, *own_turns, *logs.values()}
    turns = _newest_fitting(
        work, sorted(turn for turn in candidates if cut.first <= turn <= built)[-limit:]
    )
    concluded = _count_concluded(work) if built else 0
    summaries = fitting_summaries(work, built, concluded)
    return Timeline(
        built,
        turns=tuple(turns),
        previews=max([cut.previews, *turns[:-LAST_TURNS]]),
        first=cut.first,
        summaries=summaries,
        older=max(0, concluded - sum(not is_qualified(name) for name in summaries)),
        open=tuple(state.open),
        active=state.active or "",
        quotes=dict(state.compressed),
        logs=logs,
        by_hand=_logs_by_hand(work, logs),
        key=key,
        why=reason,
    )


def _count_concluded(work: RunningTurn) -> int:
    """Count those concluded before the running turn, whose messages show what changed in it."""
    changed = [effort.id for effort in changes(work.state.events, 0)]
    names = [*dict.fromkeys([*work.state.open, *changed])]
    own = work.view.efforts_named([name for name in names if not is_qualified(name)], ())
    running = sum(effort.status == "open" or effort.id in work.state.open for effort in own)
    return work.view.efforts(0).total - running


def _open_effort_turns(work: RunningTurn, limit: int) -> tuple[dict[str, int], set[int]]:
    """Return when efforts with an older log were reopened, and the turns to show of open efforts.

    An effort has up to `limit` turns: the newest uncompressed ones since it was (re)opened. Its
    older turns are shown as a log where it was reopened, until they are compressed.
    """
    reopened: dict[str, int] = {}
    turns: set[int] = set()
    for name, entry in work.state.open.items():
        log, opened = work.view.log_turns(name), entry["opened_turn"]
        compression = work.view.compression(name) if name in work.state.compressed else None
        if compression is None and log and log[0] < opened:
            reopened[name] = opened
        begin = bisect_left(log, compression.through + 1 if compression else opened)
        turns.update(log[begin:][-limit:])
    return reopened, turns


def _logs_by_hand(work: RunningTurn, logs: Mapping[str, int]) -> dict[str, str]:
    """Return for logs that no result in their turn brings into the context their turns."""
    by_hand: dict[str, str] = {}
    for name, turn in logs.items():
        if turn > work.view.tip.turn:  # the running turn's
            continue
        loaded = {n for record in work.view.turns([turn]) for n in loaded_in(record, name)}
        if name in work.state.expanded:
            turns = {*work.state.expanded[name]["turns"]} - loaded
        else:
            turns = set() if loaded else _newest_of_log(work, name, turn)
        if turns:
            by_hand[name] = ranges(sorted(turns))
    return by_hand


def _newest_of_log(work: RunningTurn, effort: str, reopened: int) -> set[int]:
    """Return the newest turns before an effort was reopened that a log may show, one at least."""
    free, chosen = log_limit(work.room), set[int]()
    log = [turn for turn in work.view.log_turns(effort) if turn < reopened]
    for record in reversed(work.view.turns(log)):
        free -= work.count(transcript([record]))
        if chosen and free < 0:
            break
        chosen.add(record.turn)
    return chosen


def _newest_fitting(work: RunningTurn, turns: list[int]) -> list[int]:
    """Return the newest of these turns, as many as could fit, the last ones in any case."""
    free, fitting, unread = work.room, turns[-LAST_TURNS:], turns[:-LAST_TURNS]
    while unread:
        for record in reversed(work.view.turns(unread[-_CHUNK:])):
            # It takes at least its messages with results as previews; a huge one is shortened.
            sizes = ((m["type"], count_message(m, work.count)) for m in work.messages(record))
            least = sum(min(n, PREVIEW) if kind == "tool" else n for kind, n in sizes)
            free -= min(least, work.room // 2)
            if free < 0:
                return fitting
            fitting = [record.turn, *fitting]
        unread = unread[:-_CHUNK]
    return fitting


def _cut(work: RunningTurn, line: Timeline) -> tuple[Timeline, Parts]:
    """Cut a timeline so that its context, with the running turn, falls to low water.

    Turns too large alone are shortened, then turns leave, oldest first, then long results of the
    last three but the newest become previews. Only where that does not fit at all, logs leave, and
    the last three are shortened and leave. The running turn is shortened last, and never to less
    than its share. At least a quarter of the room is kept for what was before. Returns the new
    timeline and its parts.
    """
    past = replace(work, view=replace(work.view, running=Group(0, (), "")))
    running = line.size - size(lay_out(past, line))
    reserved = min(running, int(TURN_SHARE * work.room))

    def tokens(step: Timeline) -> int:
        return reserved + size(lay_out(past, step))

    def first_below(limit: int, steps: Iterator[Timeline]) -> Timeline:
        cuts = [*steps]
        place = bisect_left(cuts, -limit, key=lambda step: -tokens(step))
        return cuts[min(place, len(cuts) - 1)]

    full = int(MOST * work.room)
    low = min(full, max(low_water(work.room, work.settings.context_budget), reserved + full // 4))
    line = first_below(low, _gentle_cuts(past, line, low - reserved, full - reserved))
    if tokens(line) > full:
        line = first_below(full, _last_cuts(work, line, full - reserved))
    before = tokens(line) - reserved
    if before + running > full:
        limit = max(high_water(work.room, 0) - before, int(TURN_SHARE * work.room))
        form = (len(work.view.running.messages), min(limit, work.room - before))
        line = replace(line, short={**line.short, work.view.running.turn: form})
    parts = lay_out(work, line)
    return replace(line, size=size(parts)), parts


def _gentle_cuts(work: RunningTurn, line: Timeline, free: int, full: int) -> Iterator[Timeline]:
    """Yield deeper and deeper cuts that keep the last three turns.

    Those are shortened only if together they exceed `full` tokens, others if alone they exceed
    `free`.
    """
    yield line
    sizes = Counter[int | str]()
    for part in lay_out(work, line):
        sizes[part.turn if part.turn and part.name == "turns" else part.name] += part.tokens
    last = [turn for turn in line.turns if turn > line.built - LAST_TURNS]
    front = sizes["memory"] + sizes["quotes"]
    fit = front + sum(sizes[turn] for turn in last) <= full
    large = [turn for turn in line.turns if sizes[turn] > free and not (fit and turn in last)]
    yield (line := _shorten(work, line, large, max(1, free // 2)))
    for turn in [turn for turn in line.turns if turn not in last]:
        yield (line := _drop_through(line, turn))
    for turn in line.turns[:-1]:
        yield (line := replace(line, previews=max(line.previews, turn)))


def _last_cuts(work: RunningTurn, line: Timeline, free: int) -> Iterator[Timeline]:
    """Yield deeper and deeper cuts of logs and the last three turns, until none is left.

    The newest turn, which the user goes on with, is shortened after the others and leaves last.
    """
    yield line
    # A log in the running turn is left to that turn, which is shortened by itself.
    past_logs = [name for name, turn in line.logs.items() if turn <= line.built]
    for name in sorted(past_logs, key=line.logs.__getitem__):
        yield (line := replace(line, logs={**line.logs, name: 0}))
    older, newest = line.turns[:-1], line.turns[-1:]
    steps = [(older, limit) for limit in ladder(free // LAST_TURNS) if limit >= _SHORTEST_USEFUL]
    steps += [(newest, limit) for limit in ladder(free) if limit >= _SHORTEST_USEFUL]
    for turns, limit in steps:
        yield (line := _shorten(work, line, turns, limit))
    for turn in older:
        yield (line := _drop_through(line, turn))
    for limit in ladder(min(free, _SHORTEST_USEFUL - 1)):
        yield (line := _shorten(work, line, newest, limit))
    for turn in newest:
        yield (line := _drop_through(line, turn))


def _shorten(work: RunningTurn, line: Timeline, turns: Sequence[int], limit: int) -> Timeline:
    short = {record.turn: (len(record.messages), limit) for record in work.view.turns(turns)}
    return replace(line, short={**line.short, **short})


def _drop_through(line: Timeline, turn: int) -> Timeline:
    return replace(
        line,
        first=turn + 1,
        turns=tuple(later for later in line.turns if later > turn),
        short={later: form for later, form in line.short.items() if later > turn},
    )
