"""Spans: which messages of a turn belong to which effort.

A round belongs to the effort that was closed in it, else to the one opened last in it, else to the
active one. A round that closes one, opens the next and only then calls other tools belongs to the
next one, whose work it begins. The user's request belongs to each effort of its turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeAlias

from langchain_core.messages import BaseMessage

from .efforts import Efforts
from .messages import answered, calls
from .recalled import result_of
from .tool_names import DECIDING
from .turn import Event, StoredTurn

Span: TypeAlias = tuple[str, int, int]
"""An effort, the place of its first message in the turn, and the place after its last one."""

_SEVERAL = 2

_ACTIVATING = frozenset({"opened", "switched", "reopened"})

_BEGINNING = frozenset({"open_effort", "switch_effort", "reopen_effort"})


def spans(messages: Sequence[BaseMessage], active: str) -> list[Span]:
    """Return the spans of a turn in their order; `active` is the effort that it began with.

    An empty name stands for none. What was said before the first effort of a turn began belongs to
    that effort, if none was active.

    >>> spans([HumanMessage("Hi")], "auth-bug")
    [('auth-bug', 0, 1)]
    """
    found: list[Span] = []
    closed, is_first = "", not active
    # What was said before the first round belongs to that.
    rounds = [at for at, message in enumerate(messages) if message.type == "ai"][1:]
    for first, end in zip([0, *rounds], [*rounds, len(messages)], strict=True):
        begin, before, opened, ended = first, active, "", ""
        for status, effort in _changes(messages[first:end]):
            if status in _ACTIVATING:
                active = opened = effort
            elif status == "concluded":
                ended = closed = effort
                active = "" if active == effort else active
            elif status == "paused":
                active = ""
        is_next = ended and opened and opened == active and _begins_work(messages[first:end])
        name = opened if is_next else ended or opened or before
        if not name and answered(messages[first:end]):
            name = closed
        if is_first and (opened or ended):
            found, begin, is_first = [], 0, False
        if found and found[-1][0] == name:
            begin = found.pop()[1]
        found.append((name, begin, end))
    return found


def headed(
    messages: Sequence[BaseMessage], parts: Sequence[Span], effort: str
) -> tuple[BaseMessage, ...]:
    """Return the messages of an effort's spans, headed by what the user said."""
    places = [(begin, end) for name, begin, end in parts if name == effort]
    return tuple(
        message
        for at, message in enumerate(messages)
        if message.type == "human" or any(begin <= at < end for begin, end in places)
    )


def event_of(messages: Sequence[BaseMessage], state: Efforts) -> tuple[Event, ...]:
    """Return the event that keeps the spans of a turn; none for a turn that is one span."""
    if "tool" not in map(attrgetter("type"), messages):  # only a result begins another span
        return ()
    parts = spans(messages, active_before(state))
    if len({name for name, _, _ in parts}) < _SEVERAL:
        return ()
    return ({"type": "spans", "spans": [[*part] for part in parts]},)


def kept(turn: StoredTurn) -> list[Span]:
    """Return the spans of a committed turn, none if all of it belongs to each of its efforts."""
    for event in turn.events:
        if event["type"] == "spans":
            return [(str(name), begin, end) for name, begin, end in event["spans"]]
    return []


def narrowed(turn: StoredTurn, effort: str) -> StoredTurn:
    """Return a turn with what it has of an effort."""
    parts = kept(turn)
    if not parts or all(name != effort for name, _, _ in parts):
        return turn
    events = tuple(event for event in turn.events if event["type"] != "spans")
    return replace(turn, messages=headed(turn.messages, parts, effort), events=events)


def active_before(state: Efforts) -> str:
    """Return the effort that was active when the running turn began, "" if none was."""
    events = [
        event for event in state.events if event["type"] in {*_ACTIVATING, "concluded", "paused"}
    ]
    activated = {event["effort"] for event in events if event["type"] in _ACTIVATING}
    active = (
        name
        for name, entry in state.open.items()
        if entry["last_active_turn"] == state.turn and name not in activated
    )
    # Another effort may be closed by its name first, while the active one stays so.
    was_left = events and events[0]["type"] in {"concluded", "paused"}
    return next(active, str(events[0]["effort"]) if was_left else "")


def _begins_work(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether a round calls other tools, and all of them after it made an effort active."""
    names = [call["name"] for message in messages for call in calls(message)]
    work = [at for at, name in enumerate(names) if name not in DECIDING]
    begins = [at for at, name in enumerate(names) if name in _BEGINNING]
    return bool(work and begins) and work[0] > begins[-1]


def _changes(messages: Sequence[BaseMessage]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if message.type == "tool" and message.name in DECIDING:
            result = result_of(message)
            if isinstance(name := result.get("effort_id", ""), str):
                yield str(result.get("status")), name
