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

CHANGES: Mapping[str, tuple[str, str]] = {
    "opened": ("open", "opened"),
    "reopened": ("open", "reopened"),
    "concluded": ("concluded", "concluded: its summary takes the place of its turns"),
    "expanded": ("expanded", "its log came back into the prompt"),
    "collapsed": ("concluded", "its log left the prompt, the summary stays"),
    "evicted": ("evicted", "its summary left the prompt; the archive keeps everything"),
    "returned": ("concluded", "its summary came back into the prompt"),
    "surfaced": ("concluded", "its summary came from an earlier session"),
    "learned": ("concluded", "another session said it since"),
}
"""The state of an effort after an event of this type, and what the event did."""

_DID: Mapping[str, str] = {
    "compressed": "older turns became a background and quotes",
    "not_compressed": "could not be compressed; tried again later",
    "switched": "became the active effort",
    "anchored": "the model wrote the state block anew",
}

LABELS: Mapping[str, Mapping[str, str]] = {
    "parts": {
        "system": "Instructions",
        "tools": "Tool schemas",
        "memory": "Summaries",
        "quotes": "Quotes",
        "expanded": "Expanded logs",
        "turns": "Turns",
        "open": "Open efforts",
        "anchor": "State block",
        "hints": "Hints",
        "turn": "Running turn",
    },
    "states": {
        "open": "open",
        "expanded": "whole log in the prompt",
        "concluded": "summary in the prompt",
        "evicted": "in the archive alone",
    },
    "memories": {"attended": "in attention", "suppressed": "suppressed"},
}
"""What the page calls the parts of a prompt, and the states of efforts and memories."""

USED = frozenset({"concluded", "expanded", "reopened"})
"""The events that use an effort without a mention."""

_COUNTED: Mapping[str, str] = {
    "id": "its name",
    "keywords": "its keywords",
    "tool": "a tool named it",
    "search": "a result of a search was used",
}


def names_of(event: Event) -> Sequence[str]:
    """Return the efforts that an event is about."""
    return [event["effort"]] if event.get("effort") else event.get("efforts", [])


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
    kind = event["type"]
    return CHANGES[kind][1] if kind in CHANGES else _DID.get(kind, kind)


def faded(event: Event) -> str:
    """Return why a log collapsed by itself or a summary left the prompt, else ""."""
    if event["type"] != "evicted" and not event.get("auto"):
        return ""
    silent = event.get("silent")
    return f"nobody mentioned it{f' for {_turns(silent)}' if silent else ''}"


def happened(event: Event) -> tuple[str, str]:
    """Return what an event was about, and what happened.

    >>> happened({"type": "searched", "efforts": ["auth-bug", "release"]})
    ('search', 'found auth-bug, release')
    """
    about, why = ", ".join(names_of(event)), faded(event)
    if event["type"] == "searched":
        return "search", f"found {about}" if about else "looked for what was said"
    if event["type"] == "hinted":
        return "hint", f"the model was told of {', '.join(event['hints'])}"
    return about or "memory", did(event) + (f" ({why})" if why else "")


def counted(event: Event, where: Sequence[str]) -> str:
    """Return why a turn counted as a mention of an effort; `where` is who said its words.

    >>> counted({"kind": "keywords", "words": ["token", "401"]}, ["the answer"])
    'its keywords in the answer: “token, 401”'
    """
    why = _COUNTED.get(event.get("kind", ""), "it was mentioned")
    why += f" in {' and '.join(where)}" if where else ""
    return f"{why}: “{', '.join(event['words'])}”" if event.get("words") else why


def leaving(state: str, left: int) -> str:
    """Return when an effort leaves the prompt in this form, if nobody mentions it.

    A summary that is due waits for a change of the plan, or leaves some turns later.

    >>> leaving("expanded", 1), leaving("concluded", 7)
    ('in 1 turn', 'in 7 to 12 turns')
    """
    if state == "open":
        return "when it is concluded"
    return f"in {_turns(left)}" if state == "expanded" else f"in {left} to {_turns(left + PUT_OFF)}"


def whereabouts(
    name: str, change: Mapping[str, Any], event: Event, standing: Mapping[str, Any] | None
) -> str:
    """Return where an effort is now and why, for people who see the page for the first time.

    `change` is its last one, made by `event`; `standing` is its entry in the prompt.
    """
    state, turn, why = change["state"], change["turn"], faded(event)
    if state == "open":
        said = f"{name} is open since turn {turn}"
        return f"{said}: its turns are in the prompt as far as the budget goes."
    if state == "evicted":
        return (
            f"{name} is not in the prompt any more. Its summary left in turn {turn}, because {why}."
            " The archive has all of it: a mention of its name or keywords brings the summary "
            "back, and search finds it."
        )
    form, said = "summary", f"{name} is in the prompt with its summary."
    if state == "expanded":
        form, said = "log", f"The whole log of {name} is in the prompt since turn {turn}."
    elif why:
        said += f" The log collapsed in turn {turn}, because {why}."
    if standing is None:
        return said
    last = f"unless it is mentioned (last in turn {standing['last']})"
    return f"{said} The {form} leaves {standing['leaves']}, {last}."


def _turns(number: int) -> str:
    return f"{number:,} turn{'' if number == 1 else 's'}"
