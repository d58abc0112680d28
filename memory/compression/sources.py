"""What may be quoted of a log: what was said in it, not what the memory said or read again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..anchor import shown
from ..messages import Message, calls, text
from ..record import Group
from ..salience import Speaker
from ..tokens import TokenCounter, slices
from ..transcript import OWN_TOOLS, Logged, transcript

_SPEAKERS: Mapping[str, Speaker] = {"human": "user", "ai": "assistant", "tool": "tool"}

_JOINT = 2
"""Tokens at most of the empty line between two turns."""


def legible(turns: Iterable[Logged]) -> tuple[Group, ...]:
    """Return turns as they are read for quotes: without state blocks and the memory's own tools.

    Results of those retell summaries or quote other turns. Erased turns are left out.
    """
    return tuple(
        Group(turn.turn, tuple(filter(_says, map(_without_own_calls, said(turn)))), "")
        for turn in turns
        if turn.status != "erased"
    )


def said(turn: Logged) -> tuple[Message, ...]:
    """Return the messages of a turn that a quote may stand in, oldest first."""
    own = (message for message in turn.messages if not _is_own(message))
    return shown([*own]) if turn.status != "erased" else ()


def speaker(message: Message) -> Speaker:
    """Return who said a message.

    >>> speaker({"type": "ai", "data": {}})
    'assistant'
    """
    return _SPEAKERS.get(message["type"], "")


def parts(turns: Iterable[Logged], limit: int, count: TokenCounter) -> list[str]:
    r"""Render turns as texts of at most `limit` tokens each, whole turns together where they fit.

    A turn that is too long is cut at line ends; each piece stands under the number of the turn.

    >>> log = [Group(n, ({"type": "human", "data": {"content": "one two"}},), "") for n in (1, 2)]
    >>> parts(log, 5, lambda text: len(text.split()))
    ['[turn 1]\nuser: one two', '[turn 2]\nuser: one two']
    """
    made: list[list[str]] = []
    room = 0
    for piece in _pieces(legible(turns), limit, count):
        size = count(piece) + _JOINT
        if not made or size > room:
            made.append([])
            room = limit + _JOINT
        made[-1].append(piece)
        room -= size
    return ["\n\n".join(pieces) for pieces in made]


def _pieces(turns: Sequence[Group], limit: int, count: TokenCounter) -> Iterator[str]:
    for turn in turns:
        if not turn.messages:
            continue
        rendered = transcript([turn])
        if count(rendered) <= limit:
            yield rendered
            continue
        head, _, body = rendered.partition("\n")
        room = max(1, limit - count(f"{head}\n"))
        yield from (f"{head}\n{piece}" for piece in slices(body, room, count))


def _says(message: Message) -> bool:
    return bool(text(message).strip() or calls(message))


def _is_own(message: Message) -> bool:
    return message["type"] == "tool" and message["data"].get("name") in OWN_TOOLS


def _without_own_calls(message: Message) -> Message:
    data = dict(message["data"])
    for key in ("tool_calls", "invalid_tool_calls"):
        if data.get(key):
            data[key] = [call for call in data[key] if call.get("name") not in OWN_TOOLS]
    return {**message, "data": data}
