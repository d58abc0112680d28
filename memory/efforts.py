"""What is known of an effort, and how the events of the turns change it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from .record import Event

EffortStatus: TypeAlias = Literal["open", "concluded"]

STATUS: Mapping[str, EffortStatus] = {
    "opened": "open",
    "goal_updated": "open",
    "constraints_updated": "open",
    "reopened": "open",
    "concluded": "concluded",
}
"""The events that change what the manifest says of an effort, with the status they leave."""

_BULLET = re.compile(r"[-*•] ")


@dataclass(frozen=True, slots=True)
class Effort:
    """An effort as its newest status change left it.

    `turn` is the turn of that change; `tokens` is the size of its raw log when it was concluded.
    `stale` marks a summary that was redacted because a turn it was made from was erased.
    """

    id: str
    status: EffortStatus
    goal: str = ""
    constraints: tuple[str, ...] = ()
    summary: str = ""
    keywords: tuple[str, ...] = ()
    importance: int = 50
    tokens: int = 0
    turn: int = 0
    stale: bool = False


def snapshot(effort: Effort) -> dict[str, Any]:
    """Return what an event says of an effort, beside the event's type."""
    said = {field.name: getattr(effort, field.name) for field in fields(effort)}
    said["effort"] = said.pop("id")
    said["constraints"], said["keywords"] = list(effort.constraints), list(effort.keywords)
    left_out = {"status", "turn"} if effort.stale else {"status", "turn", "stale"}
    return {key: value for key, value in said.items() if key not in left_out}


def changed(event: Event, turn: int) -> Effort | None:
    """Return the effort as this event left it, None if the event changes no status."""
    status = STATUS.get(event["type"])
    if status is None:
        return None
    return Effort(
        id=event["effort"],
        status=status,
        goal=event.get("goal", ""),
        constraints=tuple(event.get("constraints", ())),
        summary=event.get("summary", ""),
        keywords=tuple(event.get("keywords", ())),
        importance=event.get("importance", 50),
        tokens=event.get("tokens", 0),
        turn=turn,
        stale=event.get("stale", False),
    )


def changes(events: Iterable[Event], turn: int) -> tuple[Effort, ...]:
    """Return the efforts that these events of one turn left behind, oldest change first."""
    return tuple(effort for event in events if (effort := changed(event, turn)))


def newest(efforts: Sequence[Effort], effort_id: str) -> Effort | None:
    """Return the last of `efforts` with this id, None if there is none."""
    return next((effort for effort in reversed(efforts) if effort.id == effort_id), None)


def aims(effort: Effort) -> dict[str, Any]:
    """Return what holds while an effort is open, as results of tools say it."""
    return {"goal": effort.goal, "constraints": [*effort.constraints]}


def one_line(written: str) -> str:
    """Return text without line breaks, so that it cannot make up a line of ours."""
    return " ".join(written.split())


def as_shown(purpose: str) -> str:
    """Return a goal or a constraint as the context shows it.

    >>> as_shown("- No  downtime.")
    'No downtime'
    """
    said = one_line(purpose)
    bullet = _BULLET.match(said)
    return said[bullet.end() if bullet else 0 :].rstrip(".")
