"""Notes before a message: the day, and hints, which name stored efforts."""

import re
from collections.abc import Callable, Collection, Sequence
from heapq import nlargest

from ..archive.query import Pointing, pointing
from ..dates import local, local_day
from ..messages import text
from ..names import is_qualified
from ..references import mentions, shares, statements
from ..running_turn import Turn
from ..search.terms import long_enough, query_terms, tells, terms
from ..turn import Event
from .plan import Plan

_OVERLAP = 3  # rare words that a message and its target must share: two are often chance
_LEAST_SINGLE = 0.5  # least share of a message's weight that one turn or heading of the target says

_LEAST_TOGETHER = 0.7
"""The least share of it that all turns and headings of the target say together.

At 0.7, 43 % of questions to long conversations have a right hint, and 0.3 % of questions to another
conversation have any; at 0.6 it is 46 % and 1 %.
"""

_LEAD = 0.1  # by how much the sum of both shares must exceed that of the next best target

_HINT_QUERY = 2_000  # characters of a message that are searched for hints: the rest is pasted text


def pointed_at(message: Pointing) -> str | None:
    """Return the effort that a message clearly is about, else None; an ambient turn has no name.

    >>> rare = {"refresh": 3.0, "token": 3.0, "login": 1.0, "expir": 2.0}
    >>> auth, css = [frozenset({"refresh", "token", "login"})], [frozenset({"login"})]
    >>> pointed_at(Pointing(rare, {"auth": auth, "css": css}))
    'auth'
    >>> pointed_at(Pointing(rare, {"auth": css, "css": css}))
    """
    found = shares(message)
    if not found:
        return None
    best, *next_best = nlargest(2, found, key=lambda name: found[name].score)
    clear = (
        len(found[best].words) >= _OVERLAP
        and found[best].single >= _LEAST_SINGLE
        and found[best].together >= _LEAST_TOGETHER
        and found[best].score - sum(found[name].score for name in next_best) >= _LEAD
    )
    return best if clear and isinstance(best, str) else None


_SPOKEN_OF = re.compile(r"(?i)\b(?:the|that|this|our)\s+([^\W_]+(?:[ -][^\W_]+)?)")
"""What a message speaks of as known: "that login thing", "the upgrade"; "a new upgrade" is none."""


def spoken_of(message: Pointing, question: str) -> str | None:
    """Return the only effort whose name shares a word with a phrase such as `that login thing`.

    >>> message = Pointing({}, {"login-401-fix": [], "css": [], 7: []})
    >>> spoken_of(message, "How did that login thing end?"), spoken_of(message, "login, how?")
    ('login-401-fix', None)
    """
    known = (query_terms(match[1]) for match in _SPOKEN_OF.finditer(question))
    words = {term for terms in known for term in terms if tells(term)}
    names = [name for name in message.said if isinstance(name, str)]
    named = [name for name in names if not words.isdisjoint(query_terms(name))]
    return named[0] if len(named) == 1 else None


def hinted(work: Turn) -> list[Event]:
    """Return the event that puts hints before the running message; none if there are no hints.

    They name efforts that the message is about and the context lacks. Those named by their id come
    first, then by a word of it, then the effort that the message clearly is about.
    """
    plan, limit = work.plan, work.run.settings.recall_hints
    question = statements(work.view.running.messages)[0][:_HINT_QUERY]
    if not (plan and limit and (asked := query_terms(question))):
        return []
    ids, elsewhere, _ = mentions(work, [question])
    used = work.efforts.summaries.items()
    since = {name for name, entry in used if entry["last_referenced_turn"] > plan.after_turn}
    shown = {*work.efforts.open, *plan.summaries, *since}
    stored = work.view.efforts_named(sorted((ids | elsewhere) - shown), work.efforts.events)
    names = [one.id for one in stored if one.id in elsewhere or query_terms(one.id)]
    left_out = plan.older or len(plan.turns) < plan.after_turn
    is_long = len(long_enough(asked)) >= _OVERLAP
    if len(names) < limit and left_out and (is_long or _SPOKEN_OF.search(question)):
        rare = pointing(work.view.past, question)
        best = spoken_of(rare, question), pointed_at(rare) if is_long else None
        names += [name for name in best if name is not None and name not in shown]
    if len(names) < limit and work.related is not None:
        names += _other_subject(work, work.related, question, plan, shown)
    hints = [*dict.fromkeys(names)][:limit]
    return [{"type": "hinted", "hints": hints}] if hints else []


def _other_subject(
    work: Turn,
    find: Callable[[str], Sequence[str]],
    question: str,
    plan: Plan,
    shown: Collection[str],
) -> list[str]:
    """Return memories of other sessions that a message is about, and the turns in view are not."""
    overlap = work.run.settings.min_keyword_overlap
    said = {term for term in query_terms(question) if tells(term)}
    related = find(question) if len(said) >= overlap else ()
    absent = [name for name in related if name not in shown]
    stored = [one for one in work.view.efforts_named(absent, ()) if is_qualified(one.id)]
    if not stored:
        return []
    later = range(plan.after_turn + 1, work.view.tip.turn + 1)
    turns = work.view.past.turns([*plan.turns, *later])
    messages = (message for turn in turns for message in turn.messages)
    in_view = {term for message in messages for term in terms(text(message, "\n"))}
    return [
        effort.id
        for effort in stored
        if len((said - in_view).intersection(terms(" ".join(effort.keywords)))) >= overlap
    ]


_APART = 3 * 3600
"""Seconds between two turns of one day from which on the hour is told too."""


def dated(work: Turn) -> list[Event]:
    """Return the event that tells the day before the running message; none if it is known.

    It is in the first turn, on another day than the turn before, and some hours after that one.
    """
    if not work.now:
        return []
    zone, tip = work.run.settings.timezone, work.view.tip.turn
    last, is_later = "", False
    for turn in work.view.past.turns([tip] if tip else []):
        last = turn.at
    if last:
        before, now = local(last, zone), local(work.now, zone)
        is_later = before.date() == now.date()
        if is_later and (now - before).total_seconds() <= _APART:
            return []
    return [{"type": "dated", "day": local_day(work.now, zone, hour=is_later)}]
