"""Who wrote a message that no turn has yet.

LangGraph stores the input of a run before any node runs. If the run dies then, or another one
begins at that moment, the other run finds the input in the thread, and may be another user's. So a
`MemoryAgent` notes on each message of an input who wrote it, and a turn takes only what its own
user wrote. The note leaves the message when the turn begins: it is not archived, and no model sees
it.
"""

from collections.abc import Iterable

from langchain_core.messages import BaseMessage, RemoveMessage

from ...memory.archive.protocol import Archive

_NOTE = "ebbtide_author"
"""The key of the note in `additional_kwargs`."""


def author_of(archive: Archive, user: str) -> str:
    """Return what is noted of a user: the archive, and a digest that only its key can tell."""
    return f"{archive.id} {archive.keyed_digest(f'author {user}')}"


def noted(messages: Iterable[BaseMessage], author: str) -> list[BaseMessage]:
    """Return the messages with the note of their author; removals need none."""
    return [m if isinstance(m, RemoveMessage) else _with_note(m, author) for m in messages]


def _with_note(message: BaseMessage, author: str) -> BaseMessage:
    extras = {**message.additional_kwargs, _NOTE: author}
    return message.model_copy(update={"additional_kwargs": extras})


def without_notes(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages as they were before `noted`."""
    return [_plain(m) if _NOTE in m.additional_kwargs else m for m in messages]


def _plain(message: BaseMessage) -> BaseMessage:
    extras = {key: value for key, value in message.additional_kwargs.items() if key != _NOTE}
    return message.model_copy(update={"additional_kwargs": extras})


def without_others(messages: Iterable[BaseMessage], author: str) -> list[BaseMessage]:
    """Return the messages but for those that are noted as another author's.

    What was noted with another archive tells nothing here.
    """
    return [message for message in messages if not _is_of_another(message, author)]


def _is_of_another(message: BaseMessage, author: str) -> bool:
    note, here = str(message.additional_kwargs.get(_NOTE, author)), author.partition(" ")[0]
    return note != author and note.startswith(f"{here} ")


def written_by(messages: Iterable[BaseMessage], author: str) -> list[BaseMessage]:
    """Return the messages that are noted as the author's."""
    return [m for m in messages if m.additional_kwargs.get(_NOTE) == author]
