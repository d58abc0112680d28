"""The plan as messages: which parts the context has, in which order, how each turn is shown."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..dates import UNDATED, shown
from ..efforts import Effort
from ..fences import marked
from ..messages import Growing, Message, answered, without_thoughts
from ..messages import text as text_of
from ..names import is_qualified, numbers, parted, ranges_between, turns_named
from ..record import Event, Record
from ..running_turn import RunningTurn
from ..spans import kept, narrowed
from ..state_block import each_block_once, last_block, limited
from ..state_block import rendered as rendered_fields
from ..tokens import count_message, count_messages, cut_marked
from ..transcript import Logged
from ..valid_history import valid_history
from .attached import (
    LOG_TOOLS,
    CallKey,
    attached,
    loaded_in,
    log_results,
    log_rounds,
    placeholders,
    results_of,
    turns_of_log,
    with_calls,
)
from .budget import GOAL_TOKENS, LOGS_SHARE, Part, PartName, log_limit, part_limit, quotes_limit
from .forms import PREVIEW, as_past, edges, has_long_results, is_whole, shorten_edges
from .hints import Hint, hint_lines
from .plan import Plan
from .quotes import Quoted, log_quote, quote
from .rounds import RESULT_SHARE, cut_turn, hidden, within
from .shortening import (
    UNLIMITED,
    Limits,
    has_files,
    previewed,
    previewed_each,
    shorten_turn,
    with_marked_pointers,
)
from .summaries import summary_lines, summary_notes

_NOTES_SHARE = 8  # one in how many tokens of the room the hints before a turn that was cut may have
_MARKED = 3  # efforts of a turn that its marker names
_LIST_LENGTH = 60  # characters of the list of turns that are out of view

_Piece: TypeAlias = tuple[PartName, Message]  # a message, and the part of the context that it is in
_Load: TypeAlias = tuple[str, int]  # an effort, and a turn of it that a log shows


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Notes that stand after the result of a call, and what they show of logs."""

    pieces: tuple[_Piece, ...]
    loaded: frozenset[_Load] = frozenset()


_Insertions: TypeAlias = dict[CallKey, _Insertion]

Parts: TypeAlias = tuple[Part, ...]
"""The parts of the context without the fixed ones, in their order."""


def parts_of(work: RunningTurn, plan: Plan) -> Parts:
    """Return the parts of the context, without the fixed ones, that a plan describes."""
    parts: list[Part] = []
    if plan.summaries or plan.older or plan.unnamed:
        parts += _summaries(work, plan)
    if plan.quotes:
        parts += _quotes(work, plan)
    if plan.after_turn or plan.open or plan.logs:
        past = [record for record in work.view.turns(plan.turns) if record.status != "erased"]
        # What is out of view changes with each plan: it stands after what the provider has cached.
        parts += [*_past_turns(work, plan, past), *_out_of_view(work, plan, past)]
    if work.settings.anchor != "off" and (anchor := _anchor(work, plan)):
        parts.append(_state_block(work, plan, anchor))
    for record in work.view.turns(range(plan.after_turn + 1, work.view.tip.turn + 1)):
        parts += _committed(work, record, plan)
    if work.view.running.messages:
        running = replace(work.view.running, events=work.state.events)
        parts += _turn_parts(work, running, plan)
    return tuple(parts)


def _limit(work: RunningTurn, plan: Plan, share: str) -> int:
    return part_limit(share, (plan.room or work.room))


def _summaries(work: RunningTurn, plan: Plan) -> Iterator[Part]:
    lines = summary_lines(work, _known(work, plan, plan.summaries), (plan.room or work.room))
    if summaries := summary_notes(work, lines, plan.older, plan.unnamed):
        yield Part.of("memory", summaries, work.count)


def _quotes(work: RunningTurn, plan: Plan) -> Iterator[Part]:
    """Yield the quotes of compressed efforts that fit; those of the newest take tokens first."""
    anchor = _anchor(work, plan) if work.settings.anchor != "off" else {}
    block = _state_block(work, plan, anchor).tokens if anchor else 0
    limit = quotes_limit((plan.room or work.room), block)
    quotes: dict[str, Message] = {}
    goals = {effort.id: effort.goal for effort in _known(work, plan, [*plan.quotes])}
    for name in [name for name in reversed(plan.open) if name in plan.quotes]:
        compression = work.view.compression(name, plan.quotes[name])
        first = next(iter(work.view.log_turns(name)), 1)
        message = compression and quote(compression, first, work.fences, limit, goals.get(name, ""))
        if message:
            quotes[name] = message
            limit -= count_message(message, work.count)
    if quotes:
        in_order = [quotes[name] for name in plan.quotes if name in quotes]
        yield Part.of("quotes", in_order, work.count)


