"""The prompt as the offline model reads it: sentences with their source, efforts, requests."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ..memory.salience.core import sentences
from ..memory.terms import is_question, words
from ..memory.transcript import OWN_TOOLS, result_of

_OPENING = re.compile(r'<(?P<tag>\w+)(?: id="(?P<id>[^"]+)")?(?: [\w-]+="[^"]*")* key="[^"]+">')
_CLOSING = re.compile(r"</\w+ [0-9a-f]+>")
"""The fences around the memory's quotations; the opening one has the id of the effort."""

_LISTED = re.compile(r"- (?:turn (?P<turn>\d+)|(?P<id>\S+?)(?: [^:]*)?): (?P<text>.+)")
"""A line of the memory's lists: a turn as a hint, or a concluded effort."""

_TURN = re.compile(r"\[turn (?P<turn>\d+)\]")
_SPOKEN = re.compile(r"(?P<speaker>user|assistant|system|tool)(?: [\w-]+)?: (?P<text>.*)")
_CALLING = re.compile(r"(?:user|assistant|system|tool) calls \w+ .*")
"""The lines of a log: number of a turn, text of a speaker, call of a tool."""

_REPEATING = re.compile(
    r"(?:Noted:|I do not find|From (?:the |[^:]{1,80}:)|You said:|I said:|The search found|"
    r"(?:Found|Opened|Concluded|Switched|Reopened|Expanded|Collapsed) )"
)
"""The beginnings of the offline model's answers that repeat other text."""

_LEAD = (
    r"(?:(?:ok|okay|so|now|then|well|great|please|thanks|can you|could you|let's|let us|we should|"
    r"i want to|i'd like to)\b[\s,]*)*"
)
_TAIL = r"(?:,? (?:now|please|thanks|thank you))*"
"""Words that may precede and follow a request."""

_THIS = r"(?:(?:that|this|it)|(?:the|this|that) (?:active |current )?effort)"
"""Phrases for the active effort without its name."""

_NAME = r"(?:[^:]|(?<=\d):(?=\d))+"
"""A name ends before the colon of a goal; the colon of a time such as 10:30 is part of it."""

