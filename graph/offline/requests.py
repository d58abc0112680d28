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

_THIS = r"(?:(?:that|this|it)|(?:the|this|that) (?:active |current )?effort)"
"""What the active effort is called without its name."""

_NAME = r"(?:[^:]|(?<=\d):(?=\d))+"
"""A name ends before the colon of a goal; that of a time such as 10:30 is part of it."""

_REQUESTS = tuple(
    (tool, re.compile(f"{_LEAD}(?:{asked}){_TAIL}", re.IGNORECASE))
    for tool, asked in (
        ("open_effort", rf"(?:work|start) on (?P<name>{_NAME})(?::(?P<goal>.*))?"),
        ("close_effort", rf"(?:.*, so )?(?:{_THIS}(?:'s| is)|we're|i'm) (?:all|done|finished)"),
        ("close_effort", rf"(?:close|conclude|wrap up)(?: {_THIS}| (?P<effort_id>.+))?"),
        ("switch_effort", r"(?:switch|go back|get back|back) to (?P<effort_id>.+)"),
        ("reopen_effort", r"reopen (?P<effort_id>.+)"),
        ("expand_effort", r"(?:expand|show me\b.* log of) (?P<effort_id>.+)"),
        ("collapse_effort", r"collapse (?P<effort_id>.+)"),
        ("search_efforts", r"search for (?P<query>.+)"),
        ("effort_status", r"status|what are we working on"),
    )
)
"""The tool that a sentence asks for, and what all of it says; the first that matches counts.

The groups become arguments.
"""

_USE = re.compile(r"use (?P<tool>\w+) with (?P<args>\w+=.+)", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)=([^\s,]+)")
"""A request for a tool of the application, and its arguments."""

_AROUND = re.compile(r"^(?:(?:the|an?|our|my) )+| effort$", re.IGNORECASE)
_MARKS = " \"'`“”.,;!?"
"""What is said around the name of an effort, and what is written around it."""

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
    """Return the sentences of a message, each with the call of one of `tools` that it asks for."""
    asked = {sentence: request(sentence) for sentence in split(text)}
    return {
        sentence: _meant(call, efforts) if call and call.tool in tools else None
        for sentence, call in asked.items()
    }


@lru_cache(maxsize=_REMEMBERED)
def request(sentence: str) -> Call | None:
    """Return the call that a sentence asks for, an effort named as it is there.

    >>> request("Please reopen the auth bug!")
    Call(tool='reopen_effort', args={'effort_id': 'the auth bug'})
    >>> request("use refund with order=A-17")
    Call(tool='refund', args={'order': 'A-17'})
    """
    asked = sentence.replace("’", "'").rstrip(_MARKS)
    if len(asked) > _LONGEST:
        return None
    if used := _USE.fullmatch(asked):
        return Call(used["tool"], dict(_PAIR.findall(used["args"])))
    for tool, pattern in _REQUESTS:
        if match := pattern.fullmatch(asked):
            args = {name: (text or "").strip(_MARKS) for name, text in match.groupdict().items()}
            if tool == "open_effort":
                return Call(tool, args | {"name": _AROUND.sub("", args["name"]).strip(_MARKS)})
            return Call(tool, {name: text for name, text in args.items() if text})
    return None


def is_request(sentence: str) -> bool:
    """Tell whether a sentence only asks for a tool and says nothing worth quoting."""
    call = request(sentence)
    return call is not None and not call.args.get("goal")


def _meant(call: Call, efforts: Collection[str]) -> Call | None:
    """Return a call with the id of the effort that shares most words with the name.

    What else is closed than an effort that is shown, or one word without an article, is none.

    >>> _meant(Call("expand_effort", {"effort_id": "the auth thing bug"}), ["rates", "auth-bug"])
    Call(tool='expand_effort', args={'effort_id': 'auth-bug'})
    >>> _meant(Call("close_effort", {"effort_id": "the door"}), ["auth-bug"])
    """
    if "effort_id" not in call.args:
        return call
    written = call.args["effort_id"]
    name = _AROUND.sub("", written).strip(_MARKS)
    asked, named = {*words(name)}, {effort: {*words(effort)} for effort in efforts}
    fits = [effort for effort, own in named.items() if asked <= own or own <= asked]
    if call.tool == "close_effort" and not fits and " " in written:
        return None
    best = max(fits, key=lambda effort: len(asked & named[effort]), default=name)
    return call._replace(args={"effort_id": best})
