"""The tool `read_log`: turns word for word, of this session or another one of the user."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...prompts.loader import render
from ..context.budget import TURN_SHARE
from ..context.rounds import RESULT_SHARE
from ..dates import UNDATED, When, local_day, period
from ..errors import ToolError
from ..messages import compact
from ..names import numbers, qualified, ranges, session_name, turns_named
from ..recalled import Recalled, recalled
from ..running_turn import Turn
from ..tokens import fit
from ..transcript import entries, log_text, message_end, offsets
from ..turn import StoredTurn, memberships
from ..view import ArchiveView
from .arguments import Number, Text, Turns

DEFAULT_LIMIT = 1_000
"""Tokens of a result where the call names no limit."""

_SHOWN = 160  # characters of a name, or of a list of turns, in an error
_AT_ONCE = 50  # turns read from the archive at once, which bounds a call for thousands of them
_LEAST = 100  # tokens worth a call: of a cut turn after others, and of what follows an offset


def read_log(
    work: Turn, turns: Turns, offset: Number = 0, limit: Number = 0, session: Text = ""
) -> tuple[Any, ...]:
    """Return the messages of turns, at most `limit` tokens and a quarter of the room.

    Results of one message share what a turn may have. One that is shorter than asked says why.
    From an offset it is the rest of the message in which that lies, with the next ones if next to
    nothing is left of it. A day such as "2026-03-22" stands for its turns. With a session they are
    turns of its newest branch. Turns that cannot be read are named in the result; if none can be
    read a `ToolError` is raised.
    """
    view = work.view.of_session(session) if session else work.view
    if view is None:
        raise ToolError(render("unknown_session", session=repr(session[:_SHOWN])))
    days = period(turns) if turns.count("-") > 1 else None
    if days:  # by the clocks of the user's time zone
        times = When(zone=work.run.settings.timezone).times(days)
        requested = [*view.past.turns_between(*times)]
    else:
        requested = sorted(numbers(turns))
    if days and not requested:
        raise ToolError(render("no_turn_of_day", day=turns.strip()))
    if not requested:
        raise ToolError(render("no_turns_named"))
    newest = max(view.running.number, view.tip.turn)
    existing = [turn for turn in requested if 1 <= turn <= newest]
    readable, later = _readable(work, view, existing)
    place = {} if view is work.view else {"session": session_name(view.session)}
    absent = [turn for turn in requested if turn not in readable and turn not in later]
    missing = _missing(absent, newest, **place)
    if not readable:
        raise ToolError(missing)
    begin = offset if requested[0] in readable else 0
    most, shorter = _limit(work, limit)
    parts, end = _texts(replace(work, free=most), view, [*readable.values()], begin)
    last = parts[-1][1].turn
    unread = [turn for turn in existing if turn > last or (turn == last and end)]
    reads_on = {"turns": ranges(unread), **({"offset": end} if end else {}), **place}
    listed = [part for part, _ in parts]
    # From an offset a result may end with the message, and of many turns with the fiftieth.
    is_full = sum(work.run.count(compact(part)) for part in listed) > most - _LEAST
    result = {
        **place,
        "turns": listed,
        **({"missing": missing} if missing else {}),
        "next": reads_on if unread else None,
        **({"why": shorter} if shorter and unread and is_full else {}),
    }
    return work, result, *(quote for _, quote in parts)


def _limit(work: Turn, limit: int) -> tuple[int, str]:
    """Return the tokens that a result may have, and why they are fewer than asked, "" if not."""
    asked = limit if limit > 0 else DEFAULT_LIMIT
    most = min(work.free, work.room // RESULT_SHARE)
    before = [str(one.content) for one in work.results if recalled(one)]
    together = max(work.free, int(TURN_SHARE * work.room))
    left = max(_LEAST, together - sum(map(work.run.count, before)))
    if before and left < min(asked, most):
        return left, render("read_less_after_others")
    if limit > most:
        return most, render("read_less", limit=limit, most=most)
    return min(asked, most), ""


def _texts(
    work: Turn, view: ArchiveView, turns: Sequence[StoredTurn], offset: int
) -> tuple[list[tuple[Mapping[str, Any], Recalled]], int]:
    """Return the turns that fit, and the offset at which the last one is cut, 0 if it is not."""
    parts: list[tuple[Mapping[str, Any], Recalled]] = []
    free = work.free
    for turn in turns:
        log = log_text(turn.messages)
        if not 0 <= offset < len(log):
            where = {"offset": offset, "turn": turn.number, "last": len(log) - 1}
            raise ToolError(render("offset_outside", **where))
        efforts = [*turn.efforts]
        place: dict[str, Any] = {}
        if view is not work.view and turn.id:
            efforts = [qualified(view.session, name) for name in efforts]
            place = {"session": session_name(view.session), "id": turn.id}
        none = UNDATED if turn.id else "now"
        time = local_day(turn.at, work.run.settings.timezone, hour=True) or none
        head = {"turn": turn.number, "at": time, "efforts": efforts}
        free -= work.run.count(compact(head))
        last = _reading_end(work, turn, log, offset) if offset else len(log)
        end = offset + fit(log[offset:last], max(1, free), work.run.count)
        said = entries(turn.messages, offset, end)
        frame = work.run.count(compact(said)) - work.run.count(log[offset:end])  # who says it
        if frame > 0 and end < last:
            end = offset + fit(log[offset:end], max(1, free - frame), work.run.count)
            said = entries(turn.messages, offset, end)
        # Where only the line break before the next message is left, that message comes next.
        end += end < len(log) and end + 1 in {place.end for place in offsets(turn.messages)}
        if parts and end < len(log) and free < _LEAST:
            break
        free -= work.run.count(compact(said))
        parts.append(({**head, "messages": said}, Recalled(turn.number, offset, end, **place)))
        if end < len(log):
            return parts, end
        offset = 0
    return parts, 0


def _reading_end(work: Turn, turn: StoredTurn, log: str, offset: int) -> int:
    """Return where the message of an offset ends, or a later one if little is left of that."""
    end = message_end(turn.messages, offset)
    while end < len(log) and work.run.count(log[offset:end]) < _LEAST:
        end = message_end(turn.messages, end)
    return end


def _readable(
    work: Turn, view: ArchiveView, numbers: Sequence[int]
) -> tuple[dict[int, StoredTurn], frozenset[int]]:
    """Return the first chunk of these turns with readable ones in it, and the numbers behind it."""
    running, turns, end = view.running, dict[int, StoredTurn](), 0
    while not turns and end < len(numbers):
        begin, end = end, end + _AT_ONCE
        turns = {turn.number: turn for turn in view.past.turns(numbers[begin:end]) if turn.messages}
        if running.number in numbers[begin:end]:
            efforts = memberships(work.efforts.active, work.efforts.events)
            turns[running.number] = replace(running, efforts=efforts)
    return turns, frozenset(numbers[end:])


def _missing(turns: Sequence[int], newest: int, session: str = "") -> str:
    """Say which turns were erased and which do not exist; empty without turns."""
    of_session = f" of session {session!r}" if session else ""
    erased = [turn for turn in turns if 1 <= turn <= newest]
    absent = [turn for turn in turns if turn not in erased]
    reasons = []
    if erased:
        which = turns_named(ranges(erased)[:_SHOWN]) + of_session
        name = "turn_was_erased" if len(erased) == 1 else "turns_were_erased"
        reasons.append(render(name, turns=which))
    if absent:
        which = turns_named(ranges(absent)[:_SHOWN]) + of_session
        name = "turn_is_absent" if len(absent) == 1 else "turns_are_absent"
        reasons.append(render(name, turns=which, newest=newest))
    return "; ".join(reasons)
