"""Reading turns word for word, of this session and of the user's other ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ToolError
from ..messages import compact
from ..names import numbers, qualified, ranges, session_name, turns_named
from ..record import Record, memberships
from ..running_turn import RunningTurn
from ..tokens import fit
from ..transcript import Logged, Recalled, rendered
from ..view import ArchiveView
from .arguments import Number, Text, Turns

_SHOWN = 160
"""Characters of a name, or of a list of turns, in an error."""

_AT_ONCE = 50
"""Turns that one call reads at most; the result says how to go on."""

_LEAST = 100
"""A turn behind others is cut only if so many tokens of it can be shown."""


def read_log(
    work: RunningTurn, turns: Turns, offset: Number = 0, session: Text = ""
) -> tuple[Any, ...]:
    """Return the text of visible turns from an offset on, as much as the free budget allows.

    What is not there is named, an error if nothing is. With a session they are turns of its newest
    branch; what is quoted is the record as it is there.
    """
    view = work.view.session(session) if session else work.view
    if view is None:
        raise ToolError(
            f"no earlier session {session[:_SHOWN]!r}; a session is the part before the slash "
            "of an id such as 't1/auth-bug', without it turns of this session are read"
        )
    wanted = sorted(numbers(turns))
    if not wanted:
        raise ToolError('no turns are named; write them like "3-5,8"')
    newest = max(view.running.turn, view.tip.turn)
    within = [turn for turn in wanted if 1 <= turn <= newest]
    found, later = _readable(work, view, within)
    named = {} if view is work.view else {"session": session_name(view.owner)}
    absent = [turn for turn in wanted if turn not in found and turn not in later]
    missing = _why_missing(absent, newest, **named)
    if not found:
        raise ToolError(missing)
    begin = offset if wanted[0] in found else 0
    parts, end = _texts(work, view, [*found.values()], begin)
    last = parts[-1][1].turn
    left = [turn for turn in within if turn > last or (turn == last and end)]
    reads_on = {"turns": ranges(left), **({"offset": end} if end else {}), **named}
    result = {
        **named,
        "turns": [part for part, _ in parts],
        **({"missing": missing} if missing else {}),
        "next": reads_on if left else None,
    }
    return work, result, *(quoted for _, quoted in parts)


def _texts(
    work: RunningTurn, view: ArchiveView, turns: Sequence[Logged], offset: int
) -> tuple[list[tuple[Mapping[str, Any], Recalled]], int]:
    """Return the turns that there is room for, and where the last one is cut, 0 if it is whole."""
    parts: list[tuple[Mapping[str, Any], Recalled]] = []
    free = work.free
    for turn in turns:
        log = rendered(turn.messages)
        if not 0 <= offset < len(log):
            raise ToolError(f"offset {offset} is outside turn {turn.turn}: 0-{len(log) - 1}")
        efforts = [*turn.efforts]
        place: dict[str, Any] = {}
        if view is not work.view and isinstance(turn, Record):
            efforts = [qualified(view.owner, name) for name in efforts]
            place = {"session": session_name(view.owner), "branch": turn.branch}
        at = turn.at[:16].replace("T", " ") or "now"
        head = {"turn": turn.turn, "at": at, "efforts": efforts}
        free -= work.count(compact(head))
        end = offset + fit(log[offset:], max(1, free), work.count)
        if parts and end < len(log) and free < _LEAST:
            break
        free -= work.count(log[offset:end])
        quoted = Recalled(turn.turn, offset, end, **place)
        parts.append(({**head, "text": log[offset:end]}, quoted))
        if end < len(log):
            return parts, end
        offset = 0
    return parts, 0


def _readable(
    work: RunningTurn, view: ArchiveView, numbers: Sequence[int]
) -> tuple[dict[int, Logged], frozenset[int]]:
    """Return the first turns of these that can be read, the running one included, and the rest."""
    now, upto = view.running, 0
    turns: dict[int, Logged] = {}
    while not turns and upto < len(numbers):
        first, upto = upto, upto + _AT_ONCE
        turns = {turn.turn: turn for turn in view.turns(numbers[first:upto]) if turn.messages}
        if now.turn in numbers[first:upto]:
            efforts = memberships(work.state.active, work.state.events)
            turns[now.turn] = replace(now, efforts=efforts)
    return turns, frozenset(numbers[upto:])


def _why_missing(turns: Sequence[int], newest: int, session: str = "") -> str:
    """Say which turns were erased, and which are not there; empty if none is missing."""
    where = f" of session {session!r}" if session else ""
    erased = [turn for turn in turns if 1 <= turn <= newest]
    absent = [turn for turn in turns if turn not in erased]
    why = []
    if erased:
        was = "was erased: its" if len(erased) == 1 else "were erased: their"
        named = turns_named(ranges(erased)[:_SHOWN])
        why.append(f"{named}{where} {was} text cannot be read any more")
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        named = turns_named(ranges(absent)[:_SHOWN])
        why.append(f"{named}{where} {verb} not there; the turns are 1-{newest}")
    return "; ".join(why)
