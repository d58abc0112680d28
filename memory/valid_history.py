"""Messages as every provider accepts them: calls paired with results, nothing empty."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..prompts.loader import render
from .messages import (
    Message,
    calls,
    fenced,
    fingerprint,
    is_call,
    reworded,
    speaks,
    text,
    with_content,
)
from .tokens import TokenCounter, count_message, fit

NAME = "ebbtide"
"""Tells the memory's own messages from those of the user."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Anthropic takes no other characters in the id of a call, OpenAI no more of them."""

_LONGEST_NAME = 64
"""Characters of a tool's name that OpenAI and Anthropic accept."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
"""OpenAI answers 400 to names with other characters; Anthropic and Google take some more."""


def note(content: str) -> Message:
    """Return a message of the memory itself: user role, named `ebbtide`."""
    return {"type": "human", "data": {"content": content, "name": NAME}}


def note_within(message: Message, limit: int, count: TokenCounter) -> Message:
    """Return a note within `limit` tokens: its head and an ellipsis if it is longer."""
    if count_message(message, count) <= limit:
        return message
    said = text(message)
    around = count_message(note("…]"), count)
    return note(f"{said[: fit(said, max(1, limit - around - 2), count)]}…]")


def quote_within(
    quoted: Callable[[str], Message], said: str, limit: int, count: TokenCounter
) -> Message:
    """Return the note that quotes a text, or its head and an ellipsis, within `limit` tokens."""
    whole, free = quoted(said), limit - count_message(quoted("…"), count)
    while count_message(whole, count) > limit and free >= 0:
        whole = quoted(f"{said[: fit(said, free, count)]}…")
        free -= max(1, count_message(whole, count) - limit)
    return whole


def valid_history(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages such that every call is followed by its result and no result is alone.

    Missing results are filled in, orphan results become quotes, system messages become user text.
    The user's messages without content say that they are empty; answers without words are left
    out: providers refuse one that is empty, or nothing but thoughts. Calls have names that are
    taken (see `_sendable`), whatever a model made up.
    """
    rounds: list[list[Message]] = [[]]  # each begins at an assistant message but perhaps the first
    for message in map(_named, messages):
        if message["type"] == "ai":
            rounds.append([])
        rounds[-1].append(message)
    return tuple(fixed for part in rounds for fixed in _paired(part))


def _sendable(name: str | None) -> str:
    """Return a tool's name in the form that every provider accepts.

    >>> _sendable("functions.open_effort"), _sendable("")
    ('functions_open_effort', 'unnamed')
    """
    return _NOT_IN_NAMES.sub("_", name or "")[:_LONGEST_NAME] or "unnamed"