def _known(work: RunningTurn, plan: Plan, names: Sequence[str]) -> tuple[Effort, ...]:
    """Return these efforts as they were when the plan was made."""
    if not names:
        return ()
    events: Sequence[Event] = ()
    turn = plan.after_turn + 1
    if plan.events:
        is_running = turn == work.view.running.turn
        records = () if is_running else work.view.turns([turn])
        events = work.state.events if is_running else [e for one in records for e in one.events]
    running, tip = replace(work.view.running, turn=turn), replace(work.view.tip, turn=turn - 1)
    view = replace(work.view, running=running, tip=tip)
    return view.efforts_named(names, events[: plan.events])


def _past_turns(work: RunningTurn, plan: Plan, records: Sequence[Record]) -> Iterator[Part]:
    """Yield the turns of the plan, with a marker where the effort or the day changes."""
    names = [*dict.fromkeys(filter(None, map(_effort_of, records)))]
    efforts = {effort.id: effort for effort in _known(work, plan, names)}
    status: dict[str, str] = {effort.id: effort.status for effort in efforts.values()}
    if status.get(plan.active) == "open":
        status[plan.active] = "active"
    previous: tuple[str, str] | None = None
    for record in records:
        name, day, marker = _effort_of(record), _day(work, record), None
        if (name, day) != previous:
            # Its goal and constraints stand at the first marker of an effort only.
            state = status.get(name, "concluded")
            text = _marker(work, record, day, (state, efforts.pop(name, None)))
            marker = work.fences.note_within(text, _limit(work, plan, "open"))
        previous = name, day
        yield from _committed(work, record, plan, marker)
        yield from _logs_by_hand(work, record, plan)
    # What follows says the day only where it is another than that of the turn before.
    last = work.view.turns([plan.after_turn]) if plan.after_turn else ()
    days = [day for day in (shown(one.at, work.settings.timezone) for one in last) if day]
    if days and (previous is None or previous[1] != days[0]):
        note = work.fences.note(render("today", day=days[0]))
        yield Part.of("turns", [note], work.count)


def _logs_by_hand(work: RunningTurn, turn: Record, plan: Plan) -> Iterator[Part]:
    """Yield the logs that commands brought back after a turn."""
    limit = log_limit(plan.room or work.room)
    for name, turns in plan.by_hand.items():
        result = {"effort_id": name, "turns": turns}
        if plan.logs.get(name) == turn.turn:
            quoted = _quoted(work, turn, plan, result, frozenset())
            status = "open" if name in plan.open else "concluded"
            if quoted.turns:
                log = log_quote(name, status, quoted, limit, work.fences)
                yield Part.of("expanded", [log], work.count, turn.turn)


def _day(work: RunningTurn, record: Record) -> str:
    return shown(record.at, work.settings.timezone) or UNDATED


def _marker(work: RunningTurn, record: Record, day: str, begun: tuple[str, Effort | None]) -> str:
    """Return the marker before a turn, with goal and constraints if its open `effort` is given."""
    name, place, (status, effort) = _effort_of(record), {"turn": record.turn, "day": day}, begun
    if not name:
        return render("marker_ambient", **place)
    if len(record.efforts) > 1 and status == "concluded":
        first, others = record.efforts[:_MARKED], len(record.efforts) - _MARKED
        more = [render("marker_more", count=others)] if others > 0 else []
        return render("marker_several", **place, efforts=", ".join([*first, *more]))
    if effort is None or effort.status != "open":
        return render("marker", **place, effort=name, status=status)
    since = {"effort": name, "status": status, "since": effort.turn}
    return render("marker_open", **place, **since, **_purpose(work, effort))


def _purpose(work: RunningTurn, effort: Effort) -> dict[str, str]:
    """Return the goal, cut if it is long, and the constraints of an effort."""
    purpose = effort.purpose
    return {**purpose, "goal": cut_marked(purpose["goal"], GOAL_TOKENS, work.count)}


