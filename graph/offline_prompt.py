"""What the offline model reads in a prompt: sentences, each with its place, efforts, requests."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..memory.terms import is_question, words
from ..memory.transcript import OWN_TOOLS

_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
"""Where a sentence ends."""

_OPENING = re.compile(r'<(?P<tag>\w+)(?: id="(?P<id>[^"]+)")?(?: [\w-]+="[^"]*")* key="[^"]+">')
_CLOSING = re.compile(r"</\w+ [0-9a-f]+>")
"""The fences around what the memory quotes, with the effort that it is of."""

_LISTED = re.compile(r"- (?:turn (?P<turn>\d+)|(?P<id>\S+?)(?: [^:]*)?): (?P<text>.+)")
"""A line of the memory's lists: a turn that may matter, or a concluded effort."""

_TURN = re.compile(r"\[turn (?P<turn>\d+)\]")
_SPOKEN = re.compile(r"(?P<speaker>user|assistant|system|tool)(?: [\w-]+)?: (?P<text>.*)")
_CALLING = re.compile(r"(?:user|assistant|system|tool) calls \w+ .*")
"""The lines of a log: which turn, who says what, which tool is called."""

_REPEATING = re.compile(
    r"(?:Noted:|I do not find|From (?:the |[^:]{1,80}:)|You said:|I said:|The search found|"
    r"(?:Found|Opened|Concluded|Switched|Reopened|Expanded|Collapsed) )"
)
"""How answers of the offline model begin that repeat what stands elsewhere."""

_LEAD = (
    r"(?:(?:ok|okay|so|now|then|well|great|please|thanks|can you|could you|let's|let us|we should|"
    r"i want to|i'd like to)\b[\s,]*)*"
)
_TAIL = r"(?:,? (?:now|please|thanks|thank you))*"
"""What may stand before a request, and after it."""

_THIS = r"(?:(?:that|this|it)|(?:the|this|that) (?:active |current )?effort)"
"""What the active effort is called without its name."""

_NAME = r"(?:[^:]|(?<=\d):(?=\d))+"
"""A name ends before the colon of a goal; that of a time such as 10:30 is part of it."""

_REQUESTS = tuple(
    (tool, re.compile(f"{_LEAD}(?:{asked}){_TAIL}", re.IGNORECASE))
    for tool, asked in (
        ("open_effort", rf"(?:work|start) on (?P<name>{_NAME})(?::(?P<goal>.*))?"),
        ("close_effort", rf"(?:.*, so )?(?:{_THIS}(?:'s| is)|we're|i'm) (?:all|done|finished)"),
        ("close_effort", rf"(?:close|conclude|wrap up)(?: {_THIS}| (?P<effort_id>.+))?"),
        ("switch_effort", r"(?:switch|go back|get back|back) to (?P<effort_id>.+)"),
        ("reopen_effort", r"reopen (?P<effort_id>.+)"),
        ("expand_effort", r"(?:expand|show me\b.* log of) (?P<effort_id>.+)"),
        ("collapse_effort", r"collapse (?P<effort_id>.+)"),
        ("search_efforts", r"search for (?P<query>.+)"),
        ("effort_status", r"status|what are we working on"),
    )
)
"""The tool that a sentence asks for, and what all of it says; the first that matches counts.

The groups become arguments.
"""

_USE = re.compile(r"use (?P<tool>\w+) with (?P<args>\w+=.+)", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)=([^\s,]+)")
"""A request for a tool of the application, and its arguments."""

_AROUND = re.compile(r"^(?:(?:the|an?|our|my) )+| effort$", re.IGNORECASE)
_MARKS = " \"'`“”.,;!?"
"""What is said around the name of an effort, and what is written around it."""

_LONGEST_REQUEST = 400
"""Characters of a sentence that may be a request; a longer one is pasted text."""


