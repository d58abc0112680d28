"""The tools that bring the log of a concluded effort into the context, and remove it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...prompts.loader import render
from ..context.budget import LOGS_SHARE, log_limit
from ..context.changes import fitting_turns
from ..context.quotes import Quoted, log_quote, place_of_match
from ..efforts import Effort, happened, within_limit
from ..errors import ToolError
from ..messages import text
from ..names import numbers, parted, ranges
from ..running_turn import Outcome, Turn
from ..search.terms import indexed, query_terms
from ..spans import active_before, spans
from ..tool_names import DECIDING
from ..transcript import offsets, transcript
from ..turn import StoredTurn, first_round
from .arguments import Text, Turns

_SHOWN = 80  # characters of a list of turns that an error repeats: a model may write any


def expand_effort(work: Turn, effort_id: str, turns: Turns = "", query: Text = "") -> Outcome:
    """Bring the log of a concluded effort into the context, or renew its place there."""
    effort = work.find_concluded(effort_id)
    log = work.view.log(effort.id)
    if not log:
        messages = (*work.view.running.messages, *work.results)
        first = first_round(messages)
        begins = (
            max(begin, first)
            for name, begin, _ in spans(messages, active_before(work.efforts))
            if name == effort.id
        )
        places = offsets(messages)
        offset = next((places[at - 1].end if at else 0 for at in begins), 0)
        raise ToolError(
            render(
                "nothing_to_expand", effort=repr(effort.id), turn=work.efforts.turn, offset=offset
            )
        )
    chosen = _choose(work, effort, log, numbers(turns), query)
    loaded = loaded_turns(work, effort, log, chosen, query)
    turn_numbers, tokens = [turn.number for turn in chosen], loaded["tokens"]
    event = effort.expansion(turn_numbers, tokens)
    if is_in_view(work, effort.id, turn_numbers):
        event["again"], loaded["tokens"] = True, 0
        if offset := loaded.pop("offset", 0):
            loaded["how"] = render("matches_at", read=reading_call(effort, turn_numbers, offset))
    state = work.efforts
    entry = state.expanded.get(effort.id)
    if entry is not None and entry["expanded_turn"] != state.turn and "again" not in event:
        event["moved"] = True  # it leaves its former place
    if effort.id not in state.summaries:
        state = happened(state, {"type": "returned", "effort": effort.id})
    state = within_limit(happened(state, event))
    return work.put(state), {"status": "expanded", "effort_id": effort.id, **loaded}


def collapse_effort(work: Turn, effort_id: str) -> Outcome:
    """Take the log of an expanded effort out of the context, but not its summary."""
    effort, state = work.find(effort_id), work.efforts
    if effort.id not in state.expanded:
        listed = ", ".join(state.expanded) or "none"
        raise ToolError(render("not_expanded", effort=repr(effort.id), efforts=listed))
    state = happened(state, {"type": "collapsed", "effort": effort.id, "auto": False})
    return work.put(state), {"status": "collapsed", "effort_id": effort.id}


def _choose(
    work: Turn,
    effort: Effort,
    log: Sequence[StoredTurn],
    requested: frozenset[int],
    query: str,
) -> list[StoredTurn]:
    """Return the turns of a log to show, as many as fit beside those that stand there.

    They are the requested ones, else those with most terms of the query, else those that matter.
    """
    missing = requested - {turn.number for turn in log}
    if missing:
        turns, has = ranges(sorted(missing))[:_SHOWN], ranges([turn.number for turn in log])
        which = {"turns": repr(turns), "effort": repr(effort.id)}
        raise ToolError(render("turns_not_in_effort", **which, has=repr(has)))
    chosen = [turn for turn in log if turn.number in requested]
    if not chosen and (terms := frozenset(query_terms(query))):
        hits = {turn.number: len(terms.intersection(indexed(transcript([turn])))) for turn in log}
        matching = (turn for turn in log if hits[turn.number])
        chosen = sorted(matching, key=lambda turn: -hits[turn.number])
    standing, free = _standing(work, effort), _free_for(work, effort)
    wanted = [turn for turn in chosen or _by_weight(log) if turn.number not in standing]
    if not wanted or (not chosen and work.run.count(transcript(wanted)) <= free):
        return chosen or list(log)
    fitting = fitting_turns(wanted, free, work.run.count)
    # Alone a log whose first turn is too long shows its head.
    if free < log_limit(work.room) and work.run.count(transcript(fitting)) > free:
        which = {"effort": repr(effort.id), "expanded": ", ".join(work.efforts.expanded)}
        unread = [turn.number for turn in wanted]
        raise ToolError(
            render("no_room_for_log", **which, read=reading_call(effort, sorted(unread)))
        )
    return fitting


def _by_weight(log: Sequence[StoredTurn]) -> list[StoredTurn]:
    """Return the turns of a log by what they tell of it.

    That is how it began and how it ended, then where it was opened, closed or its goal changed,
    then the others from both ends.
    """
    ends = [turn for pair in zip(log, reversed(log), strict=True) for turn in pair]
    deciding = [turn for turn in log if any(message.name in DECIDING for message in turn.messages)]
    return [*{turn.number: turn for turn in (*ends[:2], *deciding, *ends)}.values()]


def _standing(work: Turn, effort: Effort) -> frozenset[int]:
    """Return the turns of an effort that calls of this turn have put into the context."""
    entry = work.efforts.expanded.get(effort.id)
    is_new = entry is not None and entry["expanded_turn"] == work.efforts.turn
    return frozenset(entry["turns"]) if entry and is_new else frozenset()


def _free_for(work: Turn, effort: Effort) -> int:
    """Return the tokens that the logs which stay leave for that of an effort.

    A log of its own that an earlier turn expanded leaves for the new one.
    """
    left = {name for name, turns in work.plan.logs.items() if not turns} if work.plan else set()
    limit, free = log_limit(work.room), int(LOGS_SHARE * work.room)
    for name, entry in work.efforts.expanded.items():
        stays = name != effort.id or _standing(work, effort)
        if stays and name not in left:
            tokens = work.run.count(transcript(work.view.turns_of(name, entry["turns"])))
            # Of a single turn that is too long the log shows its head.
            free -= min(limit, tokens) if len(entry["turns"]) == 1 else tokens
    return max(0, min(limit, free))


def is_in_view(work: Turn, effort_id: str, turns: Sequence[int] = ()) -> bool:
    """Tell whether an expanded log, and each of these turns of it, stands in the context."""
    entry, plan = work.efforts.expanded.get(effort_id), work.plan
    if entry is None or not {*turns} <= {*entry["turns"]}:
        return False
    if plan is None:
        return True
    # A log expanded since the plan was made is in the messages of the turns since.
    planned = plan.logs.get(effort_id)
    if planned is None:
        return bool(entry["expanded_turn"] > plan.after_turn)
    return bool(planned) and {*turns} <= numbers(planned)


def loaded_turns(
    work: Turn,
    effort: Effort,
    log: Sequence[StoredTurn],
    chosen: Sequence[StoredTurn],
    query: str = "",
) -> dict[str, Any]:
    """Return the part of a result that describes the turns which come into the context."""
    turns = [turn.number for turn in chosen]
    whole = work.view.whole_turns_of(effort.id, turns)
    quoted, limit = Quoted(tuple(chosen), whole=whole), log_limit(work.room)
    begin = place_of_match(quoted, query, limit, work.run.count)
    note = log_quote(effort.id, effort.status, replace(quoted, begin=begin), limit, work.fences)
    result: dict[str, Any] = {"tokens": work.run.count(text(note)), "turns": ranges(turns)}
    result |= {"offset": begin} if begin else {}
    # What an earlier call of this turn expanded is shown as well.
    shown = {*turns, *_standing(work, effort)}
    omitted = [turn for turn in log if turn.number not in shown]
    if not omitted:
        is_whole = bool(query_terms(query)) and work.run.count(transcript(chosen)) <= limit
        return result | ({"how": render("whole_log")} if is_whole else {})
    numbers = [turn.number for turn in omitted]
    least = min(work.run.count(transcript([turn])) for turn in omitted)
    free = _free_for(work, effort) - work.run.count(transcript(chosen))
    expands = effort.status == "concluded" and least <= free
    read = reading_call(effort, numbers)
    if expands:
        how = render("not_shown", read=read)
    else:
        logs = ", ".join(name for name in work.efforts.expanded if name != effort.id)
        beside = f" {render('beside_logs', efforts=logs)}" if logs else ""
        how = render("no_room_for_rest", read=read, beside=beside)
    return {**result, "not_shown": ranges(numbers), "how": how}


def reading_call(effort: Effort, numbers: Sequence[int], offset: int = 0) -> str:
    """Return the call that reads these turns of an effort."""
    session, _ = parted(effort.id)
    place = f", offset={offset}" if offset else ""
    place += f', session="{session}"' if session else ""
    return f'read_log(turns="{ranges(numbers)}"{place})'
