"""The results of tools that put logs into the context, and the calls that they answer."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import ToolError
from ..messages import Message
from ..names import numbers
from ..transcript import Logged, result_of

LOG_TOOLS = {"expand_effort": "expanded", "reopen_effort": "reopened"}
"""The tools that put a log into the context, with the status of their results."""

Call: TypeAlias = tuple[str, int]
"""A call: its id, and how many later calls of its turn have the same id, as models repeat ids."""


def with_calls(messages: Sequence[Message]) -> list[tuple[Message, Call | None]]:
    """Return each message with the call that it answers, None if it is no result."""
    pairs: list[tuple[Message, Call | None]] = []
    later: Counter[str] = Counter()
    for message in reversed(messages):
        call_id = str(message["data"].get("tool_call_id"))
        pairs.append((message, (call_id, later[call_id]) if message["type"] == "tool" else None))
        later[call_id] += 1
    return pairs[::-1]


def log_results(messages: Sequence[Message]) -> Iterator[tuple[int, Call, Mapping[str, Any]]]:
    """Yield the results that brought turns of a log back, with their places and calls."""
    for at, call, result in results_of(messages, LOG_TOOLS):
        status = LOG_TOOLS[messages[at]["data"]["name"]]
        if result.get("status") == status and result.get("tokens", 1) and turns_of_log(result):
            yield at, call, result


def results_of(
    messages: Sequence[Message], tools: Container[str]
) -> Iterator[tuple[int, Call, Mapping[str, Any]]]:
    """Yield the results of these tools, with their places and calls."""
    for at, (message, call) in enumerate(with_calls(messages)):
        if call is not None and message["data"].get("name") in tools:
            yield at, call, result_of(message)


def turns_of_log(result: Mapping[str, Any]) -> list[int]:
    """Return the turns that a result lists, none if malformed: a client may have written it."""
    if not all(isinstance(result.get(name), str) for name in ("effort_id", "turns")):
        return []
    try:
        return sorted(numbers(result["turns"]))
    except ToolError:
        return []


def loaded_in(record: Logged, effort: str) -> set[int]:
    """Return the turns of an effort that the tools of a turn brought into the context."""
    results = (result for _, _, result in log_results(record.messages))
    found = (result for result in results if result["effort_id"] == effort)
    return {turn for result in found for turn in turns_of_log(result)}
