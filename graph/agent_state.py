"""The state of a thread of `create_agent` with the memory, and the messages of a turn in it."""

from collections.abc import Mapping
from itertools import takewhile
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents import AgentState
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from ..memory.errors import SettingsError
from ..memory.state_block import METADATA_KEY
from ..memory.tool_names import MEMORY_TOOLS
from ..nodes.turn.langchain_messages import messages_in_state
from ..nodes.turn.state import Bookkeeping, Memory, TurnState, merged, updated
from ..nodes.turn.turn import running
from ..nodes.turn.updates import is_running


class MemoryAgentState(AgentState[Any]):
    """The state of a thread beside its messages, which are the input.

    `ebbtide_turn` has the messages of the running turn up to the last answer: other middleware may
    take some out of the state. `ebbtide_replaced` has those that it replaced.
    """

    memory: NotRequired[Annotated[Memory, OmitFromInput, merged]]
    bookkeeping: NotRequired[Annotated[Bookkeeping, OmitFromInput, merged]]
    ebbtide_replaced: NotRequired[Annotated[dict[str, AnyMessage], PrivateStateAttr]]
    ebbtide_turn: NotRequired[Annotated[list[AnyMessage], PrivateStateAttr]]


def with_message_ids(state: Any) -> Any:
    """Return the state with an id for each message: not every reducer gives one."""
    messages = messages_in_state(state.get("messages"))
    named = [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in messages]
    return {**state, "messages": named}


def behind_answers(state: Any, turn_state: TurnState) -> list[BaseMessage]:
    """Return what stands behind the running turn's last answer that has a report.

    Where a run is refused as somebody else's it may have brought that: a result for a call that
    waits, say.
    """
    messages = state["messages"]
    own = [at for at, message in enumerate(messages) if METADATA_KEY in message.response_metadata]
    return messages[own[-1] + 1 :] if own and is_running(turn_state) else []


def question_of(state: TurnState) -> BaseMessage | None:
    """Return the running question."""
    return next((m for m in reversed(running(state)) if m.type == "human"), None)


def as_edited(state: TurnState, edited: Mapping[Any, Any] | None) -> TurnState:
    """Return the state with calls as a person edited them; the state has the model's."""
    if not edited:
        return state
    messages = [*state["messages"]]
    for at, message in enumerate(messages):
        if isinstance(message, AIMessage):
            calls = [{**call, **edited.get(call["id"], {})} for call in message.tool_calls]
            messages[at] = message.model_copy(update={"tool_calls": calls})
    return updated(state, {"messages": messages})


def check_messages(state: TurnState) -> None:
    """Raise `SettingsError` if another middleware refused a call after it had run."""
    ended = reversed(state["messages"])
    results = takewhile(lambda message: isinstance(message, ToolMessage), ended)
    memory_calls = [
        m.tool_call_id for m in results if isinstance(m, ToolMessage) and m.name in MEMORY_TOOLS
    ]
    if len({*memory_calls}) < len(memory_calls):
        raise SettingsError(
            "a call of a memory tool was rejected after it had run: in middleware=[...] put "
            "EbbtideMiddleware before the middleware that approves tool calls"
        )
