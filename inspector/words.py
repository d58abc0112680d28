"""What happened in a session and why, in the sentences of the page."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..memory.context.plan import Why
from ..memory.decay import PUT_OFF
from ..memory.names import turns_named
from ..memory.turn import Event

_BECAUSE: Mapping[Why, str] = {
    "new": "the session began",
    "concluded": "an effort was concluded",
    "collapsed": "a log that nobody mentioned collapsed",
    "reopened": "an effort was reopened",
    "returned": "a summary came back",
    "expanded": "a log was expanded",
    "compressed": "an open effort was compressed",
    "due": f"what nobody used had been due to leave for {PUT_OFF} turns: a summary, a long result, "
    "or the turn that concluded an effort",
    "window": "old turns without an effort left",
    "state-blocks": "a newer state block replaced older ones",
    "high-water": "the prompt was close to its budget: the oldest turns left it",
    "application": "the application added or removed a system message",
    "cold-cache": "the provider's cache had expired, so a rebuild cost nothing",
    "settings": "the settings changed",
    "command": "a command by hand changed an effort",
    "edited": "the state was edited",
    "every-turn": "the settings rebuild it every turn",
}

_DID: Mapping[str, str] = {
    "opened": "opened",
    "reopened": "reopened",
    "concluded": "concluded: its summary takes the place of its turns",
    "expanded": "its log came back into the prompt",
    "collapsed": "its log left the prompt, the summary stays",
    "evicted": "its summary left the prompt; the archive keeps everything",
    "returned": "its summary came back into the prompt",
    "surfaced": "its summary came from an earlier session",
    "compressed": "older turns became a background and quotes",
    "not_compressed": "could not be compressed; tried again later",
    "paused": "paused",
    "switched": "became the active effort",
    "anchored": "the model wrote the state block anew",
}
"""What an event did, where it depends on the type alone."""

USED: Mapping[str, str] = {
    "concluded": "it was concluded",
    "expanded": "its log was asked for",
    "reopened": "it was reopened",
}
"""The events that use an effort without a mention."""

_COUNTED: Mapping[str, str] = {
    "id": "$who its name",
    "keywords": "$who its keywords",
    "tool": "a tool named it",
    "search": "a result of a search was used",
}

_WHO: Mapping[tuple[str, ...], str] = {
    ("user",): "the user's message has",
    ("answer",): "the answer has",
    ("user", "answer"): "the user's message and the answer have",
}


def replanned(why: Why, left: str) -> str:
    """Return why the plan changed, and which turns left the prompt with it.

    >>> replanned("expanded", "3-5")
    'a log was expanded; turns 3-5 are no longer shown'
    """
    gone = f"; {turns_named(left)} {'is' if left.isdecimal() else 'are'} no longer shown"
    return _BECAUSE.get(why, why) + (gone if left else "")


def did(event: Event) -> str:
    """Return what an event did to an effort."""
    if event.get("again"):
        return "its log was asked for again"
    if event.get("auto"):
        return "its log left the prompt by itself, the summary stays"
    return _DID.get(event["type"], event["type"])


def faded(event: Event) -> str:
    """Return why a log collapsed by itself or a summary left the prompt, else "".

    >>> faded({"type": "evicted", "effort": "auth-bug", "silent": 20})
    'nobody mentioned it for 20 turns'
    """
    if event["type"] != "evicted" and not event.get("auto"):
        return ""
    silent = event.get("silent")
    return f"nobody mentioned it{f' for {_turns(silent)}' if silent else ''}"


def happened(event: Event) -> tuple[str, str]:
    """Return what an event was about, and what happened.

    >>> happened({"type": "searched", "efforts": ["auth-bug", "release"]})
    ('search', 'found auth-bug, release')
    """
    about = ", ".join([event["effort"]] if event.get("effort") else event.get("efforts", ()))
    if event["type"] == "searched":
        return "search", f"found {about or 'nothing'}"
    if event["type"] == "hinted":
        return "hint", f"the model was told of {', '.join(event['hints'])}"
    why = faded(event)
    return about or "memory", did(event) + (f" ({why})" if why else "")


def counted(event: Event, by: Sequence[str]) -> str:
    """Return why a turn counted as a mention of an effort; `by` are those who said its words.

    >>> counted({"type": "referenced", "kind": "keywords", "words": ["token", "401"]}, ["answer"])
    'the answer has its keywords: “token, 401”'
    """
    kind, words = event.get("kind", ""), ", ".join(event.get("words", ()))
    who = _WHO.get((*by,), "the message or the answer has")
    why = _COUNTED.get(kind, kind or "mentioned").replace("$who", who)
    return f"{why}: “{words}”" if words else why


def leaving(state: str, left: int) -> str:
    """Return when an effort leaves the prompt in this form, if nobody mentions it.

    A summary that is due waits for a change of the plan, or leaves some turns later.

    >>> leaving("expanded", 1), leaving("concluded", 7), leaving("concluded", 0)
    ('in 1 turn', 'in 7 to 12 turns', 'within 5 turns')
    """
    if state == "open":
        return "when it is concluded"
    if state == "expanded":
        return f"in {_turns(left)}"
    return f"in {left} to {left + PUT_OFF} turns" if left else f"within {PUT_OFF} turns"


def whereabouts(
    name: str, turn: int, state: str, event: Event, standing: Mapping[str, Any] | None
) -> str:
    """Return where an effort is now and why, for people who see the page for the first time.

    `event` gave it its `state` in that `turn`; `standing` is its entry in the prompt.
    """
    why = faded(event)
    if state == "open":
        said = f"{name} is open since turn {turn}"
        return f"{said}: its turns are in the prompt as far as the budget goes."
    if state == "evicted":
        return (
            f"{name} is not in the prompt any more. Its summary left in turn {turn}, because {why}."
            " The archive has all of it: a mention of its name or keywords brings the summary "
            "back, and search finds it."
        )
    if state == "expanded":
        said = f"The whole log of {name} is in the prompt since turn {turn}."
    else:
        said = f"{name} is in the prompt with its summary."
        said += f" The log collapsed in turn {turn}, because {why}." if why else ""
    if standing is None:
        return said
    form = "log" if state == "expanded" else "summary"
    last = f"unless it is mentioned (last in turn {standing['last']})"
    return f"{said} The {form} leaves {standing['leaves']}, {last}."


def _turns(number: int) -> str:
    return f"{number:,} turn{'' if number == 1 else 's'}"