def with_own_ids(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages in which each call has an id of its own, one that every provider takes.

    Some models begin anew in each answer (`call_0`), to which Anthropic answers 400 "`tool_use` ids
    must be unique"; OpenAI and Anthropic refuse some ids that the other made.
    """
    times: Counter[str] = Counter()
    ids: dict[str, str] = {}
    renamed: list[Message] = []
    for message in messages:
        if message["type"] == "ai":
            given = [str(call["id"]) for call in calls(message)]
            times.update(given)
            ids = {}
            for call_id in given:
                fits = times[call_id] == 1 and _ID.fullmatch(call_id)
                ids[call_id] = call_id if fits else f"call_{fingerprint([call_id, times[call_id]])}"
        same = all(call_id == own for call_id, own in ids.items())
        renamed.append(message if same else _with_ids(message, ids))
    return tuple(renamed)


def _with_ids(message: Message, ids: Mapping[str, str]) -> Message:
    """Return a message with other ids of calls, wherever they stand in it."""
    data = dict(message["data"])
    if message["type"] == "tool":
        data["tool_call_id"] = ids.get(data["tool_call_id"], data["tool_call_id"])
    if message["type"] == "ai":
        for key in data.keys() & {"tool_calls", "content"}:
            data[key] = _with_id(data[key], ids)
        extra = data.get("additional_kwargs") or {}
        data["additional_kwargs"] = {key: _keyed(value, ids) for key, value in extra.items()}
    return {**message, "data": data}


def _keyed(value: Any, ids: Mapping[str, str]) -> Any:
    """Return what an adapter keeps of calls: a list of them, or something by their ids."""
    if isinstance(value, Mapping):
        return {ids.get(key, key): item for key, item in value.items()}
    return _with_id(value, ids)


def _with_id(item: Any, ids: Mapping[str, str]) -> Any:
    """Return a call, or a list of calls, with other ids; anything else as it is."""
    if isinstance(item, list):
        return [_with_id(each, ids) for each in item]
    if not isinstance(item, Mapping):
        return item
    return {**item, **{key: ids[item[key]] for key in ("id", "call_id") if item.get(key) in ids}}


def _named(message: Message) -> Message:
    """Return a message whose calls, or the call that it answers, have names that can be sent."""
    data = dict(message["data"])
    if message["type"] == "tool" and data.get("name") is not None:
        data["name"] = _sendable(data["name"])
    if message["type"] == "ai":
        extra = data.get("additional_kwargs")
        data |= _calling(data)
        data |= {"additional_kwargs": extra | _calling(extra)} if extra else {}
        if isinstance(data.get("content"), list):
            data["content"] = [
                _called(block) if is_call(block) else block for block in data["content"]
            ]
        # By it OpenAI's adapter would leave the context to the provider, who keeps all of it.
        about = data.get("response_metadata") or {}
        if str(about.get("id")).startswith("resp_"):
            data["response_metadata"] = {key: about[key] for key in about if key != "id"}
    return {**message, "data": data}


def _calling(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that hold calls, with names that can be sent."""
    fields = ("tool_calls", "invalid_tool_calls", "function_call")
    return {key: _called(data[key]) for key in fields if data.get(key)}


def _called(given: Any) -> Any:
    """Return a call, or a list of calls, as LangChain has them or as OpenAI nests them."""
    if isinstance(given, list):
        return [_called(call) for call in given]
    if not isinstance(given, Mapping):
        return given
    if "function" in given:
        return {**given, "function": _called(given["function"])}
    return {**given, "name": _sendable(given.get("name"))}


def _paired(part: Sequence[Message]) -> Iterator[Message]:
    asked = calls(part[0]) if part and part[0]["type"] == "ai" else ()
    if asked:
        yield _with_valid_calls(part[0])
    results: dict[Any, Message] = {}
    for message in part:
        if message["type"] == "tool":
            results.setdefault(message["data"].get("tool_call_id"), message)
    yield from (results.get(c["id"]) or no_result(c, render("no_result")) for c in asked)
    known = {call["id"] for call in asked}
    for message in part[1:] if asked else part:
        if message["type"] != "tool":
            yield from _plain(message)
        elif message["data"].get("tool_call_id") not in known:
            said = f"tool {message['data'].get('name') or 'unknown'}: {text(message)}"
            yield note(render("orphan_result", quote=fenced("result", said)))


def no_result(call: Mapping[str, Any], why: str) -> Message:
    """Return the error result of a call that was not run."""
    data = {"content": why, "tool_call_id": call["id"], "name": call["name"], "status": "error"}
    return {"type": "tool", "data": data}


def _with_valid_calls(message: Message) -> Message:
    """Turn invalid calls into valid ones that quote what was sent: not all providers send them."""
    data = dict(message["data"])
    if isinstance(data.get("content"), str) and not data["content"].strip():
        data["content"] = ""  # Anthropic: "text content blocks must contain non-whitespace text"
    if invalid := data.get("invalid_tool_calls"):
        mended = [
            {"name": call["name"], "id": call["id"], "args": {"invalid": call.get("args") or ""}}
            for call in invalid
        ]
        data["content"] = reworded(data.get("content") or "", text({"data": data}))
        data["tool_calls"] = [*data.get("tool_calls", ()), *mended]
        del data["invalid_tool_calls"]
    return {**message, "data": data}


def _plain(message: Message) -> Iterator[Message]:
    """Yield a message without calls, unless it says nothing and nobody waits for an answer."""
    says = bool(text(message).strip())
    if message["type"] == "human":
        yield message if says else with_content(message, render("empty_message"))
    elif message["type"] == "ai":
        yield from [message] if speaks(message["data"].get("content")) else []
    elif says:  # of another role: it says so unless it is the user's
        content = message["data"]["content"]
        if message["data"].get("role") != "user":
            content = render("system_in_turn", text=text(message))
        yield {"type": "human", "data": {"content": content}}
