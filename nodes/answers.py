"""What a model answered, made fit to be kept."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ..memory.messages import calls, unanswered
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


def cut_short(said: Sequence[BaseMessage], limit: int) -> list[BaseMessage]:
    """Return an answer that may call no tools: calls get an error result, and words follow."""
    messages = plain(said)
    if not calls(messages[0]):
        return [*said]
    why = prompt("too_many_rounds", limit=limit)
    left = [no_result(call, why)["data"] for call in unanswered(messages)]
    results = [ToolMessage(**data, id=str(uuid4())) for data in left]
    return [*said, *results, AIMessage(prompt("no_answer", limit=limit), id=str(uuid4()))]


def _with_ids(calls: Sequence[Any]) -> list[Any]:
    """Return calls with a name and an id each; an id that is missing or repeated is replaced."""
    ids = [call.get("id") for call in calls]
    return [
        {**call, "name": call.get("name") or "", "id": call_id if fit else f"call_{uuid4().hex}"}
        for at, (call, call_id) in enumerate(zip(calls, ids, strict=True))
        for fit in [call_id and call_id not in ids[:at]]
    ]
