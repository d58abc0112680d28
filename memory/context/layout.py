"""The layout of the context: which parts it has, in which order, and how each turn is shown."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..anchor import limited, shown
from ..anchor import rendered as rendered_fields
from ..clock import day_of
from ..efforts import Effort, one_line
from ..errors import ToolError
from ..fences import marked
from ..messages import Message, compact, with_content
from ..messages import text as text_of
from ..names import is_qualified, numbers, ranges_between, turns_named
from ..record import Record
from ..running_turn import RunningTurn
from ..tokens import count_message, count_messages, cut_marked
from ..transcript import DECIDING, Logged, result_of
from ..valid_history import valid_history
from .budget import SHARES, log_limit
from .hints import Hint, hint_lines
from .shortening import (
    Limits,
    log_quote,
    previewed,
    quote,
    shorten_turn,
    with_marked_pointers,
)
from .timeline import Part, PartName, Timeline

_LIST_LENGTH = 60  # characters of the list of turns that are out of view

PREVIEW = 150
"""Tokens of a result in an older turn, or to be summed up; a longer one is shown as its preview."""

_ADDING_EVENTS = frozenset({"hinted", "opened"})
"""The events that may add notes to a turn until the next rebuild."""

_LOG_TOOLS = {"expand_effort": "expanded", "reopen_effort": "reopened"}
"""The tools that put a log into the context, with the status of their results."""

_BRIEF = {
    **dict.fromkeys(DECIDING, ("status", "effort_id", "prior_summary")),
    "expand_effort": ("status", "effort_id", "turns"),
}
"""By tool, the fields that its results keep after a rebuild.

Markers repeat some of the others, and which turns of a log were not shown is no longer true.
"""

_Call: TypeAlias = tuple[str, int]
"""A call: its id, and how many later calls of its turn have the same id, as models repeat ids."""

_Piece: TypeAlias = tuple[PartName, Message]  # a message, and the part of the context that it is in
_Insertions: TypeAlias = dict[_Call, _Piece]  # the notes that stand after the result of a call

Parts: TypeAlias = tuple[Part, ...]
"""The parts of the context without the fixed ones, in their order."""


def lay_out(work: RunningTurn, line: Timeline) -> Parts:
    """Return the parts of the context, without the fixed ones, that a timeline describes."""
    past = [record for record in work.view.turns(line.turns) if record.status != "erased"]
    newer = work.view.turns(range(line.built + 1, work.view.tip.turn + 1))
    running = replace(work.view.running, events=work.state.events)
    return (
        *_front(work, line),
        *_past_turns(work, line, past),
        # These two change with each rebuild, so they stand after what the provider has cached.
        *_out_of_view(work, line, past),
        *_state_block(work, line),
        *(part for record in newer for part in _committed(work, record, line)),
        *(_turn_parts(work, running, line) if running.messages else ()),
    )


def fitting_summaries(work: RunningTurn, built: int, concluded: int) -> tuple[str, ...]:
    """Return which of all `concluded` efforts get a line: the ones referenced last that fit."""
    lines = _lines(work, built, [*work.state.summaries], work.room)
    newest = sorted(lines, key=lambda name: -work.state.summaries[name])

    def first(number: int) -> dict[str, str]:
        fitting = {*newest[:number]}
        return {name: line for name, line in lines.items() if name in fitting}

    number = bisect_right(
        range(1, len(newest) + 1),
        int(SHARES["memory"] * work.room),
        key=lambda number: count_messages(
            _summary_notes(work, first(number), concluded), work.count
        ),
    )
    return (*first(number),)


def whole_tokens(work: RunningTurn, record: Record) -> int:
    """Return the tokens of a turn as it is sent after a rebuild if nothing of it is cut."""
    return count_messages(valid_history(as_past(work.messages(record)), work.fences), work.count)


def as_past(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as shown after a rebuild: without state blocks and what markers repeat."""
    past = []
    for message in shown(messages):
        fields = _BRIEF.get(message["data"].get("name", "")) if message["type"] == "tool" else ()
        result = result_of(message) if fields else {}
        brief = {name: result[name] for name in fields or () if name in result}
        past.append(with_content(message, compact(brief)) if brief else message)
    return tuple(past)


