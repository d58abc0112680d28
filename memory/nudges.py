"""Nudges: talk that looks like work of its own, and an effort that is open and left alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from ..prompts.loader import text as prompt
from .chatter import telling
from .desk import Desk
from .keywords import KeywordCache, keywords_of
from .mentions import mentionable, own_words
from .overlap import about
from .record import Record
from .references import statements
from .terms import content

OVERLAP = 2
"""Keywords of the topic that each turn says at least."""
SHARE = 0.75
"""Turns of a run that say a keyword of its topic at least, a fraction."""
_COMMON = 0.5
_READ = 1_000
_LONGEST = 8_000
_PATIENCE = 10
_DECIDED = frozenset({"opened", "switched", "reopened", "concluded"})


@dataclass(frozen=True, slots=True)
class Talk:
    """What tells the topic of a turn: the terms of the user, and those of user and answer."""

    asked: frozenset[str]
    said: frozenset[str]
    ambient: bool = True


def nudge(desk: Desk) -> str:
    """Return the line that stands before the running message, or nothing.

    It stands in one turn, that in which the situation comes about, and until the model opens,
    switches or concludes an effort in it. A message without a topic of its own has none; that an
    effort is left open is then said beside the next one that has.
    """
    said = statements(desk.view.running.messages)[0]
    decided = any(event["type"] in _DECIDED for event in desk.space.events)
    if not desk.settings.nudges or decided or not _telling(said):
        return ""
    return _left_open(desk, said) if desk.space.active else _own_work(desk, said)


def heard(question: str, *answers: str) -> Talk:
    """Return what the beginnings of a question and its answer tell of their topic."""
    asked = _telling(question)
    return Talk(asked, asked.union(*map(_telling, answers)))


def reached(talk: Sequence[Talk], now: frozenset[str], after: int) -> bool:
    """Tell whether just now `after` turns have kept to one topic, which `now` goes on with.

    `talk` are the turns before, ascending; `now` are the terms of the running message. True if
    this is so now and was not in any of the `after` turns before.

    >>> turn = Talk(frozenset({"login", "token"}), frozenset({"login", "token", "expir"}))
    >>> [reached([turn] * before, turn.asked, 4) for before in (3, 4, 5)]
    [False, True, False]
    """
    if not _keeps(talk, now, after):
        return False
    earlier = range(max(0, len(talk) - after), len(talk))
    return not any(_keeps(talk[:end], talk[end].asked, after) for end in earlier)


def topic(run: Sequence[Talk], before: Sequence[Talk]) -> frozenset[str]:
    """Return the keywords that a run of turns keeps to, if each turn says two of them.

    Three quarters of the turns say them, the user at least once, and at most half of the turns
    before the run, or one of them: what is said anyway is no topic.
    """
    asked = frozenset[str]().union(*(turn.asked for turn in run))
    having = Counter(term for turn in run for term in turn.said)
    common = Counter(term for turn in before for term in turn.said)
    most = max(1.0, _COMMON * len(before))
    shared = frozenset(
        term for term in asked if having[term] >= ceil(SHARE * len(run)) and common[term] <= most
    )
    return shared if all(len(turn.said & shared) >= OVERLAP for turn in run) else frozenset()


def _keeps(talk: Sequence[Talk], now: frozenset[str], after: int) -> bool:
    run, before = talk[-after:], talk[-2 * after : -after]
    if len(run) < after or not all(turn.ambient for turn in run):
        return False
    return not topic(run, before).isdisjoint(now)


def _own_work(desk: Desk, said: str) -> str:
    """Read the turns that may be the run, one before it, and what was said before them."""
    turn, after = desk.space.turn, desk.settings.nudge_after
    numbers = range(max(1, turn - 3 * after), turn)
    records = desk.view.turns(numbers)
    talk = [_talk(record) for record in records]
    whole = len(records) == len(numbers)
    if not whole or not reached(talk, _telling(said), after):
        return ""
    return prompt("nudge_own_work", turns=after)


def _talk(record: Record) -> Talk:
    return replace(heard(*statements(record.messages)), ambient=not record.efforts)


def _telling(said: str) -> frozenset[str]:
    return telling(own_words(said[:_LONGEST])[:_READ])


def _left_open(desk: Desk, said: str) -> str:
    (effort,) = desk.known([desk.space.active or ""])
    if not _due(desk, effort.id):
        return ""
    words = own_words(said)
    known = {effort.id: keywords_of(desk, effort, KeywordCache())}
    named = effort.id in mentionable(words)
    if named or about(content(words), known, [effort.id], desk.settings):
        return ""
    turns = desk.settings.decay_threshold
    return prompt("nudge_still_open", effort=effort.id, turns=turns)


def _due(desk: Desk, name: str) -> bool:
    """Tell whether the effort was active and unmentioned for `decay_threshold` turns, and not told.

    They are counted from the turn that mentioned it last or, if that is later, made it active. The
    first turn with a topic after them has the nudge; it waits `_PATIENCE` turns for that one.
    """
    turn, last = desk.space.turn, desk.space.open[name]["last_referenced_turn"]
    quiet = desk.settings.decay_threshold + 1
    earliest = max(1, turn - quiet - _PATIENCE)
    if not 0 < last <= turn - quiet:
        return False
    records = desk.view.turns(range(max(1, earliest - 1), turn))
    active = {record.turn: record for record in records if record.efforts[:1] == (name,)}
    since = turn
    while since > last and since - 1 in active:
        since -= 1
    waited = range(since + quiet, turn)
    return earliest <= since <= turn - quiet and not any(_had_topic(active[at]) for at in waited)


def _had_topic(record: Record) -> bool:
    """Tell whether the user's message of a turn had a topic; of an erased one nobody knows."""
    return record.status == "erased" or bool(_telling(statements(record.messages)[0]))
