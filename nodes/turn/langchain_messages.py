"""Messages as the state has them: accepted for the archive, large files by reference."""

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar, cast
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)

from ...memory.archive.protocol import Archive
from ...memory.attachments import complete, data_of, references, referring, without_texts
from ...memory.dates import stamped
from ...memory.fences import without_reserved_name
from ...memory.messages import unanswered, with_content
from ...memory.serialised import clean
from ...memory.state_block import as_users_see
from ...memory.tool_names import MEMORY_TOOLS
from ...memory.turn import Session, StoredTurn
from ...memory.valid_history import no_result
from ...memory.view import ArchiveView
from ...prompts.loader import render
from .well_typed import well_typed

_Message = TypeVar("_Message", bound=BaseMessage)


def copied(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return copies, since whoever gets messages of the archive may change them."""
    are_plain = (isinstance(m.content, str) and not getattr(m, "tool_calls", ()) for m in messages)
    return [
        m.model_copy(deep=not is_plain) for m, is_plain in zip(messages, are_plain, strict=True)
    ]


def messages_in_state(value: Any) -> list[BaseMessage]:
    """Return the messages of a state, also where a client wrote them as JSON.

    LangGraph keeps JSON that overwrites `messages` as it is; elsewhere LangChain converts it, but
    takes two fields of an answer for `additional_kwargs`. What is no message is left out.
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
    return [_with_own_fields(one) if one.additional_kwargs else one for one in kept]


_CONVERTED_AS_EXTRA = ("invalid_tool_calls", "usage_metadata")
"""Fields of an answer that `convert_to_messages` moves from JSON to `additional_kwargs`."""


def _with_own_fields(message: BaseMessage) -> BaseMessage:
    extra = message.additional_kwargs
    if message.type != "ai" or not {*_CONVERTED_AS_EXTRA} <= {*extra}:
        return message
    own = {n: extra[n] for n in _CONVERTED_AS_EXTRA if extra[n] and not getattr(message, n)}
    rest = {name: value for name, value in extra.items() if name not in _CONVERTED_AS_EXTRA}
    return message.model_copy(update={**own, "additional_kwargs": rest})


def accepted(message: _Message) -> _Message:
    """Return a message as it can be stored and read again, without the memory's name.

    Returns the same object if nothing has to change.

    >>> accepted(HumanMessage("hi", name="EBBTIDE")).name is None
    True
    """
    message = cast("_Message", well_typed(message))
    data = dict(message)
    own = clean(without_reserved_name(data, message.type))
    return message if own == data else type(message)(**own)


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

    >>> message = AIMessage("", response_metadata={"created": 1e9})
    >>> time_of([message]), time_of([])
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


def closed(messages: Sequence[BaseMessage], nonce: str, reason: str = "") -> list[BaseMessage]:
    """Return the messages with an error result, which gives the reason, for each open call.

    The results of one turn, known by its nonce, have the same ids whenever they are made, so that a
    turn that is committed again is the same commit.
    """
    reason = reason or render("no_result")
    results = [no_result(call, reason) for call in unanswered(messages)]
    for result in results:
        result.id = str(uuid5(NAMESPACE_OID, f"{nonce} {result.tool_call_id}"))
    return [*messages, *results]


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
        message
        if isinstance(message.content, str)
        else with_content(message, referring(message.content))
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
        else with_content(message, without_texts(message.content))
        for message in messages
    ]
    is_same = all(new is old for new, old in zip(after, messages, strict=True))
    return None if is_same else after


def stored_messages(view: ArchiveView, turn: StoredTurn) -> list[BaseMessage]:
    """Return the messages of a committed turn as the state has them."""
    said = copied(as_users_see(view.messages(turn)))
    return kept_in_state(view.archive, view.session, said)


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
    return [
        with_content(message, complete(message.content, {**texts, **rest})) for message in messages
    ]
