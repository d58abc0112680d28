"""The graph's state: plain data and messages, small, so that checkpoints stay small."""

from typing import Annotated, Any

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.graph import add_messages
from typing_extensions import TypedDict


class MemoryState(TypedDict, total=False):
    """What is checkpointed. Mix it into the schema of a parent graph to embed the agent.

    `messages` holds this turn and the last few for chat UIs; the context is not built from it.
    `window` is the ambient window of this thread, None for what the settings say; `attended` the
    last turn that attention was told of.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    turn: int
    active_effort: str | None
    open_efforts: dict[str, dict[str, int]]
    expanded: dict[str, dict[str, Any]]
    summaries: dict[str, int]
    anchor: dict[str, str]
    compressed: dict[str, int]
    attended: int
    banners: list[str]
    context_report: dict[str, Any]
    cuts: dict[str, Any]
    sent: str
    safety_factor: float
    window: int | None
    session: dict[str, str]
    branch: str
    persisted: int
    tip: str
    events: list[dict[str, Any]]
    turn_starts: list[str]
    accepted: str
    archived: str


class AssembledContext(TypedDict):
    """The prompt of the next model call."""

    messages: list[BaseMessage]


class AgentState(MemoryState, total=False):
    """What the nodes see: the state, and what runs do not return.

    `raw_answers` are what the model said in the running turn where users see it without a state
    block: message id -> content. `context` is the assembled prompt, which is never checkpointed.
    """

    raw_answers: dict[str, Any]
    context: Annotated[AssembledContext, UntrackedValue]
