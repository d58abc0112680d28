"""What the offline model writes by rules: summaries, quotes of a log, backgrounds, state blocks."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ...memory.anchor import parsed, rendered
from ...memory.compression.core import kind_of
from ...memory.salience import Kind
from ...memory.state_blocks import END, FIELDS, START
from ...memory.terms import is_question, terms, words
from .prompt import Sentence, is_memory, sentences, split, turn_start
from .requests import is_request

_DECISION = re.compile(
    r"\b(?:decid\w+|decision|chose|choose|agreed?|found|fix(?:ed|es)?|because|solved|caused?|"
    r"turned out|concluded?|must|never|always|result(?:ed)?|changed|instead)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_BACKGROUND = re.compile(
    r'^<background key="(?P<key>\w+)">\n(?P<old>.*?)\n</background (?P=key)>$',
    re.DOTALL | re.MULTILINE,
)
_NONE_YET = "nothing"
"""What a request for a background has in place of an old one."""

_QUOTES = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
"""The quotes that a request for others lists, by their numbers."""

_VALUE = re.compile(r"\d[\d.,:]*|\bnow\b")
_CONSTANT = re.compile(
    r"\bport \d{2,5}\b|\bversion \d+(?:\.\d+)*\b|\bhttps?://[^\s<>\"')]*[^\s<>\"').,;:!?]|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b",
    re.IGNORECASE,
)
"""Ports, versions, addresses."""

_NOTED = re.compile(r'<state key="(?P<key>\w+)">\n(?P<anchor>.*)\n</state (?P=key)>', re.DOTALL)
_CONSTANTS = FIELDS[-1]

_PICKED = 40
"""Quotes that are picked from a log; `MOST_QUOTED` tokens hold about as many."""

_OUTPUTS = 10
"""Lines of tools' outputs among the sentences that are picked, the newest."""

_SALIENT = 4
"""Sentences of a summary."""

_KEYWORDS = 8
"""Keywords of a summary."""

_LONGEST = 240
"""Characters of a sentence that is quoted."""

_IMPORTANCE = 50
"""That of a log without numbers and decisions; a memory of that fades after 20 days."""

_SILENCE = "Nothing was said."


def signals(text: str) -> int:
    """Count what makes a sentence worth keeping: decisions twice, numbers once.

    >>> signals("We decided on 3600 seconds because 60 was too short.")
    6
    """
    return 2 * len(_DECISION.findall(text)) + len(_NUMBER.findall(text))


def clipped(text: str, limit: int = _LONGEST) -> str:
    """Return the text, cut after a word within `limit` characters and ended by "…" if longer."""
    if len(text) <= limit:
        return text
    return (text[:limit].rpartition(" ")[0] or text[:limit]) + "…"


