"""Messages as every provider accepts them: calls paired with results, nothing empty."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call as create_tool_call

from ..prompts.loader import render
from .blocks import kind_of
from .fences import LONGEST_NAME, Fences
from .messages import call_id, calls, reworded, speaks, spoken, text, with_content
from .serialised import fingerprint
from .tool_names import MEMORY_TOOLS
from .transcript import cleaned, indented, speaker

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""The ids of calls that both accept: Anthropic limits the characters, OpenAI the length."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
"""OpenAI answers 400 to names with other characters; Anthropic and Google take some more."""


_SPOKEN = frozenset({"human", "ai"})


def valid_history(messages: Sequence[BaseMessage], fences: Fences) -> tuple[BaseMessage, ...]:
    """Return the messages with every call followed by its result and no other results.

    Missing results are filled in, orphan results become quotes. System messages are left out, as
    the first one has them. An empty user message gets a text that says so. Answers that are empty
    or only reasoning are left out, since providers refuse them. Names of calls are made acceptable
    (see `_sendable`), and so are those of speakers.
    No message has the memory's name or key: give only messages of others.

    >>> asking = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    >>> [message.type for message in valid_history([asking], Fences("404256753", len))]
    ['ai', 'tool']
    """
    if all(_is_plain(message, fences) for message in messages):
        return tuple(messages)
    rounds: list[list[BaseMessage]] = [[]]  # each but perhaps the first begins with an answer
    for message in map(_with_sendable_names, fences.of_others(messages)):
        if message.type == "ai":
            rounds.append([])
        rounds[-1].append(message)
    return tuple(fixed for round_ in rounds for fixed in _paired(round_, fences))


def _is_plain(message: BaseMessage, fences: Fences) -> bool:
    """Tell whether every provider takes a message as it stands, as those of most turns."""
    words = message.content
    if message.type not in _SPOKEN or not isinstance(words, str) or not words.strip():
        return False
    is_bare = not (message.name or message.additional_kwargs)
    is_bare = is_bare and (message.type == "human" or not calls(message))
    return is_bare and "id" not in message.response_metadata and fences.key not in words


def _sendable(name: Any) -> str:
    """Return a tool's name in the form that every provider accepts.

    >>> _sendable("functions.open_effort"), _sendable("")
    ('functions_open_effort', 'unnamed')
    """
    return _NOT_IN_NAMES.sub("_", str(name or ""))[:LONGEST_NAME] or "unnamed"


def with_own_ids(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    """Return messages in which the id of each call is unique and accepted by every provider.

    Some models number the calls of each answer from `call_0`, to which Anthropic answers 400
    "`tool_use` ids must be unique"; OpenAI and Anthropic refuse some ids that the other made.

    >>> twice = [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "call_0"}])] * 2
    >>> [message.tool_calls[0]["id"] for message in with_own_ids(twice)]
    ['call_0', 'call_d176451b23ec5599']
    """
    times: Counter[str] = Counter()
    new_ids: dict[str, str] = {}
    unique: list[BaseMessage] = []
    for message in messages:
        if message.type == "ai":
            if not (called := calls(message)):
                new_ids = {}
                unique.append(message)
                continue
            ids = [str(call["id"]) for call in called]
            times.update(ids)
            new_ids = {}
            for one in ids:
                if times[one] > 1 or not _ID.fullmatch(one):
                    new_ids[one] = f"call_{fingerprint([one, times[one]])}"
        unique.append(_with_ids(message, new_ids) if new_ids else message)
    return tuple(unique)


def _with_ids(message: BaseMessage, ids: Mapping[str, str]) -> BaseMessage:
    """Return a message with the ids of calls replaced wherever they stand in it."""
    new: dict[str, Any] = {}
    if isinstance(message, ToolMessage):
        new["tool_call_id"] = ids.get(message.tool_call_id, message.tool_call_id)
    if isinstance(message, AIMessage):
        extra = message.additional_kwargs
        new["tool_calls"] = _with_id(message.tool_calls, ids)
        new["content"] = _with_id(message.content, ids)
        new["additional_kwargs"] = {key: _with_id_keys(extra[key], ids) for key in extra}
    return message.model_copy(update=new)


def _with_id_keys(extra: Any, ids: Mapping[str, str]) -> Any:
    """Return what an adapter keeps, a list of calls or values by the ids of calls, with new ids."""
    if isinstance(extra, Mapping):
        return {ids.get(key, key): value for key, value in extra.items()}
    return _with_id(extra, ids)


def _with_id(item: Any, ids: Mapping[str, str]) -> Any:
    """Return a call, or a list of calls, with its id replaced; anything else unchanged."""
    if isinstance(item, list):
        return [_with_id(part, ids) for part in item]
    if not isinstance(item, Mapping):
        return item
    return {**item, **{key: ids[item[key]] for key in ("id", "call_id") if item.get(key) in ids}}


def _with_sendable_names(message: BaseMessage) -> BaseMessage:
    """Return a message whose calls, or whose answered call, have names that can be sent."""
    new: dict[str, Any] = {}
    if message.type == "tool" and message.name is not None:
        new["name"] = _sendable(message.name)
    if message.type == "ai":
        extra, content = message.additional_kwargs, message.content
        new |= _renamed_calls(vars(message))
        new |= {"additional_kwargs": extra | _renamed_calls(extra)} if extra else {}
        if isinstance(content, list) and "call" in map(kind_of, content):
            new["content"] = [
                _renamed(block) if kind_of(block) == "call" else block for block in content
            ]
        # With this id OpenAI's adapter would use the provider's stored context instead of ours.
        metadata = message.response_metadata
        if str(metadata.get("id")).startswith("resp_"):
            new["response_metadata"] = {key: metadata[key] for key in metadata if key != "id"}
    return message.model_copy(update=new) if new else message


def _renamed_calls(data: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("tool_calls", "invalid_tool_calls", "function_call")
    return {key: _renamed(data[key]) for key in fields if data.get(key)}


def _renamed(call: Any) -> Any:
    if isinstance(call, list):
        return [_renamed(part) for part in call]
    if not isinstance(call, Mapping):
        return call
    if "function" in call:
        return {**call, "function": _renamed(call["function"])}
    return {**call, "name": _sendable(call.get("name"))}


def _paired(round_: Sequence[BaseMessage], fences: Fences) -> Iterator[BaseMessage]:
    """Yield an answer, the results of its calls in their order, then the round's other messages."""
    requests = calls(round_[0]) if round_ and round_[0].type == "ai" else ()
    if requests:
        yield _with_valid_calls(round_[0])
    names = {call["id"]: call["name"] for call in requests}
    results: dict[Any, BaseMessage] = {}
    for message in round_:
        if _answers(message, names):
            results.setdefault(call_id(message), message)
    yield from (results.get(c["id"]) or no_result(c, render("no_result")) for c in requests)
    for message in round_[1:] if requests else round_:
        if message.type != "tool":
            yield from _without_calls(message, fences)
        elif not _answers(message, names):
            yield _quoted(message, fences)


