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
"""Words of decisions, causes and rules."""

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
"""A number, date, time or version."""

_BACKGROUND = re.compile(
    r'^<background key="(?P<key>\w+)">\n(?P<old>.*?)\n</background (?P=key)>$',
    re.DOTALL | re.MULTILINE,
)
"""The old background in a request for a new one."""

_NONE_YET = "nothing"
"""What a request for a background has in place of an old one."""

_QUOTES = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
"""The quotes that a request for others lists, by their numbers."""

_VALUE = re.compile(r"\d[\d.,:]*|\bnow\b")
"""What a sentence that revises another one says otherwise."""

_CONSTANT = re.compile(
    r"\bport \d{2,5}\b|\bversion \d+(?:\.\d+)*\b|\bhttps?://[^\s<>\"')]*[^\s<>\"').,;:!?]|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b",
    re.IGNORECASE,
)
"""Ports, versions, addresses."""

_NOTED = re.compile(r'<state key="(?P<key>\w+)">\n(?P<anchor>.*)\n</state (?P=key)>', re.DOTALL)
"""The state block that the memory shows."""

_CONSTANTS = FIELDS[-1]
"""The field of the block for constants."""

_PICKED = 40
"""Quotes that are picked from a log; `MOST_QUOTED` tokens hold about as many."""

_OUTPUTS = 10
"""Lines of tools' outputs among the sentences that are picked, the newest."""

_SALIENT = 4
"""Sentences of a summary."""

_KEYWORDS = 8
"""Keywords of a summary."""

_LONGEST = 400
"""Characters of a text that is quoted: a sentence or two."""

_IMPORTANCE = 50
"""That of a log without numbers and decisions; a memory of that fades after 20 days."""

_SILENCE = "Nothing was said."


def signals(text: str) -> int:
    """Count what makes a sentence worth keeping: decisions twice, numbers once.

    >>> signals("We decided on 3600 seconds because 60 was too short.")
    6
    """
    return 2 * len(_DECISION.findall(text)) + len(_NUMBER.findall(text))


def clipped(text: str) -> str:
    """Return the text, cut after a word and ended by "…" if it is too long for a quotation."""
    if len(text) <= _LONGEST:
        return text
    return (text[:_LONGEST].rpartition(" ")[0] or text[:_LONGEST]) + "…"


def summarised(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Summarise what stands in the prompt by quoting from it: summary, keywords, importance."""
    everything = sentences(messages)
    log = [sentence for sentence in everything if sentence.source == "the log"] or everything
    # What tools and the offline model itself say repeats other text.
    log = [sentence for sentence in log if not sentence.own and sentence.speaker != "tool"]
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
    items = {item["quote"]: item for item in _items(log) if item["quote"] not in quoted}
    outputs = [quote for quote, item in items.items() if item["kind"] == Kind.OUTPUT]
    rest = [quote for quote in items if quote not in outputs[:-_OUTPUTS]]
    best = sorted(rest, key=signals, reverse=True)[:_PICKED]
    new = [
        items[quote] | {"replaces": _revised(quote, subjects)} for quote in rest if quote in best
    ]
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
    for sentence in sentences(messages):
        if sentence.turn and sentence.speaker == "user":
            first.setdefault(sentence.turn, sentence.text)
    requests = [*first.values()]
    return " ".join(map(clipped, dict.fromkeys([*old, *requests[:1], *requests[-1:]]))) or _SILENCE


def with_block(text: str, messages: Sequence[BaseMessage]) -> str:
    """Return an answer with a state block at its end, if the user has stated a new constant.

    Only a model that was told of the block writes one. Other fields stay as they were.
    """
    if not any(
        isinstance(message, SystemMessage) and START in message.text for message in messages
    ):
        return text
    notes = (_NOTED.search(message.text) for message in messages if is_memory(message))
    anchor = next((parsed(note["anchor"]) for note in notes if note), {})
    known = anchor.get(_CONSTANTS, "").splitlines()
    folded = {constant.casefold() for constant in known}
    stated = {constant.casefold(): constant for constant in _stated(messages)}
    new = [constant for key, constant in stated.items() if key not in folded]
    if not new:
        return text
    block = {**anchor, _CONSTANTS: "\n".join([*known, *new])}
    return f"{text}\n\n{START}\n{rendered(block)}\n{END}"


def _stated(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the constants in what the user says, not asks, in the current turn."""
    turn = messages[turn_start(messages) :]
    said = [message.text for message in turn if isinstance(message, HumanMessage)]
    parts = [part for text in said for part in split(text) if not is_question(part)]
    return [constant for part in parts for constant in _CONSTANT.findall(part)]


def _revised(quote: str, subjects: Mapping[str, int]) -> list[int]:
    subject = _subject(quote)
    return [subjects[subject]] if "now" in quote.split() and subject in subjects else []


def _subject(quote: str) -> str:
    return " ".join(_VALUE.sub(" ", quote).split())


def _items(log: Sequence[Sentence]) -> Iterator[dict[str, Any]]:
    """Yield what the sentences of turns tell, as an extraction names it."""
    for sentence in log:
        text = sentence.text
        if sentence.turn and not sentence.own and _is_statement(text):
            kind = Kind.OUTPUT if sentence.speaker == "tool" else kind_of(text) or Kind.FACT
            if signals(text) or kind not in {Kind.OUTPUT, Kind.FACT}:
                yield {"quote": text, "kind": str(kind), "turn": int(sentence.turn)}


def _chosen(log: Sequence[Sentence]) -> list[str]:
    """Choose the first request, the most telling sentences and the last answer, in order."""
    texts = list(dict.fromkeys(sentence.text for sentence in log))
    requested = [sentence.text for sentence in log if sentence.speaker == "user"][:1]
    answered = [sentence.text for sentence in log if sentence.speaker == "assistant"][-1:]
    ends = {*requested, *answered} or {*texts[:1], *texts[-1:]}
    statements = [text for text in texts if _is_statement(text) and text not in ends]
    telling = [text for text in statements if signals(text)]
    best = sorted(telling, key=signals, reverse=True)[:_SALIENT]
    return [text for text in texts if text in {*ends, *best}]


def _is_statement(text: str) -> bool:
    return not is_question(text) and not is_request(text)


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."


def _keywords(log: Sequence[Sentence]) -> list[str]:
    counted = Counter(word for sentence in log for word in words(sentence.text) if terms(word))
    ranked = sorted(counted, key=lambda word: (-counted[word], -len(word), word))
    return [word for word in ranked if len(word) > 1][:_KEYWORDS]
