"""Three conversations, the same for every agent, and a model that plays the assistant.

- *scripted*, 1,000 turns: questions of about 200 bytes, answers of about 600, a tool's result of 60
  words every fifth turn. Six efforts one after the other with ordinary talk between them, each of
  which begins with a look at a log of 1,500 words; the long one has three tenths of all turns and a
  log of 8,000 words.
- *day*, 600 turns of about 115 words: 39 efforts, up to five open at once. Every one to six turns
  something changes: an effort is opened (39 times), switched to (80), closed (48), reopened (12), a
  closed one is expanded for a question (19), or there is small talk in between. 64 turns have a
  tool's result of 100-400 words. A third of the questions names its effort.
- *long*, 600 turns of about 140 words: one effort, open throughout, with a tool's result of 150-800
  words in 314 of them.

Their sizes were chosen so that the first layout by tiers costs what a simulation had found: the
goals for the context were set by those figures.

A word has about one token. The model calls the memory's tools if it is given them; everything else
is the same for every agent. A summary always has 95 words, which favours agents that ask for long
ones.
"""

import json
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field, PrivateAttr

from ebbtide.testing import ScriptedModel

EFFORTS: Mapping[str, tuple[float, float]] = {
    "gateway-certificate": (0.04, 0.03),
    "sidebar-overlap": (0.12, 0.03),
    "billing-queue": (0.25, 0.30),
    "blurred-thumbnails": (0.64, 0.03),
    "nightly-backup": (0.76, 0.03),
    "search-ranking": (0.88, 0.03),
}
"""Where an effort begins and how long it is, as fractions of the conversation."""

LONG = 0.1
"""The fraction from which on an effort is a long one."""

TOOL_EVERY = 5
"""Turns from one call of a tool to the next."""
WORDS = """
the service answers after a while and then it stops again because nobody has looked at
what happens when two requests arrive at once we could try to keep the old value for a
moment write down which part of it fails ask the team about the change from last week
measure how long each step takes compare that with what users see put a limit on the
number of retries and say so in the log before the next release is built tomorrow morning
""".split()  # noqa: SIM905 (reads as a list of words)
QUESTION, ANSWER, RESULT = 32, 105, 60
"""Words of a question, an answer and an ordinary result in the scripted conversation."""

SIZES: Mapping[str, tuple[int, int]] = {
    "small question": (6, 20),
    "small answer": (15, 60),
    "question": (15, 60),
    "answer": (60, 130),
    "result": (100, 400),
    "long question": (20, 50),
    "long answer": (60, 140),
    "long result": (150, 800),
}
"""Least and most words of texts in the other two conversations."""

SPANS: Mapping[str, tuple[int, int]] = {
    "small": (1, 4),
    "open": (2, 6),
    "switch": (1, 4),
    "reopen": (2, 4),
    "expand": (1, 3),
}
"""Least and most turns of a day from one change to the next."""

AT_ONCE = 5
"""The most efforts of a day that are open at once."""

CLOSES, LOOKS, MENTIONS = 0.4, 0.15, 0.3
"""How often a span closes its effort, a turn looks something up, a question names its effort."""

LONG_LOOKS = 0.55
"""How often a turn of the long effort looks something up."""

SUBJECTS = "billing login search export mail calendar invoice gateway mobile backup".split()  # noqa: SIM905 (as above)
TASKS = "timeout migration layout audit report upgrade cleanup limits tests".split()  # noqa: SIM905 (as above)

SUMMARY = 95
"""Words of a summary, about 100 tokens."""

LOG, LONG_LOG = 1_500, 8_000
"""Words of the log that a short effort and the long one look up first."""

_SENTENCE = re.compile(r"Answer \d+: [^.?]+\.")
_QUOTES = 2
"""Sentences of a log that the model quotes."""

Call: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""

Take = Callable[[Sequence[BaseMessage], Sequence[Mapping[str, Any]], bool], None]
"""Receives each request: messages, tool schemas, whether it asks for a summary."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, the tool calls of the model one after the other, and its answer."""

    question: str
    calls: tuple[ToolCall, ...]
    answer: str


