"""The graph's state: plain data and messages, small, so that checkpoints stay small."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Required, TypeAlias, cast

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.graph import add_messages
from langgraph.types import Command
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    JsonValue,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

from ...memory.context.timeline import Why
from ...memory.errors import StateError, ToolError
from ...memory.names import numbers
from ...memory.record import Tip

Plain: TypeAlias = Annotated[Any, GetPydanticSchema(lambda _, handler: handler(JsonValue))]
"""What JSON can hold."""

_STRICT = ConfigDict(strict=True, extra="forbid")
"""Refuses what the nodes did not write: the memory names sessions and turns."""


def _valid_event(event: dict[str, Any]) -> dict[str, Any]:
    if isinstance(event.get("type"), str) and isinstance(event.get("effort", ""), str):
        return event
    raise ValueError("Input should be an event with a type")


def _valid_report(report: dict[str, Any]) -> dict[str, Any]:
    if isinstance(report.get("total", 0), int):
        return report
    raise ValueError("Input should be a report with an integer as its total")


def _valid_ranges(ranges: str) -> str:
    try:
        numbers(ranges)
    except ToolError as error:
        raise ValueError(str(error)) from error
    return ranges


_Turn: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 31)]
"""The number of a turn; the archive keeps it in an integer of PostgreSQL, which ends there."""

_Pair: TypeAlias = Annotated[list[_Turn], Field(min_length=2, max_length=2)]


@with_config(_STRICT)
class Session(TypedDict):
    """The owner of the session: the fields of `record.Owner`."""

    user: str
    thread: str
    namespace: str


@with_config(_STRICT)
class OpenEffort(TypedDict):
    """The turns in which an open effort was opened, last active and last referenced."""

    opened_turn: _Turn
    last_active_turn: _Turn
    last_referenced_turn: _Turn


@with_config(_STRICT)
class ExpandedEffort(TypedDict):
    """The turns in which an effort was expanded and last referenced, and the turns it shows."""

    expanded_turn: _Turn
    last_referenced_turn: _Turn
    turns: list[_Turn]


@with_config(_STRICT)
class PackedTimeline(TypedDict, total=False):
    """What the context shows until its next rebuild, as `Timeline.packed` writes it."""

    built: Required[_Turn]
    turns: Annotated[str, AfterValidator(_valid_ranges)]
    previews: _Turn
    short: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], _Pair]
    first: _Turn
    summaries: list[str]
    older: Annotated[int, Field(ge=0)]
    open: list[str]
    quotes: dict[str, _Turn]
    logs: dict[str, _Turn]
    anchor: dict[str, str]
    size: Annotated[int, Field(ge=0)]
    hold: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    key: str
    why: Why
    within: _Turn


@with_config(_STRICT)
class Position(TypedDict, total=False):
    """The nodes' own bookkeeping.

    `seal` is the archive's signature of the memory. `window` is the thread's ambient window, None
    for that of the settings. `view` is what the context shows, None to build it anew. `due` tells
    that an open effort must be compressed. `asked` maps the ids of the messages that began a turn
    to the number of that turn.
    """

    session: Session
    seal: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    branch: str
    persisted: _Turn
    tip: str
    view: PackedTimeline | None
    due: bool
    sent: str
    window: Annotated[int, Field(ge=0)] | None
    compressed: dict[str, _Turn]
    events: list[Annotated[dict[str, Plain], AfterValidator(_valid_event)]]
    asked: dict[str, _Turn]
    archived: str


class _Readable(TypedDict, total=False):
    turn: _Turn
    active_effort: str | None
    open_efforts: dict[str, OpenEffort]
    expanded: dict[str, ExpandedEffort]
    summaries: dict[str, _Turn]
    anchor: dict[str, str]
    banners: list[str]
    context_report: Annotated[dict[str, Plain], AfterValidator(_valid_report)]


@with_config(_STRICT)
class Memory(_Readable, total=False):
    """The memory of a thread: what people read comes first, then `position` for the nodes."""

    position: Position


def _checked(memory: object) -> Memory:
    """Return the memory; raise `StateError` if its form is not the one that nodes write.

    >>> _checked({"turn": "two"})
    Traceback (most recent call last):
    ...
    ebbtide.memory.errors.StateError: memory.turn: Input should be a valid integer (got 'two'): ...
    """
    try:
        _MEMORY.validate_python(memory)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(["memory", *map(str, first["loc"])])
        raise StateError(key, first["input"], first["msg"]) from error
    return cast("Memory", memory)


def merged(old: Memory, new: Memory) -> Memory:
    """Merge an update into the memory, its keys in the order of `Memory`.

    Raises `StateError` for an update of another form, which then changes nothing.
    """
    _checked(new)
    position = {**old.get("position", {}), **new.get("position", {})}
    memory = {**old, **new, **({"position": position} if position else {})}
    return cast("Memory", {key: memory[key] for key in Memory.__annotations__ if key in memory})


_MEMORY: TypeAdapter[Memory] = TypeAdapter(Memory)


class InputState(TypedDict, total=False):
    """The input of a run: messages alone, so that it cannot name another session or turn."""

    messages: Annotated[list[AnyMessage], add_messages]


class MemoryState(InputState, total=False):
    """What a run returns. Mix it into the schema of a parent graph to embed the agent.

    `messages` holds this turn and the last few for chat UIs; the context is not built from it.
    Only the agent's nodes write `memory`.
    """

    memory: Annotated[Memory, merged]


class AgentState(MemoryState, total=False):
    """The state inside the graph: what a run returns, and two keys that it does not.

    `raw_answers` maps the ids of the running turn's answers to their text with the state blocks
    that users do not see. `context` has the assembled `messages`, which are never checkpointed.
    """

    raw_answers: dict[str, Any]
    context: Annotated[dict[str, list[BaseMessage]], UntrackedValue]


_RESERVED = AgentState.__annotations__.keys() - InputState.__annotations__.keys()
"""Keys that only the nodes write."""


def without_reserved(value: Any, reserved: Collection[str] = _RESERVED) -> Any:
    """Return the input of a run, or a command, without the keys that only the nodes write.

    Raises `StateError` for an object with such an attribute, which cannot be taken out of it.
    """
    if isinstance(value, Command):
        if not value.update:
            return value
        return replace(value, update=without_reserved(value.update, reserved))
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key not in reserved}
    if isinstance(value, list | tuple):
        allowed = (item for item in value if _key_of(item) not in reserved)
        return [item if _key_of(item) else without_reserved(item, reserved) for item in allowed]
    for key in reserved:
        if getattr(value, key, None) is not None:
            raise StateError(key, getattr(value, key), "a run is given messages alone")
    return value


def _key_of(item: Any) -> str:
    """Return the key of a pair of a key and a value, "" for anything else."""
    return item[0] if isinstance(item, tuple) and item and isinstance(item[0], str) else ""


class TurnState(_Readable, Position, total=False):
    """The state as nodes read it, with the memory unpacked, and two keys of `begin_turn` alone.

    `adopted` counts the turns of a history that was just adopted. `unseen` is the newest archived
    turn of a thread whose messages do not continue it.
    """

    messages: list[AnyMessage]
    raw_answers: dict[str, Any]
    adopted: int
    unseen: Tip


CHANNELS = AgentState.__annotations__.keys() - {"memory"}
"""Keys of the state beside the memory."""


def unpacked(state: Mapping[str, Any]) -> TurnState:
    """Return the state as nodes and commands read it, without the application's own keys.

    >>> unpacked({"messages": [], "turn": 9, "memory": {"turn": 2, "position": {"tip": "ab"}}})
    {'messages': [], 'turn': 2, 'tip': 'ab'}
    """
    memory = _checked(state.get("memory", {}))
    own = {key: value for key, value in state.items() if key in CHANNELS}
    readable = {key: value for key, value in memory.items() if key != "position"}
    return cast("TurnState", {**own, **readable, **memory.get("position", {})})


def updated(state: Mapping[str, Any], update: Mapping[str, Any]) -> TurnState:
    """Return the state after an update of a node; the update's values replace the state's.

    >>> updated({"turn": 1, "tip": "ab"}, {"turn": 2})
    {'turn': 2, 'tip': 'ab'}
    """
    return cast("TurnState", {**state, **update})
