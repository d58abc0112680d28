"""What the offline model writes by rules: summaries, quotes of a log, backgrounds, state blocks."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ...memory.anchor import parsed, rendered
from ...memory.compression.quotes import kind_of
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

_QUOTES = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
"""The quotes that a request for others lists."""

_CONSTANT = re.compile(
    r"\bport \d{2,5}\b|\bversion \d+(?:\.\d+)*\b|\bhttps?://[^\s<>\"')]*[^\s<>\"').,;:!?]|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b",
    re.IGNORECASE,
)
"""Ports, versions, addresses."""

_NOTED = re.compile(r'<state key="(?P<key>\w+)">\n(?P<anchor>.*)\n</state (?P=key)>', re.DOTALL)
"""The state block that the memory shows."""

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
    chosen = [clipped(text) for text in _chosen(log)]
    counted = Counter(word for sentence in log for word in words(sentence.text) if terms(word))
    ranked = sorted(counted, key=lambda word: (-counted[word], -len(word), word))
    return {
        "summary": " ".join(t if t[-1] in ".!?…。" else f"{t}." for t in chosen) or _SILENCE,
        "keywords": [word for word in ranked if len(word) > 1][:_KEYWORDS],
        "importance": min(100, _IMPORTANCE + 5 * sum(map(signals, chosen))) if chosen else 0,
    }


def _chosen(log: Sequence[Sentence]) -> list[str]:
    """Choose the first request, the most telling sentences and the last answer, in order."""
    texts = list(dict.fromkeys(sentence.text for sentence in log))
    requests = [sentence.text for sentence in log if sentence.speaker == "user"]
    answers = [sentence.text for sentence in log if sentence.speaker == "assistant"]
    ends = {*requests[:1], *answers[-1:]} or {*texts[:1], *texts[-1:]}
    telling = [t for t in texts if signals(t) and _is_statement(t) and t not in ends]
    best = sorted(telling, key=signals, reverse=True)[:_SALIENT]
    return [text for text in texts if text in {*ends, *best}]


def extracted(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Pick the sentences of a log that tell a goal, a constraint, a decision or a number."""
    quoted = {*_QUOTES.findall(messages[-1].text.partition("<log")[0])}
    items: dict[str, dict[str, Any]] = {}
    for sentence in sentences(messages):
        text = sentence.text
        if not sentence.turn or sentence.own or text in quoted or not _is_statement(text):
            continue
        kind = Kind.OUTPUT if sentence.speaker == "tool" else kind_of(text) or Kind.FACT
        if signals(text) or kind not in {Kind.OUTPUT, Kind.FACT}:
            items[text] = {"quote": text, "kind": str(kind), "turn": int(sentence.turn)}
    outputs = [quote for quote, item in items.items() if item["kind"] == Kind.OUTPUT]
    others = [quote for quote in items if quote not in outputs[:-_OUTPUTS]]
    best = sorted(others, key=signals, reverse=True)[:_PICKED]
    return {"new": [items[quote] for quote in others if quote in best], "done": []}


def background(messages: Sequence[BaseMessage]) -> str | None:
    """Write a background of three sentences at most, None if the prompt asks for none.

    They are the first of the old one, and what users said first and last.
    """
    asked = _BACKGROUND.search(messages[-1].text) if messages else None
    if asked is None:
        return None
    old = [] if asked["old"] == "nothing" else split(asked["old"])[:1]
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
    if not any(isinstance(m, SystemMessage) and START in m.text for m in messages):
        return text
    notes = (_NOTED.search(message.text) for message in messages if is_memory(message))
    anchor = next((parsed(note["anchor"]) for note in notes if note), {})
    constants, turn = FIELDS[-1], messages[turn_start(messages) :]
    stated = [p for m in turn if isinstance(m, HumanMessage) for p in split(m.text)]
    known = anchor.get(constants, "").splitlines()
    folded = {constant.casefold() for constant in known}
    new = {
        constant.casefold(): constant
        for part in stated
        if not is_question(part)
        for constant in _CONSTANT.findall(part)
        if constant.casefold() not in folded
    }
    if not new:
        return text
    block = {**anchor, constants: "\n".join([*known, *new.values()])}
    return f"{text}\n\n{START}\n{rendered(block)}\n{END}"


def _is_statement(text: str) -> bool:
    return not is_question(text) and not is_request(text)
