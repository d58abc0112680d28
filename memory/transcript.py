"""A turn as text: its log, and recalled text kept as references.

Only `read_log` and `search_efforts` quote the log; no tool of the application can have their names.
The artifact of such a result says `{"recalled": [{"turn": 5, "offset": 0, "end": 4000}]}`, a range
of characters of a rendered turn for each text that it quotes, so that erasing a turn reaches what
was read from it. What a search found has its score; a text of an earlier session names the session
and the branch of the record, the summary of an effort there the effort.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ..prompts.loader import render
from .messages import Message, arguments, calls, compact, text, with_content
from .record import Group, Record
from .state_blocks import without_blocks
from .tokens import TokenCounter, fit

DECIDING = frozenset(
    {"open_effort", "close_effort", "switch_effort", "reopen_effort", "update_goal"}
)
"""The memory's tools after which something else holds, as their results say."""

OWN_TOOLS = DECIDING | {
    *("expand_effort", "collapse_effort", "effort_status", "search_efforts", "read_log")
}
"""The memory's tools: what they say is known of the effort or stands in another turn."""

_LINE = 20
"""Tokens of a recalled text that is shrunk to one line: enough to see what it is about."""

_SPARE = 4
"""Tokens over that which are not worth an ellipsis."""

_TEXTS = ("summary", "excerpt", "text")
"""Where a part of a tool's result has texts that may be long."""

_FIELDS = frozenset({"turn", "offset", "end"})
_ELSEWHERE = frozenset({"session", "branch"})
"""What an item of an artifact names: always, and where the text is of another session."""

_QUOTING = {"read_log": ("turns", "text"), "search_efforts": ("results", "excerpt")}
"""Which list of a tool's result has the parts that quote, and where in a part the text stands."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A range of characters of one rendered turn, of an earlier session if one is named.

    With an `effort` it is the whole summary that this effort had after the turn. The `score` is of
    the search that found it. Ranges of earlier versions count with the state `blocks` of the model.
    """

    turn: int
    offset: int
    end: int
    session: str = ""
    branch: str = ""
    effort: str = ""
    score: float | None = None
    blocks: bool = False

    def __str__(self) -> str:
        """Name the range, for logs that show it instead of the text.

        >>> str(Recalled(5, 0, 40)), str(Recalled(5, 0, 40, "t1", "main", "auth-bug"))
        ('recalled turn 5, characters 0-40', 'recalled summary of t1/auth-bug')
        """
        if self.effort:
            return f"recalled summary of {self.session}/{self.effort}"
        where = f" of session {self.session}" if self.session else ""
        return f"recalled turn {self.turn}{where}, characters {self.offset}-{self.end}"

    @property
    def item(self) -> dict[str, Any]:
        """The range as artifacts hold it; the inverse of `recalled`."""
        fields = asdict(self).items()
        return {key: value for key, value in fields if key != "blocks" and value not in {"", None}}


_Quotation: TypeAlias = tuple[Mapping[str, Any], Recalled]
"""A part of a tool result, and what it quotes."""


def recalled(message: Message) -> tuple[Recalled, ...]:
    """Return the ranges that a tool result quotes; other messages quote none."""
    return tuple(quoted for _, quoted in quotations(message))


def quotations(message: Message) -> list[_Quotation]:
    """Return the parts of a tool result that quote a text each, with what they quote."""
    artifact = message["data"].get("artifact")
    if not isinstance(artifact, Mapping) or message["type"] != "tool":
        return []
    listed = artifact.get("recalled")
    if not isinstance(listed, list) or not all(map(_is_range, listed)):
        return []
    body, (_, name) = result_of(message), _names(message)
    parts = [part for part in _parts(message, body) if isinstance(part, Mapping) and name in part]
    first_build = "turns" not in body
    ranges = [Recalled(**item, blocks=first_build and "score" not in item) for item in listed]
    return [*zip(parts, ranges, strict=True)] if len(parts) == len(ranges) else []


def stored(message: Message) -> Message:
    """Return the message as the archive keeps it: without the text that it quotes."""
    return restored(message, lambda _: "")


