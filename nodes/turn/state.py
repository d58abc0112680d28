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

from ...memory.context.budget import MOST_FACTOR
from ...memory.context.timeline import Why
from ...memory.errors import StateError, ToolError
from ...memory.names import numbers
from ...memory.record import Tip

Plain: TypeAlias = Annotated[Any, GetPydanticSchema(lambda _, handler: handler(JsonValue))]
"""What JSON can hold."""

_STRICT = ConfigDict(strict=True, extra="forbid")
"""What the nodes did not write is refused: it names sessions and turns."""


def _event(given: dict[str, Any]) -> dict[str, Any]:
    if isinstance(given.get("type"), str) and isinstance(given.get("effort", ""), str):
        return given
    raise ValueError("Input should be an event with a type")


def _report(given: dict[str, Any]) -> dict[str, Any]:
    if isinstance(given.get("total", 0), int):
        return given
    raise ValueError("Input should be a report with an integer as its total")


def _listed(given: str) -> str:
    try:
        numbers(given)
    except ToolError as error:
        raise ValueError(str(error)) from error
    return given


_Turn: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 31)]
"""A number of a turn; PostgreSQL's integers, in which the archive keeps it, end there."""

_Pair: TypeAlias = Annotated[list[_Turn], Field(min_length=2, max_length=2)]


@with_config(_STRICT)
class Session(TypedDict):
    """Whose session it is, as `record.Owner` has it."""

    user: str
    thread: str
    namespace: str


@with_config(_STRICT)
class OpenEffort(TypedDict):
    """When an open effort was opened, active and referenced."""

    opened_turn: _Turn
    last_active_turn: _Turn
    last_referenced_turn: _Turn


@with_config(_STRICT)
class ExpandedEffort(TypedDict):
    """When an effort was expanded and referenced, and which of its turns are shown."""

    expanded_turn: _Turn
    last_referenced_turn: _Turn
    turns: list[_Turn]


@with_config(_STRICT)
class PackedTimeline(TypedDict, total=False):
    """What the context shows until it is rebuilt, as `timeline.packed` writes it."""

    built: Required[_Turn]
    turns: Annotated[str, AfterValidator(_listed)]
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
    """Where the memory stands: bookkeeping of the nodes.

    `seal` is what the archive says of the memory; `window` the thread's ambient window, None for
    the settings'; `view` what the context shows, None if it is to be built anew; `due` tells that
    an open effort is to be compressed; `asked` has the numbers of the turns in `messages` by the
    ids of the messages with which they were begun.
    """

    session: Session
    seal: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    branch: str
    persisted: _Turn
    tip: str
    view: PackedTimeline | None
    due: bool
    sent: str
    safety_factor: Annotated[float, Field(ge=1, le=MOST_FACTOR)]
    window: Annotated[int, Field(ge=0)] | None
    compressed: dict[str, _Turn]
    events: list[Annotated[dict[str, Plain], AfterValidator(_event)]]
    asked: dict[str, _Turn]
    archived: str


class _Shown(TypedDict, total=False):
    turn: _Turn
    active_effort: str | None
    open_efforts: dict[str, OpenEffort]
    expanded: dict[str, ExpandedEffort]
    summaries: dict[str, _Turn]
    anchor: dict[str, str]
    banners: list[str]
    context_report: Annotated[dict[str, Plain], AfterValidator(_report)]


@with_config(_STRICT)
class Memory(_Shown, total=False):
    """The memory of a thread: what people read first, and `position` for the nodes."""

    position: Position


def _checked(memory: object) -> Memory:
    """Return a memory; raises `StateError` if it is not what the nodes write.

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
    """Merge an update into the memory, its keys in the order in which people read them.

    Raises `StateError`, so that an update that is wrong changes nothing.
    """
    _checked(new)
    position = {**old.get("position", {}), **new.get("position", {})}
    both = {**old, **new, **({"position": position} if position else {})}
    return cast("Memory", {key: both[key] for key in Memory.__annotations__ if key in both})


_MEMORY: TypeAdapter[Memory] = TypeAdapter(Memory)


class InputState(TypedDict, total=False):
    """What a run is given: messages, and nothing that could name another session or turn."""

    messages: Annotated[list[AnyMessage], add_messages]


class MemoryState(InputState, total=False):
    """What a run returns. Mix it into the schema of a parent graph to embed the agent.

    `messages` holds this turn and the last few for chat UIs; the context is not built from it.
    `memory` is written by the agent's nodes and nobody else.
    """

    memory: Annotated[Memory, merged]


class AssembledContext(TypedDict):
    """The prompt of the next model call."""

    messages: list[BaseMessage]


class AgentState(MemoryState, total=False):
    """What the graph works on: the state, and what runs do not return.

    `raw_answers` has by message id what the model said in the running turn where users see it
    without a state block; `context` is the assembled prompt, which is never checkpointed.
    """

    raw_answers: dict[str, Any]
    context: Annotated[AssembledContext, UntrackedValue]


_OURS = AgentState.__annotations__.keys() - InputState.__annotations__.keys()
"""What only the nodes write."""


def given(handed: Any, ours: Collection[str] = _OURS) -> Any:
    """Return the input of a run, or the update of a command, without what only the nodes write.

    Raises `StateError` for an object that has some of it, from which nothing can be taken.
    """
    if isinstance(handed, Command):
        return replace(handed, update=given(handed.update, ours)) if handed.update else handed
    if isinstance(handed, Mapping):
        return {key: value for key, value in handed.items() if key not in ours}
    if isinstance(handed, list | tuple):
        allowed = (item for item in handed if _named(item) not in ours)
        return [item if _named(item) else given(item, ours) for item in allowed]
    for key in ours:
        if getattr(handed, key, None) is not None:
            raise StateError(key, getattr(handed, key), "a run is given messages alone")
    return handed


def _named(item: Any) -> str:
    """Return the name in a pair of a name and a value, "" for anything else."""
    return item[0] if isinstance(item, tuple) and item and isinstance(item[0], str) else ""


class TurnState(_Shown, Position, total=False):
    """What a node is given: the state with the memory unpacked.

    `adopted` counts the turns of a history that was just adopted, `unseen` is the newest turn that
    the archive has of a thread that begins anew.
    """

    messages: list[AnyMessage]
    raw_answers: dict[str, Any]
    context: AssembledContext
    adopted: int
    unseen: Tip


_CHANNELS = AgentState.__annotations__.keys() - {"memory"}
OF_THE_RUN = {"adopted", "unseen"}
"""What `begin_turn` alone is told."""


def unpacked(state: Mapping[str, Any]) -> TurnState:
    """Return the state as nodes and commands work with it, without keys of the application.

    >>> unpacked({"messages": [], "turn": 9, "memory": {"turn": 2, "position": {"tip": "ab"}}})
    {'messages': [], 'turn': 2, 'tip': 'ab'}
    """
    memory = _checked(state.get("memory", {}))
    own = {key: value for key, value in state.items() if key in _CHANNELS}
    shown = {key: value for key, value in memory.items() if key != "position"}
    return cast("TurnState", {**own, **shown, **memory.get("position", {})})
