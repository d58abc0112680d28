"""What the offline model says: quotations from its prompt, and what the tools did."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage

from ...memory.anchor import parsed, rendered
from ...memory.state_blocks import END, FIELDS, START
from ...memory.terms import is_pair, terms
from .prompt import Sentence, is_memory, is_own, memory_result, split, turn_start
from .requests import is_question, is_request, request
from .writing import clipped, signals

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

INTRODUCTION = (
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


def answer(question: str, found: Sequence[Sentence]) -> str | None:
    """Answer by quoting the sentence that shares most with the question, None if none does."""
    sentence = best(question, found)
    return f'{sentence.where}: "{clipped(sentence.text, _QUOTED)}"' if sentence else None


def best(question: str, found: Sequence[Sentence]) -> Sentence | None:
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


def missing(question: str) -> str:
    """Say that the context does not answer a question."""
    return f'I do not find an answer to "{clipped(question, 120)}" in my context.'


def noted(text: str) -> str:
    """Acknowledge a statement with its most telling sentence."""
    said = split(text)
    return f"Noted: {clipped(max(said, key=signals))}"


def told(result: ToolMessage) -> str:
    """Tell in one sentence what a tool did."""
    text, name, body = str(result.text), result.name or "The tool", memory_result(result) or {}
    if _NOTHING_OPEN in error(result):
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


def error(result: ToolMessage) -> str:
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
        return not is_own(sentence)
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
    return clipped(" ".join(str(said).split()), 160)


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
