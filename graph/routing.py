"""Where a turn goes after the model has answered."""

from collections.abc import Callable, Collection
from typing import Literal

from langchain_core.messages import AIMessage
from langgraph.types import Send

from ..nodes.state import AgentState

AfterPersist = Literal["compress", "__end__"]
Route = Literal["run_tools", "detect_references"]
Router = Callable[[AgentState], list[Send | Route]]


def route_calls(application: Collection[str]) -> Router:
    """Return the router after `call_model`; `application` names the application's tools.

    Each call of an application's tool is a task of its own, so that resuming after an interrupt in
    one does not run its neighbours again.
    """

    def route(state: AgentState) -> list[Send | Route]:
        answer = next(reversed(state["messages"]), None)
        if not isinstance(answer, AIMessage) or not (
            answer.tool_calls or answer.invalid_tool_calls
        ):
            return ["detect_references"]
        theirs = [call for call in answer.tool_calls if call["name"] in application]
        ours = len(answer.tool_calls) + len(answer.invalid_tool_calls) - len(theirs)
        sends: list[Send | Route] = [Send("application_tools", [call]) for call in theirs]
        return ["run_tools", *sends] if ours else sends

    return route


def route_pass(state: AgentState) -> AfterPersist:
    """Return where a turn goes after it was committed: on only if an effort is to be compressed."""
    return "compress" if state["memory"]["position"].get("due") else "__end__"
