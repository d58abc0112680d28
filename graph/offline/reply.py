"""How the offline model decides, and what it says: calls, quotations, what its tools did."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from ...memory.anchor import parsed, rendered
from ...memory.efforts import one_line
from ...memory.names import is_qualified
from ...memory.state_blocks import END, FIELDS, START
from ...memory.terms import asked, is_pair, is_question, telling, terms, words
from .prompt import (
    Efforts,
    Sentence,
    efforts,
    is_memory,
    memory_result,
    sentences,
    split,
    turn_start,
)
from .requests import Call, Clause, clauses, is_request, request
from .writing import clipped, filled, signals, summarised

_CONSTANT = re.compile(
    r"\bport \d{2,5}\b|\bversion \d+(?:\.\d+)*\b|\bhttps?://[^\s<>\"')]*[^\s<>\"').,;:!?]|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b",
    re.IGNORECASE,
)
_NOTED = re.compile(
    r'<state key="(?P<key>[0-9a-f]{16})">\n(?P<anchor>.*)\n</state (?P=key)>', re.DOTALL
)
_CONSTANTS = FIELDS[-1]
_KEPT = 20
"""The newest constants that the block holds."""
_LABEL_WEIGHT = 0.6
"""What a word counts that only the label of a sentence has, not the sentence."""

_ENOUGH, _ENOUGH_CJK = 0.4, 0.15  # a pair of CJK characters says less than a word
_ASKING = frozenset(terms("decide recall remember"))
"""What is said of remembering, not of what is remembered."""
_QUOTED = 400
"""Characters of a quotation: a sentence or two."""

_NOTHING_OPEN = "; open: none"
_ASKED_FOR = 0.5
"""What a sentence that asks for work is worth beside one that tells of it."""
_FEWEST = 2
"""Telling words that a sentence needs to be worth quoting."""

_ECHOED = 120
"""Characters of a question that is repeated, enough to tell which one it was."""

_IN_A_LINE = 160
"""Characters of a result in a list: two lines of a terminal."""

_INTRODUCTION = (
    "Hello. I am Ebbtide's offline model: I follow plain requests such as \"let's work on …\", "
    '"that\'s done" or "expand …", and otherwise quote what stands in my context.'
)

_TOLD: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "opened": lambda body: f"Opened {body['effort_id']}.",
    "concluded": lambda body: f"Concluded {body['effort_id']}: {body['summary']}",
    "switched": lambda body: f"Switched to {body['effort_id']}.",
    "paused": lambda body: f"Paused {body.get('effort_id', 'nothing: no effort was active')}.",
    "reopened": lambda body: f"Reopened {body['effort_id']}: {body['prior_summary']}",
    "updated": lambda body: (
        f"The goal of {body['effort_id']} is now: {body['goal'] or 'not stated'} "
        f"(constraints: {'; '.join(body['constraints']) or 'none'})"
    ),
    "expanded": lambda body: (
        f"Expanded {body['effort_id']}: {body['tokens_loaded']} tokens of its log are back in view."
    ),
    "collapsed": lambda body: f"Collapsed {body['effort_id']}.",
}


def _answer(question: str, found: Sequence[Sentence]) -> str | None:
    """Answer by quoting the sentence that shares most with the question, None if none does."""
    sentence = _best(question, found)
    return f'{sentence.where}: "{clipped(sentence.text, _QUOTED)}"' if sentence else None


def _best(question: str, found: Sequence[Sentence]) -> Sentence | None:
    """Return the sentence with the best overlap, rare words weighing more; the newest of equals.

    It must hold two fifths of the weight of the question's words. The name of the effort that a
    sentence belongs to counts a little less than its own words.
    """
    asked, quotable = _terms(question), [one for one in found if _quotable(one)]
    said = [(_terms(one.text), _terms(one.effort)) for one in quotable]
    seen = Counter(term for own, label in said for term in own | label)
    weights = {term: math.log(1 + (1 + len(said)) / (1 + seen[term])) for term in asked}

    def score(index: int) -> float:
        own, label = said[index]
        worth = _ASKED_FOR if request(quotable[index].text) else 1
        return worth * sum(
            weight * (1 if term in own else _LABEL_WEIGHT)
            for term, weight in weights.items()
            if term in own or term in label
        )

    enough = _ENOUGH_CJK if any(map(is_pair, asked)) else _ENOUGH
    least = enough * sum(weights.values())
    fits = [index for index in range(len(said)) if asked and score(index) >= least]
    order = {index: (score(index) + _preference(quotable[index]), index) for index in fits}
    return quotable[max(order, key=lambda index: order[index])] if order else None


def _missing(question: str) -> str:
    """Say that the context does not answer a question."""
    return f'I do not find an answer to "{clipped(question, _ECHOED)}" in my context.'


def noted(text: str) -> str:
    """Acknowledge a statement with its most telling sentence."""
    said = split(text)
    return f"Noted: {clipped(max(said, key=signals))}"


def _outcome(result: ToolMessage) -> str:
    """Tell in one sentence what a tool did."""
    text, name, body = str(result.text), result.name or "The tool", memory_result(result) or {}
    if _NOTHING_OPEN in _error(result):
        return "No effort is open."
    if "error" in body or result.status == "error":
        return f"{name} did not work: {clipped(str(body.get('error', text)), _QUOTED)}"
    if "efforts" in body:
        return _listed(body["efforts"])
    if "results" in body:
        return _results(body["results"])
    if body.get("status") in _TOLD:
        return _TOLD[body["status"]](body)
    read = (f"turn {one['turn']}: {one['text']}" for one in body.get("turns", ()))
    return f"{name} answered: {clipped('; '.join(read) or text, _QUOTED)}"


def _error(result: ToolMessage) -> str:
    """Return the error text of a result, empty if it worked."""
    return str((memory_result(result) or {}).get("error") or "")


def with_block(text: str, messages: Sequence[BaseMessage]) -> str:
    """Return an answer with a state block at its end, if the user has stated a new constant.

    Only a model that was told of the block writes one. Other fields stay as they were.
    """
    told = any(isinstance(one, SystemMessage) and START in one.text for one in messages)
    anchor = _noted(messages) if told else {}
    known = list(filter(None, anchor.get(_CONSTANTS, "").split("\n")))
    folded = {one.casefold() for one in known}
    new = {one.casefold(): one for one in _stated(messages) if one.casefold() not in folded}
    if not told or not new:
        return text
    said = {**anchor, _CONSTANTS: "\n".join([*known, *new.values()][-_KEPT:])}
    return f"{text}\n\n{START}\n{rendered(said)}\n{END}"


def _terms(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _ASKING


def _quotable(sentence: Sentence) -> bool:
    if is_question(sentence.text) or len(_terms(sentence.text)) < _FEWEST:
        return False
    if sentence.speaker == "assistant":
        return not sentence.own
    return sentence.speaker != "user" or not is_request(sentence.text)


def _preference(sentence: Sentence) -> float:
    return 0.1 * bool(signals(sentence.text)) + 0.1 * (sentence.speaker == "memory")


def _listed(efforts: Sequence[Mapping[str, Any]]) -> str:
    if not efforts:
        return "There are no efforts yet."
    shown = (
        f"{one['id']} ({one['status']}{', active' if one.get('active') else ''})" for one in efforts
    )
    return f"{len(efforts)} effort{'s' if len(efforts) > 1 else ''}: {', '.join(shown)}."


def _results(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return "The search found nothing."
    shown = (
        f"{_place(one)}: {_in_a_line(one.get('summary') or one.get('excerpt'))}"
        for one in results[:3]
    )
    return f"Found {'; '.join(shown)}"


def _in_a_line(said: object) -> str:
    return clipped(one_line(str(said)), _IN_A_LINE)


def _place(found: Mapping[str, Any]) -> str:
    """Say where it was found: the id of an effort, else the number of the turn."""
    return str(found.get("id") or f"turn {found.get('turn')}")


def _noted(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the anchor that the memory's notes show."""
    notes = (_NOTED.search(one.text) for one in messages if is_memory(one))
    return next((parsed(note["anchor"]) for note in notes if note), {})


