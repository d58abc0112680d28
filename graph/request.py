"""The request that is sent in place of another one of `create_agent`, within the budget."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain.agents.middleware import ModelRequest
from langchain.agents.structured_output import OutputToolBinding, ProviderStrategy, ToolStrategy
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool

from ..memory.context.budget import LEAST_ROOM, check_budget, instructions
from ..memory.errors import SettingsError
from ..memory.settings import Settings
from ..memory.tokens import REPLY_OVERHEAD, count_messages
from ..memory.tools.toolbox import schemas
from ..nodes.call_model import Call
from ..nodes.turn.caching import BREAKPOINT, KEY, caches_on_request, with_breakpoint
from ..nodes.turn.parts import AgentParts, takes_tools, unwrapped
from ..nodes.turn.state import TurnState, updated
from ..nodes.turn.turn import running, running_turn
from .agent_state import check_messages, question_of
from .other_middleware import (
    Gate,
    OverBudgetError,
    as_sent,
    changes,
    check_question,
    digests_of,
    is_cleared,
    with_added,
)


def call_of(
    request: ModelRequest[Any], state: TurnState, parts: AgentParts, window: int | None = None
) -> Call:
    """Return the call of the model with its working context, within a `window` if given.

    `state` has the running turn whole. What other middleware did to the messages of the request
    holds in it.
    """
    raw, runtime = cast("Mapping[str, Any]", request.state), request.runtime
    check_messages(state)
    whole = parts.settings_of(runtime.context)
    check_budget(whole, *parts.sizes(whole))
    state.pop("context", None)  # the application's own
    turn = {str(message.id): message for message in running(state)}
    done = changes(raw["messages"], request.messages)
    check_question(done.removed, question_of(state))
    own = {name: message for name, message in done.replaced.items() if name in turn}
    replaced = {**(raw.get("ebbtide_replaced") or {}), **own}
    state["messages"] = [
        cast("Any", replaced.get(str(message.id), message))
        for message in state["messages"]
        if str(message.id) not in done.removed & turn.keys()
    ]
    added, settings = count_messages([one for _, one in done.added], parts.count), whole
    if added or window is not None:
        settings = running_turn(state, runtime, parts).run.settings
    limit = settings.context_budget if window is None else window
    if added:
        check_added(added, whole, parts)
    short = settings.context_budget - limit + added
    fitting = replace(parts, window=limit - added, short=short) if short else parts
    call = replace(Call.prepared(state, runtime, fitting), parts=parts)
    if added:
        made, known = call.messages, updated(call.state, call.update)["sent"]
        messages = with_added(made, done.added, [*turn])
        steady = next((n for n, m in enumerate(messages) if m is made[call.steady]), -1)
        call = replace(call, messages=messages, update=with_budget(call, settings), steady=steady)
        call = as_sent(call, messages, digests_of(messages, made, known), added)
    if lasting := {name: message for name, message in own.items() if not is_cleared(message)}:
        kept = {**(raw.get("ebbtide_replaced") or {}), **lasting}
        call = replace(call, update={**call.update, "ebbtide_replaced": kept})
    return call


def request_of(request: ModelRequest[Any], call: Call) -> ModelRequest[Any]:
    """Return the request with the working context instead of the messages.

    A model that takes no tools, as LangChain's fakes, is sent none of the memory's.
    """
    system, *messages = cast("list[Any]", call.messages)
    model, given, _ = unwrapped(request.model, call.config)
    given |= request.model_settings
    system = _system_message(request, system.text, call)
    if caches_on_request(model, given, *request.tools, system, *messages):
        given[KEY] = BREAKPOINT
        system, *messages = with_breakpoint([system, *messages], call.steady)
    return request.override(
        model=model,
        model_settings=given,
        system_message=system,
        messages=messages,
        tools=[*(schemas() if takes_tools(model) else ()), *request.tools],
        tool_choice=call.tool_choice or request.tool_choice,
    )


def _system_message(request: ModelRequest[Any], text: str, call: Call) -> SystemMessage:
    """Return the system message; content blocks of the application stay as they are."""
    application_message = request.system_message
    if application_message is None or isinstance(application_message.content, str):
        return SystemMessage(text)
    ours = text[: len(instructions("", call.settings))]  # with the key of the session
    said = text[len(instructions(call.parts.system, call.settings)) :].strip()
    before, after = ([{"type": "text", "text": words}] if words else [] for words in (ours, said))
    content = [*before, *application_message.content, *after]
    return application_message.model_copy(update={"content": content})


def answer_schemas(response_format: Any) -> list[BaseTool | dict[str, Any]]:
    """Return the schemas of a structured answer; they are counted like tools."""
    if response_format is None:
        return []
    if isinstance(response_format, ProviderStrategy):
        spec = response_format.schema_spec
        return [{"name": spec.name, "parameters": spec.json_schema}]
    if not isinstance(response_format, ToolStrategy):
        response_format = ToolStrategy(getattr(response_format, "schema", response_format))
    return [OutputToolBinding.from_schema_spec(spec).tool for spec in response_format.schema_specs]


def config_of(request: ModelRequest[Any], call: Call, gate: Gate) -> RunnableConfig:
    """Return the config of a call, with what the model was given by `with_config`."""
    return merge_configs(
        call.config, unwrapped(request.model, call.config)[2], {"callbacks": [gate]}
    )


def gate_of(request: ModelRequest[Any], call: Call, given: ModelRequest[Any]) -> Gate:
    """Return what counts the final request that other middleware makes of the given one."""
    report = updated(call.state, call.update).get("context_report", {})
    tools, count = report.get("tokens", {}).get("tools", 0), call.parts.count

    def counted(messages: Sequence[BaseMessage]) -> int:
        return REPLY_OVERHEAD + int(tools) + count_messages(messages, count)

    system = [given.system_message] if given.system_message else []
    return Gate([*system, *given.messages], _budget(request, call), counted)


def at_last(call: Call, gate: Gate) -> Call:
    """Return a call with its report as the request was at last; its total is 0 if none was sent."""
    state = updated(call.state, call.update)
    if not gate.final:  # another middleware answered without the model
        report = {**state["context_report"], "total": 0}
        return replace(call, update={**call.update, "context_report": report, "sent": ""})
    known = state["sent"]
    return as_sent(call, gate.final, digests_of(gate.final, gate.ours, known), gate.added)


def check_added(added: int, settings: Settings, parts: AgentParts) -> None:
    """Raise `SettingsError` if what another middleware added leaves no room."""
    least = sum(parts.sizes(settings)) + LEAST_ROOM
    if settings.context_budget - added < least:
        raise SettingsError(
            f"another middleware adds messages of {added:,} tokens to the request, which leaves "
            f"less than the {least:,} that instructions, tools and conversation need of the "
            f"context_budget of {settings.context_budget:,}: add less, or raise the budget"
        )


def with_budget(call: Call, settings: Settings) -> dict[str, Any]:
    """Return the update of a call whose report has the run's budget, not what was left of it."""
    report = updated(call.state, call.update)["context_report"]
    return {**call.update, "context_report": {**report, "budget": settings.context_budget}}


def _budget(request: ModelRequest[Any], call: Call) -> int:
    """Return the budget of a run, also of a call that was cut below it."""
    return call.parts.settings_of(request.runtime.context).context_budget


def window_after(request: ModelRequest[Any], call: Call, error: OverBudgetError) -> int:
    """Return the tokens that a call may have to which another middleware added.

    Raises `SettingsError` if that leaves less than the least.
    """
    window = _budget(request, call) - error.added
    if window < sum(call.parts.sizes(call.settings)) + LEAST_ROOM:
        raise too_large(request, call, error) from None
    return window


def too_large(request: ModelRequest[Any], call: Call, error: OverBudgetError) -> SettingsError:
    """Return the error of a request to which another middleware adds too much."""
    return SettingsError(
        f"a middleware after EbbtideMiddleware adds {error.added:,} tokens to the request, too "
        f"many for its context_budget of {_budget(request, call):,}: let it add less, or raise "
        "the budget"
    )
