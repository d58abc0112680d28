"""What the offline model says: quotations from its prompt, and what the tools did."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage

from ..memory.terms import is_pair
from .offline_requests import is_question, is_request
from .offline_sentences import Sentence, is_own, memory_result, split
from .offline_summary import clipped, signals
from .offline_words import terms

_LABEL_WEIGHT = 0.6
_ENOUGH, _ENOUGH_CJK = 0.4, 0.15  # a pair of CJK characters says less than a word
_QUOTED = 400
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
    asked, quotable = terms(question), [one for one in found if _quotable(one)]
    said = [(terms(one.text), terms(one.effort)) for one in quotable]
    seen = Counter(term for own, label in said for term in own | label)
    weights = {term: math.log(1 + (1 + len(said)) / (1 + seen[term])) for term in asked}

    def score(index: int) -> float:
        own, label = said[index]
        return sum(
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


def _quotable(sentence: Sentence) -> bool:
    if is_question(sentence.text) or len(terms(sentence.text)) < _FEWEST:
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
        f"{_place(one)}: {clipped(str(one.get('summary') or one.get('excerpt')), 160)}"
        for one in results[:3]
    )
    return f"Found {'; '.join(shown)}"


def _place(found: Mapping[str, Any]) -> str:
    """Say where it was found: the id of an effort, else the number of the turn."""
    return str(found.get("id") or f"turn {found.get('turn')}")
