"""Commit the turn of an agent that hands over to another agent: its run ends there."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolCall
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from ..nodes.application_tools import Leaving, hands_over
from ..nodes.decay import decay
from ..nodes.detect_references import detect_references
from ..nodes.persist import persist
from ..nodes.turn.langchain_messages import closed
from ..nodes.turn.parts import AgentParts
from ..nodes.turn.state import TurnState, state_after, updated
from ..nodes.turn.turn import read_state


def leaving(parts: AgentParts) -> Leaving:
    """Return what commits the turn of a graph with these parts when a tool leaves it."""

    def left(request: ToolCallRequest, result: Any) -> None:
        if hands_over(result):
            state = read_state(request.state, request.runtime, parts)
            hand_over(state, request.runtime, request.tool_call, result, parts=parts)

    return left


def hand_over(
    state: TurnState,
    runtime: Any,
    call: ToolCall,
    command: Command[Any],
    *,
    parts: AgentParts,
) -> None:
    """Commit the turn in which a tool's `call` gave a `command` that leaves the agent.

    `runtime` is that of the call, which has the run's context as that of a node.
    """
    given = command.update if isinstance(command.update, Mapping) else {}
    there = {message.id for message in state["messages"]}
    results = [
        message
        for message in given.get("messages", ())
        if getattr(message, "tool_call_id", None) == call["id"]
        and message.id not in there  # models repeat the ids of calls
    ]
    messages = closed([*state["messages"], *results], state.get("nonce", ""))
    state = updated(state, {"messages": messages})
    for node in (detect_references, decay, persist):
        state = state_after(state, node(state, runtime, parts=parts))