def restored(message: Message, read: Callable[[Recalled], str]) -> Message:
    """Return the message as it was sent; `read` returns what is quoted. The inverse of `stored`."""
    _, name = _names(message)
    return _with(message, [{**part, name: read(quoted)} for part, quoted in quotations(message)])


def in_lines(messages: Sequence[Message], number: int, count: TokenCounter) -> list[Message]:
    """Return messages with the worst `number` of the parts that quote shrunk to one line each.

    What a search found is worse than what was read, a lower score, of equals the older one.
    """
    quoting = [quotations(message) for message in messages]
    places = _worst_first(quoting)[:number]
    for at, place in places:
        part, quoted = quoting[at][place]
        quoting[at][place] = _line(part, quoted, count), quoted
    touched = {at for at, _ in places}
    return [
        _with(message, [part for part, _ in quoting[at]]) if at in touched else message
        for at, message in enumerate(messages)
    ]


def shortened(message: Message, limit: int, count: TokenCounter) -> Message:
    """Return a message that quotes the log with about `limit` tokens of recalled text.

    Its parts shrink to one line each, the worst first; the best is cut to the tokens that remain.
    """
    quoting, (_, name) = quotations(message), _names(message)
    parts = [part for part, _ in quoting]
    sizes = [count(str(part[name])) for part in parts]
    *others, best = [place for _, place in _worst_first([quoting])]
    for place in others:
        if sum(sizes) <= limit:
            break
        parts[place] = _line(*quoting[place], count)
        sizes[place] = count(str(parts[place][name]))
    if sum(sizes) > limit:
        text = str(parts[best][name])
        end = fit(text, max(_LINE, limit - sum(sizes) + sizes[best]), count)
        cut = {**parts[best], name: f"{text[:end]}…"}
        if name == "text":
            cut |= {name: text[:end], **_reads_on(quoting[best][1], end)}
        if count(compact(cut)) < count(compact(parts[best])):
            parts[best] = cut
    return _with(message, parts)


def _worst_first(quoting: Sequence[Sequence[_Quotation]]) -> list[tuple[int, int]]:
    """Return the places of quotations, as (message, part), in the order in which they shrink."""
    ranked = sorted(
        ("text" in part, quoted.score or 0.0, at, place)
        for at, quotations in enumerate(quoting)
        for place, (part, quoted) in enumerate(quotations)
    )
    return [(at, place) for *_, at, place in ranked]


def _line(part: Mapping[str, Any], quoted: Recalled, count: TokenCounter) -> Mapping[str, Any]:
    """Return a part with the beginnings of its texts; its turn, and its effort, are still named."""
    heads = {}
    for name in _TEXTS:
        text = str(part.get(name, ""))
        if count(text) > _LINE + _SPARE:
            heads[name] = f"{text[: fit(text, _LINE, count)].rstrip()}…"
    reads_on = _reads_on(quoted, len(heads["text"]) - 1) if "text" in heads else {}
    return {**part, **heads, **reads_on}


def _reads_on(quoted: Recalled, shown: int) -> dict[str, Any]:
    """Return the arguments with which `read_log` reads the rest of a text shown so far."""
    place = {"session": quoted.session} if quoted.session else {}
    return {"left_out": {"turns": str(quoted.turn), "offset": quoted.offset + shown, **place}}


def _is_range(item: Any) -> bool:
    """Tell whether an item of an artifact is a range; who names a session names a branch of it."""
    if not isinstance(item, Mapping) or not item.keys() >= _FIELDS:
        return False
    where = item.keys() - _FIELDS - {"score"}
    return (
        (not where or where - {"effort"} == _ELSEWHERE)
        and all(type(item[name]) is int for name in _FIELDS)
        and all(isinstance(item[name], str) and item[name] for name in where)
        and type(item.get("score", 0)) in {int, float}
    )


