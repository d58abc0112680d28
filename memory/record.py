"""Owners and stored turns. A turn is a commit: its id is a hash of what it says and follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .messages import Message, fingerprint

Event: TypeAlias = Mapping[str, Any]
Status: TypeAlias = Literal["done", "aborted", "erased", "command"]
"""How a turn ended; a `command` is no turn, but what a person did by hand after one."""

_ID = 32
"""Hexadecimal digits of a turn's id: 128 bits, so that no two turns ever have the same."""

ANONYMOUS = ""
"""The user of sessions without a user, which share no memory; no user id is empty."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a session: user, thread, and checkpoint namespace without task ids."""

    user: str
    thread: str
    namespace: str = ""

    @property
    def anonymous(self) -> bool:
        """Whether there is no user, so no memory across sessions."""
        return self.user == ANONYMOUS

    @property
    def user_label(self) -> str:
        """The user as people are shown it.

        >>> Owner("ann", "t").user_label, Owner(ANONYMOUS, "t").user_label
        ('ann', '(anonymous)')
        """
        return "(anonymous)" if self.anonymous else self.user


@dataclass(frozen=True, slots=True)
class Tip:
    """The last turn that a state has committed: its number (0 for none) and its id.

    With a smaller number than that of the turn it stands for what this turn sees up to there.
    """

    turn: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The messages and events of one turn before it is committed.

    `at` is ISO 8601 in UTC, `state` the memory's state after the turn as plain data. `nonce` is
    drawn when the turn begins: a retry has the same one, a question that is repeated another.
    `attachments` are data to which the messages refer, by digest. A `command` has events alone, and
    the number of the turn that it follows.
    """

    turn: int
    messages: tuple[Message, ...]
    at: str
    efforts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    status: Status = "done"
    state: Mapping[str, Any] | None = None
    nonce: str = ""
    attachments: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> Sequence[Mapping[str, Any]]:
        """What the id is made of, see `Record.content`."""
        return self.events if self.status == "command" else self.messages


@dataclass(frozen=True, slots=True)
class Record:
    """A committed group with its id and that of its parent, "" for a session's first turn.

    An `erased` record is a tombstone: it keeps its place and its id, and has no text.
    """

    turn: int
    id: str
    parent: str
    messages: tuple[Message, ...]
    at: str
    efforts: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    status: Status = "done"

    @property
    def tip(self) -> Tip:
        """The tip of a state whose last turn is this record."""
        return Tip(self.turn, self.id)

    @property
    def content(self) -> Sequence[Mapping[str, Any]]:
        """What the id is made of: the messages of a turn, the events of a command."""
        return self.events if self.status == "command" else self.messages


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
    concluded = (event["effort"] for event in events if event["type"] == "concluded")
    return tuple(dict.fromkeys([*([active] if active else []), *concluded]))
