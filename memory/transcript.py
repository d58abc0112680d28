"""Raw logs as text: what summarisers, expanded efforts and `read_log` show of a turn."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..prompts.loader import text as prompt
from .messages import Message, calls, text
from .recall import recalled
from .record import Status
from .state_blocks import cut_content

_SPEAKERS = {"human": "user", "ai": "assistant"}


class Logged(Protocol):
    """Anything that has a turn number, the messages of that turn and its status."""

    @property
    def turn(self) -> int:
        """The number of the turn."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the turn, in order."""

    @property
    def status(self) -> Status:
        """How the turn ended, or that it was erased."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a rendered turn: who speaks, what is said, and which call it is, if one."""

    speaker: str
    said: str
    call: int | None = None

    def __str__(self) -> str:
        """Write the entry as it stands in the log."""
        return f"{self.speaker}{self.said}"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a message stands in its rendered turn: offsets of its text and of its arguments."""

    text: int
    calls: tuple[int, ...]


def transcript(turns: Iterable[Logged]) -> str:
    """Render turns as text, one after the other, each under a line with its number.

    An erased turn says that it was erased.
    """
    return "\n\n".join(f"[turn {turn.turn}]\n{_shown(turn)}" for turn in turns)


def rendered(messages: Sequence[Message], *, blocks: bool = False) -> str:
    r"""Render the messages of one turn as text; contents stand unchanged.

    State blocks of the model are left out, since only the newest holds; `blocks` keeps them. Text
    that was recalled from the archive stands as a reference, so that logs do not grow by reading
    them. Appending messages appends text, so offsets stay valid while a turn runs.

    >>> rendered([{"type": "human", "data": {"content": "Which port?"}}])
    'user: Which port?'
    """
    said = text if blocks else spoken
    return "\n".join(str(line) for message in messages for line in _lines(message, said(message)))


def offsets(messages: Sequence[Message]) -> tuple[Offsets, ...]:
    """Return where each message stands in the rendered turn, in characters.

    >>> offsets([{"type": "human", "data": {"content": "Which port?"}}])
    (Offsets(text=6, calls=()),)
    """
    found, at = [], 0
    for message in messages:
        said, asked = at, []
        for line in _lines(message, spoken(message)):
            begin = at + len(line.speaker)
            if line.call is None:
                said = begin
            else:
                asked.append(begin)
            at = begin + len(line.said) + 1
        found.append(Offsets(said, tuple(asked)))
    return tuple(found)


def spoken(message: Message) -> str:
    r"""Return the text of a message without the state blocks that the model wrote.

    >>> spoken({"type": "ai", "data": {"content": "Yes.\n---STATE---\nGoal: x\n---END STATE---"}})
    'Yes.'
    """
    content = message["data"].get("content")
    if message["type"] != "ai" or not content:
        return text(message)
    return text({"data": {"content": cut_content(content)}})


def _shown(turn: Logged) -> str:
    return prompt("erased_turn") if turn.status == "erased" else rendered(turn.messages)


def _lines(message: Message, said: str) -> list[Line]:
    references = recalled(message)
    if references:
        named = "; ".join(map(str, references))
        return [Line(f"tool {message['data'].get('name')}: ", f"({named})")]
    who = speaker(message)
    lines = [Line(f"{who}: ", said)] if said or not calls(message) else []
    return lines + [
        Line(f"{who} calls {call['name']} ", _arguments(call), at)
        for at, call in enumerate(calls(message))
    ]


def speaker(message: Message) -> str:
    """Return who speaks, as logs say it."""
    if message["type"] == "tool":
        return f"tool {message['data'].get('name') or ''}".rstrip()
    return str(_SPEAKERS.get(message["type"], message["type"]))


def _arguments(call: Message) -> str:
    args = call.get("args")
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
