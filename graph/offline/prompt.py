"""What the offline model finds in its prompt: sentences, each with where it stands, and efforts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ...memory.transcript import OWN_TOOLS

_MEMORY = "ebbtide"
"""The name of user-role messages that the memory wrote."""

_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_OPENING = re.compile(r'<(?P<tag>\w+)(?P<attributes>(?: [\w-]+="[^"]*")*) key="[^"]+">')
_CLOSING = re.compile(r"</\w+ [0-9a-f]+>")
_ID = re.compile(r' id="(?P<id>[^"]+)"')
_TURN = re.compile(r"\[turn (?P<turn>\d+)\]")
_SPOKEN = re.compile(r"(?P<speaker>user|assistant|system|tool)(?: [\w-]+)?: (?P<said>.*)")
_CALLING = re.compile(r"(?:user|assistant|system|tool) calls \w+ .*")
_SUMMARY = re.compile(r"- (?P<id>\S+?)(?: [^:]*)?: (?P<said>.+)")
_STATED = re.compile(r"(?:Goal|Constraints?): .+")
_NAMED = re.compile(r'\[.*\beffort "(?P<id>[^"]+)"')

_OWN = re.compile(
    r"(?:Noted:|I do not find|From (?:the |[^:]{1,80}:)|You said:|I said:|The search found|"
    r"No effort is open|(?:Found|Opened|Concluded|Switched|Paused|Reopened|Expanded|Collapsed) )"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the prompt; `effort` and `turn` say which log or summary it stands in.

    `own` tells that the line in which it stands is the offline model's about something elsewhere.
    """

    text: str
    speaker: str
    effort: str = ""
    turn: str = ""
    source: str = ""
    own: bool = False

    @property
    def where(self) -> str:
        """Where the sentence comes from, to be put before a quotation."""
        if self.effort or self.turn:
            place = [f"{self.source} of {self.effort}".removesuffix(" of ")]
            return "From " + ", ".join(place + [f"turn {self.turn}"] * bool(self.turn))
        spoken = {"user": "You said", "assistant": "I said"}
        return spoken.get(self.speaker, f"From {self.source}")


@dataclass(frozen=True, slots=True)
class Efforts:
    """The ids of the efforts that the prompt shows, by where they stand."""

    open: tuple[str, ...]
    concluded: tuple[str, ...]
    expanded: tuple[str, ...]


def is_memory(message: BaseMessage) -> bool:
    """Tell whether the memory wrote this message."""
    return isinstance(message, HumanMessage) and message.name == _MEMORY


def memory_result(message: ToolMessage) -> Mapping[str, Any] | None:
    """Return what a memory tool answered; None for other tools and for shortened results."""
    try:
        body = json.loads(str(message.text)) if message.name in OWN_TOOLS else None
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def turn_start(messages: Sequence[BaseMessage]) -> int:
    """Return where the current turn begins: at the last user message that a user wrote."""
    own = [
        index
        for index, message in enumerate(messages)
        if isinstance(message, HumanMessage) and not is_memory(message)
    ]
    return own[-1] if own else len(messages)


_LISTED = re.compile(r"<(?:summaries|hints) key=.*>|</(?:summaries|hints) \w+>")
"""The fences around lists of the memory, whose lines are read one by one."""


def split(text: str) -> list[str]:
    """Split a text into sentences.

    >>> split("It works. Does it? Yes")
    ['It works.', 'Does it?', 'Yes']
    """
    return [part for piece in _END.split(text) if (part := piece.strip())]


def sentences(messages: Sequence[BaseMessage]) -> tuple[Sentence, ...]:
    """Return the sentences of a prompt in order; instructions are left out."""
    return tuple(found for message in messages for found in _of_message(message))


def efforts(messages: Sequence[BaseMessage]) -> Efforts:
    """Return the efforts that the memory's messages show."""
    shown = [message for message in messages if is_memory(message)]
    found = sentences(shown)
    named = [_NAMED.match(str(message.text)) for message in shown]
    return Efforts(
        open=_unique(match["id"] for match in named if match),
        concluded=_unique(one.effort for one in found if one.source == "the summary"),
        expanded=_unique(one.effort for one in found if one.source == "the log" and one.effort),
    )


