"""The plan as messages: which parts the context has, and in which order."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from math import inf
from typing import TypeAlias

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..dates import UNDATED, local_day
from ..efforts import Effort
from ..names import is_qualified, numbers, span, turns_named
from ..running_turn import Turn
from ..spans import kept
from ..state_block import limited, rendered_fields
from ..tokens import count_message, count_messages, cut_marked
from ..turn import Event, StoredTurn
from .budget import GOAL_TOKENS, SHARES, Part, log_limit, part_limit, quotes_limit, size
from .plan import BLOCK, CONSTRAINTS, Plan
from .quotes import Quotes, log_quote, quote
from .summaries import known_facts, summary_lines, summary_notes
from .turn_parts import anchor_of, committed_parts, log_begin, quoted_log, turn_parts

_MARKED = 3  # efforts of a turn that its marker names
_BLOCK_SHARE = 4  # one in how many of its tokens the state block has at last, see `BLOCK`
_LIST_LENGTH = 60  # characters of the list of turns that are out of view

Parts: TypeAlias = tuple[Part, ...]
"""The parts of the context without the fixed ones, in their order."""


def parts_of(work: Turn, plan: Plan) -> Parts:
    """Return the parts of the context, without the fixed ones, that a plan describes."""
    parts: list[Part] = []
    if plan.summaries or plan.older or plan.unnamed:
        efforts, room = _known(work, plan, plan.summaries), plan.room_or(work.room)
        lines = summary_lines(work, efforts, room, known_facts(work, efforts))
        if summaries := summary_notes(work, lines, plan.older, plan.unnamed):
            parts.append(Part.of("memory", summaries, work.run.count))
    quotes = quotes_of(work, plan)
    if notes := [*chain(*(quotes[name].notes for name in plan.quotes if name in quotes))]:
        parts.append(Part.of("quotes", notes, work.run.count))
    if plan.after_turn or plan.open or plan.logs:
        past = [turn for turn in work.view.past.turns(plan.turns) if turn.status != "erased"]
        names = [*dict.fromkeys(filter(None, map(_effort_of, past)))]
        efforts, run = _known(work, plan, names), work.run
        logs = [(_opened(work, name, plan), log) for name, log in _logs(work, plan)]
        given = plan, work.room, run.count, run.provider, run.refused, run.settings.timezone
        parts += work.unchanged(
            (*given, efforts, logs), past, lambda: [*_past_turns(work, plan, past, efforts, logs)]
        )
        # What is out of view changes with each plan: it stands after what the provider has cached.
        parts += _out_of_view(work, plan, past)
    anchor = anchor_of(work, plan) if work.run.settings.anchor != "off" else {}
    block = [_state_block(work, plan, anchor)] if anchor else []
    if plan.todos:
        room = plan.room_or(work.room) // (_BLOCK_SHARE if plan.lacks(BLOCK) else 1)
        free = int(SHARES["anchor"] * room) - size(block)
        note = work.fences.note_within(render("todos", quote=plan.todos), free)
        block.append(Part.of("anchor", [note], work.run.count))
    later = work.view.past.turns(range(plan.after_turn + 1, work.view.tip.turn + 1))
    inside: tuple[BaseMessage, ...] = ()
    if plan.rounds is not None and (later or work.view.running.messages):
        inside = tuple(message for part in block for message in part.messages)
    else:
        parts += block
    for turn in later:
        parts += committed_parts(work, turn, plan, before=(size(parts), inside))
        inside = ()
    if work.view.running.messages:
        running = replace(work.view.running, events=work.efforts.events)
        parts += turn_parts(work, running, plan, (size(parts), inside))
    return tuple(parts)


def _limit(work: Turn, plan: Plan, share: str) -> int:
    return part_limit(share, plan.room_or(work.room))


def quotes_of(work: Turn, plan: Plan) -> Mapping[str, Quotes]:
    """Return what stands for the compressed turns of open efforts.

    Each keeps at least a bare note, as long as that fits; the newest take tokens for quotes first.
    """
    if not plan.quotes:
        return {}
    anchor = anchor_of(work, plan) if work.run.settings.anchor != "off" else {}
    block = _state_block(work, plan, anchor).tokens if anchor else 0
    limit, count = quotes_limit(plan.room_or(work.room), block), work.run.count
    goals = {effort.id: effort.goal for effort in _known(work, plan, [*plan.quotes])}
    forms: dict[str, Callable[[int], Quotes]] = {}
    for name in [name for name in reversed(plan.open) if name in plan.quotes]:
        if compression := work.view.compression(name, plan.quotes[name]):
            first = next(iter(work.view.log_turns(name)), 1)
            goal = goals.get(name, "")
            forms[name] = partial(quote, compression, first, work.fences, goal=goal)
    least = {name: count_messages(form(0).notes, count) for name, form in forms.items()}
    reserved, quotes = sum(least.values()), dict[str, Quotes]()
    for name, form in forms.items():
        reserved -= least[name]
        shown = form(max(0, limit - reserved))
        fits = count_messages(shown.notes, count) <= limit
        quotes[name] = shown if fits else shown._replace(notes=())
        limit -= count_messages(quotes[name].notes, count)
    return quotes


def _known(work: Turn, plan: Plan, names: Sequence[str]) -> tuple[Effort, ...]:
    """Return these efforts as they were when the plan was made."""
    if not names:
        return ()
    events: Sequence[Event] = ()
    turn = plan.after_turn + 1
    if plan.events:
        is_running = turn == work.view.running.number
        turns = () if is_running else work.view.past.turns([turn])
        events = work.efforts.events if is_running else [e for one in turns for e in one.events]
    running = replace(work.view.running, number=turn)
    view = replace(work.view.as_of(turn - 1), running=running)
    return view.efforts_named(names, events[: plan.events])


def _past_turns(
    work: Turn,
    plan: Plan,
    turns: Sequence[StoredTurn],
    known: Sequence[Effort],
    logs: Sequence[tuple[float, Part]],
) -> Iterator[Part]:
    """Yield the turns of the plan, with a marker where the effort or the day changes, or at a gap.

    A log stands before the turn whose number it has, else behind them all.
    """
    efforts, shown = {effort.id: effort for effort in known}, 0
    listed = [numbers(log) for name, log in plan.logs.items() if not is_qualified(name)]
    in_plan = sorted(turn for turn in {*chain(*listed)} if turn <= plan.after_turn)
    # A turn of several efforts is not whole: a log has the rounds of its own effort.
    in_logs = [stored.number for stored in work.view.past.turns(in_plan) if not kept(stored)]
    gaps = 0
    status: dict[str, str] = {effort.id: effort.status for effort in known}
    if status.get(plan.active) == "open":
        status[plan.active] = "active"
    previous: tuple[str, str] | None = None
    for turn in turns:
        yield from (log for opened, log in logs if shown < opened <= turn.number)
        lines = [*_gap(in_logs, shown, turn.number, is_first=not gaps)]
        gaps, shown = gaps + len(lines), turn.number
        name, day = _effort_of(turn), (local_day(turn.at, work.run.settings.timezone) or UNDATED)
        if (name, day) != previous:
            # Its goal and constraints stand at the first marker of an effort only.
            state = status.get(name, "concluded")
            lines.append(_marker(work, turn, day, (state, efforts.pop(name, None))))
        previous = name, day
        limit = _limit(work, plan, "open")
        marker = work.fences.note_within("\n".join(lines), limit) if lines else None
        yield from committed_parts(work, turn, plan, marker)
    yield from (log for opened, log in logs if opened > shown)
    for gap in _gap(in_logs, shown, plan.after_turn + 1, is_first=not gaps):
        yield Part.of("turns", [work.fences.note(gap)], work.run.count)
    # What follows says the day only where it is another than that of the turn before.
    last = work.view.past.turns([plan.after_turn]) if plan.after_turn else ()
    days = [day for day in (local_day(one.at, work.run.settings.timezone) for one in last) if day]
    if days and (previous is None or previous[1] != days[0]):
        note = work.fences.note(render("today", day=days[0]))
        yield Part.of("turns", [note], work.run.count)


def _opened(work: Turn, effort: str, plan: Plan) -> float:
    """Return the turn that opened an effort, infinity for none: its log stands before that turn."""
    entry = work.efforts.open.get(effort) if effort in plan.open else None
    return entry["opened_turn"] if entry else inf


def _logs(work: Turn, plan: Plan) -> Iterator[tuple[str, Part]]:
    """Yield efforts and their logs, each without what stands in the turns or a log before it."""
    limit, loaded = log_limit(plan.room_or(work.room)), dict[str, Collection[int]]()
    for name, turns in plan.logs.items():
        if turns:
            shown = numbers(turns)
            quoted = quoted_log(work, plan, (name, shown, log_begin(work, name)), loaded)
            loaded[name] = shown
            if quoted.turns:
                status = "open" if name in plan.open else "concluded"
                log = log_quote(name, status, quoted, limit, work.fences)
                yield name, Part.of("expanded", [log], work.run.count)


def _marker(work: Turn, turn: StoredTurn, day: str, begun: tuple[str, Effort | None]) -> str:
    """Return the marker before a turn, with goal and constraints if its open `effort` is given."""
    name, place, (status, effort) = _effort_of(turn), {"turn": turn.number, "day": day}, begun
    if not name:
        return render("marker_ambient", **place)
    if len(turn.efforts) > 1 and status == "concluded":
        first, others = turn.efforts[:_MARKED], len(turn.efforts) - _MARKED
        more = [render("marker_more", count=others)] if others > 0 else []
        return render("marker_several", **place, efforts=", ".join([*first, *more]))
    if effort is None or effort.status != "open":
        return render("marker", **place, effort=name, status=status)
    aims = _aims(work, effort, "aims", since=effort.turn)
    return render("marker_open", **place, effort=name, status=status, aims=aims)


def _aims(work: Turn, effort: Effort, form: str, **since: int) -> str:
    """Return the goal, cut if it is long, and the constraints of an effort.

    That there are none is not said, as a turn may have one that the model has not noted.
    """
    purpose = effort.purpose
    goal = cut_marked(purpose["goal"], GOAL_TOKENS, work.run.count)
    if not effort.constraints:
        return render("goal_alone", goal=goal)
    return render(form, goal=goal, constraints=purpose["constraints"], **since)


def _effort_of(turn: StoredTurn) -> str:
    """Return the effort that a turn is shown as part of, empty for an ambient turn."""
    return next(iter(turn.efforts), "")


def _out_of_view(work: Turn, plan: Plan, shown: Sequence[StoredTurn]) -> Iterator[Part]:
    """Yield notes on logs that had to leave, and open efforts none of whose turns is shown."""
    limit = _limit(work, plan, "open")
    # An open effort is not listed: its turns are, among the turns out of view.
    away = [name for name, turns in plan.logs.items() if not turns and name not in plan.open]
    if away:
        content = render("logs_out_of_view", efforts=", ".join(away))
        # A third at most: what is open matters more than a log that was asked for once.
        message = work.fences.note_within(content, limit // 3)
        limit -= count_message(message, work.run.count)
        yield Part.of("turns", [message], work.run.count)
    unparked = {*map(_effort_of, shown)}
    # The list is cut at its end: what was active last stands first.
    parked = [name for name in reversed(plan.open) if name not in unparked]
    # What the running turn opened stands in that.
    efforts = work.view.as_of(plan.after_turn).efforts_named(parked, ()) if parked else ()
    if plan.lacks(CONSTRAINTS):  # the note names the tool that lists them
        active = plan.active
        efforts = tuple(e if e.id == active else replace(e, constraints=()) for e in efforts)
    shown_as = {plan.active: render("open_active", effort=plan.active)} if plan.active else {}
    lines = {
        f"- {shown_as.get(effort.id, effort.id)}": _aims(work, effort, "open_line")
        for effort in efforts
        if effort.status == "open"
    }
    if lines:
        yield Part.of("turns", [_open_efforts(work, lines, limit)], work.run.count)


def _gap(in_logs: Sequence[int], before: int, after: int, *, is_first: bool) -> Iterator[str]:
    """Yield the line that says which turns are out of view between two that are shown."""
    inside = in_logs[bisect_right(in_logs, before) : bisect_left(in_logs, after)]
    gaps = [(a + 1, b - 1) for a, b in pairwise([before, *inside, after]) if b - a > 1]
    if gaps:
        listed = ",".join(span(*gap) for gap in gaps)
        listed = listed if len(listed) <= _LIST_LENGTH else span(gaps[0][0], gaps[-1][1])
        form = "out_of_view" if is_first else "out_of_view_too"
        yield render(form, turns=turns_named(listed))


def _open_efforts(work: Turn, lines: Mapping[str, str], limit: int) -> BaseMessage:
    """Return the note that lists open efforts within `limit` tokens, at least their number."""

    def form(text: str) -> str:
        return render("open_efforts", quote=text)

    free = limit - count_message(work.fences.note(form("")), work.run.count)
    text = rendered_fields(limited(lines, max(1, free), work.run.count))
    if text:
        return work.fences.note_within(text, limit, form)
    return work.fences.note_within(render("open_efforts_unnamed", efforts=len(lines)), limit)


def _state_block(work: Turn, plan: Plan, anchor: Mapping[str, str]) -> Part:
    """Return the note with the state block as it was when the context was rebuilt."""

    def quoted(block: Mapping[str, str]) -> BaseMessage:
        cut = block != anchor or any(text.endswith("…") for text in block.values())
        end = ", " + render("cut_to_fit") if cut else ""
        return work.fences.note(render("anchor_note", how=end, quote=rendered_fields(block)))

    limit = _limit(work, plan, "anchor") - count_message(quoted({}), work.run.count)
    limit = limit // _BLOCK_SHARE if plan.lacks(BLOCK) else limit
    return Part.of(
        "anchor", [quoted(limited(anchor, max(1, limit), work.run.count))], work.run.count
    )
