"""Raw logs as text: what summarisers, expanded efforts and `read_log` show of a turn."""

import json
from collections.abc import Iterable, Sequence
from typing import Protocol

from .messages import Message, calls, text
from .recall import recalled

_SPEAKERS = {"human": "user", "ai": "assistant"}


class Logged(Protocol):
    """Anything that has a turn number and the messages of that turn."""

    @property
    def turn(self) -> int:
        """The number of the turn."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the turn, in order."""


def transcript(turns: Iterable[Logged]) -> str:
    """Render turns as text, one after the other, each under a line with its number."""
    return "\n\n".join(f"[turn {turn.turn}]\n{rendered(turn.messages)}" for turn in turns)


def rendered(messages: Sequence[Message]) -> str:
    r"""Render the messages of one turn as text; contents stand unchanged.

    Text that was recalled from the archive stands as a reference, so that logs do not grow by
    reading them. Appending messages appends text, so offsets stay valid while a turn runs.

    >>> rendered([{"type": "human", "data": {"content": "Which port?"}}])
    'user: Which port?'
    """
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    references = recalled(message)
    if references:
        return [f"tool {message['data'].get('name')}: ({'; '.join(map(str, references))})"]
    speaker = _SPEAKERS.get(message["type"], message["type"])
    if message["type"] == "tool":
        speaker = f"tool {message['data'].get('name') or ''}".rstrip()
    said = text(message)
    lines = [f"{speaker}: {said}"] if said or not calls(message) else []
    return lines + [f"{speaker} calls {call['name']} {_arguments(call)}" for call in calls(message)]


def _arguments(call: Message) -> str:
    args = call.get("args")
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
