"""What came in: which messages belong to an earlier turn, a broken one, a new one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MADE_HERE = frozenset({"ai", "tool"})
"""Types of the messages that an agent adds."""


@dataclass(frozen=True, slots=True)
class Message:
    """What telling turns apart needs of a message: its id and its type."""

    id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Marks:
    """Ids in state: last archived message, last message that a turn accepted, firsts of turns."""

    archived: str
    accepted: str
    starts: tuple[str, ...]
    running: bool


@dataclass(frozen=True, slots=True)
class Incoming:
    """Positions in the messages: last archived turn, what a broken turn left, what is new.

    All end where the next begins; `last` is None if the archived turn is not among the messages.
    """

    last: int | None
    left: int
    new: int


def incoming(messages: Sequence[Message], marks: Marks) -> Incoming:
    """Tell the parts of the messages apart.

    New is what follows the last archived message or, if neither that nor the question of its turn
    is among the messages, the last run of user messages. In an unfinished turn, new begins with
    the first message after the accepted ones that the graph cannot have made.
    """
    place = {message.id: position for position, message in enumerate(messages) if message.id}
    after = place[marks.archived] + 1 if marks.archived in place else None
    asked = question([message.kind for message in messages])
    foreign = None
    if marks.accepted in place:
        foreign = _first_foreign(messages, place[marks.accepted] + 1)
    if marks.running:
        last = _first_of(marks.starts[-2:-1], place, after)
        left = after if after is not None else place.get(marks.starts[-1], asked)
        return Incoming(last, left, left if foreign is None else foreign)
    known = after if after is not None else foreign
    left = known if known is not None else asked
    return Incoming(_first_of(marks.starts[-1:], place, known), left, left)


def _first_of(starts: Sequence[str], place: Mapping[str, int], end: int | None) -> int | None:
    """Return where the last archived turn begins, None if it or its end is not there."""
    return place.get(starts[0]) if starts and end is not None else None


def _first_foreign(messages: Sequence[Message], start: int) -> int:
    positions = range(start, len(messages))
    return next((at for at in positions if messages[at].kind not in MADE_HERE), len(messages))


def question(kinds: Sequence[str]) -> int:
    """Return where what the user said last begins, instructions before it included; 0 for nothing.

    >>> question(["human", "ai", "system", "human"])
    2
    """
    at = max((n for n, kind in enumerate(kinds) if kind == "human"), default=0)
    while at > 0 and kinds[at - 1] not in MADE_HERE:
        at -= 1
    return at
