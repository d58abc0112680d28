"""The graph's state: plain data and messages, small, so that checkpoints stay small."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.graph import add_messages
from typing_extensions import TypedDict


class Position(TypedDict, total=False):
    """Where the memory stands: bookkeeping of the nodes.

    `window` is the ambient window of this thread, None for what the settings say; `attended` the
    last turn that attention was told of.
    """

    session: dict[str, str]
    branch: str
    persisted: int
    tip: str
    cuts: dict[str, Any]
    sent: str
    safety_factor: float
    window: int | None
    compressed: dict[str, int]
    attended: int
    events: list[dict[str, Any]]
    turn_starts: list[str]
    accepted: str
    archived: str


class _Shown(TypedDict, total=False):
    turn: int
    active_effort: str | None
    open_efforts: dict[str, dict[str, int]]
    expanded: dict[str, dict[str, Any]]
    summaries: dict[str, int]
    anchor: dict[str, str]
    banners: list[str]
    context_report: dict[str, Any]


class Memory(_Shown, total=False):
    """The memory of a thread: what people read first, and `position` for the nodes."""

    position: Position


def merged(old: Memory, new: Memory) -> Memory:
    """Return the memory with what is new in it, in the order in which people read it."""
    position = {**old.get("position", {}), **new.get("position", {})}
    both = {**old, **new, "position": position}
    return cast("Memory", {key: both[key] for key in Memory.__annotations__ if key in both})


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

    `raw_answers` are what the model said in the running turn where users see it without a state
    block: message id -> content. `context` is the assembled prompt, which is never checkpointed.
    """

    raw_answers: dict[str, Any]
    context: Annotated[AssembledContext, UntrackedValue]


class TurnState(_Shown, Position, total=False):
    """What a node is given: the state with the memory unpacked."""

    messages: list[AnyMessage]
    raw_answers: dict[str, Any]
    context: AssembledContext


_PACKED = {*_Shown.__annotations__, *Position.__annotations__}
_PACKAGES = {"memory", "position"}


def unpacked(state: Mapping[str, Any]) -> TurnState:
    """Return the state as nodes and commands work with it.

    >>> unpacked({"messages": [], "memory": {"turn": 2, "position": {"tip": "ab"}}})
    {'messages': [], 'turn': 2, 'tip': 'ab'}
    """
    memory = state.get("memory", {})
    known = {**state, **memory, **memory.get("position", {})}
    return cast("TurnState", {key: known[key] for key in known if key not in _PACKAGES})


def repacked(update: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the update of a node as the graph takes it: of the memory what is not as `before`.

    >>> repacked({"turn": 2, "tip": "ab", "banners": [], "messages": []}, {"banners": []})
    {'messages': [], 'memory': {'turn': 2, 'position': {'tip': 'ab'}}}
    """
    known = before or {}
    # By their text: dictionaries are equal in any order, and here the order counts.
    new = {key: v for key, v in update.items() if key not in known or repr(v) != repr(known[key])}
    memory: dict[str, Any] = {key: new[key] for key in _Shown.__annotations__ if key in new}
    position = {key: new[key] for key in Position.__annotations__ if key in new}
    if position:
        memory["position"] = position
    rest = {key: value for key, value in update.items() if key not in _PACKED}
    return {**rest, "memory": memory} if memory else rest
