"""The turns as the context shows them: real messages, with markers, hints and logs brought back."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..anchor import limited, shown
from ..anchor import rendered as rendered_fields
from ..clock import day_of
from ..efforts import Effort, as_shown
from ..errors import ToolError
from ..messages import Message, compact, fenced, saying, text
from ..names import numbers, parted, ranges, ranges_between, turns_named
from ..record import Group, Record
from ..running_turn import RunningTurn
from ..tokens import TokenCounter, count_message, count_messages, fit
from ..transcript import DECIDING, Logged, rendered, result_of, transcript
from ..valid_history import note, note_within, quote_within, valid_history
from ..view import ArchiveView
from .budget import LOG_SHARE, SHARES
from .notes import hint_lines
from .shortening import Limits, previewed, within, within_naming
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

_Turn: TypeAlias = Group | Record
"""A turn with its messages as they were sent, recalled text included."""

_Call: TypeAlias = tuple[str, int]
"""A call by its id, and how many later ones of its turn have the same: models repeat them."""

_Piece: TypeAlias = tuple[PartName, Message]
_Placed: TypeAlias = dict[_Call, _Piece]
"""What was put into a turn after the result of a call."""


def past_turns(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield the turns up to the last rebuild, each marked where its effort, or the day, changes."""
    records = _shown(work, line)
    names = [*dict.fromkeys(filter(None, map(_about, records)))]
    efforts = {one.id: one for one in as_of(work.view, line.built).efforts_named(names, ())}
    status: dict[str, str] = {effort.id: effort.status for effort in efforts.values()}
    if records and status.get(_about(records[-1])) == "open":
        status[_about(records[-1])] = "active"
    before = ("", day_of(records[0].at)) if records else None
    for record in records:
        name, marker = _about(record), None
        if (name, day_of(record.at)) != before:
            said, effort = status.get(name, "concluded"), efforts.pop(name, None)
            marker = _marker(work, record, said, effort, _open_limit(work, line))
        before = name, day_of(record.at)
        yield from _committed(work, record, line, marker)