def _with(message: Message, quoting: Sequence[Mapping[str, Any]]) -> Message:
    """Return a result with other parts that quote; where one is cut the reading goes on."""
    if not quoting:
        return message
    body, (listed, name) = result_of(message), _names(message)
    left = iter(quoting)
    parts = [next(left) if name in part else part for part in _parts(message, body)]
    whole = {**body, listed: parts} if listed in body else parts[0]
    cut = next((part["left_out"] for part in quoting if "left_out" in part), None)
    return with_content(
        message, compact({**whole, "next": cut} if cut and "next" in body else whole)
    )


def _parts(message: Message, body: Mapping[str, Any]) -> list[Any]:
    """Return what a result lists; `read_log` of earlier versions answered with one turn alone."""
    listed, name = _names(message)
    parts = body.get(listed, [body] if name == "text" else None)
    return parts if isinstance(parts, list) else []


def _names(message: Message) -> tuple[str, str]:
    return _QUOTING.get(str(message["data"].get("name")), ("", ""))


def result_of(message: Message) -> Mapping[str, Any]:
    """Return the JSON object that a tool answered, an empty one if its result is none."""
    try:
        body = json.loads(message["data"]["content"])
    except (TypeError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


# Other types of messages speak by their own name.
_SPEAKERS = {"human": "user", "ai": "assistant"}

Logged: TypeAlias = Group | Record
"""A turn that is stored, or is yet to be."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a message stands in its rendered turn: offsets of its text and of its arguments."""

    text: int
    calls: tuple[int, ...]


def transcript(turns: Iterable[Logged]) -> str:
    """Render turns as text, each under a line with its number; an erased one says that it is."""
    parts = []
    for turn in turns:
        log = render("erased_turn") if turn.status == "erased" else rendered(turn.messages)
        parts.append(f"[turn {turn.turn}]\n{log}")
    return "\n\n".join(parts)


def rendered(messages: Sequence[Message], *, blocks: bool = False) -> str:
    """Render the messages of one turn as text; contents stand unchanged.

    State blocks of the model are left out, since only the newest holds; `blocks` keeps them.
    Recalled text stands as a reference, so that logs do not grow by reading them. Appending
    messages appends text, so offsets stay valid while a turn runs.

    >>> rendered([{"type": "human", "data": {"content": "Which port?"}}])
    'user: Which port?'
    """
    said = text if blocks else spoken
    lines = (line for message in messages for line in _lines(message, said(message)))
    return "\n".join(f"{label}{words}" for label, words, _ in lines)


def offsets(messages: Sequence[Message]) -> tuple[Offsets, ...]:
    """Return where each message stands in the rendered turn, in characters."""
    stand, at = [], 0
    for message in messages:
        said, asked = at, []
        for label, words, is_call in _lines(message, spoken(message)):
            begin = at + len(label)
            if is_call:
                asked.append(begin)
            else:
                said = begin
            at = begin + len(words) + 1
        stand.append(Offsets(said, tuple(asked)))
    return tuple(stand)


def spoken(message: Message) -> str:
    """Return the text of a message without the state blocks that the model wrote."""
    return text(without_blocks(message))


def countable(message: Message) -> Iterator[str]:
    """Yield what a message says, with its calls, leaving out the memory's own tools."""
    if message["type"] != "tool" or message["data"].get("name") not in OWN_TOOLS:
        yield spoken(message)
    others = (call for call in calls(message) if call.get("name") not in OWN_TOOLS)
    yield from (str(call.get("args")) for call in others)


def _lines(message: Message, said: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the lines of a message: who speaks or calls what, the words, whether it is a call."""
    who, references = speaker(message), recalled(message)
    if references:
        yield f"{who}: ", f"({'; '.join(map(str, references))})", False
        return
    if said or not calls(message):
        yield f"{who}: ", said, False
    yield from ((f"{who} calls {call['name']} ", arguments(call), True) for call in calls(message))


def speaker(message: Message) -> str:
    """Return who speaks, as logs say it."""
    if message["type"] == "tool":
        return f"tool {message['data'].get('name') or ''}".rstrip()
    return str(_SPEAKERS.get(message["type"], message["type"]))