def has_long_results(work: RunningTurn, record: Record) -> bool:
    """Tell whether a turn has results that are shown as previews once it is older."""
    turn = replace(record, messages=work.messages(record))
    results = (message for message in turn.messages if message["type"] == "tool")
    # Counts are cached and previews are not: of a turn of short results none is made.
    if all(work.count(text_of(message)) <= PREVIEW for message in results):
        return False
    messages = as_past(turn.messages)
    return previewed(turn, messages, Limits(PREVIEW), work.count) != messages


def _limit(work: RunningTurn, line: Timeline, share: str) -> int:
    return int(SHARES[share] * line.room(work.room))


def _front(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield summary lines, then quotes; the effort that was active last takes its tokens first."""
    lines = _lines(work, line.built, line.summaries, line.room(work.room))
    if summaries := _summary_notes(work, lines, line.older):
        yield Part.of("memory", summaries, work.count)
    limit = _limit(work, line, "quotes")
    quotes: dict[str, Message] = {}
    for name in [name for name in reversed(line.open) if name in line.quotes]:
        compression = work.view.compression(name, line.quotes[name])
        first = next(iter(work.view.log_turns(name)), 1)
        message = compression and quote(compression, first, work.fences, limit)
        if message:
            quotes[name] = message
            limit -= count_message(message, work.count)
    if quotes:
        in_order = [quotes[name] for name in line.quotes if name in quotes]
        yield Part.of("quotes", in_order, work.count)


def _summary_notes(work: RunningTurn, lines: Mapping[str, str], older: int) -> list[Message]:
    """Return the lines of concluded efforts as notes, and the number of efforts without a line."""
    earlier = [line for name, line in lines.items() if is_qualified(name)]
    own = [line for name, line in lines.items() if not is_qualified(name)]
    texts = [
        render(prompt, quote="\n".join(group))
        for prompt, group in (("earlier_sessions", earlier), ("memory", own))
        if group
    ]
    if older:
        texts[-1:] = ["\n".join([*texts[-1:], render("other_efforts", efforts=older)])]
    return [*map(work.fences.note, texts)]


def _lines(work: RunningTurn, built: int, names: Sequence[str], room: int) -> dict[str, str]:
    """Return the line of each concluded effort as of turn `built`, each cut so that one fits.

    Efforts of other sessions stand first, with the day of their end: they are known from the first
    turn on and only leave, while efforts of this session are added at the end.
    """
    frames = (_summary_notes(work, {name: ""}, 9_999) for name in ("a", "s/a"))
    frame = max(count_messages(messages, work.count) for messages in frames)
    limit = max(1, int(SHARES["memory"] * room) - frame)
    stored = work.view.as_of(built).efforts_named(names, ())
    efforts = [effort for effort in stored if effort.status == "concluded"]
    lines = {}
    for effort in sorted(efforts, key=lambda e: 0 if is_qualified(e.id) else e.turn):
        elsewhere = is_qualified(effort.id)
        records = work.view.turns_of(effort.id, [effort.turn]) if elsewhere else ()
        day = f" ({day_of(records[0].at)})" if records else ""
        line = f"- {effort.id}{day}: {one_line(effort.summary)}"
        lines[effort.id] = cut_marked(line, limit, work.count)
    return lines


def _past_turns(work: RunningTurn, line: Timeline, records: Sequence[Record]) -> Iterator[Part]:
    """Yield the turns up to the last rebuild, with a marker where the effort or the day changes."""
    names = [*dict.fromkeys(filter(None, map(_effort_of, records)))]
    efforts = {e.id: e for e in work.view.as_of(line.built).efforts_named(names, ())}
    status: dict[str, str] = {effort.id: effort.status for effort in efforts.values()}
    if status.get(line.active) == "open":
        status[line.active] = "active"
    previous = ("", day_of(records[0].at)) if records else None
    for record in records:
        name, day, marker = _effort_of(record), day_of(record.at), None
        if (name, day) != previous:
            # Its goal and constraints stand at the first marker of an effort only.
            text = _marker(record, status.get(name, "concluded"), efforts.pop(name, None))
            marker = work.fences.note_within(text, _limit(work, line, "open"))
        previous = name, day
        yield from _committed(work, record, line, marker)
        yield from _logs_by_hand(work, line, record.turn)


def _logs_by_hand(work: RunningTurn, line: Timeline, turn: int) -> Iterator[Part]:
    """Yield the logs that commands brought back after a turn."""
    limit = log_limit(line.room(work.room))
    for name, turns in line.by_hand.items():
        records = work.view.turns_of(name, sorted(numbers(turns)))
        if line.logs.get(name) == turn and records:
            status = "open" if name in line.open else "concluded"
            log = log_quote(name, status, records, limit, work.fences)
            yield Part.of("expanded", [log], work.count, turn)


def loaded_in(record: Record, effort: str) -> set[int]:
    """Return the turns of an effort that the tools of a turn brought into the context."""
    results = (
        result
        for tool in _LOG_TOOLS
        for _, result in _results(record.messages, tool)
        if result.get("effort_id") == effort and result.get("tokens", 1)
    )
    return {turn for result in results for turn in _turns_of(result)}


def _marker(record: Record, status: str, effort: Effort | None) -> str:
    """Return the marker before a turn, with goal and constraints if its open `effort` is given."""
    name, place = _effort_of(record), {"turn": record.turn, "day": day_of(record.at)}
    if not name:
        return render("marker_ambient", **place)
    if effort is None or effort.status != "open":
        return render("marker", **place, effort=name, status=status)
    since = {"effort": name, "status": status, "since": effort.turn}
    return render("marker_open", **place, **since, **effort.purpose)


def _effort_of(record: Record) -> str:
    """Return the effort that a turn is shown as part of, empty for an ambient turn."""
    return next(iter(record.efforts), "")


def _out_of_view(work: RunningTurn, line: Timeline, records: Sequence[Record]) -> Iterator[Part]:
    """Yield notes on what is hidden: turns, logs, and open efforts none of whose turns is shown."""
    turns, limit = ranges_between(line.turns, line.built), _limit(work, line, "open")
    if turns:
        fits = len(turns) <= _LIST_LENGTH
        turns = turns if fits else f"{turns[:_LIST_LENGTH].rpartition(',')[0]},…"
        message = work.fences.note(render("out_of_view", turns=turns_named(turns)))
        yield Part.of("turns", [message], work.count)
    hidden = [
        name
        for name, turn in line.logs.items()
        # An open effort is not listed: its turns are, among the turns out of view.
        if turn <= line.built and turn not in line.turns and name not in line.open
    ]
    if hidden:
        content = render("logs_out_of_view", efforts=", ".join(hidden))
        # A third at most: what is open matters more than a log that was asked for once.
        message = work.fences.note_within(content, limit // 3)
        limit -= count_message(message, work.count)
        yield Part.of("turns", [message], work.count)
    in_view = {*map(_effort_of, records)}
    # The list is cut at its end: what was active last stands first.
    parked = [name for name in reversed(line.open) if name not in in_view]
    efforts = work.view.as_of(line.built).efforts_named(parked, ())
    lines = {
        f"- {_named(effort.id, line)}": render("open_line", **effort.purpose)
        for effort in efforts
        if effort.status == "open"
    }
    if lines:
        yield Part.of("turns", [_open_efforts(work, lines, limit)], work.count)


def _named(effort: str, line: Timeline) -> str:
    return render("open_active", effort=effort) if effort == line.active else effort


def _open_efforts(work: RunningTurn, lines: Mapping[str, str], limit: int) -> Message:
    """Return the note that lists open efforts within `limit` tokens, at least their number."""

    def form(text: str) -> str:
        return render("open_efforts", quote=text)

    free = limit - count_message(work.fences.note(form("")), work.count)
    text = rendered_fields(limited(lines, max(1, free), work.count))
    if text:
        return work.fences.note_within(text, limit, form)
    return work.fences.note_within(render("open_efforts_unnamed", efforts=len(lines)), limit)


def _state_block(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield the state block as it was when the context was rebuilt, if there was one."""
    anchor = work.state.anchor if line.anchor is None else line.anchor
    if not anchor or work.settings.anchor == "off":
        return
    anchor = {name: marked(text) for name, text in anchor.items()}

    def quoted(block: Mapping[str, str]) -> Message:
        cut = block != anchor or any(text.endswith("…") for text in block.values())
        end = ", " + render("cut_to_fit") if cut else ""
        return work.fences.note(render("anchor_note", how=end, quote=rendered_fields(block)))

    limit = _limit(work, line, "anchor") - count_message(quoted({}), work.count)
    yield Part.of("anchor", [quoted(limited(anchor, max(1, limit), work.count))], work.count)


def _committed(
    work: RunningTurn, record: Record, line: Timeline, marker: Message | None = None
) -> list[Part]:
    """Return a committed turn in parts; they are cached if they depend on its record alone."""

    def make_parts() -> list[Part]:
        return _turn_parts(work, replace(record, messages=work.messages(record)), line)

    turn = record.turn
    events = record.events if turn > line.built else ()
    tools = {m["data"].get("name") for m in record.messages if m["type"] == "tool"}
    has_notes = tools & _LOG_TOOLS.keys() or {event["type"] for event in events} & _ADDING_EVENTS
    form = work.count, turn <= line.built, turn <= line.previews, line.short.get(turn)
    parts = make_parts() if has_notes else work.once(form, (record,), make_parts)
    if marker is None:
        return parts
    first, *later = parts or [Part("turns", (), 0)]
    tokens = count_message(marker, work.count) + first.tokens
    return [Part("turns", (marker, *first.messages), tokens, turn), *later]


def _turn_parts(work: RunningTurn, turn: Logged, line: Timeline) -> list[Part]:
    """Return the parts of a turn: notes before it, its messages, and logs and hints in it.

    The notes may have a quarter of a shortened turn, of any other one the whole room.
    """
    before: list[Message] = []
    # Providers want a user's message first.
    if turn.messages and turn.messages[0]["type"] == "ai":
        before.append(work.fences.note(render("unasked")))
    limit = line.short.get(turn.turn, (0, 4 * line.room(work.room)))[1] // 4
    for event in turn.events if turn.turn > line.built else ():
        notes = _hint_notes(work, turn, event["hints"]) if event["type"] == "hinted" else []
        limit -= count_messages(notes, work.count)
        before += notes if limit >= 0 else []
    name: PartName = "turn" if turn.turn == work.view.running.turn else "turns"
    pieces: list[_Piece] = [(name, message) for message in before]
    pieces += _pieces(work, turn, line, name, count_messages(before, work.count))
    return [
        Part.of(part_name, (message for _, message in group), work.count, turn.turn)
        for part_name, group in groupby(pieces, key=itemgetter(0))
    ]


def _hint_notes(work: RunningTurn, turn: Logged, hints: Sequence[Hint]) -> list[Message]:
    """Return hints as a note, from what the archive had before the turn; none if all are erased."""
    lines = hint_lines(work.view.as_of(turn.turn - 1), hints)
    return [work.fences.note(render("hints", quote="\n".join(lines)))] if lines else []


def _pieces(
    work: RunningTurn, turn: Logged, line: Timeline, name: PartName, notes: int
) -> Iterator[_Piece]:
    """Yield a turn's messages with the logs and hints in it, shortened as the timeline says.

    `notes` are the tokens of the notes before it, which count towards its limit.
    """
    shortened, limit = line.short.get(turn.turn, (0, 0))
    past = turn.turn <= line.built
    # Newer answers keep their state blocks: the one before them in the context is older.
    said = as_past(turn.messages) if past else turn.messages
    messages = tuple(map(with_marked_pointers, said))
    if shortened:
        head = replace(turn, messages=turn.messages[:shortened])
        limit = max(1, limit - notes)
        free, insertions = limit // 2, _Insertions()
        for call, piece in reversed([*_insertions(work, head, line, name).items()]):
            free -= (tokens := count_message(piece[1], work.count))
            if free >= 0:
                insertions[call] = piece
                limit -= tokens
        # In past turns markers say which effort is active.
        short = shorten_turn(head, messages[:shortened], limit, work.fences, naming=not past)
        yield from _with_insertions(short, insertions, name)
    if turn.turn <= line.previews:
        messages = previewed(turn, messages, Limits(PREVIEW), work.count)
    tail = replace(turn, messages=turn.messages[shortened:])
    insertions = _insertions(work, tail, line, name)
    yield from _with_insertions(valid_history(messages[shortened:], work.fences), insertions, name)


def _with_insertions(
    messages: Sequence[Message], insertions: _Insertions, name: PartName
) -> Iterator[_Piece]:
    """Yield messages, and after all results of a round the insertions that belong to them."""
    waiting: list[_Piece] = []
    for message, call in _with_calls(messages):
        if call is None:
            yield from waiting
            waiting = []
        yield name, message
        if call is not None and call in insertions:
            waiting.append(insertions[call])
    yield from waiting


def _with_calls(messages: Sequence[Message]) -> list[tuple[Message, _Call | None]]:
    """Return each message with the call that it answers, None if it is no result."""
    pairs: list[tuple[Message, _Call | None]] = []
    later: Counter[str] = Counter()
    for message in reversed(messages):
        call_id = str(message["data"].get("tool_call_id"))
        pairs.append((message, (call_id, later[call_id]) if message["type"] == "tool" else None))
        later[call_id] += 1
    return pairs[::-1]


def _insertions(work: RunningTurn, turn: Logged, line: Timeline, name: PartName) -> _Insertions:
    """Return the logs and hints that a turn's calls put into the context.

    Hints at other sessions' work on an opened effort stay until a rebuild. After it only the logs
    that are still shown stay, each turn of them once.
    """
    events = turn.events if turn.turn > line.built else ()
    related = {event["effort"]: event["related"] for event in events if "related" in event}
    insertions: _Insertions = {}
    for call, result in _results(turn.messages, "open_effort") if related else ():
        efforts = related.get(str(result.get("effort_id")), ())
        hints = [{"effort": effort, "offset": 0} for effort in efforts]
        for message in _hint_notes(work, turn, hints):
            insertions[call] = name, message
    results = {
        call: result
        for tool, status in _LOG_TOOLS.items()
        for call, result in _results(turn.messages, tool)
        if result.get("status") == status and result.get("tokens", 1) and _turns_of(result)
    }
    if turn.turn <= line.built:
        shown_logs = {effort for effort, place in line.logs.items() if place == turn.turn}
        results = {call: results[call] for call in _newest(results, shown_logs)}
    for call, result in results.items():
        turns = work.view.turns_of(result["effort_id"], _turns_of(result))
        if turns:
            status = "open" if result["status"] == "reopened" else "concluded"
            limit = log_limit(line.room(work.room))
            log = log_quote(result["effort_id"], status, turns, limit, work.fences)
            insertions[call] = "expanded", log
    return insertions


def _newest(results: Mapping[_Call, Mapping[str, Any]], efforts: Container[str]) -> list[_Call]:
    """Return the calls for these efforts that loaded a turn which no later call loaded."""
    calls: list[_Call] = []
    loaded: set[tuple[str, int]] = set()
    for call, result in reversed([*results.items()]):
        turns = {(result["effort_id"], turn) for turn in _turns_of(result)}
        if result["effort_id"] in efforts and not turns <= loaded:
            calls.insert(0, call)
            loaded |= turns
    return calls


def _results(messages: Sequence[Message], tool: str) -> Iterator[tuple[_Call, Mapping[str, Any]]]:
    for message, call in _with_calls(messages):
        if call is not None and message["data"].get("name") == tool:
            yield call, result_of(message)


def _turns_of(result: Mapping[str, Any]) -> list[int]:
    """Return the turns that a result lists, none if malformed: a client may have written it."""
    if not all(isinstance(result.get(name), str) for name in ("effort_id", "turns")):
        return []
    try:
        return sorted(numbers(result["turns"]))
    except ToolError:
        return []
