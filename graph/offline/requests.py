"""Plain requests that the offline model understands, and the tool calls they ask for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...memory.terms import is_question, words
from .prompt import Efforts, split

_LEAD = (
    r"(?:(?:ok|okay|so|now|and|then|well|great|good|perfect|thanks|thank you|please|also|next|yes|"
    r"alright|right|hey|first|finally|can you|could you|would you|will you)\b[\s,:–-]*)*"
)
_WISH = (
    r"(?:(?:let's|let us|i want to|i need to|i'd like to|i would like to|we should|we need to|"
    r"i'll|we'll)\s+(?:now\s+)?)"
)
_NEED = r"(?:(?:(?:i|we) (?:need|want|have) to|(?:i|we)(?:'d| would) like to|help me(?: to)?) )"
_WORK = (
    r"(?:fix|debug|plan|build|design|write|implement|refactor|investigate|prepare|organi[sz]e|"
    r"migrate|set up)"
)
_OVER = r"(?:done|fixed|finished|solved|sorted|settled|resolved|complete|completed|closed)"
_SOON = r"(?:\s+(?:now|then|for now|for today|here))?"
_THIS = r"(?:this|that|it|this effort|the effort)"
_LOG = r"(?:full |whole |complete |entire |raw )?(?:log|logs|details?|history|transcript)"
_ASPECT = r"(?:\s+(?:of|on|about|for|from|behind))"
_TAKE = r"(?:(?:show|give|tell|bring|read|what are)\s+)?(?:me |us |back )?(?:all )?(?:the )?"
_READ = r"(?:read|show)(?: me)?(?: the)?(?: full)?"
_NEW = r"(?:an? )?(?:new )?effort:?(?: (?:for|on|called|named))?"

_STATUS = (
    r"what are we (?:working on|doing)(?: now)?",
    r"what(?:'s| is) (?:open|active)",
    r"(?:what(?:'s| is) )?(?:the |our |effort )?status(?: report)?",
    r"where (?:are|were) we(?: now)?",
    r"(?:list|show)(?: me)?(?: all)?(?: the| our| my)? efforts",
    r"which efforts .+",
)

_REQUESTS: tuple[tuple[str, str], ...] = (
    ("update_goal", r"(?:the|our|my) (?:goal is now|new goal is):?\s+(?P<goal>.+)"),
    ("update_goal", r"(?:change|update|set) (?:the|our|my) goal to:?\s+(?P<goal>.+)"),
    ("update_goal", r"new goal:\s*(?P<goal>.+)"),
    ("close_effort", rf"(?:that|this|it)(?:'s| is)(?: all)? {_OVER}{_SOON}"),
    ("close_effort", rf"(?:that|this)(?:'s| is|'ll be| will be) (?:all|everything){_SOON}"),
    ("close_effort", rf"(?:we|i)(?:'re|'m| are| am) (?:all )?(?:done|finished|through){_SOON}"),
    (
        "close_effort",
        r"(?:(?:we|i)(?:'re|'m| are| am) )?(?:all )?(?:done|finished|through) with (?P<id>.+)",
    ),
    ("close_effort", rf"{_WISH}?wrap (?:(?P<id>.+) )?up"),
    ("close_effort", rf"{_WISH}?(?:wrap up|close|conclude)(?: (?P<id>.+))?"),
    ("close_effort", rf"mark (?P<id>.+?) (?:as )?{_OVER}"),
    ("close_effort", rf"(?P<known>.+?) is {_OVER}{_SOON}"),
    ("effort_status", f"(?:{'|'.join(_STATUS)})"),
    (
        "open_effort",
        rf"{_WISH}?(?:open|start|begin) {_NEW} (?P<name>.+)",
    ),
    ("open_effort", r"new effort:?\s+(?P<name>.+)"),
    (
        "open_effort",
        rf"{_WISH}?(?:work|start (?:work|working)|begin (?:work|working)) on (?P<name>.+)",
    ),
    ("open_effort", rf"{_WISH}?(?:start|begin) (?:on|with) (?P<name>.+)"),
    ("open_effort", rf"{_WISH}(?:start|begin|tackle) (?P<name>.+)"),
    ("open_effort", rf"{_NEED}{_WORK} (?P<name>(?!(?:it|this|that|these|those|them)\b).+)"),
    ("switch_effort", rf"{_WISH}?pause(?: {_THIS})?{_SOON}"),
    ("switch_effort", rf"{_WISH}?put {_THIS} (?:aside|on hold){_SOON}"),
    (
        "update_goal",
        r"(?:(?P<drop>drop|lift)|add|new)(?: an?| the)? constraint:?\s+(?P<rule>.+)",
    ),
    ("reopen_effort", rf"{_WISH}?(?:re-?open|take up) (?P<id>.+)"),
    (
        "switch_effort",
        rf"{_WISH}?(?:(?:switch|go|get|jump)(?: over| back)?|back|return) to (?P<id>.+)",
    ),
    (
        "switch_effort",
        rf"{_WISH}?(?:continue|resume|go on|carry on)(?: with| on| working on)? (?P<known>.+)",
    ),
    (
        "read_log",
        rf"{_READ}(?: log)?(?: of| from)? turns? (?P<turns>\d+(?:-\d+)?)",
    ),
    ("expand_effort", rf"{_WISH}?expand (?P<id>.+)"),
    (
        "expand_effort",
        rf"{_TAKE}{_LOG}{_ASPECT} (?P<id>.+)",
    ),
    ("collapse_effort", rf"{_WISH}?collapse (?P<id>.+)"),
    (
        "search_efforts",
        r"(?:search|look)(?: the| your| our)?(?: memory| efforts| archive)? for (?P<query>.+)",
    ),
)
"""The tool that a clause asks for, and what the whole clause says; the first that matches counts.