def newer_turns(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield the turns since the last rebuild, as they were said, and the running one if one is."""
    for record in work.view.turns(range(line.built + 1, work.view.tip.turn + 1)):
        yield from _committed(work, record, line)
    yield from running_turn(work, line)


def running_turn(work: RunningTurn, line: Timeline) -> list[Part]:
    """Return the running turn in parts, with what happened in it so far; none if none runs."""
    turn = replace(work.view.running, events=work.state.events)
    return _parts(work, turn, line) if turn.messages else []


def out_of_view(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield what is not shown: which turns, and the goals of open efforts without any turn.

    It changes with each rebuild, so it stands behind the turns, which the provider has cached.
    """
    gone, limit = ranges_between(line.turns, line.built), _open_limit(work, line)
    if gone:
        listed = gone if len(gone) <= _LISTED else f"{gone[:_LISTED].rpartition(',')[0]},…"
        yield part(work, "turns", [note(render("out_of_view", turns=turns_named(listed)))])
    logs = [name for name, at in line.logs.items() if _left(line, name, at)]
    if logs:
        left = note(render("logs_out_of_view", efforts=", ".join(logs)))
        left = note_within(left, limit // 3, work.count)
        limit -= count_message(left, work.count)
        yield part(work, "turns", [left])
    shown = {*map(_about, _shown(work, line))}
    # The list is cut at its end: what was active last stands first.
    parked = [name for name in reversed(line.open) if name not in shown]
    efforts = as_of(work.view, line.built).efforts_named(parked, ())
    lines = {
        f"- {effort.id}": render("open_line", **purpose(effort))
        for effort in efforts
        if effort.status == "open"
    }
    if lines:
        yield part(work, "turns", [_open_elsewhere(work, lines, limit)])


def part(
    work: RunningTurn, name: PartName, messages: Iterable[Message], turn: int | None = None
) -> Part:
    """Return messages as a part of the context."""
    shown = (*messages,)
    return Part(name, shown, count_messages(shown, work.count), turn)


def as_of(view: ArchiveView, turn: int) -> ArchiveView:
    """Return what was seen after an earlier turn: what changed since then changes nothing in it."""
    return replace(view, tip=replace(view.tip, turn=turn), running=Group(0, (), ""))


def log_limit(room: int) -> int:
    """Return how many tokens of a log are brought back at most."""
    return int(room * LOG_SHARE)


def log_quote(
    effort_id: str, status: str, turns: Sequence[Logged], limit: int, count: TokenCounter
) -> str:
    """Quote turns of an effort word for word; a single turn over `limit` tokens as its head."""
    log = transcript(turns)
    if len(turns) == 1 and count(log) > limit:
        log = _head(turns[0], limit, count, parted(effort_id)[0])
    return fenced("effort", log, id=effort_id, status=status, turns=ranges([t.turn for t in turns]))


def whole_tokens(work: RunningTurn, record: Record) -> int:
    """Return the size of a turn as it is sent when nothing is cut."""
    return count_messages(valid_history(as_past(work.messages(record))), work.count)


def as_past(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as they are shown after a rebuild: what markers say is not said twice.

    State blocks are left out, and goal and constraints in the results of tools.
    """
    return tuple(_briefly(message) for message in shown(messages))


def has_long_results(work: RunningTurn, record: Record) -> bool:
    """Tell whether a result of a turn is shown by its preview once it is older."""
    turn = _as_sent(work, record)
    results = (message for message in turn.messages if message["type"] == "tool")
    # Most turns have none that is long: only of the others the previews are made.
    if all(work.count(text(message)) <= PREVIEW for message in results):
        return False
    seen = as_past(turn.messages)
    return previewed(turn, seen, Limits(PREVIEW), work.count) != seen


def purpose(effort: Effort) -> dict[str, str]:
    """Return the goal and the constraints of an effort, each in one line."""
    goal = as_shown(effort.goal) or "not stated"
    constraints = "; ".join(map(as_shown, effort.constraints)) or "none"
    return {"goal": goal, "constraints": constraints}


def _shown(work: RunningTurn, line: Timeline) -> list[Record]:
    return [record for record in work.view.turns(line.turns) if record.status != "erased"]


def _as_sent(work: RunningTurn, record: Record) -> Record:
    return replace(record, messages=work.messages(record))


def _committed(
    work: RunningTurn, record: Record, line: Timeline, marker: Message | None = None
) -> list[Part]:
    """Return a committed turn in parts, with the marker before it if it has one."""

    def lay_out() -> list[Part]:
        return _parts(work, _as_sent(work, record), line)

    turn = record.turn
    form = work.count, turn <= line.built, turn <= line.previews, line.short.get(turn)
    parts = work.once(form, (record,), lay_out) if _says_all(record, line) else lay_out()
    if marker is None:
        return parts
    before = part(work, "turns", [marker], turn)
    first, *rest = parts or [Part("turns", (), 0)]
    messages, tokens = (marker, *first.messages), before.tokens + first.tokens
    return [Part("turns", messages, tokens, turn), *rest]


def _says_all(record: Record, line: Timeline) -> bool:
    """Tell whether all that is shown of a turn stands in its record, whatever else changes."""
    events = record.events if record.turn > line.built else ()
    tools = (m["data"].get("name") for m in record.messages if m["type"] == "tool")
    beside = _BESIDE.isdisjoint(event["type"] for event in events)
    return beside and _PLACED.keys().isdisjoint(tools)


def _parts(work: RunningTurn, turn: _Turn, line: Timeline) -> list[Part]:
    """Return a turn in parts: its messages, and the logs that it put there."""
    name: PartName = "turn" if turn.turn == work.view.running.turn else "turns"
    before = [*_before(work, turn, line)]
    pieces: list[_Piece] = [(name, message) for message in before]
    pieces += _shortened(work, turn, line, name, count_messages(before, work.count))
    return [
        part(work, of, (message for _, message in group), turn.turn)
        for of, group in groupby(pieces, key=itemgetter(0))
    ]


def _about(record: Record) -> str:
    """Return the effort that a turn is shown as part of, empty for none."""
    return next(iter(record.efforts), "")


def _open_limit(work: RunningTurn, line: Timeline) -> int:
    return int(SHARES["open"] * line.room(work.room))


def _marker(
    work: RunningTurn, record: Record, status: str, effort: Effort | None, limit: int
) -> Message:
    """Return the line before a turn; before the first one of an open effort it says what holds."""
    when = {"turn": record.turn, "day": day_of(record.at)}
    if not _about(record):
        return note(render("marker_ambient", **when))
    if effort is None or effort.status != "open":
        return note(render("marker", **when, effort=_about(record), status=status))
    what = {"effort": effort.id, "status": status, "since": effort.turn, **purpose(effort)}
    marker = render("marker_open", **when, **what)
    return note_within(note(marker), limit, work.count)


def _left(line: Timeline, name: str, at: int) -> bool:
    """Tell whether the log of a concluded effort had to leave; an open one's turns are listed."""
    return at <= line.built and at not in line.turns and name not in line.open


def _open_elsewhere(work: RunningTurn, lines: Mapping[str, str], limit: int) -> Message:
    def quoted(said: str) -> Message:
        return note(render("open_efforts", quote=fenced("efforts", said)))

    free = limit - count_message(quoted(""), work.count)
    said = rendered_fields(limited(lines, max(1, free), work.count))
    if not said:
        return note_within(
            note(render("open_efforts_unnamed", efforts=len(lines))), limit, work.count
        )
    return quote_within(quoted, said, limit, work.count)


def _before(work: RunningTurn, turn: _Turn, line: Timeline) -> Iterator[Message]:
    """Yield what stands before the words of a turn; a rebuild leaves hints out, a full turn most.

    A prompt begins with a user: a turn that the assistant began has a note before it.
    """
    if turn.messages and turn.messages[0]["type"] == "ai":
        yield note(render("unasked"))
    limit = line.short.get(turn.turn, (0, 4 * line.room(work.room)))[1] // 4
    for event in turn.events if turn.turn > line.built else ():
        if event["type"] == "hinted":
            notes = [*_hints(work, turn, event["hints"])]
        else:
            notes = [note(event["said"])] if event["type"] == "nudged" else []
        limit -= count_messages(notes, work.count)
        yield from notes if limit >= 0 else ()


def _hints(work: RunningTurn, turn: _Turn, given: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    lines = hint_lines(as_of(work.view, turn.turn - 1), given)
    if lines:
        yield note(render("hints", quote=fenced("hints", "\n".join(lines))))


def _shortened(
    work: RunningTurn, turn: _Turn, line: Timeline, name: PartName, before: int
) -> Iterator[_Piece]:
    """Yield the messages of a turn and its logs; a first part is shortened if the timeline says.

    `before` are the tokens of what stands before it.
    """
    upto, limit = line.short.get(turn.turn, (0, 0))
    # Since the rebuild answers keep their state blocks: the one that stands there is older.
    seen = as_past(turn.messages) if turn.turn <= line.built else turn.messages
    if upto:
        head = replace(turn, messages=turn.messages[:upto])
        limit = max(1, limit - before)
        placed = _within(_placed(work, head, line, name), limit // 2, work.count)
        room = limit - sum(count_message(log, work.count) for _, log in placed.values())
        # After a rebuild markers say which effort is active.
        shorten = within if turn.turn <= line.built else within_naming
        yield from _with(shorten(head, seen[:upto], room, work.count), placed, name)
    if turn.turn <= line.previews:
        seen = previewed(turn, seen, Limits(PREVIEW), work.count)
    rest = replace(turn, messages=turn.messages[upto:])
    yield from _with(valid_history(seen[upto:]), _placed(work, rest, line, name), name)


def _with(messages: Sequence[Message], placed: _Placed, name: PartName) -> Iterator[_Piece]:
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


def _within(placed: _Placed, limit: int, count: TokenCounter) -> _Placed:
    """Return what fits of what a turn put into the context, the newest first."""
    fitting: _Placed = {}
    for call, (name, message) in reversed([*placed.items()]):
        limit -= count_message(message, count)
        if limit >= 0:
            fitting[call] = name, message
    return fitting


def _placed(work: RunningTurn, turn: _Turn, line: Timeline, name: PartName) -> _Placed:
    """Return what a turn put into the context, by the call that did it.

    Hints at what other sessions have on an effort that was opened stand there until a rebuild.
    """
    events = turn.events if turn.turn > line.built else ()
    related = {event["effort"]: event["related"] for event in events if "related" in event}
    placed: _Placed = {}
    for call, result in _results(turn.messages, "open_effort") if related else ():
        given = [
            {"effort": effort, "offset": 0}
            for effort in related.get(str(result.get("effort_id")), ())
        ]
        for message in _hints(work, turn, given):
            placed[call] = name, message
    return placed | _logs(work, turn, line)


def _logs(work: RunningTurn, turn: _Turn, line: Timeline) -> _Placed:
    """Return the logs that a turn put into the context, by the call that did it.

    In a turn from before the last rebuild those of efforts that are still shown, each turn once.
    """
    results = {
        call: result
        for tool, status in _PLACED.items()
        for call, result in _results(turn.messages, tool)
        if result.get("status") == status and result.get("tokens_loaded") and _turns_of(result)
    }
    if turn.turn <= line.built:
        still = {name for name, at in line.logs.items() if at == turn.turn}
        results = {call: results[call] for call in _newest(results, still)}
    logs = ((call, _log(work, line, result)) for call, result in results.items())
    return {call: ("expanded", log) for call, log in logs if log is not None}


def _newest(results: Mapping[_Call, Mapping[str, Any]], efforts: Container[str]) -> list[_Call]:
    """Return the calls for these efforts that brought in a turn which no later one did."""
    newest: list[_Call] = []
    known: set[tuple[str, int]] = set()
    for call, result in reversed([*results.items()]):
        brought = {(result["effort_id"], turn) for turn in _turns_of(result)}
        if result["effort_id"] in efforts and not brought <= known:
            newest.insert(0, call)
            known |= brought
    return newest


def _results(messages: Sequence[Message], tool: str) -> Iterator[tuple[_Call, Mapping[str, Any]]]:
    """Yield what a memory tool answered, with its calls."""
    for message, call in _answered(messages):
        if call is not None and message["data"].get("name") == tool:
            yield call, result_of(message)


def _briefly(message: Message) -> Message:
    if message["type"] != "tool" or message["data"].get("name") not in DECIDING:
        return message
    result = result_of(message)
    brief = {name: result[name] for name in _BRIEF if name in result}
    return saying(message, compact(brief)) if brief else message


def _turns_of(result: Mapping[str, Any]) -> list[int]:
    """Return the turns of the effort that a result names; a client may have written anything."""
    if not all(isinstance(result.get(name), str) for name in ("effort_id", "turns")):
        return []
    try:
        return sorted(numbers(result["turns"]))
    except ToolError:
        return []


def _log(work: RunningTurn, line: Timeline, result: Mapping[str, Any]) -> Message | None:
    turns = work.view.turns_of(result["effort_id"], _turns_of(result))
    if not turns:
        return None
    status = "open" if result["status"] == "reopened" else "concluded"
    limit = log_limit(line.room(work.room))
    quote = log_quote(result["effort_id"], status, turns, limit, work.count)
    return note(render("expanded", quote=quote))


def _head(turn: Logged, limit: int, count: TokenCounter, session: str) -> str:
    log = rendered(turn.messages)
    end = fit(log, limit, count)
    said = {"turn": turn.turn, "head": log[:end], "tokens": count(log[end:]), "offset": end}
    if session:
        return render("head_of_earlier_turn", session=session, **said)
    return render("head_of_turn", **said)
