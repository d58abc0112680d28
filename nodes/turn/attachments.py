"""Large files in messages: references in the state, the data in what is sent and shown."""

from collections.abc import Sequence
from typing import TypeVar

from langchain_core.messages import BaseMessage

from ...memory.archive.protocol import Archive
from ...memory.attachments import complete, data_of, references, referring
from ...memory.attribution import marked_content
from ...memory.record import Owner

_Message = TypeVar("_Message", bound=BaseMessage)


def kept_in_state(
    archive: Archive, owner: Owner, messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return messages as the state has them: with references to large files, which are stored.

    Inside a larger graph they have the data, since other nodes send the same messages to models.
    """
    if owner.namespace:
        return completed(archive, owner, messages)
    if texts := data_of([message.content for message in messages]):
        archive.attach(owner, texts)
    return [_with(message, referring(message.content)) for message in messages]


def completed(
    archive: Archive,
    owner: Owner,
    messages: Sequence[_Message],
    running: Sequence[BaseMessage] = (),
) -> list[_Message]:
    """Return messages with the data of large files, which `running` messages may have too."""
    digests = references([message.content for message in messages])
    if not digests:
        return [*messages]
    texts = data_of([message.content for message in running])
    rest = archive.attachments(owner, [digest for digest in digests if digest not in texts])
    return [_with(message, complete(message.content, {**texts, **rest})) for message in messages]


def completed_for_model(
    archive: Archive,
    owner: Owner,
    messages: Sequence[_Message],
    running: Sequence[BaseMessage] = (),
) -> list[_Message]:
    """Return what `completed` does, with the data marked like any other text of a message."""
    whole = completed(archive, owner, messages, running)
    return [
        new if new is old else _with(new, marked_content(new.content, new.type))
        for new, old in zip(whole, messages, strict=True)
    ]


def _with(message: _Message, content: object) -> _Message:
    if content is message.content:
        return message
    return message.model_copy(update={"content": content})
