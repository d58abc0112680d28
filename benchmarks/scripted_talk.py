"""One conversation for every agent: what is said turn by turn, and a model that says its part.

Questions have about 200 bytes, answers about 600; every fifth turn calls a tool of the application.
Six efforts stand in it, each of which begins with a look at a log, one of them over three tenths of
all turns. The model calls the memory's tools to open and close them if it is given these tools;
everything else is the same for everyone.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

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
"""From this fraction on an effort is a long one."""

TOOL_EVERY = 5
WORDS = """
the service answers after a while and then it stops again because nobody has looked at
what happens when two requests arrive at once we could try to keep the old value for a
moment write down which part of it fails ask the team about the change from last week
measure how long each step takes compare that with what users see put a limit on the
number of retries and say so in the log before the next release is built tomorrow morning
""".split()  # noqa: SIM905 (reads as a list of words)
QUESTION, ANSWER, RESULT = 32, 105, 60
"""Words of what is said, and of an ordinary result."""

SUMMARY = 95
"""Words of a summary, about 100 tokens."""

LOG, LONG_LOG = 1_500, 8_000
"""Words of the log that an effort looks at in the beginning, a short one and the long one."""

_SENTENCE = re.compile(r"Answer \d+: [^.?]+\.")
_QUOTES = 2
"""Sentences of a log that the model takes for salient."""

Take = Callable[[Sequence[BaseMessage], Sequence[Mapping[str, Any]], bool], None]
"""Is given each request: messages, tool schemas, whether it asks for a summary."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, the calls that the model makes one after the other, its answer."""

    question: str
    calls: tuple[ToolCall, ...]
    answer: str


def look_up(topic: str, words: int) -> str:
    """Look a topic up in the server's log, and return so many words of it."""
    return _text(random.Random(topic), words)


def turns(number: int) -> Iterator[Turn]:
    """Yield the turns of a conversation of this length; the same ones each time."""
    spans = {
        name: (begin := round(at * number) + 1, begin + max(2, round(long * number)) - 1)
        for name, (at, long) in EFFORTS.items()
    }
    for turn in range(1, number + 1):
        chance = random.Random(turn)
        name = next((name for name, (a, z) in spans.items() if a <= turn <= z), "")
        calls: list[tuple[str, dict[str, Any]]] = []
        if name and turn == spans[name][0]:
            calls += [("open_effort", {"name": name, "goal": f"Mend {name}."})]
            words = LOG if EFFORTS[name][1] < LONG else LONG_LOG
            calls += [("look_up", {"topic": name, "words": words})]
        elif turn % TOOL_EVERY == 0:
            calls += [("look_up", {"topic": f"step {turn}", "words": RESULT})]
        if name and turn == spans[name][1]:
            calls += [("close_effort", {"effort_id": name})]
        about = f"{name.replace('-', ' ')}, question" if name else "Question"
        yield Turn(
            f"{about} {turn}: {_text(chance, QUESTION)}?",
            tuple(
                ToolCall(name=tool, args=args, id=f"call_{turn}_{at}", type="tool_call")
                for at, (tool, args) in enumerate(calls)
            ),
            f"Answer {turn}: {_text(chance, ANSWER)}.",
        )


class TalkingModel(BaseChatModel):
    """Says the model's part of one turn after the other, and shows each request to `take`."""

    _take: Take = PrivateAttr()
    _said: Iterator[AIMessage] = PrivateAttr(default=iter(()))

    def watched(self, take: Take) -> "TalkingModel":
        """Show each request to `take`."""
        self._take = take
        return self

    def begin(self, turn: Turn, tools: Sequence[str]) -> None:
        """Take up a turn, with those of its calls whose tools there are."""
        called = [AIMessage("", tool_calls=[one]) for one in turn.calls if one["name"] in tools]
        self._said = chain(called, [AIMessage(turn.answer)])

    @property
    def _llm_type(self) -> str:
        return "talking"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        **_kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with these tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def with_structured_output(
        self, schema: dict[str, Any] | type, **_kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model answering in JSON: with quotes or with a summary."""
        named = schema["properties"] if isinstance(schema, dict) else schema.model_fields  # type: ignore[attr-defined]
        return self.bind(fields=frozenset(named)) | JsonOutputParser()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        tools = kwargs.get("tools", ())
        self._take(messages, tools, not tools)
        answer = next(self._said) if tools else AIMessage(_asked(messages, kwargs.get("fields")))
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _asked(messages: Sequence[BaseMessage], fields: frozenset[str] | None) -> str:
    """Return what is asked for: quotes of the log, a summary in JSON, or a text without a form."""
    if fields is not None and "items" in fields:
        quotes = _SENTENCE.findall(messages[-1].text)[-_QUOTES:]
        return json.dumps({"items": [{"quote": one, "kind": "decision"} for one in quotes]})
    said = _text(random.Random(0), SUMMARY).capitalize() + "."
    if fields is None:
        return said
    return json.dumps({"summary": said, "keywords": [], "importance": 50})


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))