def _stated(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the constants in what the user says, not asks, in the current turn."""
    said = [one.text for one in messages[turn_start(messages) :] if isinstance(one, HumanMessage)]
    stated = (part for text in said for part in split(text) if not is_question(part))
    return [found[0] for part in stated for found in _CONSTANT.finditer(part)]


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
class _Prompt:
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
    prompt = _Prompt(messages[:start], messages[start:], {} if choice == "none" else tools)
    shown = efforts(prompt.before)
    parts = clauses(prompt.text, shown, tools)
    wanted = tuple(part.call for part in parts if part.call and prompt.tools)
    calls = _followed(prompt) if prompt.results else wanted
    calls = calls or _looked_up(prompt, parts, shown)
    if choice not in {"auto", "none"}:
        calls = _forced(messages, tools, choice, calls)
    return Reply(calls=calls) if calls else Reply(_said(prompt, parts))


def _looked_up(prompt: _Prompt, parts: Sequence[Clause], shown: Efforts) -> tuple[Call, ...]:
    """Expand or search for the first question that nothing in view answers, each once a turn."""
    questions = [part.text for part in parts if part.asks]
    found = prompt.found if questions else ()
    question = next((text for text in questions if not _answer(text, found)), "")
    hidden = (name for name in shown.concluded if name not in shown.expanded)
    named = [name for name in hidden if {*words(name)} <= {*words(question)}]
    named = named or (_elsewhere(prompt) if question else [])
    if named and prompt.may_call("expand_effort"):
        return (Call("expand_effort", {"effort_id": named[-1], "query": question}),)
    if prompt.may_call("search_efforts") and _is_about_something(question):
        return (Call("search_efforts", {"query": question}),)
    return ()


def _elsewhere(prompt: _Prompt) -> list[str]:
    """Return the efforts of other sessions that a search found, the best last: it shows no log."""
    bodies = [memory_result(result) or {} for result in prompt.results]
    found = (str(one.get("id")) for body in bodies for one in body.get("results", ()))
    return [name for name in found if is_qualified(name)][::-1]


def _is_about_something(question: str) -> bool:
    """Tell whether a search can answer a question: small talk has no words to search for."""
    return bool(telling(question) or (_SHARED.search(question) and asked(question)))


def _followed(prompt: _Prompt) -> tuple[Call, ...]:
    """Follow an error that names another tool, once."""
    if len(prompt.rounds) != 1:
        return ()
    given = {call["id"]: call for call in prompt.rounds[0].tool_calls}
    hints = (
        (_HINT.search(_error(one)), given.get(one.tool_call_id), one) for one in prompt.results
    )
    return tuple(
        Call(hint["tool"], {"effort_id": _meant(_error(result), call["args"])})
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


def _said(prompt: _Prompt, parts: Sequence[Clause]) -> str:
    done = [_outcome(result) for result in prompt.results]
    questions = [part.text for part in parts if part.asks]
    found = prompt.found if questions else ()
    answers = [(question, _answer(question, found)) for question in questions]
    if answers and all(text for _, text in answers) and not any(part.call for part in parts):
        done = []
    bodies = [memory_result(result) or {} for result in prompt.results]
    told_of = {body.get("query") for body in bodies if body.get("results")}
    left = [(question, text) for question, text in answers if text or question not in told_of]
    said = [*done, *(text or _missing(question) for question, text in left)]
    return " ".join(said) or _acknowledged(prompt)


def _acknowledged(prompt: _Prompt) -> str:
    if not prompt.turn:
        return "There is no request in what I was given."
    if not prompt.text:
        return "I read only text, and this message has none."
    return _INTRODUCTION if _GREETING.fullmatch(prompt.text) else noted(prompt.text)
