"""Notes before a message: the day, and hints that point at stored efforts and turns."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import nlargest
from typing import Any, TypeAlias

from ..archive.protocol import Pointing
from ..dates import local, local_day
from ..efforts import one_line
from ..messages import text
from ..names import is_qualified
from ..record import Event
from ..references import mentions, shares, statements
from ..running_turn import RunningTurn
from ..search.passages import best_piece, word_begin
from ..search.terms import long_enough, query_terms, tells, terms
from ..transcript import in_one_line_each
from ..view import ArchiveView
from .plan import Plan

_OVERLAP = 3  # rare words that a message and its target must share: two are often chance
_LEAST_SINGLE = 0.5  # least share of a message's weight that one turn or heading of the target says

_LEAST_TOGETHER = 0.7
"""The least share of it that all turns and headings of the target say together.

At 0.7, 43 % of questions to long conversations have a right hint, and 0.3 % of questions to another
conversation have any; at 0.6 it is 46 % and 1 %.
"""

_LEAD = 0.1  # by how much the sum of both shares must exceed that of the next best target

Hint: TypeAlias = Mapping[str, Any]
"""Where a hint points: an `effort` or a `turn`, and the `offset` at which its line begins.

It is stored as an event of its turn, so that the same line is sent again; its text is not stored.
"""

_HINT_QUERY = 2_000  # characters of a message that are searched for hints: the rest is pasted text
_HINT_LENGTH = 160  # characters of a hint: one line

_QUOTE, _INNER = '"', "'"  # the marks around words in a hint, and what replaces them inside


def pointed_at(message: Pointing) -> str | int | None:
    """Return the effort or the ambient turn that a message clearly is about, else None.

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
    return best if clear else None


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


def hinted(work: RunningTurn) -> list[Event]:
    """Return the event that puts hints before the running message; none if there are no hints.

    They point at what the message is about and the context lacks. Efforts named by their id come
    first, then by a word of it, then the effort or turn that the message clearly is about.
    """
    plan, limit = work.plan, work.settings.recall_hints
    question = statements(work.view.running.messages)[0][:_HINT_QUERY]
    targets = _targets(work, question, plan) if plan and limit else []
    if not targets:
        return []
    return [{"type": "hinted", "hints": [_hint(work, one, question) for one in targets[:limit]]}]


def hint_lines(view: ArchiveView, hints: Sequence[Hint]) -> list[str]:
    """Return the hints as lines of text; those at something that was erased are left out."""
    lines = []
    for hint in hints:
        target = hint.get("turn", hint.get("effort"))
        if excerpt := _excerpt(_said(view, target, ()), hint["offset"]):
            label = f"turn {target}" if "turn" in hint else target
            lines.append(f"- {label}: {excerpt}")
    return lines


def _excerpt(said: Sequence[tuple[str, str]], begin: int) -> str:
    """Return what is said from a place of the line on, in quotation marks after who says it."""
    parts, at = [], -begin
    for label, words in said:
        start = at + len(label)
        at = start + len(words) + 1
        piece = words[max(0, -start) : max(0, _HINT_LENGTH - start)]
        if piece:
            before, after = "…" * (start < 0), "…" * (start + len(words) > _HINT_LENGTH)
            piece = f"{before}{piece}{after}"
            parts.append(f'{label}"{piece.replace(_QUOTE, _INNER)}"' if label else piece)
    return " ".join(parts)


def _targets(work: RunningTurn, question: str, plan: Plan) -> list[str | int]:
    """Return the efforts and turns that a message is about and the context lacks."""
    limit = work.settings.recall_hints
    if not (asked := query_terms(question)):
        return []
    ids, elsewhere, _ = mentions(work, [question])
    shown = _in_context(work, plan)
    absent = sorted((ids | elsewhere) - shown)
    stored = work.view.efforts_named(absent, work.state.events)
    targets: list[str | int] = [e.id for e in stored if e.id in elsewhere or query_terms(e.id)]
    left_out = plan.older or len(plan.turns) < plan.after_turn
    is_long = len(long_enough(asked)) >= _OVERLAP
    if len(targets) < limit and left_out and (is_long or _SPOKEN_OF.search(question)):
        pointing = work.view.branch.pointing(question)
        for best in (spoken_of(pointing, question), pointed_at(pointing) if is_long else None):
            known = best in targets or best in shown
            if best is not None and not known and not (isinstance(best, int) and plan.shows(best)):
                targets.append(best)
    if len(targets) < limit and work.related is not None:
        others = _other_subject(work, work.related, question, plan, shown)
        targets += [name for name in others if name not in targets]
    return targets


def _other_subject(
    work: RunningTurn,
    find: Callable[[str], Sequence[str]],
    question: str,
    plan: Plan,
    shown: Collection[str],
) -> list[str]:
    """Return memories of other sessions that a message is about, and the turns in view are not."""
    overlap = work.settings.min_keyword_overlap
    said = {term for term in query_terms(question) if tells(term)}
    related = find(question) if len(said) >= overlap else ()
    absent = [name for name in related if name not in shown]
    stored = [one for one in work.view.efforts_named(absent, ()) if is_qualified(one.id)]
    if not stored:
        return []
    later = range(plan.after_turn + 1, work.view.tip.turn + 1)
    records = work.view.turns([*plan.turns, *later])
    messages = (message for record in records for message in record.messages)
    in_view = {term for message in messages for term in terms(text(message, "\n"))}
    return [
        effort.id
        for effort in stored
        if len((said - in_view).intersection(terms(" ".join(effort.keywords)))) >= overlap
    ]


def _in_context(work: RunningTurn, plan: Plan) -> set[str]:
    """Return the efforts that are open, summarised, or mentioned since the plan."""
    names = {*work.state.open, *plan.summaries}
    for name, turn in work.state.summaries.items():
        if turn > plan.after_turn:
            names.add(name)
    return names


def _hint(work: RunningTurn, target: str | int, question: str) -> Hint:
    """Return a hint whose line begins with the piece of the target that answers the question."""
    said = _said(work.view, target, work.state.events)
    line = " ".join(f"{label}{words}" for label, words in said)
    last, begin = len(line) - _HINT_LENGTH, 0
    if last > 0:
        begin, _ = best_piece(line, frozenset(query_terms(question)))
        begin = begin if begin <= last else word_begin(line, last)
    return {"turn" if isinstance(target, int) else "effort": target, "offset": begin}


def _said(view: ArchiveView, target: str | int, events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return what a turn says, after who says it, or an effort's summary, else its goal.

    Each in one line; nothing of what was erased.
    """
    if isinstance(target, int):
        return in_one_line_each(view.messages_of(target))
    efforts = view.efforts_named([target], events)
    return [("", one_line("".join(effort.summary or effort.goal for effort in efforts)))]


_APART = 3 * 3600
"""Seconds between two turns of one day from which on the hour is told too."""


def dated(work: RunningTurn) -> list[Event]:
    """Return the event that tells the day before the running message; none if it is known.

    It is in the first turn, on another day than the turn before, and some hours after that one.
    """
    if not work.now:
        return []
    zone, tip = work.settings.timezone, work.view.tip.turn
    last, is_later = "", False
    for record in work.view.turns([tip] if tip else []):
        last = record.at
    if last:
        before, now = local(last, zone), local(work.now, zone)
        is_later = before.date() == now.date()
        if is_later and (now - before).total_seconds() <= _APART:
            return []
    return [{"type": "dated", "day": local_day(work.now, zone, hour=is_later)}]
