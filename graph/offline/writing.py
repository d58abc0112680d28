"""Structured answers of the offline model: extractive summaries, and values for any schema."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from ...memory.compression.core import kind_of
from ...memory.salience import Kind
from ...memory.terms import is_question, terms, words
from .prompt import Sentence, sentences, split
from .requests import is_request

_DECISION = re.compile(
    r"\b(?:decid\w+|decision|chose|choose|agreed?|found|fix(?:ed|es)?|because|solved|caused?|"
    r"turned out|concluded?|must|never|always|result(?:ed)?|changed|instead)\b",
    re.IGNORECASE,
)
_BACKGROUND = re.compile(
    r'^<background key="(?P<key>\w+)">\n(?P<said>.*?)\n</background (?P=key)>$',
    re.DOTALL | re.MULTILINE,
)
_KEPT = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
_VALUE = re.compile(r"\d[\d.,:]*|\bnow\b")
_NOTHING = "nothing"
_PICKED = 40
"""Quotes that are picked from a log; `MOST_QUOTED` tokens hold about as many."""

_OUTPUTS = 10
"""Lines of tools' outputs among the sentences that are picked, the newest."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
}
_SALIENT = 4
"""Sentences of a summary."""

_KEYWORDS = 8
"""Keywords of a summary."""

_LONGEST = 240
"""Characters of a sentence that is quoted."""

_IMPORTANCE = 50
"""That of a log without numbers and decisions; a memory of that fades after 20 days."""


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
    return text[:limit].rpartition(" ")[0] + "…" if " " in text[:limit] else text[:limit] + "…"


def summarised(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Summarise what stands in the prompt by quoting from it: summary, keywords, importance."""
    found = sentences(messages)
    log = [one for one in found if one.source == "the log"] or found
    said = [*_said_by_others(log)]
    chosen = _chosen(said)
    weight = sum(signals(text) for text in chosen)
    return {
        "summary": " ".join(_stopped(clipped(text)) for text in chosen) or "Nothing was said.",
        "keywords": _keywords(said),
        "importance": min(100, _IMPORTANCE + 5 * weight) if chosen else 0,
    }


def extracted(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Pick the sentences of a log that tell a goal, a constraint, a decision or a number.

    With the word "now" one replaces a kept quote that has another number and the same words.
    """
    found = sentences(messages)
    known = _KEPT.findall(messages[-1].text.partition("<log")[0])
    subjects = {_subject(quote): int(number) for number, quote in known}
    quoted = {quote for _, quote in known} | {one.text for one in found if not one.turn}
    items = {one["quote"]: one for one in _picked(found) if one["quote"] not in quoted}
    outputs = [one for one in items.values() if one["kind"] == Kind.OUTPUT][:-_OUTPUTS]
    kept = [one for one in items.values() if one not in outputs]
    best = sorted(kept, key=lambda one: signals(one["quote"]), reverse=True)[:_PICKED]
    new = [one | {"replaces": _revised(one["quote"], subjects)} for one in kept if one in best]
    return {"new": new, "done": []}


def _revised(quote: str, subjects: Mapping[str, int]) -> list[int]:
    said = _subject(quote)
    return [subjects[said]] if "now" in quote.split() and said in subjects else []


def _subject(quote: str) -> str:
    return " ".join(_VALUE.sub(" ", quote).split())


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


def filled(schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of a JSON schema: `values` by name where they fit, else the least there is.

    >>> filled({"properties": {"a": {"type": "string"}, "b": {"type": "array"}}}, {"a": "x"})
    {'a': 'x', 'b': []}
    """
    parts = {name: _resolved(part, schema) for name, part in schema.get("properties", {}).items()}
    fitting = {name for name, part in parts.items() if _fits(values.get(name), part)}
    return {
        name: values[name] if name in fitting else _least(part, schema)
        for name, part in parts.items()
        if name in fitting or "default" not in schema["properties"][name]
    }


def _picked(found: Sequence[Sentence]) -> Iterator[dict[str, Any]]:
    for one in found:
        if not one.turn or one.own or is_question(one.text) or is_request(one.text):
            continue
        kind = Kind.OUTPUT if one.speaker == "tool" else kind_of(one.text) or Kind.FACT
        if signals(one.text) or kind not in {Kind.OUTPUT, Kind.FACT}:
            yield {"quote": one.text, "kind": str(kind), "turn": int(one.turn)}


def _said_by_others(spoken: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield what tools and the offline model itself did not say; its answers repeat other text."""
    own = False
    for sentence in spoken:
        own = sentence.own or (own and sentence.speaker == "assistant")
        if not own and sentence.speaker != "tool":
            yield sentence


def _chosen(said: Sequence[Sentence]) -> list[str]:
    """Choose the first request, the most telling sentences and the last answer, in order."""
    texts = list(dict.fromkeys(one.text for one in said))
    requested = [one.text for one in said if one.speaker == "user"][:1]
    answered = [one.text for one in said if one.speaker == "assistant"][-1:]
    ends = {*requested, *answered} or {*texts[:1], *texts[-1:]}
    telling = [text for text in texts if _is_telling(text) and text not in ends]
    best = sorted(telling, key=lambda text: (-signals(text), texts.index(text)))[:_SALIENT]
    return [text for text in texts if text in {*ends, *best}]


def _is_telling(text: str) -> bool:
    return bool(signals(text)) and not is_question(text) and not is_request(text)


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."


def _keywords(said: Sequence[Sentence]) -> list[str]:
    counted = Counter(word for one in said for word in words(one.text) if terms(word))
    ranked = sorted(counted, key=lambda word: (-counted[word], -len(word), word))
    return [word for word in ranked if len(word) > 1][:_KEYWORDS]


def _resolved(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in part:
        return _resolved(root["$defs"][part["$ref"].rpartition("/")[2]], root)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in part:
            return _resolved(part[choice][-1], root)
    return part


def _fits(value: Any, part: Mapping[str, Any]) -> bool:
    return value is not None and isinstance(value, _TYPES.get(str(part.get("type")), ()))


def _least(part: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    if "enum" in part or "const" in part:
        return part.get("const", next(iter(part.get("enum", ())), None))
    if "properties" in part:
        return filled({"$defs": root.get("$defs", {}), **part}, {})
    least = {"string": "", "array": [], "boolean": False, "object": {}}
    least |= {"integer": part.get("minimum", 0), "number": part.get("minimum", 0)}
    return least.get(str(part.get("type")))


def as_json(value: Mapping[str, Any]) -> str:
    """Return a structured answer as the text a model would send."""
    return json.dumps(value, ensure_ascii=False)