_REQUESTS = tuple(
    (tool, re.compile(f"{_LEAD}(?:{request}){_TAIL}", re.IGNORECASE))
    for tool, request in (
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
"""The tools with the pattern of a sentence that asks for one; the first match counts.

Its groups become arguments.
"""

_USE = re.compile(r"use (?P<tool>\w+) with (?P<args>\w+=.+)", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)=([^\s,]+)")
"""A request for a tool of the application, and its arguments."""

_AROUND = re.compile(r"^(?:(?:the|an?|our|my) )+| effort$", re.IGNORECASE)
_MARKS = " \"'`“”.,;!?"
"""Words and marks around the name of an effort that are not part of it."""

_LONGEST_REQUEST = 400
"""The longest sentence, in characters, that may be a request; a longer one is pasted text."""


class Call(NamedTuple):
    """A tool and the arguments to call it with."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the prompt, with the effort and turn of the log or summary that it is from.

    `repeats` marks parts of answers that quote other text.
    """

    text: str
    speaker: str
    effort: str = ""
    turn: str = ""
    source: str = ""
    repeats: bool = False

    @property
    def where(self) -> str:
        """The source of the sentence, as it precedes a quotation."""
        if self.effort or self.turn:
            place = f"From {self.source} of {self.effort}".removesuffix(" of ")
            return f"{place}, turn {self.turn}" if self.turn else place
        spoken = {"user": "You said", "assistant": "I said"}
        return spoken.get(self.speaker, f"From {self.source}")

    @property
    def states(self) -> bool:
        """Whether it is a statement: no question, no repetition, no request without a goal."""
        call = _request(self.text)
        only_asks = call is not None and not call.args.get("goal")
        return not (self.repeats or only_asks or is_question(self.text))


class Prompt:
    """A prompt in parts: the memory's notes, the user's message, the results of its turn."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        """Find the current turn, which begins at the last message that a user wrote."""
        by_user = [i for i, m in enumerate(messages) if m.type == "human" and not _is_memory(m)]
        start = by_user[-1] if by_user else len(messages)
        turn = messages[start:]
        self.messages = messages
        self.text = str(turn[0].text).strip() if turn else ""
        self.parts = [*sentences(self.text)]
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
        """The statements outside the user's message that ask for no tool."""
        stating = (sentence for sentence in _sentences(self._around) if sentence.states)
        return [sentence for sentence in stating if not _request(sentence.text)]

    @property
    def efforts(self) -> dict[str, bool]:
        """The efforts in the memory's messages, each with whether its log is hidden."""
        markers = (re.match(r'\[.*\beffort "([^"]+)"', str(note.text)) for note in self.notes)
        marked = {marker[1]: False for marker in markers if marker}
        placed = [sentence for sentence in _sentences(self.notes) if sentence.effort]
        logs = {sentence.effort for sentence in placed if sentence.source == "the log"}
        return marked | {sentence.effort: sentence.effort not in logs for sentence in placed}

    def requests(self, tools: Collection[str]) -> dict[str, Call | None]:
        """Return the sentences of the user, each with the call of one of `tools` that it asks for.

        A name becomes the id of the effort that shares most words with it. "Close the tab" is no
        request if no effort is called so; one word without an article is.
        """
        requests: dict[str, Call | None] = {}
        words_of = {effort: {*words(effort)} for effort in self.efforts}
        for sentence in self.parts:
            call = _request(sentence)
            if call and "effort_id" in call.args:
                name = _AROUND.sub("", call.args["effort_id"]).strip(_MARKS)
                name_words = {*words(name)}
                fits = [e for e, own in words_of.items() if name_words <= own or own <= name_words]
                unknown = not fits and " " in call.args["effort_id"]
                best = max(fits, key=lambda e: len(name_words & words_of[e]), default=name)
                is_other = unknown and call.tool == "close_effort"
                call = None if is_other else Call(call.tool, {"effort_id": best})
            requests[sentence] = call if call and call.tool in tools else None
        return requests


def _is_memory(message: BaseMessage) -> bool:
    """Tell whether a message is from the memory."""
    return isinstance(message, HumanMessage) and message.name == "ebbtide"


def _memory_result(message: ToolMessage) -> Mapping[str, Any]:
    """Return the result of a memory tool; {} for other tools and for shortened results."""
    result = {"data": {"content": str(message.text)}}
    return result_of(result) if message.name in OWN_TOOLS else {}


# Each model call reads all sentences of its prompt; no prompt has more than 4,000.
@lru_cache(maxsize=4_000)
def _request(sentence: str) -> Call | None:
    """Return the call that a sentence asks for, with the effort's name as its id.

    >>> _request("Please reopen the auth bug!")
    Call(tool='reopen_effort', args={'effort_id': 'the auth bug'})
    """
    request = sentence.replace("’", "'").rstrip(_MARKS)
    if len(request) > _LONGEST_REQUEST:
        return None
    if used := _USE.fullmatch(request):
        return Call(used["tool"], dict(_PAIR.findall(used["args"])))
    for tool, pattern in _REQUESTS:
        if match := pattern.fullmatch(request):
            args = {name: (text or "").strip(_MARKS) for name, text in match.groupdict().items()}
            if tool == "open_effort":
                return Call(tool, args | {"name": _AROUND.sub("", args["name"]).strip(_MARKS)})
            return Call(tool, {name: text for name, text in args.items() if text})
    return None


def _sentences(messages: Sequence[BaseMessage]) -> list[Sentence]:
    """Return the sentences of messages in their order, with `repeats` set."""
    collected, repeats = list[Sentence](), False
    for line in (line for message in messages for line in _lines(message)):
        for text in sentences(line.text):
            # The repetition lasts until another speaker begins.
            begins = bool(_REPEATING.match(text))
            repeats = line.speaker == "assistant" and (repeats or begins)
            collected.append(replace(line, text=text, repeats=repeats))
    return collected


def _lines(message: BaseMessage) -> Iterator[Sentence]:
    """Yield the lines of a message with their source, not yet split into sentences."""
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
        # For an effort of another session, the excerpt of a search is from the summary.
        elsewhere = bool(effort and entry.get("session"))
        summary = excerpt if elsewhere else str(entry.get("summary") or "")
        yield Sentence(summary, "memory", effort, source="the summary")
        log = Sentence("", "memory", effort, str(entry.get("turn") or ""), source="the log")
        for line in () if elsewhere else excerpt.splitlines():
            log = _of_log(line, log)
            yield log


def _of_text(text: str, outside: Sentence) -> Iterator[Sentence]:
    """Yield the lines of a text; `outside` is the source of those outside the memory's fences."""
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
    """Return the sentence of a line of a log, with the turn and speaker of the line before."""
    if turn := _TURN.fullmatch(line):
        return replace(place, turn=turn["turn"], text="")
    if spoken := _SPOKEN.fullmatch(line):
        return replace(place, speaker=spoken["speaker"], text=spoken["text"])
    return replace(place, text="" if _CALLING.fullmatch(line) else line)


def _of_note(line: str, place: Sentence) -> Sentence:
    """Return the sentence of a line of the memory's own: an entry of a list, a marker's goal."""
    if listed := _LISTED.fullmatch(line):
        effort, turn = listed["id"] or "", listed["turn"] or ""
        source = "the log" if turn else "the summary"
        return replace(place, text=listed["text"], effort=effort, turn=turn, source=source)
    if line.startswith("["):
        parts = sentences(line.strip("[]"))
        line = "\n".join(part for part in parts if part.startswith("Goal: "))
    return replace(place, text=line)
