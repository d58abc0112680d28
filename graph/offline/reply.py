"""How the offline model decides: call tools, answer a question, or acknowledge."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...memory.names import is_qualified
from ...memory.terms import asked, telling, words
from .answers import INTRODUCTION, answer, error, missing, noted, told
from .prompt import Efforts, Sentence, efforts, is_memory, memory_result, sentences, turn_start
from .requests import Call, Clause, clauses
from .writing import filled, summarised

_GREETING = re.compile(
    r"(?:hello|hi|hey|good (?:morning|evening|day))\b[^.?!,]{0,20}[.!]*", re.IGNORECASE
)
_SHARED = re.compile(
    r"\b(?:we|our|us|i|my|remember|recall|earlier|before|previous\w*|last|decid\w+|agreed)\b",
    re.IGNORECASE,
)
_HINT = re.compile(r"\buse (?P<tool>switch_effort|reopen_effort)\b")
_EFFORT = re.compile(r"effort '(?P<id>[^']+)'")
_OPENING = frozenset({"open_effort", "switch_effort", "reopen_effort"})


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers: a text, or calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model was given, taken apart: what came before, the turn, the tools."""

    before: Sequence[BaseMessage]
    turn: Sequence[BaseMessage]
    tools: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What the user says."""
        return str(self.turn[0].text).strip() if self.turn else ""

    @property
    def results(self) -> list[ToolMessage]:
        """What the tools have answered in this turn."""
        return [message for message in self.turn if isinstance(message, ToolMessage)]

    @property
    def found(self) -> tuple[Sentence, ...]:
        """What stands in view, in the results and logs of this turn too."""
        return sentences([*self.before, *self.results, *filter(is_memory, self.turn)])

    @property
    def rounds(self) -> list[AIMessage]:
        """The messages of this turn that called tools."""
        return [one for one in self.turn if isinstance(one, AIMessage) and one.tool_calls]

    def may_call(self, tool: str) -> bool:
        """Tell whether a tool is bound and was not called in this turn."""
        called = {call["name"] for one in self.rounds for call in one.tool_calls}
        return tool in self.tools and tool not in called


def reply(messages: Sequence[BaseMessage], tools: Mapping[str, Any], choice: str) -> Reply:
    """Answer a prompt; `tools` maps names to schemas, `choice` is auto, none, any or a name."""
    start = turn_start(messages)
    prompt = Prompt(messages[:start], messages[start:], {} if choice == "none" else tools)
    shown = efforts(prompt.before)
    parts = clauses(prompt.text, shown, tools)
    wanted = tuple(part.call for part in parts if part.call and prompt.tools)
    calls = _followed(prompt) if prompt.results else wanted
    calls = calls or _looked_up(prompt, parts, shown)
    if choice not in {"auto", "none"}:
        calls = _forced(messages, tools, choice, calls)
    return Reply(calls=calls) if calls else Reply(_said(prompt, parts))


def _looked_up(prompt: Prompt, parts: Sequence[Clause], shown: Efforts) -> tuple[Call, ...]:
    """Expand or search for the first question that nothing in view answers, each once a turn."""
    questions = [part.text for part in parts if part.asks]
    found = prompt.found if questions else ()
    question = next((text for text in questions if not answer(text, found)), "")
    hidden = (name for name in shown.concluded if name not in shown.expanded)
    named = [name for name in hidden if {*words(name)} <= {*words(question)}]
    named = named or (_elsewhere(prompt) if question else [])
    if named and prompt.may_call("expand_effort"):
        return (Call("expand_effort", {"effort_id": named[-1], "query": question}),)
    if prompt.may_call("search_efforts") and _is_about_something(question):
        return (Call("search_efforts", {"query": question}),)
    return ()


def _elsewhere(prompt: Prompt) -> list[str]:
    """Return the efforts of other sessions that a search found, the best last: it shows no log."""
    bodies = [memory_result(result) or {} for result in prompt.results]
    found = (str(one.get("id")) for body in bodies for one in body.get("results", ()))
    return [name for name in found if is_qualified(name)][::-1]


def _is_about_something(question: str) -> bool:
    """Tell whether a search can answer a question: small talk has no words to search for."""
    return bool(telling(question) or (_SHARED.search(question) and asked(question)))


def _followed(prompt: Prompt) -> tuple[Call, ...]:
    """Follow an error that names another tool, once."""
    if len(prompt.rounds) != 1:
        return ()
    given = {call["id"]: call for call in prompt.rounds[0].tool_calls}
    hints = ((_HINT.search(error(one)), given.get(one.tool_call_id), one) for one in prompt.results)
    return tuple(
        Call(hint["tool"], {"effort_id": _meant(error(result), call["args"])})
        for hint, call, result in hints
        if hint and call and call["name"] in _OPENING and hint["tool"] in prompt.tools
    )


def _meant(why: str, args: Mapping[str, Any]) -> str:
    quoted = _EFFORT.search(why)
    return quoted["id"] if quoted else str(args.get("effort_id") or args.get("name"))


def _forced(
    messages: Sequence[BaseMessage], tools: Mapping[str, Any], choice: str, calls: Sequence[Call]
) -> tuple[Call, ...]:
    fits = tuple(call for call in calls if choice in {"any", "required", call.tool})
    if fits or not tools:
        return fits
    name = choice if choice in tools else [*tools][-1]
    return (Call(name, filled(tools[name], summarised(messages))),)


def _said(prompt: Prompt, parts: Sequence[Clause]) -> str:
    done = [told(result) for result in prompt.results]
    questions = [part.text for part in parts if part.asks]
    found = prompt.found if questions else ()
    answers = [(question, answer(question, found)) for question in questions]
    if answers and all(text for _, text in answers) and not any(part.call for part in parts):
        done = []
    bodies = [memory_result(result) or {} for result in prompt.results]
    told_of = {body.get("query") for body in bodies if body.get("results")}
    left = [(question, text) for question, text in answers if text or question not in told_of]
    said = [*done, *(text or missing(question) for question, text in left)]
    return " ".join(said) or _acknowledged(prompt)


def _acknowledged(prompt: Prompt) -> str:
    if not prompt.turn:
        return "There is no request in what I was given."
    if not prompt.text:
        return "I read only text, and this message has none."
    return INTRODUCTION if _GREETING.fullmatch(prompt.text) else noted(prompt.text)
