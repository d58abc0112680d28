"""LangChain messages as plain data and back: cleaned for the archive, large files by reference."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
    messages_from_dict,
)
from pydantic_core import to_jsonable_python

from ...memory.archive.protocol import Archive
from ...memory.attachments import complete, data_of, references, referring, without_texts
from ...memory.dates import stamped
from ...memory.fences import without_reserved_name
from ...memory.messages import Message, broken, clean, unanswered, unserialisable
from ...memory.record import Record, Session
from ...memory.state_block import as_users_see
from ...memory.tool_names import MEMORY_TOOLS
from ...memory.valid_history import no_result
from ...memory.view import ArchiveView
from ...prompts.loader import render
from .readable import all_readable, readable

MADE_HERE = frozenset({"ai", "tool"})
"""Types of the messages that an agent adds itself."""

_Message = TypeVar("_Message", bound=BaseMessage)


def to_dicts(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """Return messages in LangChain's serialised form, defaults left out, without lone surrogates.

    References stand for large files. None has the memory's name. What JSON cannot hold (an
    artifact, say) becomes a marker that names its type. A message gives the same data before and
    after it went through a checkpoint.
    """
    plain: list[Message] = []
    for message in messages:
        defaults = {**_defaults(type(message)), "type": message.type}
        data = {
            name: _plain(
                referring(value) if isinstance(value, list) and name == "content" else value
            )
            for name, value in message
            # An array differs from its default by its type.
            if name not in defaults
            or type(value) is not type(defaults[name])
            or value != defaults[name]
        }
        own = clean(data)
        if not own.keys().isdisjoint(("name", "additional_kwargs")):
            own = without_reserved_name(own, message.type)
        plain.append({"type": message.type, "data": own})
    return tuple(plain)


def from_dicts(messages: Sequence[Message]) -> list[BaseMessage]:
    """Return the LangChain messages of plain ones; no other class is ever constructed."""
    return messages_from_dict([*map(dict, messages)])


def messages_in_state(value: Any) -> list[BaseMessage]:
    """Return the messages of a state, also where a client wrote them as JSON.

    LangGraph keeps JSON that overwrites `messages` as it is; elsewhere LangChain converts it, but
    takes two fields of an answer for `additional_kwargs`. What is no message is left out; values of
    the wrong type are put right.
    """
    messages: list[BaseMessage] = []
    for one in value if isinstance(value, list | tuple) else ():
        if isinstance(one, BaseMessage):
            messages.append(one)
            continue
        try:
            messages += convert_to_messages([one])
        except (ValueError, TypeError, NotImplementedError):
            continue
    kept = [one for one in messages if not isinstance(one, RemoveMessage)]
    return [_with_own_fields(one) for one in all_readable(kept)]


_CONVERTED_AS_EXTRA = ("invalid_tool_calls", "usage_metadata")
"""Fields of an answer that `convert_to_messages` moves from JSON to `additional_kwargs`."""


def _with_own_fields(message: BaseMessage) -> BaseMessage:
    extra = message.additional_kwargs
    if message.type != "ai" or not extra.keys() >= {*_CONVERTED_AS_EXTRA}:
        return message
    own = {n: extra[n] for n in _CONVERTED_AS_EXTRA if extra[n] and not getattr(message, n)}
    rest = {name: value for name, value in extra.items() if name not in _CONVERTED_AS_EXTRA}
    return readable(message.model_copy(update={**own, "additional_kwargs": rest}))


def cleaned(message: _Message) -> _Message:
    """Return a message as it can be stored and read again, without the memory's name.

    Returns the same object if nothing has to change.

    >>> message = {"type": "human", "data": {"content": "hi", "name": "EBBTIDE"}}
    >>> cleaned(*from_dicts([message])).name is None
    True
    """
    message = cast("_Message", readable(message))
    data = dict(message)
    own = without_reserved_name(data, message.type)
    return type(message)(**clean(own)) if own is not data or broken(data) else message


@cache
def _defaults(kind: type[BaseMessage]) -> Mapping[str, Any]:
    """Return the defaults of the fields that have one; cached, as pydantic is slow to find them."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back; a marker for what it cannot hold."""
    if type(value) is str:
        return value
    try:
        said = json.dumps(value)
        if '"null":' not in said:  # as pydantic does not name a key that is None
            return json.loads(said)
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        plain = to_jsonable_python(_ordered(value), fallback=_described, bytes_mode="base64")
        return json.loads(json.dumps(plain))
    except (ValueError, TypeError, RecursionError):
        return unserialisable(value)


def _described(value: Any) -> Any:
    """Return an exception as checkpointers give it back, a marker for anything else."""
    return repr(value) if isinstance(value, BaseException) else unserialisable(value)


