"""A turn in which the user decides which tool is called, and no model answers."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage

from ..prompts.loader import text as prompt
from .plain import cleaned

_MARK = {"by_hand": True}
"""What stands in `response_metadata` of messages that no model wrote; providers are not sent it."""


@dataclass(frozen=True, slots=True)
class Order:
    """A tool with its arguments, and the command as the user says it."""

    said: str
    tool: str
    arguments: dict[str, Any]


def question(order: Order) -> HumanMessage:
    """Return the command as the user message of its turn."""
    return HumanMessage(order.said, id=str(uuid4()))


def calling(order: Order) -> AIMessage:
    """Return the call of the tool, as a model would make it."""
    call = {"name": order.tool, "args": order.arguments, "id": f"call_{uuid4().hex}"}
    message = AIMessage("", tool_calls=[call], response_metadata=_MARK, id=str(uuid4()))
    return cleaned(message)


def answering(result: dict[str, Any]) -> AIMessage:
    """Return the answer that ends the turn: what was done to which effort."""
    said = prompt("by_hand", status=result["status"], effort=result.get("effort_id", "no effort"))
    return AIMessage(said, response_metadata=_MARK, id=str(uuid4()))


def by_hand(messages: list[Any]) -> bool:
    """Tell whether no model answered in the turn of these messages.

    >>> by_hand([HumanMessage("/close"), answering({"status": "concluded", "effort_id": "a"})])
    True
    """
    answers = [message for message in messages if isinstance(message, AIMessage)]
    return all("by_hand" in answer.response_metadata for answer in answers)