def summarised(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Summarise what stands in the prompt by quoting from it: summary, keywords, importance."""
    found = sentences(messages)
    log = [one for one in found if one.source == "the log"] or found
    # What tools and the offline model itself say repeats other text.
    log = [one for one in log if not one.own and one.speaker != "tool"]
    chosen = _chosen(log)
    weight = sum(signals(text) for text in chosen)
    return {
        "summary": " ".join(_stopped(clipped(text)) for text in chosen) or _SILENCE,
        "keywords": _keywords(log),
        "importance": min(100, _IMPORTANCE + 5 * weight) if chosen else 0,
    }


def extracted(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Pick the sentences of a log that tell a goal, a constraint, a decision or a number.

    With the word "now" one replaces a quote that has another number and the same words.
    """
    log = sentences(messages)
    listed = _QUOTES.findall(messages[-1].text.partition("<log")[0])
    subjects = {_subject(quote): int(number) for number, quote in listed}
    quoted = {quote for _, quote in listed}
    items = {one["quote"]: one for one in _picked(log) if one["quote"] not in quoted}
    outputs = [one for one in items.values() if one["kind"] == Kind.OUTPUT][:-_OUTPUTS]
    rest = [one for one in items.values() if one not in outputs]
    best = sorted(rest, key=lambda one: signals(one["quote"]), reverse=True)[:_PICKED]
    new = [one | {"replaces": _revised(one["quote"], subjects)} for one in rest if one in best]
    return {"new": new, "done": []}


def background(messages: Sequence[BaseMessage]) -> str | None:
    """Write a background of three sentences at most, None if the prompt asks for none.

    They are the first of the old one, and what users said first and last.
    """
    asked = _BACKGROUND.search(messages[-1].text) if messages else None
    if asked is None:
        return None
    old = split(asked["old"])[:1] if asked["old"] != _NONE_YET else []
    first: dict[str, str] = {}
    for one in sentences(messages):
        if one.turn and one.speaker == "user":
            first.setdefault(one.turn, one.text)
    said = [*first.values()]
    return " ".join(map(clipped, dict.fromkeys([*old, *said[:1], *said[-1:]]))) or _SILENCE


def with_block(text: str, messages: Sequence[BaseMessage]) -> str:
    """Return an answer with a state block at its end, if the user has stated a new constant.

    Only a model that was told of the block writes one. Other fields stay as they were.
    """
    if not any(isinstance(one, SystemMessage) and START in one.text for one in messages):
        return text
    notes = (_NOTED.search(one.text) for one in messages if is_memory(one))
    anchor = next((parsed(note["anchor"]) for note in notes if note), {})
    known = [one for one in anchor.get(_CONSTANTS, "").split("\n") if one]
    folded = {one.casefold() for one in known}
    new = {one.casefold(): one for one in _stated(messages) if one.casefold() not in folded}
    if not new:
        return text
    block = {**anchor, _CONSTANTS: "\n".join([*known, *new.values()])}
    return f"{text}\n\n{START}\n{rendered(block)}\n{END}"


def _stated(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the constants in what the user says, not asks, in the current turn."""
    turn = messages[turn_start(messages) :]
    parts = [part for one in turn if isinstance(one, HumanMessage) for part in split(one.text)]
    return [
        constant[0]
        for part in parts
        if not is_question(part)
        for constant in _CONSTANT.finditer(part)
    ]


def _revised(quote: str, subjects: Mapping[str, int]) -> list[int]:
    subject = _subject(quote)
    return [subjects[subject]] if "now" in quote.split() and subject in subjects else []


def _subject(quote: str) -> str:
    return " ".join(_VALUE.sub(" ", quote).split())


def _picked(log: Sequence[Sentence]) -> Iterator[dict[str, Any]]:
    for one in log:
        if not one.turn or one.own or is_question(one.text) or is_request(one.text):
            continue
        kind = Kind.OUTPUT if one.speaker == "tool" else kind_of(one.text) or Kind.FACT
        if signals(one.text) or kind not in {Kind.OUTPUT, Kind.FACT}:
            yield {"quote": one.text, "kind": str(kind), "turn": int(one.turn)}


def _chosen(log: Sequence[Sentence]) -> list[str]:
    """Choose the first request, the most telling sentences and the last answer, in order."""
    texts = list(dict.fromkeys(one.text for one in log))
    requested = [one.text for one in log if one.speaker == "user"][:1]
    answered = [one.text for one in log if one.speaker == "assistant"][-1:]
    ends = {*requested, *answered} or {*texts[:1], *texts[-1:]}
    telling = [text for text in texts if _is_telling(text) and text not in ends]
    best = sorted(telling, key=signals, reverse=True)[:_SALIENT]
    return [text for text in texts if text in {*ends, *best}]


def _is_telling(text: str) -> bool:
    return bool(signals(text)) and not is_question(text) and not is_request(text)


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."


def _keywords(log: Sequence[Sentence]) -> list[str]:
    counted = Counter(word for one in log for word in words(one.text) if terms(word))
    ranked = sorted(counted, key=lambda word: (-counted[word], -len(word), word))
    return [word for word in ranked if len(word) > 1][:_KEYWORDS]
