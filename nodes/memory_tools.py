"""Run the memory tools one after the other, each on the state after the one before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_callback_manager_for_config
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory.context.changes import after_tools
from ..memory.dates import stamp
from ..memory.errors import ToolError
from ..memory.questions import Asks
from ..memory.settings import Settings
from ..memory.tool_names import MEMORY_TOOLS
from ..memory.tools.ending import ending
from ..memory.tools.toolbox import Watch, run, waiting
from .ask import QuestionCost, adrive, drive
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.tracing import trace_metadata
from .turn.turn import running_turn
from .turn.updates import efforts_update, plan_update, with_costs, with_texts

MARK = "ebbtide"
"""The key in the `additional_kwargs` of results that come from a memory tool."""


def memory_tools(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Run the memory's tools, one after the other, and answer calls of tools that do not exist.

    A `close_effort` beside the whole answer ends the turn, which then stands behind its results:
    `add_messages` would leave it at its old place.
    """
    costs: list[QuestionCost] = []
    steps = _steps(state, runtime, parts, costs)
    return drive(steps, parts.models, costs.append, about=trace_metadata(state))


async def amemory_tools(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `memory_tools` does, without blocking a thread while a model summarises."""
    costs: list[QuestionCost] = []
    steps = _steps(state, runtime, parts, costs)
    return await adrive(steps, parts.models, costs.append, about=trace_metadata(state))


def _steps(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts, costs: Sequence[QuestionCost]
) -> Asks[dict[str, Any]]:
    """Run the tools; `costs` collects those of the questions that they ask a model."""
    work, app_tools = running_turn(state, runtime, parts), frozenset(parts.tools)
    # Tools may ask models, which takes long: what they read of the archive is read anew.
    view, now = work.view, stamp()
    attended = parts.attended(view, runtime)
    work = replace(work, view=view, now=now, related=attended and attended.related)
    calls, watch = waiting(work.view.running.messages, app_tools), _watch(get_config())
    done = yield from run(
        work, calls, app_tools, lambda line: runtime.stream_writer({"banner": line}), watch
    )
    done = after_tools(with_costs(done, costs), work.efforts)
    update = {**efforts_update(with_texts(done.efforts, work.view)), **plan_update(done)}
    results = [*map(_marked, done.results)]
    *before, answer = state["messages"]
    is_structured = "structured" in state.get("context_report", {})
    if is_structured or not (ended := ending(answer, results)):
        return {**update, "messages": results}
    return {**update, "messages": Overwrite([*before, *ended])}


def _marked(result: BaseMessage) -> BaseMessage:
    """Return a result of a memory tool with the mark by which a chat UI leaves it out."""
    if result.name not in MEMORY_TOOLS:
        return result
    return result.model_copy(update={"additional_kwargs": {**result.additional_kwargs, MARK: True}})


def _watch(config: RunnableConfig) -> Watch:
    """Return what reports each tool's start and end to the run's callbacks, as LangChain's do."""
    manager = get_callback_manager_for_config(config)

    def begun(call: Mapping[str, Any]) -> Callable[[BaseMessage], None]:
        name, args = str(call["name"]), call.get("args")
        inputs = args if isinstance(args, dict) else None
        tool_run = manager.on_tool_start(
            {"name": name}, str(args), name=name, inputs=inputs, tool_call_id=call["id"]
        )

        def ended(result: BaseMessage) -> None:
            if getattr(result, "status", "") == "error":
                tool_run.on_tool_error(ToolError(result.text), tool_call_id=call["id"])
            else:
                tool_run.on_tool_end(result)

        return ended

    return begun