The groups become arguments: `name` and `goal` of a new effort, `id` of an effort, `known` likewise
if the prompt shows that effort.
"""
_RULES = tuple((tool, re.compile(_LEAD + rule, re.IGNORECASE)) for tool, rule in _REQUESTS)

_PARTING = re.compile(r"(\s*,\s*|\s+(?:and|then|but)\s+|\s+[-–—]\s+)")
_TOOL = re.compile(
    r"\b(?:use|call|run)\s+(?:the\s+)?(?:tool\s+)?(?P<tool>\w+)(?:\s+tool)?"
    r"(?:\s*\((?P<inside>[^)]*)\)|\s+with\s+(?P<with>\S[^\n]*?)"
    r"(?=\s+(?:and|then)\s+(?:use|call|run)\b|$|\n))?",
    re.IGNORECASE,
)
_PAIR = re.compile(r"""(\w+)\s*[=:]\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,]+)""")
_HERE = frozenset({"", "this", "that", "it", "effort", "current", "active", "things", "everything"})
_AROUND = re.compile(
    r"^(?:(?:the|a|an|our|my|that|this|effort)\s+)+(?=\S)|\s+(?:effort|again|now|please|for now)$",
    re.IGNORECASE,
)
_GOAL = re.compile(r"\s*:\s+|\s+[-–—]\s+")
_BREAK = re.compile(r"\s*[,;(]|\s+(?:because|since|so that|which|but)\s")
_THANKS = re.compile(r"\s*[,–—-]\s*(?:thanks|thank you|cheers)\b[^,.]*$", re.IGNORECASE)
_LONGEST = 400
"""Characters of a sentence that may be a request; a longer one is pasted text."""

_FIRST, _LAST = 20, 10
"""Sentences at the ends of a message in which requests are looked for."""

_REMEMBERED = 4_000
"""Sentences whose request is remembered, more than a context has: each call reads all of them."""

_NAME_WORDS = 6
"""Words of a name that is made from what was asked."""


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


@lru_cache(maxsize=_REMEMBERED)
def request(text: str) -> Call | None:
    """Return the call of a memory tool that a sentence asks for, whatever was said before."""
    return _call(text, Efforts((), (), ()))


def is_request(text: str) -> bool:
    """Tell whether a sentence only asks for a memory tool and says nothing worth quoting."""
    call = request(text)
    return call is not None and not call.args.get("goal")


def _bare(name: str) -> str:
    """Return the name of an effort without articles, quotation marks and the like.

    >>> _bare('the "auth bug" effort')
    'auth bug'
    """
    before = ""
    while name != before:
        before, name = name, _AROUND.sub("", name.strip(" \"'`“”.,:;!?"))
    return name


def _known(name: str, candidates: Sequence[str]) -> str | None:
    """Return the effort among `candidates` that a name means: it shares most words.

    >>> _known("the auth bug", ["rate-limits", "auth-bug"])
    'auth-bug'
    """
    asked = {*words(name)}
    fits = [one for one in candidates if asked <= {*words(one)} or asked >= {*words(one)}]
    return max(fits, key=lambda one: len(asked.intersection(words(one))), default=None)


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
    asked = _THANKS.sub("", text.rstrip(" .!?;,"))
    for tool, rule in _RULES:
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
    name = _bare(said.get("known") or said.get("id") or "")
    everywhere = (*efforts.open, *efforts.concluded, *efforts.expanded)
    effort = _known(name, everywhere)
    if name.casefold() in _HERE:
        return Call(tool, {}) if tool == "close_effort" and "known" not in said else None
    if "known" in said and effort is None:
        return None
    if tool == "switch_effort" and effort in efforts.concluded:
        tool = "reopen_effort"
    return Call(tool, {"effort_id": effort or name})


def _to_open(said: str) -> dict[str, str]:
    """Return name and goal: a name ends at a break of the sentence, and then all of it is the goal.

    >>> _to_open("the login page, it hangs")
    {'name': 'login page', 'goal': 'login page, it hangs'}
    """
    whole, *goal = _GOAL.split(said, maxsplit=1)
    name = " ".join(_bare(_BREAK.split(whole, maxsplit=1)[0]).split()[:_NAME_WORDS])
    unsaid = "" if name == _bare(whole) else _bare(whole)
    return {"name": name, "goal": goal[0] if goal else unsaid}


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
