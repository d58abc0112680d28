"""The nudge: an effort that is open and left alone is named, once."""

from functools import partial
from itertools import takewhile

from ...prompts.loader import text as prompt
from ..chatter import telling
from ..desk import Desk
from ..keywords import KeywordCache, keywords_of
from ..mentions import mentionable, own_words
from ..overlap import about
from ..record import Record
from ..references import statements
from ..terms import content

_READ = 1_000
_LONGEST = 8_000
_PATIENCE = 10
"""Turns for which the nudge waits for a message with a topic."""


def nudge(desk: Desk) -> str:
    """Return the line that stands before the running message, or nothing.

    It is said once when the active effort was active and unmentioned for `decay_threshold` turns,
    beside the first message after them that has a topic of its own.
    """
    active, said = desk.space.active, statements(desk.view.running.messages)[0]
    if not desk.settings.nudges or not active or not _telling(said) or not _due(desk, active):
        return ""
    (effort,) = desk.known([active])
    words = own_words(said)
    known = {effort.id: keywords_of(desk, effort, KeywordCache())}
    named = effort.id in mentionable(words)
    if named or about(content(words), known, [effort.id], desk.settings):
        return ""
    return prompt("nudge_still_open", effort=effort.id, turns=desk.settings.decay_threshold)


def _due(desk: Desk, name: str) -> bool:
    """Tell whether an effort was active and unmentioned for so long, and nobody was told."""
    turn, last = desk.space.turn, desk.space.open[name]["last_referenced_turn"]
    quiet = desk.settings.decay_threshold
    if not 0 < last < turn - quiet:
        return False
    records = desk.view.turns(range(max(last, turn - quiet - _PATIENCE - 1), turn))
    alone = [*takewhile(partial(_left_alone, name, last), reversed(records))]
    told = any(event["type"] == "nudged" for record in alone for event in record.events)
    return quiet <= len(alone) < len(records) and not told


def _left_alone(name: str, last: int, record: Record) -> bool:
    return record.turn > last and record.efforts[:1] == (name,)


def _telling(said: str) -> frozenset[str]:
    return telling(own_words(said[:_LONGEST])[:_READ])
