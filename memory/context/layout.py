"""The parts of the context in their order: real messages, and what stands before and between."""

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
from ..messages import Message, compact, fenced, text, with_content
from ..names import is_qualified, numbers, ranges_between, turns_named
from ..record import Record
from ..running_turn import RunningTurn
from ..tokens import count_message, count_messages, cut_marked
from ..transcript import DECIDING, Logged, result_of
from ..valid_history import note, note_within, quote_within, valid_history
from .budget import SHARES, log_limit
from .notes import hint_lines
from .shortening import Limits, log_quote, previewed, quote, within
from .timeline import Part, PartName, Timeline

_LISTED = 60
"""Characters of the list of turns that are out of view."""

PREVIEW = 150
"""Tokens that a result of a tool has in an older turn; a longer one is shown as its preview."""

_BESIDE = frozenset({"hinted", "nudged", "opened"})
"""The events that may put something beside the words of a turn until a rebuild."""

_PLACED = {"expand_effort": "expanded", "reopen_effort": "reopened"}
"""The tools that put a log into the context, with the status of their results."""

_BRIEF = ("status", "effort_id", "prior_summary", "not_shown", "how")
"""What the result of a tool that opens, switches or closes still says after a rebuild."""

_Call: TypeAlias = tuple[str, int]
"""A call by its id, and how many later ones of its turn have the same: models repeat them."""

_Piece: TypeAlias = tuple[PartName, Message]
"""A message, and the part of the context that it belongs to."""

_Placed: TypeAlias = dict[_Call, _Piece]
"""What was put into a turn after the result of a call."""

Parts: TypeAlias = tuple[Part, ...]
"""All of the context but instructions and tool schemas, in its order."""


def parts(work: RunningTurn, line: Timeline) -> Parts:
    """Return all of the context but instructions and tool schemas."""
    past = [record for record in work.view.turns(line.turns) if record.status != "erased"]
    newer = work.view.turns(range(line.built + 1, work.view.tip.turn + 1))
    running = replace(work.view.running, events=work.state.events)
    return (
        *_front(work, line),
        *_past_turns(work, line, past),
        # It changes with each rebuild: before it stands what the provider has cached.
        *_out_of_view(work, line, past),
        *_state_block(work, line),
        *(part for record in newer for part in _committed(work, record, line)),
        *(_parts(work, running, line) if running.messages else ()),
    )


def summaries_within(work: RunningTurn, built: int, older: int) -> tuple[str, ...]:
    """Return which concluded efforts get a line, in order; those referenced last if not all fit."""
    lines = _lines(work, built, [*work.state.summaries], work.room)
    newest = sorted(lines, key=lambda name: -work.state.summaries[name])

    def first(number: int) -> dict[str, str]:
        fitting = {*newest[:number]}
        return {name: line for name, line in lines.items() if name in fitting}

    number = bisect_right(
        range(1, len(newest) + 1),
        int(SHARES["memory"] * work.room),
        key=lambda number: count_messages(_memory(first(number), older), work.count),
    )
    return (*first(number),)


def whole_tokens(work: RunningTurn, record: Record) -> int:
    """Return the size of a turn as it is sent when nothing is cut."""
    return count_messages(valid_history(as_past(work.messages(record))), work.count)


