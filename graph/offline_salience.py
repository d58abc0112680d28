"""What the offline model picks of a log to be quoted, and the background that it writes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from ..memory.protected_words import kind_of
from ..memory.salience import Kind
from .offline_requests import is_question, is_request
from .offline_sentences import Sentence, is_own, sentences, split
from .offline_summary import clipped, signals

_BACKGROUND = re.compile(
    r'^<background key="(?P<key>\w+)">\n(?P<said>.*?)\n</background (?P=key)>$',
    re.DOTALL | re.MULTILINE,
)
_NOTHING = "nothing"
_PICKED = 40
_OUTPUTS = 10
"""Lines of tools' outputs among the sentences that are picked, the newest."""


def extracted(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Pick the sentences of a log that tell a goal, a constraint, a decision or a number."""
    found = sentences(messages)
    quoted = {one.text.removeprefix("- ") for one in found if not one.turn}
    items = {one["quote"]: one for one in _picked(found) if one["quote"] not in quoted}
    outputs = [one for one in items.values() if one["kind"] == Kind.OUTPUT][:-_OUTPUTS]
    kept = [one for one in items.values() if one not in outputs]
    best = sorted(kept, key=lambda one: signals(one["quote"]), reverse=True)[:_PICKED]
    return {"items": [one for one in kept if one in best]}


def asks_background(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether the prompt asks for the background of a log."""
    last = messages[-1] if messages else None
    return isinstance(last, HumanMessage) and bool(_BACKGROUND.search(last.text))


def background(messages: Sequence[BaseMessage]) -> str:
    """Write a background of three sentences at most: of the old one, and what users said first."""
    said = _BACKGROUND.search(messages[-1].text)
    old = split(said["said"])[:1] if said and said["said"] != _NOTHING else []
    asked: dict[str, str] = {}
    for one in sentences(messages):
        if one.turn and one.speaker == "user":
            asked.setdefault(one.turn, one.text)
    ends = [*asked.values()][:1] + [*asked.values()][1:][-1:]
    return " ".join(clipped(text) for text in dict.fromkeys([*old, *ends])) or "Nothing was said."


def _picked(found: Sequence[Sentence]) -> Iterator[dict[str, Any]]:
    for one in found:
        if not one.turn or is_own(one) or is_question(one.text) or is_request(one.text):
            continue
        kind = Kind.OUTPUT if one.speaker == "tool" else kind_of(one.text) or Kind.FACT
        if signals(one.text) or kind not in {Kind.OUTPUT, Kind.FACT}:
            yield {"quote": one.text, "kind": str(kind), "turn": int(one.turn)}