def look_up(topic: str, words: int) -> str:
    """Look a topic up in the server's log, and return so many words of it."""
    return _text(random.Random(topic), words)


def scripted(number: int) -> Iterator[Turn]:
    """Yield the scripted conversation at this length; the same turns each time."""
    spans = {
        name: (begin := round(at * number) + 1, begin + max(2, round(length * number)) - 1)
        for name, (at, length) in EFFORTS.items()
    }
    for turn in range(1, number + 1):
        chance = random.Random(turn)
        name = next((name for name, (a, z) in spans.items() if a <= turn <= z), "")
        calls: list[Call] = []
        if name and turn == spans[name][0]:
            words = LOG if EFFORTS[name][1] < LONG else LONG_LOG
            calls += [_opening(name), ("look_up", {"topic": name, "words": words})]
        elif turn % TOOL_EVERY == 0:
            calls += [("look_up", {"topic": f"step {turn}", "words": RESULT})]
        if name and turn == spans[name][1]:
            calls += [_closing(name)]
        heading = f"{name.replace('-', ' ')}, question" if name else "Question"
        yield _turn(turn, heading, calls, _text(chance, QUESTION), _text(chance, ANSWER))


def day(number: int, seed: str = "day") -> Iterator[Turn]:
    """Yield the first turns of a day of many efforts; of one seed the same ones each time."""
    chance = random.Random(seed)
    return islice(_spans(chance), number)


def long(number: int) -> Iterator[Turn]:
    """Yield the first turns of one long effort; the same ones each time."""
    chance = random.Random("long")
    for turn in range(1, number + 1):
        calls = [_opening("ledger-rewrite")] if turn == 1 else []
        if chance.random() < LONG_LOOKS:
            calls += [_looking(turn, _words(chance, "long result"))]
        question, answer = (
            _text(chance, _words(chance, f"long {kind}")) for kind in ("question", "answer")
        )
        yield _turn(turn, "Question", calls, question, answer)


TALKS: Mapping[str, tuple[Callable[[int], Iterator[Turn]], int]] = {
    "scripted": (scripted, 1_000),
    "day": (day, 600),
    "long": (long, 600),
}
"""Each conversation and its turns."""


@dataclass(slots=True)
class _Work:
    """The efforts of a day: the open ones, the closed ones, the active one."""

    names: Iterator[str]
    open: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    active: str = ""

    def next(self, chance: random.Random) -> tuple[str, str, list[Call]]:
        """Return the kind of the next span, its effort, and the calls that it begins with."""
        idle = [name for name in self.open if name != self.active]
        kinds = (
            ["small"] * 4 + ["open"] * 3 * (len(self.open) < AT_ONCE) + ["switch"] * 5 * bool(idle)
        )
        kind = chance.choice(kinds + ["reopen", "expand"] * bool(self.done))
        if kind == "small":
            return kind, "", []
        if kind == "expand":
            name = chance.choice(self.done)
            return kind, name, [("expand_effort", {"effort_id": name})]
        if kind == "switch":
            self.active = chance.choice(idle)
            return kind, self.active, [("switch_effort", {"effort_id": self.active})]
        if kind == "reopen":
            self.active = self.done.pop(chance.randrange(len(self.done)))
            calls: list[Call] = [("reopen_effort", {"effort_id": self.active})]
        else:
            self.active = next(self.names)
            calls = [_opening(self.active)]
        self.open.append(self.active)
        return kind, self.active, calls

    def close(self) -> list[Call]:
        """Close the active effort."""
        name, self.active = self.active, ""
        self.open.remove(name)
        self.done.append(name)
        return [_closing(name)]