def as_past(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as shown after a rebuild: without state blocks and what markers say."""
    past = []
    for message in shown(messages):
        decides = message["type"] == "tool" and message["data"].get("name") in DECIDING
        result = result_of(message) if decides else {}
        brief = {name: result[name] for name in _BRIEF if name in result}
        past.append(with_content(message, compact(brief)) if brief else message)
    return tuple(past)


def has_long_results(work: RunningTurn, record: Record) -> bool:
    """Tell whether a result of a turn is shown by its preview once it is older."""
    turn = replace(record, messages=work.messages(record))
    results = (message for message in turn.messages if message["type"] == "tool")
    # Most turns have none that is long: only of the others the previews are made.
    if all(work.count(text(message)) <= PREVIEW for message in results):
        return False
    seen = as_past(turn.messages)
    return previewed(turn, seen, Limits(PREVIEW), work.count) != seen


def _limit(work: RunningTurn, line: Timeline, share: str) -> int:
    return int(SHARES[share] * line.room(work.room))


def _front(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield lines of concluded efforts, then quotes, those of who was active last in any case."""
    lines = _lines(work, line.built, line.summaries, line.room(work.room))
    if memory := _memory(lines, line.older):
        yield Part.of("memory", memory, work.count)
    limit = _limit(work, line, "quotes")
    quotes: dict[str, Message] = {}
    for name in [name for name in reversed(line.open) if name in line.quotes]:
        compression = work.view.compression(name, line.quotes[name])
        first = next(iter(work.view.log_turns(name)), 1)
        message = compression and quote(compression, first, work.count, limit)
        if message:
            quotes[name] = message
            limit -= count_message(message, work.count)
    if quotes:
        in_order = [quotes[name] for name in line.quotes if name in quotes]
        yield Part.of("quotes", in_order, work.count)


def _memory(lines: Mapping[str, str], older: int) -> list[Message]:
    """Return the lines of concluded efforts, and how many more there are."""
    earlier = [line for name, line in lines.items() if is_qualified(name)]
    own = [line for name, line in lines.items() if not is_qualified(name)]
    texts = [
        render(name, quote=fenced("summaries", "\n".join(listed)))
        for name, listed in (("earlier_sessions", earlier), ("memory", own))
        if listed
    ]
    if older:
        texts[-1:] = ["\n".join([*texts[-1:], render("other_efforts", efforts=older)])]
    return [*map(note, texts)]


def _lines(work: RunningTurn, built: int, names: Sequence[str], room: int) -> dict[str, str]:
    """Return the line of each concluded effort as it was, cut so that the newest always fits.

    Those of other sessions stand first, with the day of their end: they are there from the first
    turn on and only become less, while this session's own are added at the end.
    """
    frames = (count_messages(_memory({name: ""}, 9_999), work.count) for name in ("a", "s/a"))
    limit = max(1, int(SHARES["memory"] * room) - max(frames))
    named = work.view.as_of(built).efforts_named(names, ())
    efforts = [effort for effort in named if effort.status == "concluded"]
    lines = {}
    for effort in sorted(efforts, key=lambda e: 0 if is_qualified(e.id) else e.turn):
        elsewhere = is_qualified(effort.id)
        records = work.view.turns_of(effort.id, [effort.turn]) if elsewhere else ()
        day = f" ({day_of(records[0].at)})" if records else ""
        line = f"- {effort.id}{day}: {one_line(effort.summary)}"
        lines[effort.id] = cut_marked(line, limit, work.count)
    return lines


def _past_turns(work: RunningTurn, line: Timeline, records: Sequence[Record]) -> Iterator[Part]:
    """Yield the turns up to the last rebuild, each marked where its effort, or the day, changes."""
    names = [*dict.fromkeys(filter(None, map(_effort_of, records)))]
    efforts = {e.id: e for e in work.view.as_of(line.built).efforts_named(names, ())}
    status: dict[str, str] = {effort.id: effort.status for effort in efforts.values()}
    if records and status.get(_effort_of(records[-1])) == "open":
        status[_effort_of(records[-1])] = "active"
    before = ("", day_of(records[0].at)) if records else None
    for record in records:
        name, day, marker = _effort_of(record), day_of(record.at), None
        if (name, day) != before:
            text = _marker(record, status.get(name, "concluded"), efforts.pop(name, None))
            marker = note_within(note(text), _limit(work, line, "open"), work.count)
        before = name, day
        yield from _committed(work, record, line, marker)


def _marker(record: Record, status: str, effort: Effort | None) -> str:
    """Return the line before a turn; before the first one of an open effort it says what holds."""
    name, at = _effort_of(record), {"turn": record.turn, "day": day_of(record.at)}
    if not name:
        return render("marker_ambient", **at)
    if effort is None or effort.status != "open":
        return render("marker", **at, effort=name, status=status)
    since = {"effort": name, "status": status, "since": effort.turn}
    return render("marker_open", **at, **since, **effort.purpose)


def _effort_of(record: Record) -> str:
    """Return the effort that a turn is shown as part of, empty for none."""
    return next(iter(record.efforts), "")


def _out_of_view(work: RunningTurn, line: Timeline, records: Sequence[Record]) -> Iterator[Part]:
    """Yield what is not shown: which turns, and the goals of open efforts without any turn."""
    gone, limit = ranges_between(line.turns, line.built), _limit(work, line, "open")
    if gone:
        listed = gone if len(gone) <= _LISTED else f"{gone[:_LISTED].rpartition(',')[0]},…"
        yield Part.of("turns", [note(render("out_of_view", turns=turns_named(listed)))], work.count)
    # The turns of an open effort whose log had to leave are listed with the others.
    hidden = {name for name, at in line.logs.items() if at <= line.built and at not in line.turns}
    if logs := [name for name in line.logs if name in hidden and name not in line.open]:
        message = note(render("logs_out_of_view", efforts=", ".join(logs)))
        message = note_within(message, limit // 3, work.count)
        limit -= count_message(message, work.count)
        yield Part.of("turns", [message], work.count)
    in_view = {*map(_effort_of, records)}
    # The list is cut at its end: what was active last stands first.
    parked = [name for name in reversed(line.open) if name not in in_view]
    efforts = work.view.as_of(line.built).efforts_named(parked, ())
    lines = {
        f"- {effort.id}": render("open_line", **effort.purpose)
        for effort in efforts
        if effort.status == "open"
    }
    if lines:
        yield Part.of("turns", [_open_efforts(work, lines, limit)], work.count)


def _open_efforts(work: RunningTurn, lines: Mapping[str, str], limit: int) -> Message:
    def quoted(listed: str) -> Message:
        return note(render("open_efforts", quote=fenced("efforts", listed)))

    free = limit - count_message(quoted(""), work.count)
    listed = rendered_fields(limited(lines, max(1, free), work.count))
    if listed:
        return quote_within(quoted, listed, limit, work.count)
    return note_within(note(render("open_efforts_unnamed", efforts=len(lines))), limit, work.count)


def _state_block(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield the state block as it was when the context was rebuilt; nothing if there was none."""
    anchor = work.state.anchor if line.anchor is None else line.anchor
    if not anchor or work.settings.anchor == "off":
        return

    def quoted(block: Mapping[str, str]) -> Message:
        cut = block != anchor or any(text.endswith("…") for text in block.values())
        how = ", cut to fit" if cut else ""
        return note(render("anchor_note", how=how, quote=fenced("state", rendered_fields(block))))

    limit = _limit(work, line, "anchor") - count_message(quoted({}), work.count)
    yield Part.of("anchor", [quoted(limited(anchor, max(1, limit), work.count))], work.count)


def _committed(
    work: RunningTurn, record: Record, line: Timeline, marker: Message | None = None
) -> list[Part]:
    """Return a committed turn in parts, laid out only once if the record says all that is shown."""

    def lay_out() -> list[Part]:
        return _parts(work, replace(record, messages=work.messages(record)), line)

    turn = record.turn
    events = record.events if turn > line.built else ()
    tools = (m["data"].get("name") for m in record.messages if m["type"] == "tool")
    beside = {*tools} & _PLACED.keys() or {event["type"] for event in events} & _BESIDE
    form = work.count, turn <= line.built, turn <= line.previews, line.short.get(turn)
    laid_out = work.once(form, (record,), lay_out) if not beside else lay_out()
    if marker is None:
        return laid_out
    before = Part.of("turns", [marker], work.count, turn)
    first, *others = laid_out or [Part("turns", (), 0)]
    messages, tokens = (marker, *first.messages), before.tokens + first.tokens
    return [Part("turns", messages, tokens, turn), *others]


def _parts(work: RunningTurn, turn: Logged, line: Timeline) -> list[Part]:
    """Return a turn in parts: notes that are still shown and fit, its messages, and its logs."""
    before: list[Message] = []
    # A prompt begins with a user.
    if turn.messages and turn.messages[0]["type"] == "ai":
        before.append(note(render("unasked")))
    limit = line.short.get(turn.turn, (0, 4 * line.room(work.room)))[1] // 4
    for event in turn.events if turn.turn > line.built else ():
        notes = []
        if event["type"] == "hinted":
            notes = _hints(work, turn, event["hints"])
        elif event["type"] == "nudged":
            notes = [note(event["said"])]
        limit -= count_messages(notes, work.count)
        before += notes if limit >= 0 else []
    name: PartName = "turn" if turn.turn == work.view.running.turn else "turns"
    pieces: list[_Piece] = [(name, message) for message in before]
    pieces += _pieces(work, turn, line, name, count_messages(before, work.count))
    return [
        Part.of(of, (message for _, message in group), work.count, turn.turn)
        for of, group in groupby(pieces, key=itemgetter(0))
    ]


def _hints(work: RunningTurn, turn: Logged, given: Sequence[Mapping[str, Any]]) -> list[Message]:
    lines = hint_lines(work.view.as_of(turn.turn - 1), given)
    return [note(render("hints", quote=fenced("hints", "\n".join(lines))))] if lines else []


def _pieces(
    work: RunningTurn, turn: Logged, line: Timeline, name: PartName, before: int
) -> Iterator[_Piece]:
    """Yield a turn's messages and logs, shortened as the timeline says, `before` tokens counted."""
    upto, limit = line.short.get(turn.turn, (0, 0))
    past = turn.turn <= line.built
    # Since the rebuild answers keep their state blocks: the one that stands there is older.
    seen = as_past(turn.messages) if past else turn.messages
    if upto:
        head = replace(turn, messages=turn.messages[:upto])
        limit = max(1, limit - before)
        free, placed = limit // 2, _Placed()
        for call, piece in reversed([*_placed(work, head, line, name).items()]):
            free -= (tokens := count_message(piece[1], work.count))
            if free >= 0:
                placed[call] = piece
                limit -= tokens
        # After a rebuild markers say which effort is active.
        short = within(head, seen[:upto], limit, work.count, naming=not past)
        yield from _with_placed(short, placed, name)
    if turn.turn <= line.previews:
        seen = previewed(turn, seen, Limits(PREVIEW), work.count)
    tail = replace(turn, messages=turn.messages[upto:])
    placed = _placed(work, tail, line, name)
    yield from _with_placed(valid_history(seen[upto:]), placed, name)


def _with_placed(messages: Sequence[Message], placed: _Placed, name: PartName) -> Iterator[_Piece]:
    """Yield messages, and after the results of a round what they put into the context."""
    waiting: list[_Piece] = []
    for message, call in _answered(messages):
        if call is None:
            yield from waiting
            waiting = []
        yield name, message
        if call is not None and call in placed:
            waiting.append(placed[call])
    yield from waiting


def _answered(messages: Sequence[Message]) -> list[tuple[Message, _Call | None]]:
    """Return messages, results with the call that they answer."""
    pairs: list[tuple[Message, _Call | None]] = []
    later: Counter[str] = Counter()
    for message in reversed(messages):
        call = str(message["data"].get("tool_call_id"))
        pairs.append((message, (call, later[call]) if message["type"] == "tool" else None))
        later[call] += 1
    return pairs[::-1]


def _placed(work: RunningTurn, turn: Logged, line: Timeline, name: PartName) -> _Placed:
    """Return what a turn put into the context, by the call that did it.

    Hints at what other sessions have on an opened effort stand there until a rebuild. Then only the
    logs that are still shown stand there, each turn of them once.
    """
    events = turn.events if turn.turn > line.built else ()
    related = {event["effort"]: event["related"] for event in events if "related" in event}
    placed: _Placed = {}
    for call, result in _results(turn.messages, "open_effort") if related else ():
        efforts = related.get(str(result.get("effort_id")), ())
        hints = [{"effort": effort, "offset": 0} for effort in efforts]
        for message in _hints(work, turn, hints):
            placed[call] = name, message
    results = {
        call: result
        for tool, status in _PLACED.items()
        for call, result in _results(turn.messages, tool)
        if result.get("status") == status and result.get("tokens_loaded") and _turns_of(result)
    }
    if turn.turn <= line.built:
        still = {name for name, at in line.logs.items() if at == turn.turn}
        results = {call: results[call] for call in _newest(results, still)}
    for call, result in results.items():
        turns = work.view.turns_of(result["effort_id"], _turns_of(result))
        if turns:
            status = "open" if result["status"] == "reopened" else "concluded"
            limit = log_limit(line.room(work.room))
            quoted = log_quote(result["effort_id"], status, turns, limit, work.count)
            placed[call] = "expanded", note(render("expanded", quote=quoted))
    return placed


def _newest(results: Mapping[_Call, Mapping[str, Any]], efforts: Container[str]) -> list[_Call]:
    """Return the calls for these efforts that brought in a turn which no later one did."""
    newest: list[_Call] = []
    brought: set[tuple[str, int]] = set()
    for call, result in reversed([*results.items()]):
        turns = {(result["effort_id"], turn) for turn in _turns_of(result)}
        if result["effort_id"] in efforts and not turns <= brought:
            newest.insert(0, call)
            brought |= turns
    return newest


def _results(messages: Sequence[Message], tool: str) -> Iterator[tuple[_Call, Mapping[str, Any]]]:
    """Yield what a memory tool answered, with its calls."""
    for message, call in _answered(messages):
        if call is not None and message["data"].get("name") == tool:
            yield call, result_of(message)


def _turns_of(result: Mapping[str, Any]) -> list[int]:
    """Return the turns of the effort that a result names; a client may have written anything."""
    if not all(isinstance(result.get(name), str) for name in ("effort_id", "turns")):
        return []
    try:
        return sorted(numbers(result["turns"]))
    except ToolError:
        return []
