"""Sessions and stored turns. A turn is a commit: its id is a hash of its content and parent."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from langchain_core.messages import BaseMessage

from .errors import SettingsError
from .serialised import fingerprint, to_dict

Event: TypeAlias = Mapping[str, Any]
Status: TypeAlias = Literal["done", "aborted", "erased", "command"]
"""How a turn ended. A `command` is not a turn: a person used a memory tool after one."""

Digest: TypeAlias = Annotated[str, "hexadecimal"]
"""Hexadecimal digits, which the archive stores as half as many bytes."""

_ID = 32
"""Hexadecimal digits of a turn's id: 128 bits, so that ids do not collide."""

ANONYMOUS = ""
"""The user of anonymous sessions, which share no memory. User ids are never empty."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def without_controls(key: str, name: str) -> str:
    """Return the id of a user or a thread; raise `SettingsError` for control characters in it.

    Stores change them: LangGraph takes NUL out of an id, which then is another one.
    """
    if _CONTROL.search(name):
        raise SettingsError(f"{key}: pass an id without control characters (got {name!r})")
    return name


@dataclass(frozen=True, slots=True)
class Session:
    """A session: its user, its thread, and the checkpoint namespace of the agent in a graph."""

    user: str
    thread: str
    namespace: str = ""

    def __post_init__(self) -> None:
        """Raise `SettingsError` for an id with control characters."""
        without_controls("user_id", self.user)
        without_controls("thread_id", self.thread)

    @property
    def anonymous(self) -> bool:
        """Whether the session has no user, and so no memory across sessions."""
        return self.user == ANONYMOUS

    @property
    def user_label(self) -> str:
        """The name of the user for display.

        >>> Session("ann", "t").user_label, Session(ANONYMOUS, "t").user_label
        ('ann', '(anonymous)')
        """
        return "(anonymous)" if self.anonymous else self.user


@dataclass(frozen=True, slots=True)
class Tip:
    """The last turn of a branch, named by its number (0 for none) and its id.

    With a smaller number it means the same branch up to that turn.
    """

    turn: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn, or a command, as the archive stores it; without an `id` it is not stored yet.

    The columns of its table are made from the fields that are compared. The others go with it into
    the archive (`state`, `attachments`, `part`), or tell how it came there (`beside`).

    Attributes:
        number: Counted from 1. A command has the number of the turn before it.
        messages: Its messages; none for a command, and none for an `erased` turn.
        at: The time, ISO 8601 in UTC.
        efforts: The efforts that it belongs to.
        events: What happened to efforts in it.
        status: How it ended.
        id: The hash of its nonce, its parent's id and its content; "" before the commit.
        parent: The id of the turn before it, "" for the first one.
        nonce: Drawn when the turn starts. A retry has the same nonce, a repeated question another.
        content: The digest of what remains if it lost a copy of something erased, else None.
        origin: The id of the turn that it is an edit or a copy of, the first one of them all.
        state: The memory's state after it, as plain data; None if it was not read.
        attachments: Data that the messages refer to, by digest.
        part: The id of the last stored part (rounds that left the prompt) that `messages` contain,
            "" for none.
        beside: If this commit started another branch: the tip that was the newest of the session
            until then, and its time.
    """

    number: int
    messages: tuple[BaseMessage, ...]
    at: str
    efforts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    status: Status = "done"
    id: Digest = ""
    parent: Digest = ""
    nonce: Digest = ""
    content: str | None = None
    origin: Digest | None = None
    state: Mapping[str, Any] | None = field(default=None, compare=False)
    attachments: Mapping[str, str] = field(default_factory=dict, compare=False)
    part: str = field(default="", compare=False)
    beside: tuple[Tip, str] | None = field(default=None, compare=False)

    @property
    def is_aborted(self) -> bool:
        """Whether the turn was broken off: it has no answer."""
        return self.status == "aborted"

    @property
    def root(self) -> str:
        """The id that it shares with its edited forms and its copies."""
        return self.origin or self.id

    @property
    def tip(self) -> Tip:
        """The tip of a branch that ends with this turn."""
        return Tip(self.number, self.id)

    @property
    def hashed(self) -> Sequence[Mapping[str, Any]]:
        """What is hashed for the id: messages, or the events of a command."""
        return self.events if self.status == "command" else [*map(to_dict, self.messages)]


@dataclass(frozen=True, slots=True)
class Part:
    """Rounds of a running turn that left its state, after those of the part `before`.

    `nonce` is the turn's, `events` tell what was sent for its answers. As a part's id is a hash,
    a retry stores nothing twice, and each fork inside a turn has a chain of its own.
    """

    nonce: str
    before: str
    messages: tuple[BaseMessage, ...]
    events: tuple[Event, ...] = ()

    @property
    def id(self) -> str:
        """The id, by which the next part and the state name it."""
        return commit_id(self.nonce, f"part {self.before}", [*map(to_dict, self.messages)])


def first_round(messages: Sequence[BaseMessage]) -> int:
    """Return the place of a turn's first answer of a model, the end if it has none.

    >>> first_round([HumanMessage("Hi"), AIMessage("")])
    1
    """
    places = (at for at, message in enumerate(messages) if message.type == "ai")
    return next(places, len(messages))


def commit_id(nonce: str, parent: str, content: Sequence[Mapping[str, Any]]) -> str:
    """Return the id of a commit: a hash of its nonce, its parent's id and its stored content.

    >>> commit_id("", "", [{"type": "human", "data": {"content": "hi"}}])
    'aac967c36d492331a7cf1fa33c6231d0'
    """
    return fingerprint([nonce, parent, [*content]], _ID)


SHORT_ID = 12
"""Digits of a turn's id that people are shown and may type."""


def memberships(active: str | None, events: Sequence[Event]) -> tuple[str, ...]:
    """Return the efforts of a turn: the active one at its end, then those it concluded.

    >>> memberships("b", [{"type": "concluded", "effort": "a"}])
    ('b', 'a')
    """
    names = dict.fromkeys([active] if active else [])
    for event in events:
        if event["type"] == "concluded":
            names[event["effort"]] = None
    return tuple(names)