def _spans(chance: random.Random) -> Iterator[Turn]:
    """Yield the turns of an endless day, span by span."""
    work, turn = _Work(_names(chance)), 0
    while True:
        kind, name, calls = work.next(chance)
        length = chance.randint(*SPANS[kind])
        closes = kind not in {"small", "expand"} and chance.random() < CLOSES
        size = "" if name else "small "
        for remaining in range(length, 0, -1):
            turn += 1
            if name and chance.random() < LOOKS:
                calls = [*calls, _looking(turn, _words(chance, "result"))]
            if closes and remaining == 1:
                calls = [*calls, *work.close()]
            question, answer = (
                _text(chance, _words(chance, size + role)) for role in ("question", "answer")
            )
            names_effort = name and (remaining == length or chance.random() < MENTIONS)
            heading = f"{name.replace('-', ' ')}, question" if names_effort else "Question"
            yield _turn(turn, heading, calls, question, answer)
            calls = []


def _names(chance: random.Random) -> Iterator[str]:
    """Yield the names of efforts, from the second round on with its number."""
    names = [f"{subject}-{task}" for subject in SUBJECTS for task in TASKS]
    chance.shuffle(names)
    yield from names
    yield from (f"{name}-{number}" for number in count(2) for name in names)


def _opening(name: str) -> Call:
    return "open_effort", {"name": name, "goal": f"Mend {name}."}


def _closing(name: str) -> Call:
    """Close an effort with its summary, beside the answer."""
    summary = f"{_text(random.Random(name), SUMMARY)}."
    return "close_effort", {"effort_id": name, "summary": summary, "final": True}


def _looking(turn: int, words: int) -> Call:
    return "look_up", {"topic": f"step {turn}", "words": words}


def _turn(number: int, heading: str, calls: Sequence[Call], question: str, answer: str) -> Turn:
    tool_calls = (
        ToolCall(name=tool, args=args, id=f"call_{number}_{at}", type="tool_call")
        for at, (tool, args) in enumerate(calls)
    )
    return Turn(
        f"{heading} {number}: {question}?", tuple(tool_calls), f"Answer {number}: {answer}."
    )


def _words(chance: random.Random, kind: str) -> int:
    return chance.randint(*SIZES[kind])


class TalkingModel(ScriptedModel):
    """Plays the model of one turn after the other, and passes each request to `take`."""

    take: Take = Field(default=lambda *_: None, exclude=True)
    _answers: Iterator[AIMessage] = PrivateAttr(default=iter(()))

    def begin(self, turn: Turn) -> None:
        """Begin a turn."""
        called = [
            AIMessage(turn.answer if "final" in call["args"] else "", tool_calls=[call])
            for call in turn.calls
        ]
        self._answers = iter([*called, AIMessage(turn.answer)])

    def answer(self, _messages: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
        """Return the next answer of the turn that calls no tool but these."""
        return next(
            one for one in self._answers if all(call["name"] in tools for call in one.tool_calls)
        )

    @property
    def _llm_type(self) -> str:
        return "talking"

    def with_structured_output(
        self, schema: dict[str, Any] | type, **_kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model answering in JSON: with quotes or with a summary."""
        named = schema["properties"] if isinstance(schema, dict) else schema.model_fields  # type: ignore[attr-defined]  # else a Pydantic model
        return self.bind(fields=frozenset(named)) | JsonOutputParser()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> ChatResult:
        tools = kwargs.get("tools", ())
        self.take(messages, tools, not tools)
        if tools:
            answer = self.answer(messages, {tool["function"]["name"] for tool in tools})
        else:
            answer = AIMessage(_requested_text(messages, kwargs.get("fields")))
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _requested_text(messages: Sequence[BaseMessage], fields: frozenset[str] | None) -> str:
    """Return the requested text: quotes of the log or a summary in JSON, or plain text."""
    chance = random.Random(0)
    halves = (_text(chance, words).capitalize() + "." for words in (SUMMARY // 2, SUMMARY // 2))
    text = " ".join(halves)
    if fields is None:
        return text
    if "new" in fields:
        quotes = _SENTENCE.findall(messages[-1].text)[-_QUOTES:]
        chosen = {"new": [{"quote": one, "kind": "decision"} for one in quotes]}
        return json.dumps(chosen | ({"background": text} if "background" in fields else {}))
    return json.dumps({"summary": text, "keywords": [], "importance": 50})


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))
