"""How `close_effort` ends a turn: the text beside the call is the whole answer."""

from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, BaseMessage

from ..blocks import kind_of
from ..context.previews import COPIES
from ..messages import call_id, calls, speaks
from ..recalled import result_of
from ..state_block import CALLS_KEY, METADATA_KEY
from .toolbox import arguments_of


def ending(answer: BaseMessage, results: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a round that ends its turn as two messages, each with its own id; else none.

    The calls and their results come first. The answer keeps the id under which it was streamed, the
    usage and the report. The other ids follow from it, so that a retry gives the same ones.
    """
    content, called = _without_calls(answer.content), calls(answer)
    read = arguments_of("close_effort")
    done = [call_id(one) for one in results if result_of(one).get("status") == "concluded"]
    is_done = bool(called) and done == [call["id"] for call in called] and speaks(content)
    if not is_done or not any(dict(read(**call["args"]))["final"] for call in called):
        return []
    metadata, extra = dict(answer.response_metadata), dict(answer.additional_kwargs)
    asking = AIMessage("", id=_derived(answer), name=answer.name, tool_calls=[*called])
    asking.response_metadata = {CALLS_KEY: done}
    metadata.pop(CALLS_KEY, None)
    if "raw" in (own := metadata.get(METADATA_KEY, {})):
        metadata[METADATA_KEY] = {**own, "raw": _without_calls(own["raw"])}
    final: dict[str, Any] = {"content": content, "tool_calls": [], "response_metadata": metadata}
    final["additional_kwargs"] = {key: extra[key] for key in extra if key not in COPIES}
    named = [one.model_copy(update={"id": _derived(answer, call_id(one))}) for one in results]
    return [asking, *named, answer.model_copy(update=final)]


def _without_calls(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [block for block in content if kind_of(block) != "call"]


def _derived(answer: BaseMessage, result: str | None = None) -> str:
    return str(uuid5(NAMESPACE_OID, f"{answer.id} {result or 'calls'}"))
