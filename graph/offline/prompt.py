"""What the offline model finds in its prompt: sentences, each with its place, and efforts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ...memory.transcript import OWN_TOOLS

_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
"""Where a sentence ends."""

_OPENING = re.compile(r'<(?P<tag>\w+)(?: id="(?P<id>[^"]+)")?(?: [\w-]+="[^"]*")* key="[^"]+">')
_CLOSING = re.compile(r"</\w+ [0-9a-f]+>")
"""The fences around what the memory quotes, with the effort that it is of."""

_LISTS = frozenset({"summaries", "hints"})
"""Fences around lists of the memory, whose lines are read one by one."""

_LISTED = re.compile(r"- (?:turn (?P<turn>\d+)|(?P<id>\S+?)(?: [^:]*)?): (?P<text>.+)")
"""A line of these lists: a turn that may matter, or a concluded effort."""

_TURN = re.compile(r"\[turn (?P<turn>\d+)\]")
_SPOKEN = re.compile(r"(?P<speaker>user|assistant|system|tool)(?: [\w-]+)?: (?P<text>.*)")
_CALLING = re.compile(r"(?:user|assistant|system|tool) calls \w+ .*")
"""The lines of a log: which turn, who says what, which tool is called."""

_NAMED = re.compile(r'\[.*\beffort "(?P<id>[^"]+)"')
"""A marker of the memory that begins the turns of an effort."""

_OWN = re.compile(
    r"(?:Noted:|I do not find|From (?:the |[^:]{1,80}:)|You said:|I said:|The search found|"
    r"(?:Found|Opened|Concluded|Switched|Reopened|Expanded|Collapsed) )"
)
"""How answers of the offline model begin that repeat what stands elsewhere."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the prompt; `effort` and `turn` say which log or summary it stands in.

    `own` tells that it is part of an answer of the offline model about something elsewhere.
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
            place = f"From {self.source} of {self.effort}".removesuffix(" of ")
            return f"{place}, turn {self.turn}" if self.turn else place
        spoken = {"user": "You said", "assistant": "I said"}
        return spoken.get(self.speaker, f"From {self.source}")


def is_memory(message: BaseMessage) -> bool:
    """Tell whether the memory wrote this message."""
    return isinstance(message, HumanMessage) and message.name == "ebbtide"


def memory_result(message: ToolMessage) -> Mapping[str, Any]:
    """Return what a memory tool answered; nothing for other tools and for shortened results."""
    try:
        body = json.loads(str(message.text)) if message.name in OWN_TOOLS else None
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {}


def turn_start(messages: Sequence[BaseMessage]) -> int:
    """Return where the current turn begins: at the last user message that a user wrote."""
    by_user = (isinstance(message, HumanMessage) and not is_memory(message) for message in messages)
    return max((index for index, begins in enumerate(by_user) if begins), default=len(messages))


def split(text: str) -> list[str]:
    """Split a text into sentences.

    >>> split("It works. Does it? Yes")
    ['It works.', 'Does it?', 'Yes']
    """
    return [part for piece in _END.split(text) if (part := piece.strip())]


def sentences(messages: Sequence[BaseMessage]) -> tuple[Sentence, ...]:
    """Return the sentences of a prompt in order; instructions are left out."""
    collected, own = list[Sentence](), False
    for line in (line for message in messages for line in _lines(message)):
        for text in split(line.text):
            # What follows an own answer belongs to it, as long as nobody else speaks.
            own = line.speaker == "assistant" and (own or bool(_OWN.match(text)))
            collected.append(replace(line, text=text, own=own))
    return tuple(collected)


def efforts(messages: Sequence[BaseMessage]) -> dict[str, bool]:
    """Return the efforts that the memory shows, each with whether its log is out of view."""
    shown = [message for message in messages if is_memory(message)]
    markers = (_NAMED.match(str(message.text)) for message in shown)
    named = {marker["id"]: False for marker in markers if marker}
    placed = [sentence for sentence in sentences(shown) if sentence.effort]
    logs = {sentence.effort for sentence in placed if sentence.source == "the log"}
    return named | {sentence.effort: sentence.effort not in logs for sentence in placed}


def _lines(message: BaseMessage) -> Iterator[Sentence]:
    """Yield what the lines of a message say, each still in one piece."""
    if isinstance(message, ToolMessage):
        yield from _of_result(message)
    elif is_memory(message):
        yield from _of_text(str(message.text), Sentence("", "memory", source="the memory"))
    elif isinstance(message, AIMessage | HumanMessage):
        speaker = "user" if isinstance(message, HumanMessage) else "assistant"
        yield from _of_text(str(message.text), Sentence("", speaker))


def _of_text(text: str, outside: Sentence) -> Iterator[Sentence]:
    place = outside
    for line in text.splitlines():
        if opening := _OPENING.fullmatch(line):
            source = "the state block" if opening["tag"] == "state" else "the log"
            fence = Sentence("", "memory", effort=opening["id"] or "", source=source)
            place = outside if opening["tag"] in _LISTS else fence
        elif _CLOSING.fullmatch(line):
            place = outside
        elif place != outside:
            place = _logged(line, place)
            yield place
        else:
            yield replace(place, text=line) if place.speaker != "memory" else _noted(line, place)


def _logged(line: str, place: Sentence) -> Sentence:
    """Return the place with what one line of a log says."""
    if turn := _TURN.fullmatch(line):
        return replace(place, turn=turn["turn"], text="")
    if spoken := _SPOKEN.fullmatch(line):
        return replace(place, speaker=spoken["speaker"], text=spoken["text"])
    return replace(place, text="" if _CALLING.fullmatch(line) else line)


def _noted(line: str, place: Sentence) -> Sentence:
    """Return what a line of the memory's own says: one of a list, or the goal of a marker."""
    if listed := _LISTED.fullmatch(line):
        effort, turn = listed["id"] or "", listed["turn"] or ""
        source = "the log" if turn else "the summary"
        return replace(place, text=listed["text"], effort=effort, turn=turn, source=source)
    if line.startswith("["):
        line = "\n".join(part for part in split(line.strip("[]")) if part.startswith("Goal: "))
    return replace(place, text=line)


def _of_result(message: ToolMessage) -> Iterator[Sentence]:
    if message.name not in OWN_TOOLS:
        source = f"the result of {message.name or 'a tool'}"
        yield Sentence(str(message.text), "tool", source=source)
    for entry in memory_result(message).get("results", ()):
        effort, excerpt = str(entry.get("id") or ""), str(entry.get("excerpt") or "")
        summary = Sentence(str(entry.get("summary") or ""), "memory", effort, source="the summary")
        yield summary
        if entry.get("session") and effort:
            yield replace(summary, text=excerpt)
            continue
        place = Sentence("", "memory", effort, str(entry.get("turn") or ""), source="the log")
        for line in excerpt.splitlines():
            place = _logged(line, place)
            yield place
