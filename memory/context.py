"""The working context: what is sent to the model, as tiers in their order, each with its tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from ..prompts.loader import text as prompt
from .desk import Desk
from .effort_quote import quote, share
from .efforts import Effort
from .hints import hints
from .messages import Message
from .nudges import nudge
from .record import Record
from .tokens import TokenCounter, count_message, count_tools
from .wellformed import note, wellformed
from .window import window
from .workspace import without

TierName: TypeAlias = Literal[
    "system", "tools", "memory", "expanded", "open", "ambient", "active", "notes", "turn"
]


@dataclass(frozen=True, slots=True)
class Tier:
    """One part of the working context: its messages and their size in tokens."""

    name: TierName
    messages: tuple[Message, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class WorkingContext:
    """All tiers in the order in which they are sent."""

    tiers: tuple[Tier, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all tiers, in order."""
        return tuple(message for tier in self.tiers for message in tier.messages)

    @property
    def report(self) -> dict[str, Any]:
        """Tokens by tier and in all, as the state shows them."""
        tokens = {tier.name: tier.tokens for tier in self.tiers}
        return {"tokens": tokens, "total": sum(tokens.values())}


def assemble(desk: Desk, system: str, schemas: Sequence[Mapping[str, Any]]) -> WorkingContext:
    """Build the working context of the running turn; the same inputs give the same bytes."""
    tiers = (
        _tier("system", [{"type": "system", "data": {"content": system}}], desk.count),
        Tier("tools", (), count_tools(schemas, desk.count)),
        _tier("memory", _memory(desk), desk.count),
        _tier("expanded", _expanded(desk), desk.count),
        _tier("open", _open(desk), desk.count),
        _tier("ambient", _ambient(desk), desk.count),
        _tier("active", _active(desk), desk.count),
        _tier("notes", _notes(desk), desk.count),
        _tier("turn", wellformed(desk.view.running.messages), desk.count),
    )
    return WorkingContext(tiers)


def instructions(application: str) -> str:
    """Return the system message: Ebbtide's instructions, then the application's own."""
    return "\n\n".join(filter(None, (prompt("system"), application.strip())))


def _tier(
    name: TierName, messages: Sequence[Message] | Iterator[Message], count: TokenCounter
) -> Tier:
    kept = tuple(messages)
    return Tier(name, kept, sum(count_message(message, count) for message in kept))


def _memory(desk: Desk) -> Iterator[Message]:
    efforts = sorted(desk.known([*desk.space.summaries]), key=attrgetter("turn"))
    lines = [_line(effort) for effort in efforts]
    if lines:
        yield note(prompt("memory", lines="\n".join(lines)))


def _line(effort: Effort) -> str:
    return f"- {effort.id}: {_one_line(effort.summary)}"


def _one_line(written: str) -> str:
    """Return text without line breaks, so that it cannot make up a line of ours."""
    return " ".join(written.split())


def _expanded(desk: Desk) -> Iterator[Message]:
    limit = share(desk.settings)
    for effort in desk.known([*desk.space.expanded]):
        turns = desk.view.turns(desk.space.expanded[effort.id]["turns"])
        quoted = quote(effort, turns, limit, desk.count)
        yield note(prompt("expanded", quote=quoted))


def _open(desk: Desk) -> Iterator[Message]:
    for effort in desk.known(list(without(desk.space.open, desk.space.active or ""))):
        yield note(prompt("open_run", **_purpose(effort)))
        yield from _log(desk, effort)


def _active(desk: Desk) -> Iterator[Message]:
    for effort in _active_effort(desk):
        log = [*_log(desk, effort)]
        yield from [note(prompt("active_run", effort=effort.id)), *log] if log else []


def _notes(desk: Desk) -> Iterator[Message]:
    """Say the goal here and not before the log: it may change, and the prefix may not."""
    for effort in _active_effort(desk):
        yield note(prompt("active_goal", **_purpose(effort)))
    lines = hints(desk, [record.turn for record in _window(desk)])
    if lines:
        yield note(prompt("hints", lines="\n".join(lines)))
    line = nudge(desk)
    if line:
        yield note(line)


def _active_effort(desk: Desk) -> tuple[Effort, ...]:
    """Return the active effort, or nothing."""
    return desk.known([desk.space.active] if desk.space.active else [])


def _purpose(effort: Effort) -> dict[str, str]:
    goal = _one_line(effort.goal).rstrip(".") or "not stated"
    constraints = _one_line("; ".join(effort.constraints)).rstrip(".") or "none"
    return {"effort": effort.id, "goal": goal, "constraints": constraints}


def _log(desk: Desk, effort: Effort) -> Iterator[Message]:
    records = desk.view.turns(desk.view.log_turns(effort.id))
    yield from _real(desk, [record for record in records if _stands_in(record, effort, desk)])


def _ambient(desk: Desk) -> Iterator[Message]:
    records = _window(desk)
    if records:
        yield note(prompt("ambient_run"))
        yield from _real(desk, records)


def _window(desk: Desk) -> tuple[Record, ...]:
    """Return the ambient turns that are in the context."""
    last = window(
        desk.view.ambient_count(), desk.settings.ambient_window, desk.settings.window_step
    )
    return desk.view.ambient(last) if last else ()


def _real(desk: Desk, records: Sequence[Record]) -> Iterator[Message]:
    for record in records:
        yield from wellformed(desk.view.messages(record))


def _stands_in(record: Record, effort: Effort, desk: Desk) -> bool:
    """Tell whether a turn is shown with this effort: of several, the first that is open has it."""
    return next(name for name in record.efforts if name in desk.space.open) == effort.id
