"""Plain requests that the offline model understands, and the tool calls they ask for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .offline_patterns import RULES
from .offline_sentences import Efforts, split
from .offline_words import words

_PARTING = re.compile(r"(\s*,\s*|\s+(?:and|then|but)\s+|\s+[-–—]\s+)")
_TOOL = re.compile(
    r"\b(?:use|call|run)\s+(?:the\s+)?(?:tool\s+)?(?P<tool>\w+)(?:\s+tool)?"
    r"(?:\s*\((?P<inside>[^)]*)\)|\s+with\s+(?P<with>\S[^\n]*?)"
    r"(?=\s+(?:and|then)\s+(?:use|call|run)\b|$|\n))?",
    re.IGNORECASE,
)
_PAIR = re.compile(r"""(\w+)\s*[=:]\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,]+)""")
_THIS = frozenset({"", "this", "that", "it", "effort", "current", "active", "things", "everything"})
_AROUND = re.compile(
    r"^(?:(?:the|a|an|our|my|that|this|effort)\s+)+(?=\S)|\s+(?:effort|again|now|please|for now)$",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"(?:(?:what|which|who|when|where|why|how)(?:'s)?\s+(?:\w+\s+)?"
    r"(?:is|are|was|were|do|does|did|has|have|had|can|should|will)\b|"
    r"(?:tell|remind) me\b|do you (?:remember|recall|know)\b)",
    re.IGNORECASE,
)
_GOAL = re.compile(r"\s*:\s+|\s+[-–—]\s+")
_LONGEST = 400
_FIRST, _LAST = 20, 10
_NAME_WORDS = 6


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and the arguments to call it with."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of what the user says, with the call that it asks for, if it asks for one."""

    text: str
    call: Call | None = None

    @property
    def asks(self) -> bool:
        """Tell whether this is a question to be answered."""
        return self.call is None and is_question(self.text)


def clauses(text: str, efforts: Efforts, tools: Mapping[str, Any]) -> list[Clause]:
    """Read a message clause by clause; `tools` are the bound tools with their schemas.

    Of a long message only the first and the last sentences are read for requests.
    """
    text = text.replace("’", "'")
    named = [_named(match, tools) for match in _TOOL.finditer(text) if match["tool"] in tools]
    if named:
        return [Clause(text, call) for call in named]
    said = split(text)
    near = said if len(said) <= _FIRST + _LAST else said[:_FIRST] + said[-_LAST:]
    found = (part for sentence in near for part in _parts(sentence, efforts))
    return [part if part.call and part.call.tool in tools else Clause(part.text) for part in found]


def is_question(text: str) -> bool:
    """Tell whether a sentence asks something."""
    return text.endswith(("?", "？")) or bool(_QUESTION.match(text))


def is_request(text: str) -> bool:
    """Tell whether a sentence only asks for a memory tool and says nothing worth quoting."""
    call = _call(text, Efforts((), (), ()))
    return call is not None and not call.args.get("goal")


def bare(name: str) -> str:
    """Return the name of an effort without articles, quotation marks and the like.

    >>> bare('the "auth bug" effort')
    'auth bug'
    """
    before = ""
    while name != before:
        before, name = name, _AROUND.sub("", name.strip(" \"'`“”.,:;!?"))
    return name


def known(name: str, candidates: Sequence[str]) -> str | None:
    """Return the effort among `candidates` that a name means: it shares most words.

    >>> known("the auth bug", ["rate-limits", "auth-bug"])
    'auth-bug'
    """
    asked = words(name)
    fits = [one for one in candidates if words(one) <= asked or asked <= words(one)]
    return max(fits, key=lambda one: len(words(one) & asked), default=None) if asked else None


def _parts(sentence: str, efforts: Efforts) -> Iterator[Clause]:
    """Cut a sentence where a new request begins; the rest stays together."""
    if len(sentence) > _LONGEST:
        yield Clause(sentence)
        return
    pieces = _PARTING.split(sentence)
    text = pieces[0]
    for between, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if _call(piece, efforts):
            yield Clause(text, _call(text, efforts))
            text = piece
        else:
            text += between + piece
    yield Clause(text, _call(text, efforts))


def _call(text: str, efforts: Efforts) -> Call | None:
    asked = text.rstrip(" .!?;,")
    for tool, rule in RULES:
        match = rule.fullmatch(asked)
        call = _filled(tool, match.groupdict(), efforts) if match else None
        if call:
            return call
    return None


def _filled(tool: str, said: Mapping[str, str | None], efforts: Efforts) -> Call | None:
    if "name" in said:
        return Call(tool, _to_open(said["name"] or ""))
    if tool == "update_goal":
        return Call(tool, _to_update(said))
    if "turns" in said:
        return Call(tool, {"turns": said["turns"]})
    if "query" in said:
        return Call(tool, {"query": said["query"]})
    return _on_effort(tool, said, efforts) if said else Call(tool, {})


def _on_effort(tool: str, said: Mapping[str, str | None], efforts: Efforts) -> Call | None:
    name = bare(said.get("known") or said.get("id") or "")
    everywhere = (*efforts.open, *efforts.concluded, *efforts.expanded)
    effort = known(name, everywhere)
    if name.casefold() in _THIS:
        return Call(tool, {}) if tool == "close_effort" and "known" not in said else None
    if "known" in said and effort is None:
        return None
    if tool == "switch_effort" and effort in efforts.concluded:
        tool = "reopen_effort"
    return Call(tool, {"effort_id": effort or name})


def _to_open(said: str) -> dict[str, str]:
    name, *goal = _GOAL.split(said, maxsplit=1)
    short = " ".join(bare(name).split()[:_NAME_WORDS])
    unsaid = "" if short == bare(name) else bare(name)
    return {"name": short, "goal": goal[0] if goal else unsaid}


def _to_update(said: Mapping[str, str | None]) -> dict[str, Any]:
    if said.get("rule"):
        return {"drop_constraints" if said["drop"] else "add_constraints": [said["rule"]]}
    goal, _, why = (said["goal"] or "").partition(" because ")
    return {"goal": goal} | ({"rationale": why} if why else {})


def _named(match: re.Match[str], tools: Mapping[str, Any]) -> Call:
    inside = (match["inside"] or match["with"] or "").strip()
    try:
        whole = json.loads(inside)
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        return Call(match["tool"], whole)
    args = {key: _value(value) for key, value in _PAIR.findall(inside)}
    if inside and not args:
        parameters = tools[match["tool"]].get("properties", ())
        args = dict(zip(parameters, map(_value, inside.split(",")), strict=False))
    return Call(match["tool"], args)


def _value(written: str) -> Any:
    written = written.strip().rstrip(".;!?")
    try:
        return json.loads(written)
    except ValueError:
        return written.strip("'\"")