def _ordered(value: Any) -> Any:
    """Return a value with its sets as sorted lists, as their order differs between processes."""
    if isinstance(value, set | frozenset):
        return sorted((_ordered(item) for item in value), key=repr)
    if type(value) is dict:
        return {key: _ordered(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_ordered(item) for item in value]
    return value


def with_call_ids(message: _Message) -> _Message:
    """Return the message with a name, "" at least, and a unique id for each of its calls."""
    if not isinstance(message, AIMessage):
        return message
    calls, valid = [*message.tool_calls, *message.invalid_tool_calls], len(message.tool_calls)
    unique: list[Any] = []
    for call in calls:
        used_ids = {None, "", *(earlier.get("id") for earlier in calls[: len(unique)])}
        call_id = f"call_{uuid4().hex}" if call.get("id") in used_ids else call["id"]
        unique.append({**call, "name": call.get("name") or "", "id": call_id})
    update: dict[str, Any] = {"tool_calls": unique[:valid], "invalid_tool_calls": unique[valid:]}
    return message.model_copy(update=update)


def with_tool_name(result: ToolMessage, tool: str) -> ToolMessage:
    """Return a result with its tool's name instead of none or that of one of the memory's tools."""
    if result.name in MEMORY_TOOLS and result.name != tool:
        return result.model_copy(update={"name": tool, "artifact": None})
    return result if result.name else result.model_copy(update={"name": tool})


_TIMES = ("timestamp", "created_at", "created")
"""Where messages carry their time, in `additional_kwargs` or `response_metadata`."""

_MILLISECONDS = 1e11
"""Numbers from here on are milliseconds since 1970: as seconds they would be after 5138."""


def time_of(messages: Sequence[BaseMessage]) -> str:
    """Return the time that the last of these messages with one carries, "" if none does.

    >>> message = {"type": "ai", "data": {"content": "", "response_metadata": {"created": 1e9}}}
    >>> time_of(from_dicts([message])), time_of([])
    ('2001-09-09T01:46:40.000Z', '')
    """
    for message in reversed(messages):
        for extra in (message.additional_kwargs, message.response_metadata):
            moments = (_moment(extra.get(name)) for name in _TIMES)
            if moment := next(filter(None, moments), None):
                return stamped(moment)
    return ""


def _moment(value: Any) -> datetime | None:
    """Return a time in any form that is usual for it, None for anything else."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / (1000 if value > _MILLISECONDS else 1), UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return value if isinstance(value, datetime) else None


def question_start(messages: Sequence[BaseMessage]) -> int:
    """Return the position where the user's last question begins, 0 if there is none.

    Instructions right before the question belong to it.

    >>> words, answer = ({"type": kind, "data": {"content": "Hi"}} for kind in ("human", "ai"))
    >>> question_start(from_dicts([words, answer, words]))
    2
    """
    at = max((n for n, message in enumerate(messages) if message.type == "human"), default=0)
    while at > 0 and messages[at - 1].type not in MADE_HERE:
        at -= 1
    return at


def closed(messages: Sequence[BaseMessage], nonce: str, reason: str = "") -> list[BaseMessage]:
    """Return the messages with an error result, which gives the reason, for each open call.

    The results of one turn, known by its nonce, have the same ids whenever they are made, so that a
    turn that is committed again is the same commit.
    """
    calls = unanswered(to_dicts(messages)) if messages else ()
    if not calls:
        return [*messages]
    reason = reason or render("no_result")
    results = [no_result(call, reason)["data"] for call in calls]
    ids = (str(uuid5(NAMESPACE_OID, f"{nonce} {result['tool_call_id']}")) for result in results)
    return [*messages, *(ToolMessage(**r, id=own) for r, own in zip(results, ids, strict=True))]


def _have_blocks(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether any of these messages has blocks, and so perhaps a file."""
    return list in map(type, map(attrgetter("content"), messages))


def kept_in_state(
    archive: Archive, session: Session, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return messages as the state has them: with references to large files, which are stored.

    Inside a larger graph they have the data, since other nodes send the same messages to models.
    """
    if session.namespace:
        return completed(archive, session, messages)
    if not _have_blocks(messages):
        return [*messages]
    if texts := data_of([message.content for message in messages]):
        archive.attach(session, texts)
    return [
        message if isinstance(message.content, str) else _with(message, referring(message.content))
        for message in messages
    ]


def archived(messages: Sequence[_Message]) -> list[_Message] | None:
    """Return messages without the texts of files, which the archive has; None if there are none.

    Each later turn would carry them through its checkpoints.
    """
    if not _have_blocks(messages):
        return None
    after = [
        message
        if isinstance(message.content, str)
        else _with(message, without_texts(message.content))
        for message in messages
    ]
    is_same = all(new is old for new, old in zip(after, messages, strict=True))
    return None if is_same else after


def stored_messages(view: ArchiveView, record: Record) -> list[BaseMessage]:
    """Return the messages of a committed turn as the state has them."""
    return kept_in_state(
        view.archive, view.session, from_dicts(as_users_see(view.messages(record)))
    )


def completed(
    archive: Archive,
    session: Session,
    messages: Sequence[_Message],
    running: Sequence[BaseMessage] = (),
) -> list[_Message]:
    """Return messages with the data of large files, which `running` messages may have too."""
    if not _have_blocks(messages):
        return [*messages]
    digests = references([message.content for message in messages])
    if not digests:
        return [*messages]
    texts = data_of([message.content for message in running])
    rest = archive.attachments(session, [digest for digest in digests if digest not in texts])
    return [_with(message, complete(message.content, {**texts, **rest})) for message in messages]


def _with(message: _Message, content: object) -> _Message:
    if content is message.content:
        return message
    return message.model_copy(update={"content": content})