def _answers(message: BaseMessage, names: Mapping[str, str]) -> bool:
    """Tell whether a message is the result of a call, given the tools' names by the calls' ids.

    A result of a memory's tool has that tool's name: no other tool can answer for it.
    """
    if not isinstance(message, ToolMessage) or message.tool_call_id not in names:
        return False
    asked = names[message.tool_call_id]
    return asked not in MEMORY_TOOLS or message.name in {None, "", asked}


def no_result(call: Mapping[str, Any], reason: str) -> ToolMessage:
    """Return the error result of a call that was not run.

    >>> no_result({"name": "look_up", "id": "1"}, "Not run.").status
    'error'
    """
    return ToolMessage(reason, tool_call_id=call["id"], name=call["name"], status="error")


def _with_valid_calls(message: BaseMessage) -> BaseMessage:
    """Turn invalid calls into valid ones that quote their text: some adapters drop invalid ones."""
    if isinstance(message.content, str) and message.content and not message.content.strip():
        message = with_content(message, "")  # Anthropic refuses a text of blanks
    if not isinstance(message, AIMessage) or not message.invalid_tool_calls:
        return message
    mended = [
        create_tool_call(
            name=call["name"] or "", id=call["id"], args={"invalid": call.get("args") or ""}
        )
        for call in message.invalid_tool_calls
    ]
    new = {"tool_calls": [*message.tool_calls, *mended], "invalid_tool_calls": []}
    content = reworded(message.content, text(message))
    return message.model_copy(update={**new, "content": content})


def _without_calls(message: BaseMessage, fences: Fences) -> Iterator[BaseMessage]:
    """Yield a message without calls in a role that can be sent; an empty one only of the user."""
    content, kind = message.content, message.type
    is_plain = isinstance(content, str) and bool(content.strip())
    if kind == "ai" and is_plain:
        yield _uncalling(message)
        return
    blank = not is_plain and not text(message).strip()
    if kind == "human":
        yield with_content(message, render("empty_message")) if blank else message
    elif kind == "ai":
        if not speaks(message.content) and (words := spoken(message)):
            given = message.additional_kwargs.items()  # providers forget the recording
            extra = {key: value for key, value in given if key not in {"audio", "refusal"}}
            message = message.model_copy(update={"content": words, "additional_kwargs": extra})
        yield from [_uncalling(message)] if speaks(message.content) else []
    elif kind != "system" and not blank:
        yield _quoted(message, fences)


def _uncalling(message: BaseMessage) -> BaseMessage:
    """Return an answer without a call in OpenAI's old form, which nothing answers."""
    extra = message.additional_kwargs
    if "function_call" not in extra:
        return message
    extra = {key: value for key, value in extra.items() if key != "function_call"}
    return message.model_copy(update={"additional_kwargs": extra})


def _quoted(message: BaseMessage, fences: Fences) -> BaseMessage:
    """Return a note that quotes a message, as it would stand in a log."""
    quote = f"{speaker(message)}: {indented(cleaned(text(message)))}"
    return fences.note(render("orphan_result", quote=quote))