class Call(NamedTuple):
    """A tool and the arguments to call it with."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the prompt; `effort` and `turn` say which log or summary it stands in.

    `repeats` tells that it is part of an answer that quotes what stands elsewhere.
    """

    text: str
    speaker: str
    effort: str = ""
    turn: str = ""
    source: str = ""
    repeats: bool = False

    @property
    def where(self) -> str:
        """Where the sentence comes from, to be put before a quotation."""
        if self.effort or self.turn:
            place = f"From {self.source} of {self.effort}".removesuffix(" of ")
            return f"{place}, turn {self.turn}" if self.turn else place
        spoken = {"user": "You said", "assistant": "I said"}
        return spoken.get(self.speaker, f"From {self.source}")

    @property
    def states(self) -> bool:
        """Whether it says something: no question, no repetition, no request without a goal."""
        call = _request(self.text)
        only_asks = call is not None and not call.args.get("goal")
        return not (self.repeats or only_asks or is_question(self.text))


class Prompt:
    """A prompt, taken apart: the memory's notes, what the user says now, the results for it."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        """Find the current turn, which begins at the last message that a user wrote."""
        by_user = [i for i, m in enumerate(messages) if m.type == "human" and not _is_memory(m)]
        start = by_user[-1] if by_user else len(messages)
        turn = messages[start:]
        self.messages = messages
        self.text = str(turn[0].text).strip() if turn else ""
        self.parts = split(self.text)
        self.notes = [message for message in messages if _is_memory(message)]
        results = [message for message in turn if isinstance(message, ToolMessage)]
        self.results = [(message, _memory_result(message)) for message in results]
        self.called = {
            call["name"] for m in turn if isinstance(m, AIMessage) for call in m.tool_calls
        }
        self._around = [*messages[:start], *turn[1:]]

    @property
    def sentences(self) -> list[Sentence]:
        """The sentences in their order, without those of instructions."""
        return _sentences(self.messages)

    @property
    def quotable(self) -> list[Sentence]:
        """What states something, other than what the user says now, and asks for no tool."""
        stating = (sentence for sentence in _sentences(self._around) if sentence.states)
        return [sentence for sentence in stating if not _request(sentence.text)]

    @property
    def efforts(self) -> dict[str, bool]:
        """The efforts that the memory shows, each with whether its log is out of view."""
        markers = (re.match(r'\[.*\beffort "([^"]+)"', str(note.text)) for note in self.notes)
        marked = {marker[1]: False for marker in markers if marker}
        placed = [sentence for sentence in _sentences(self.notes) if sentence.effort]
        logs = {sentence.effort for sentence in placed if sentence.source == "the log"}
        return marked | {sentence.effort: sentence.effort not in logs for sentence in placed}

    def requests(self, tools: Collection[str]) -> dict[str, Call | None]:
        """Return the sentences of the user, each with the call of one of `tools` it asks for.

        An effort gets the id of the one that shares most words with its name. What else is closed
        than an effort that is shown, or one word without an article, is no request.
        """
        requests: dict[str, Call | None] = {}
        named = {effort: {*words(effort)} for effort in self.efforts}
        for sentence in self.parts:
            call = _request(sentence)
            if call and "effort_id" in call.args:
                name = _AROUND.sub("", call.args["effort_id"]).strip(_MARKS)
                asked = {*words(name)}
                fits = [effort for effort, own in named.items() if asked <= own or own <= asked]
                unknown = not fits and " " in call.args["effort_id"]
                best = max(fits, key=lambda effort: len(asked & named[effort]), default=name)
                is_other = unknown and call.tool == "close_effort"
                call = None if is_other else Call(call.tool, {"effort_id": best})
            requests[sentence] = call if call and call.tool in tools else None
        return requests


def split(text: str) -> list[str]:
    """Split a text into sentences.

    >>> split("It works. Does it? Yes")
    ['It works.', 'Does it?', 'Yes']
    """
    return [part for piece in _END.split(text) if (part := piece.strip())]


def _is_memory(message: BaseMessage) -> bool:
    """Tell whether the memory wrote this message."""
    return isinstance(message, HumanMessage) and message.name == "ebbtide"


def _memory_result(message: ToolMessage) -> Mapping[str, Any]:
    """Return what a memory tool answered; nothing for other tools and for shortened results."""
    try:
        body = json.loads(str(message.text)) if message.name in OWN_TOOLS else None
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {}


# Each call of the model reads all sentences of its prompt; 4,000 are more than a prompt has.
@lru_cache(maxsize=4_000)
def _request(sentence: str) -> Call | None:
    """Return the call that a sentence asks for, an effort named as it is there.

    >>> _request("Please reopen the auth bug!")
    Call(tool='reopen_effort', args={'effort_id': 'the auth bug'})
    """
    asked = sentence.replace("’", "'").rstrip(_MARKS)
    if len(asked) > _LONGEST_REQUEST:
        return None
    if used := _USE.fullmatch(asked):
        return Call(used["tool"], dict(_PAIR.findall(used["args"])))
    for tool, pattern in _REQUESTS:
        if match := pattern.fullmatch(asked):
            args = {name: (text or "").strip(_MARKS) for name, text in match.groupdict().items()}
            if tool == "open_effort":
                return Call(tool, args | {"name": _AROUND.sub("", args["name"]).strip(_MARKS)})
            return Call(tool, {name: text for name, text in args.items() if text})
    return None


def _sentences(messages: Sequence[BaseMessage]) -> list[Sentence]:
    collected, repeats = list[Sentence](), False
    for line in (line for message in messages for line in _lines(message)):
        for text in split(line.text):
            # What follows in such an answer belongs to it, as long as nobody else speaks.
            begins = bool(_REPEATING.match(text))
            repeats = line.speaker == "assistant" and (repeats or begins)
            collected.append(replace(line, text=text, repeats=repeats))
    return collected


def _lines(message: BaseMessage) -> Iterator[Sentence]:
    """Yield what the lines of a message say, each still in one piece."""
    if _is_memory(message):
        yield from _of_text(str(message.text), Sentence("", "memory", source="the memory"))
    elif isinstance(message, AIMessage | HumanMessage):
        speaker = "user" if isinstance(message, HumanMessage) else "assistant"
        yield from _of_text(str(message.text), Sentence("", speaker))
    if not isinstance(message, ToolMessage):
        return
    if message.name not in OWN_TOOLS:
        source = f"the result of {message.name or 'a tool'}"
        yield Sentence(str(message.text), "tool", source=source)
    for entry in _memory_result(message).get("results", ()):
        effort, excerpt = str(entry.get("id") or ""), str(entry.get("excerpt") or "")
        # Of an effort of another session a search excerpts the summary.
        elsewhere = bool(effort and entry.get("session"))
        summary = excerpt if elsewhere else str(entry.get("summary") or "")
        yield Sentence(summary, "memory", effort, source="the summary")
        log = Sentence("", "memory", effort, str(entry.get("turn") or ""), source="the log")
        for line in () if elsewhere else excerpt.splitlines():
            log = _of_log(line, log)
            yield log


def _of_text(text: str, outside: Sentence) -> Iterator[Sentence]:
    place = outside
    for line in text.splitlines():
        if opening := _OPENING.fullmatch(line):
            source = "the state block" if opening["tag"] == "state" else "the log"
            fence = Sentence("", "memory", effort=opening["id"] or "", source=source)
            place = outside if opening["tag"] in {"summaries", "hints"} else fence
        elif _CLOSING.fullmatch(line):
            place = outside
        elif place != outside:
            place = _of_log(line, place)
            yield place
        else:
            yield _of_note(line, place) if place.speaker == "memory" else replace(place, text=line)


def _of_log(line: str, place: Sentence) -> Sentence:
    """Return the place with what one line of a log says."""
    if turn := _TURN.fullmatch(line):
        return replace(place, turn=turn["turn"], text="")
    if spoken := _SPOKEN.fullmatch(line):
        return replace(place, speaker=spoken["speaker"], text=spoken["text"])
    return replace(place, text="" if _CALLING.fullmatch(line) else line)


def _of_note(line: str, place: Sentence) -> Sentence:
    """Return what a line of the memory's own says: one of a list, or the goal of a marker."""
    if listed := _LISTED.fullmatch(line):
        effort, turn = listed["id"] or "", listed["turn"] or ""
        source = "the log" if turn else "the summary"
        return replace(place, text=listed["text"], effort=effort, turn=turn, source=source)
    if line.startswith("["):
        line = "\n".join(part for part in split(line.strip("[]")) if part.startswith("Goal: "))
    return replace(place, text=line)
