"""What a model answered, made fit to be kept."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ..memory.messages import calls
from ..memory.wellformed import no_result
from ..prompts.loader import text as prompt
from .plain import AMessage, cleaned, plain


def accepted(answer: AIMessage, taken: Collection[str | None]) -> AIMessage:
    """Return the answer with an id of its own and a distinct id for each call.

    Cached models repeat message ids, and a repeated id would overwrite the earlier message.
    """
    if answer.id is None or answer.id in taken:
        answer = answer.model_copy(update={"id": str(uuid4())})
    return cleaned(with_ids(answer))


def with_ids(message: AMessage) -> AMessage:
    """Return a message each of whose calls has a name and an id of its own."""
    if not isinstance(message, AIMessage):
        return message
    named = _with_ids([*message.tool_calls, *message.invalid_tool_calls])
    valid = len(message.tool_calls)
    update: dict[str, Any] = {"tool_calls": named[:valid], "invalid_tool_calls": named[valid:]}
    return message.model_copy(update=update)


def rounds(messages: Iterable[BaseMessage]) -> int:
    """Count the rounds of tool calls among the messages."""
    answers = (message for message in messages if isinstance(message, AIMessage))
    return sum(1 for answer in answers if answer.tool_calls or answer.invalid_tool_calls)


def cut_short(answer: AIMessage, limit: int) -> list[BaseMessage]:
    """Return an answer that may call no tools: calls get an error result, and words follow."""
    asked = calls(plain([answer])[0])
    if not asked:
        return [answer]
    why = prompt("too_many_rounds", limit=limit)
    results = [ToolMessage(**no_result(call, why)["data"], id=str(uuid4())) for call in asked]
    return [answer, *results, AIMessage(prompt("no_answer", limit=limit), id=str(uuid4()))]


def _with_ids(calls: Sequence[Any]) -> list[Any]:
    """Return calls with a name and an id each; an id that is missing or repeated is replaced."""
    ids = [call.get("id") for call in calls]
    return [
        {**call, "name": call.get("name") or "", "id": call_id if fit else f"call_{uuid4().hex}"}
        for at, (call, call_id) in enumerate(zip(calls, ids, strict=True))
        for fit in [call_id and call_id not in ids[:at]]
    ]