def _effort_of(record: Record) -> str:
    """Return the effort that a turn is shown as part of, empty for an ambient turn."""
    return next(iter(record.efforts), "")


def _out_of_view(work: RunningTurn, plan: Plan, records: Sequence[Record]) -> Iterator[Part]:
    """Yield notes on what is hidden: turns, logs, and open efforts none of whose turns is shown."""
    in_view = sorted({*plan.turns} | _in_logs(work, plan))
    turns, limit = ranges_between(in_view, plan.after_turn), _limit(work, plan, "open")
    if turns:
        fits = len(turns) <= _LIST_LENGTH
        turns = turns if fits else f"{turns[:_LIST_LENGTH].rpartition(',')[0]},…"
        message = work.fences.note(render("out_of_view", turns=turns_named(turns)))
        yield Part.of("turns", [message], work.count)
    away = [
        name
        for name, turn in plan.logs.items()
        # An open effort is not listed: its turns are, among the turns out of view.
        if turn <= plan.after_turn and turn not in plan.turns and name not in plan.open
    ]
    if away:
        content = render("logs_out_of_view", efforts=", ".join(away))
        # A third at most: what is open matters more than a log that was asked for once.
        message = work.fences.note_within(content, limit // 3)
        limit -= count_message(message, work.count)
        yield Part.of("turns", [message], work.count)
    unparked = {*map(_effort_of, records)}
    # The list is cut at its end: what was active last stands first.
    parked = [name for name in reversed(plan.open) if name not in unparked]
    # What the running turn opened stands in that.
    efforts = work.view.as_of(plan.after_turn).efforts_named(parked, ()) if parked else ()
    lines = {
        f"- {_named(effort.id, plan)}": render("open_line", **_purpose(work, effort))
        for effort in efforts
        if effort.status == "open"
    }
    if lines:
        yield Part.of("turns", [_open_efforts(work, lines, limit)], work.count)


def _in_logs(work: RunningTurn, plan: Plan) -> set[int]:
    """Return the turns that the logs show which are in view since the plan was made, or before."""
    turns: set[int] = set()
    for name, at in plan.logs.items():
        if is_qualified(name) or not at or not plan.shows(at) or at in plan.short:
            continue
        turns |= numbers(plan.by_hand.get(name, ""))
        running = work.view.running
        for record in (running,) if at == running.turn else work.view.turns([at]):
            known = plan.within if at > plan.after_turn else None
            turns |= loaded_in(replace(record, messages=record.messages[:known]), name)
    return {turn for turn in turns if turn <= plan.after_turn}


def _named(effort: str, plan: Plan) -> str:
    return render("open_active", effort=effort) if effort == plan.active else effort


def _open_efforts(work: RunningTurn, lines: Mapping[str, str], limit: int) -> Message:
    """Return the note that lists open efforts within `limit` tokens, at least their number."""

    def form(text: str) -> str:
        return render("open_efforts", quote=text)

    free = limit - count_message(work.fences.note(form("")), work.count)
    text = rendered_fields(limited(lines, max(1, free), work.count))
    if text:
        return work.fences.note_within(text, limit, form)
    return work.fences.note_within(render("open_efforts_unnamed", efforts=len(lines)), limit)


def _state_block(work: RunningTurn, plan: Plan, anchor: Mapping[str, str]) -> Part:
    """Return the note with the state block as it was when the context was rebuilt."""
    anchor = {name: marked(text) for name, text in anchor.items()}

    def quoted(block: Mapping[str, str]) -> Message:
        cut = block != anchor or any(text.endswith("…") for text in block.values())
        end = ", " + render("cut_to_fit") if cut else ""
        return work.fences.note(render("anchor_note", how=end, quote=rendered_fields(block)))

    limit = _limit(work, plan, "anchor") - count_message(quoted({}), work.count)
    return Part.of("anchor", [quoted(limited(anchor, max(1, limit), work.count))], work.count)


def _committed(
    work: RunningTurn, record: Record, plan: Plan, marker: Message | None = None
) -> list[Part]:
    """Return a committed turn in parts; they are cached if they depend on its record alone."""

    def make_parts(record: Record) -> list[Part]:
        return _turn_parts(work, replace(record, messages=work.messages(record)), plan)

    turn, is_next = record.turn, record.turn == plan.after_turn + 1
    noted = _anchor(work, plan) if is_next and work.settings.anchor != "off" else {}
    form = (
        *(work.count, work.provider, turn <= plan.after_turn, turn <= plan.previews),
        *(plan.short.get(turn), is_whole(record, plan), plan.room, work.room),
        (plan.rounds, plan.within, *noted.items()) if is_next else None,
        _finished(record, plan),
    )
    is_alone = not _depends_on_others(record, plan)
    parts = work.once(form, record, make_parts) if is_alone else make_parts(record)
    if marker is None:
        return parts
    first, *later = parts or [Part("turns", (), 0)]
    tokens = count_message(marker, work.count) + first.tokens
    return [Part("turns", (marker, *first.messages), tokens, turn), *later]


def _depends_on_others(record: Record, plan: Plan) -> bool:
    """Tell whether a turn shows logs, or hints at efforts and other turns."""
    for message in record.messages:
        if message["type"] == "tool" and message["data"].get("name") in LOG_TOOLS:
            return True
    for event in record.events if record.turn > plan.after_turn else ():
        if event["type"] == "hinted" or "related" in event:
            return True
    return False


def _turn_parts(work: RunningTurn, turn: Logged, plan: Plan) -> list[Part]:
    """Return the parts of a turn: notes before it, its messages, and logs and hints in it.

    The notes may have a quarter of a shortened turn, of any other one the whole room.
    """
    before: list[Message] = []
    # Providers want a user's message first.
    if turn.messages and turn.messages[0]["type"] == "ai":
        why = "unasked" if turn.turn == 1 else "unasked_later"
        before.append(work.fences.note(render(why)))
    rounds = plan.rounds if turn.turn == plan.after_turn + 1 else None
    limit = plan.short.get(turn.turn, 4 * (plan.room or work.room)) // 4
    if rounds is not None and rounds.limits:
        limit = 0 if rounds.bare else (plan.room or work.room) // _NOTES_SHARE
    for event in turn.events if turn.turn > plan.after_turn else ():
        if event["type"] == "dated":
            notes = [work.fences.note(render("today", day=event["day"]))]
        elif event["type"] == "hinted":
            notes = _hint_notes(work, turn, event["hints"])
        else:
            continue
        limit -= count_messages(notes, work.count)
        before += notes if limit >= 0 else []
    name: PartName = "turn" if turn.turn == work.view.running.turn else "turns"
    notes_tokens = count_messages(before, work.count) if before else 0
    pieces = [*zip(repeat(name), before), *_pieces(work, turn, plan, name, notes_tokens)]
    parts: list[Part] = []
    for part_name, group in groupby(pieces, key=itemgetter(0)):
        parts.append(Part.of(part_name, map(itemgetter(1), group), work.count, turn.turn))
    return parts


def _hint_notes(work: RunningTurn, turn: Logged, hints: Sequence[Hint]) -> list[Message]:
    """Return hints as a note, from what the archive had before the turn; none if all are erased."""
    lines = hint_lines(work.view.as_of(turn.turn - 1), hints)
    return [work.fences.note(render("hints", quote="\n".join(lines)))] if lines else []


def _pieces(
    work: RunningTurn, turn: Logged, plan: Plan, name: PartName, notes: int
) -> Iterator[_Piece]:
    """Yield a turn's messages with the logs and hints in it, shortened as the plan says.

    `notes` are the tokens of the notes before it, which count towards its limit.
    """
    messages, back = _as_sent(work, turn, plan)
    known = len(turn.messages) if turn.turn <= plan.after_turn else 0
    if turn.turn == plan.after_turn + 1:
        known = plan.within
    if not is_whole(turn, plan):
        yield from _edge_pieces(work, turn, plan, messages)
        return
    end, loaded = 0, frozenset[_Load]()
    if plan.rounds is not None and turn.turn == plan.after_turn + 1:
        cut = plan.rounds
        end = min(cut.until, len(messages))  # an application may have removed some
        # Of calls with one id a call is told by how many of those that are shown come after it.
        away = hidden(turn.messages[:end], cut)
        head, early = (_without(turn, range(to), away) for to in (end, min(end, known)))
        insertions = _insertions(work, head, plan, len(early.messages), frozenset())
        if insertions or back:
            insertions = _with_back(insertions, head, back)
        if cut.limits or cut.bare:
            free = 0 if cut.bare else int(LOGS_SHARE * (plan.room or work.room))
            insertions = _fitting(insertions, free, work)
        # What came until the plan was made may say what else is active.
        so_far = replace(turn, messages=turn.messages[: max(end, plan.within)])
        short = cut_turn(so_far, messages[:end], cut, (plan.room or work.room), work.fences)
        yield from _with_insertions(short, insertions, name)
        loaded = frozenset(load for one in insertions.values() for load in one.loaded)
    elif (limit := plan.short.get(turn.turn)) is not None:
        limit = max(1, limit - notes)
        insertions = _insertions(work, turn, plan, known, frozenset())
        insertions = _fitting(insertions, limit // 2, work)
        limit -= sum(_tokens(work, one) for one in insertions.values())
        yield from _with_insertions(_shortened(work, turn, messages, limit), insertions, name)
        return
    most = PREVIEW if turn.turn <= plan.previews else (plan.room or work.room) // RESULT_SHARE
    limits = [UNLIMITED] * end + [Limits(most)] * (len(messages) - end)
    shown_whole = previewed_each(turn, messages, limits, work.count)[end:]
    if not isinstance(turn, Record) and shown_whole != messages[end:]:
        # Whether its attachments are sent was decided for the turn.
        pairs = zip(messages[end:], shown_whole, strict=True)
        shown_whole = tuple(
            old if has_files(old) and work.count(text_of(old)) <= most else new
            for old, new in pairs
        )
    if finished := _finished(turn, plan):
        shown_whole = tuple(m for at, m in enumerate(shown_whole, end) if at not in finished)
    places = range(end, len(turn.messages))
    rest = _without(turn, places, finished) if end or finished else turn
    insertions = _insertions(work, rest, plan, max(0, known - end), loaded)
    if insertions or back:
        insertions = _with_back(insertions, rest, back)
    history = valid_history(shown_whole, work.fences)
    yield from (
        _with_insertions(history, insertions, name) if insertions else zip(repeat(name), history)
    )


def _without(turn: Logged, places: range, away: Collection[int]) -> Logged:
    """Return a turn with the messages at some places, without those that are away."""
    return replace(turn, messages=tuple(turn.messages[at] for at in places if at not in away))


def _as_sent(
    work: RunningTurn, turn: Logged, plan: Plan
) -> tuple[tuple[Message, ...], Mapping[CallKey, Message]]:
    """Return the messages of a turn as they are sent whole, and what its calls brought back."""
    past, back = turn.turn <= plan.after_turn, dict[CallKey, Message]()
    if isinstance(turn, Record):
        said = placeholders(as_past(turn.messages) if past else turn.messages, turn.turn)
    else:
        running = attached(work)
        said, back = running.messages, {**running.back}
    if work.provider and not (past and isinstance(turn, Record)):
        said = _without_foreign_thoughts(work, said)
    if not past:
        # Newer answers keep their state blocks: the one before them in the context is older.
        is_next = turn.turn == plan.after_turn + 1 and work.settings.anchor != "off"
        said = each_block_once(said, _anchor(work, plan) if is_next else {}, plan.within)
    return with_marked_pointers(said), back


def _anchor(work: RunningTurn, plan: Plan) -> Mapping[str, str]:
    """Return the state block that the note has: that of the plan, else the newest.

    The newest stands in the running turn, where the model wrote it, until that round leaves.
    """
    is_shown = plan.anchor is not None and not _block_left(work, plan)
    return plan.anchor if is_shown and plan.anchor is not None else work.state.anchor


def _block_left(work: RunningTurn, plan: Plan) -> bool:
    """Tell whether the round with the newest state block of the running turn is not shown."""
    running, cut = work.view.running, plan.rounds
    if cut is None or running.turn != plan.after_turn + 1:
        return False
    at = last_block(running.messages)
    return at is not None and (at < cut.left or cut.has_gone(at))


def _finished(turn: Logged, plan: Plan) -> frozenset[int]:
    """Return the places of a past turn's rounds of efforts that are concluded.

    The rounds that brought a log which is shown are not among them.
    """
    if turn.turn > plan.after_turn:
        return frozenset()
    last = len(turn.messages) - 1
    places = frozenset(
        at
        for name, begin, end in kept(turn)
        if name and name not in plan.open
        for at in range(begin, end)
        if turn.messages[at]["type"] != "human" and at != last
    )
    return places - _log_rounds(turn, plan) if places else places


def _shortened(
    work: RunningTurn, turn: Logged, messages: Sequence[Message], limit: int
) -> tuple[Message, ...]:
    """Return a past turn within `limit` tokens; one that was broken off has no answer."""
    if answered(messages):
        return shorten_turn(turn, messages, limit, work.fences)
    return within(turn, messages, limit, work.room, work.fences)


def _fitting(insertions: _Insertions, free: int, work: RunningTurn) -> _Insertions:
    """Return the newest insertions that have at most `free` tokens together."""
    kept = _Insertions()
    for call, insertion in reversed([*insertions.items()]):
        free -= _tokens(work, insertion)
        if free >= 0:
            kept[call] = insertion
    return kept


def _tokens(work: RunningTurn, insertion: _Insertion) -> int:
    return count_messages([note for _, note in insertion.pieces], work.count)


def _without_foreign_thoughts(
    work: RunningTurn, messages: Sequence[Message]
) -> tuple[Message, ...]:
    """Return messages without the thoughts of other providers' models, which refuse them."""
    providers = _providers(messages)
    if {*providers} <= {None, "", work.provider}:
        return tuple(messages)
    return tuple(
        without_thoughts(message) if by and by != work.provider else message
        for message, by in zip(messages, providers, strict=True)
    )


_providers = Growing[Any](
    lambda messages, _: [
        (message["data"].get("response_metadata") or {}).get("model_provider")
        for message in messages
    ]
)


def _edge_pieces(
    work: RunningTurn, turn: Logged, plan: Plan, messages: Sequence[Message]
) -> Iterator[_Piece]:
    """Yield request and final answer of a past turn, and the rounds that brought a log back."""
    if turn.turn in plan.short:
        limit = plan.short[turn.turn]
        for message in shorten_edges(turn, messages, limit, work.fences):
            yield "turns", message
        return
    if turn.turn <= plan.previews:
        messages = previewed(turn, messages, Limits(PREVIEW), work.count)
    kept = sorted({*edges(messages), *_log_rounds(turn, plan)})
    part = replace(turn, messages=tuple(turn.messages[at] for at in kept))
    insertions = _insertions(work, part, plan, len(kept), frozenset())
    history = valid_history([messages[at] for at in kept], work.fences)
    yield from _with_insertions(history, insertions, "turns")


def _log_rounds(turn: Logged, plan: Plan) -> set[int]:
    """Return the places of the messages of the rounds that brought a log which is shown."""
    logs = {effort for effort, place in plan.logs.items() if place == turn.turn}
    return log_rounds(turn.messages, logs)


def _with_insertions(
    messages: Sequence[Message], insertions: _Insertions, name: PartName
) -> Iterator[_Piece]:
    """Yield messages, and after all results of a round the insertions that belong to them."""
    waiting: list[_Piece] = []
    for message, call in with_calls(messages):
        if call is None:
            yield from waiting
            waiting = []
        yield name, message
        if call is not None and call in insertions:
            waiting += insertions[call].pieces
    yield from waiting


def _with_back(
    insertions: _Insertions, turn: Logged, back: Mapping[CallKey, Message]
) -> _Insertions:
    """Return the insertions of a turn's calls, in their order, with attachments brought back."""
    found: _Insertions = {}
    for _, call in with_calls(turn.messages):
        if call is None:
            continue
        insertion = insertions.get(call, _Insertion(()))
        notes: tuple[_Piece, ...] = (("expanded", back[call]),) if call in back else ()
        if pieces := (*insertion.pieces, *notes):
            found[call] = replace(insertion, pieces=pieces)
    return found


def _insertions(
    work: RunningTurn, turn: Logged, plan: Plan, known: int, loaded: frozenset[_Load]
) -> _Insertions:
    """Return the logs and hints that a turn's calls put into the context.

    Hints at other sessions' work on an opened effort stay until the plan changes. Of what the first
    `known` messages brought, only the logs that are still shown stay. What is `loaded` already is
    not loaded again.
    """
    insertions: _Insertions = {}
    if "tool" not in map(itemgetter("type"), turn.messages):
        return insertions
    events = turn.events if turn.turn > plan.after_turn else ()
    related = {event["effort"]: event["related"] for event in events if "related" in event}
    for _, call, result in results_of(turn.messages, ("open_effort",)) if related else ():
        efforts = related.get(str(result.get("effort_id")), ())
        hints = [{"effort": effort, "offset": 0} for effort in efforts]
        for message in _hint_notes(work, turn, hints):
            name: PartName = "turn" if turn.turn == work.view.running.turn else "turns"
            insertions[call] = _Insertion(((name, message),))
    logs = {effort for effort, place in plan.logs.items() if place == turn.turn}
    for at, call, result in log_results(turn.messages):
        name, limit = result["effort_id"], log_limit(plan.room or work.room)
        new = {(name, number) for number in turns_of_log(result)} - loaded
        if not new or (at < known and name not in logs):
            continue
        quoted = _quoted(work, turn, plan, result, loaded)
        if quoted.turns:
            status = "open" if result["status"] == "reopened" else "concluded"
            log = log_quote(name, status, quoted, limit, work.fences)
            insertions[call] = _Insertion((("expanded", log),), frozenset(new))
            loaded |= new
    return insertions


def _quoted(
    work: RunningTurn,
    turn: Logged,
    plan: Plan,
    result: Mapping[str, Any],
    loaded: frozenset[_Load],
) -> Quoted:
    """Return the turns of a log that a call brings back, and which of them stand above it."""
    name = result["effort_id"]
    whole = work.view.whole_turns_of(name, turns_of_log(result))
    turns = tuple(narrowed(turn, parted(name)[1]) for turn in whole)
    above = {number for effort, number in loaded if effort == name}
    begin = result["offset"] if isinstance(result.get("offset"), int) else 0
    if is_qualified(name):  # its turns have the numbers of another session
        numbers_above = frozenset(above & {one.turn for one in turns})
        return Quoted(turns, numbers_above, whole=whole, begin=begin)
    in_others = {number for effort, number in loaded if effort != name}
    for other, entry in work.state.expanded.items():
        is_shown = plan.logs.get(other, entry["expanded_turn"]) == entry["expanded_turn"]
        is_before = entry["expanded_turn"] < turn.turn and other != name
        if is_shown and is_before and not is_qualified(other):
            above |= {*entry["turns"]}
            in_others |= {*entry["turns"]}
    # The log of another effort has other rounds of a turn, but for those of one effort.
    several = {one.turn for one in whole if kept(one)}
    above -= several - {number for effort, number in loaded if effort == name}
    standing = [one for one in whole if plan.shows(one.turn) and one.status != "erased"]
    without = {one.turn for one in standing if not is_whole(one, plan) or _finished(one, plan)}
    above |= {one.turn for one in standing if _stands_whole(work, one, plan)} - without
    without -= above | {*plan.short}
    requests = (several & in_others) - above
    partly = {
        one.turn: (_standing(one, plan) if one.turn in without else frozenset())
        | (_requests(one) if one.turn in requests else frozenset())
        for one in whole
        if one.turn in without | requests
    }
    numbers_above = frozenset(above & {one.turn for one in turns})
    return Quoted(turns, numbers_above, partly, whole, begin)


def _requests(turn: Record) -> frozenset[int]:
    """Return the `id`s of what the user said in a turn, which each log of the turn has."""
    return frozenset(id(message) for message in turn.messages if message["type"] == "human")


def _standing(turn: Record, plan: Plan) -> frozenset[int]:
    """Return the `id`s of the messages of a past turn that stand in the context."""
    places = {*range(len(turn.messages))} - _finished(turn, plan)
    if not is_whole(turn, plan):
        places = {*edges(turn.messages)} | _log_rounds(turn, plan)
    return frozenset(id(turn.messages[at]) for at in places)


def _stands_whole(work: RunningTurn, turn: Record, plan: Plan) -> bool:
    most = PREVIEW if turn.turn <= plan.previews else (plan.room or work.room) // RESULT_SHARE
    is_preview = has_long_results(work, turn, most)
    return is_whole(turn, plan) and turn.turn not in plan.short and not is_preview
