"""Plain requests that the offline model understands, and the tool calls they ask for."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

from ...memory.terms import words
from .prompt import split

_LEAD = (
    r"(?:(?:ok|okay|so|now|then|well|great|please|thanks|can you|could you|let's|let us|we should|"
    r"i want to|i'd like to)\b[\s,]*)*"
)
_TAIL = r"(?:,? (?:now|please|thanks|thank you))*"
"""What may stand before a request, and after it."""

_REQUESTS = (
    ("open_effort", r"(?:work|start) on (?P<name>.+)"),
    (
        "close_effort",
        r"(?:.*, so )?(?:(?:that|this|it)(?:'s| is)|we're|i'm) (?:all|done|finished)",
    ),
    ("close_effort", r"(?:close|conclude|wrap up)(?: (?:that|this|it)| (?P<id>.+))?"),
    ("switch_effort", r"(?:switch|go back|get back|back) to (?P<id>.+)"),
    ("reopen_effort", r"reopen (?P<id>.+)"),
    ("expand_effort", r"expand (?P<id>.+)"),
    ("expand_effort", r"show me\b.* log of (?P<id>.+)"),
    ("collapse_effort", r"collapse (?P<id>.+)"),
    ("search_efforts", r"search for (?P<query>.+)"),
    ("effort_status", r"status|what are we working on"),
)
"""The tool that a sentence asks for, and what all of it says; the first that matches counts.

The groups become arguments: `name` and goal of a new effort, `id` of one that is there.
"""
_RULES = tuple(
    (tool, re.compile(f"{_LEAD}(?:{rule}){_TAIL}", re.IGNORECASE)) for tool, rule in _REQUESTS
)

_USE = re.compile(r"use (?P<tool>\w+) with (?P<args>\w+=.+)", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)=([^\s,]+)")
"""A request for a tool of the application, and its arguments."""

_AROUND = re.compile(r"^(?:(?:the|an?|our|my) )+| effort$", re.IGNORECASE)
"""What is said around the name of an effort."""

_MARKS = " \"'`“”.,;!?"
"""What is written around it."""

_LONGEST = 400
"""Characters of a sentence that may be a request; a longer one is pasted text."""

_REMEMBERED = 4_000
"""Sentences whose request is remembered, more than a context has: each call reads all of them."""


class Call(NamedTuple):
    """A tool and the arguments to call it with."""

    tool: str
    args: dict[str, Any]


def requested(
    text: str, efforts: Collection[str], tools: Collection[str]
) -> dict[str, Call | None]:
    """Return the sentences of a message, each with the call that it asks for, if it asks for one.

    Efforts are called by the ids of `efforts`; only `tools` are called.
    """
    asked = {sentence: request(sentence) for sentence in split(text)}
    return {
        sentence: _meant(call, efforts) if call and call.tool in tools else None
        for sentence, call in asked.items()
    }


@lru_cache(maxsize=_REMEMBERED)
def request(sentence: str) -> Call | None:
    """Return the call that a sentence asks for, an effort named as it is there.

    >>> request("Please reopen the auth bug!")
    Call(tool='reopen_effort', args={'effort_id': 'auth bug'})
    >>> request("use refund with order=A-17")
    Call(tool='refund', args={'order': 'A-17'})
    """
    asked = sentence.replace("’", "'").rstrip(_MARKS)
    if len(asked) > _LONGEST:
        return None
    if used := _USE.fullmatch(asked):
        return Call(used["tool"], dict(_PAIR.findall(used["args"])))
    matches = ((tool, rule.fullmatch(asked)) for tool, rule in _RULES)
    return next((Call(tool, _args(match)) for tool, match in matches if match), None)


def is_request(sentence: str) -> bool:
    """Tell whether a sentence only asks for a tool and says nothing worth quoting."""
    call = request(sentence)
    return call is not None and not call.args.get("goal")


def _args(match: re.Match[str]) -> dict[str, Any]:
    groups = {name: text for name, text in match.groupdict().items() if text}
    if "name" in groups:
        name, _, goal = groups["name"].partition(":")
        return {"name": _bare(name), "goal": goal.strip()}
    return {"effort_id": _bare(groups["id"])} if "id" in groups else groups


def _bare(name: str) -> str:
    """Return the name of an effort without article and quotation marks.

    >>> _bare('the "auth bug" effort')
    'auth bug'
    """
    return _AROUND.sub("", name.strip(_MARKS)).strip(_MARKS)


def _meant(call: Call, efforts: Collection[str]) -> Call:
    """Return a call with the id of the effort that shares most words with the name.

    >>> _meant(Call("expand_effort", {"effort_id": "auth thing bug"}), ["rate-limits", "auth-bug"])
    Call(tool='expand_effort', args={'effort_id': 'auth-bug'})
    """
    if "effort_id" not in call.args:
        return call
    name = call.args["effort_id"]
    asked, named = {*words(name)}, {effort: {*words(effort)} for effort in efforts}
    fits = [effort for effort, own in named.items() if asked <= own or own <= asked]
    best = max(fits, key=lambda effort: len(asked & named[effort]), default=name)
    return call._replace(args={"effort_id": best})