def _unique(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _of_message(message: BaseMessage) -> Iterator[Sentence]:
    text = str(message.text)
    if isinstance(message, ToolMessage):
        yield from _of_result(message)
    elif isinstance(message, AIMessage):
        yield from _of_text(text, Sentence("", "assistant"))
    elif isinstance(message, HumanMessage):
        outside = Sentence("", "memory", source="the memory")
        yield from _of_text(text, outside if is_memory(message) else Sentence("", "user"))


def _of_text(text: str, outside: Sentence) -> Iterator[Sentence]:
    fence: Sentence | None = None
    for line in text.splitlines():
        opening = _OPENING.fullmatch(line)
        if outside.speaker == "memory" and _LISTED.fullmatch(line):
            continue
        if opening:
            named = _ID.search(opening["attributes"])
            source = "the state block" if opening["tag"] == "state" else "the log"
            fence = Sentence("", "memory", effort=named["id"] if named else "", source=source)
        elif fence is not None and _CLOSING.fullmatch(line):
            fence = None
        elif fence is not None:
            fence = _logged(line, fence)
            yield from _each(fence)
        else:
            yield from _each(_plain(line, outside))


def _logged(line: str, place: Sentence) -> Sentence:
    """Return the place with what one line of a log says."""
    turn, spoken = _TURN.fullmatch(line), _SPOKEN.fullmatch(line)
    if turn:
        return replace(place, turn=turn["turn"], text="")
    if spoken:
        return replace(place, speaker=spoken["speaker"], text=spoken["said"])
    return replace(place, text="" if _CALLING.fullmatch(line) else line)


def _plain(line: str, outside: Sentence) -> Sentence:
    if outside.speaker != "memory":
        return replace(outside, text=line)
    summary = _SUMMARY.fullmatch(line)
    if summary:
        return replace(outside, text=summary["said"], effort=summary["id"], source="the summary")
    if line.startswith("["):
        line = "\n".join(part for part in split(line.strip("[]")) if _STATED.match(part))
    return replace(outside, text=line)


def _each(place: Sentence) -> Iterator[Sentence]:
    """Yield the sentences of a line; a list of what was found has sentences of others in it."""
    own = False
    for part in split(place.text):
        own = own or (place.speaker == "assistant" and bool(_OWN.match(part)))
        yield replace(place, text=part, own=own)


def _of_result(message: ToolMessage) -> Iterator[Sentence]:
    body = memory_result(message)
    if body is None:
        source = f"the result of {message.name or 'a tool'}"
        yield from _each(Sentence(str(message.text), "tool", source=source))
    elif "results" in body:
        for entry in body["results"]:
            yield from _of_entry(entry)
    elif isinstance(body.get("turns"), list):
        for part in body["turns"]:
            yield from _of_log(part)


def _of_entry(entry: Any) -> Iterator[Sentence]:
    effort, turn = str(entry.get("id") or ""), str(entry.get("turn") or "")
    summary, excerpt = str(entry.get("summary") or ""), str(entry.get("excerpt") or "")
    yield from _each(Sentence(summary, "memory", effort, source="the summary"))
    if entry.get("session") and effort:
        yield from _each(Sentence(excerpt, "memory", effort, source="the summary"))
    else:
        yield from _lines(excerpt, Sentence("", "memory", effort, turn, source="the log"))


def _of_log(part: Any) -> Iterator[Sentence]:
    effort = next(iter(part.get("efforts") or ()), "")
    place = Sentence("", "memory", str(effort), str(part["turn"]), source="the log")
    yield from _lines(str(part["text"]), place)


def _lines(log: str, place: Sentence) -> Iterator[Sentence]:
    for line in log.splitlines():
        place = _logged(line, place)
        yield from _each(place)
