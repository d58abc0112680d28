"""The notes before a message: hints at what is stored, and one line that an effort is open."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import takewhile
from math import fsum, log
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..archive.protocol import Pointing
from ..efforts import one_line
from ..messages import text
from ..passages import best_piece, word_begin
from ..record import Event
from ..references import mentions, own_words, speaks_of
from ..running_turn import RunningTurn
from ..terms import long_enough, query_terms, telling
from ..view import ArchiveView
from .timeline import Timeline

_OVERLAP = 3
"""Telling words that a hint needs: two are often chance."""

_ONE = 0.5
"""The share of a message's weight that one turn or heading says at least."""

_ALL = 0.7
"""The share of it that all of an effort's turns and headings say at least.

Of questions to long conversations 43 % have a hint that is right, and 0.3 % of those to another one
have any; with six tenths 46 and 1 %.
"""

_LEAD = 0.1
"""By which the sum of both leads the next best."""

_USUAL = log(2)
"""How rare a term is that half of the turns say; one that more of them say tells nothing."""

Hint: TypeAlias = Mapping[str, Any]
"""Where a hint points: an `effort` or a `turn`, and the `offset` at which its line begins.

It is kept as an event of its turn, so that the same line is sent again; its text is not.
"""

_READ = 2_000
"""Characters of a message in which hints are looked for: a longer one is pasted text."""

_SHOWN = 160
"""Characters of a hint: one line."""

_READ_FOR_TOPIC = 1_000
"""Characters of a message's own words that are asked for a topic."""

_LONGEST = 8_000
"""Characters of a message in which those words are looked for."""

_PATIENCE = 10
"""Turns for which the nudge waits for a message with a topic."""


def pointed_at(message: Pointing) -> str | int | None:
    """Return the effort or the ambient turn that a message clearly points at, else None.

    >>> rare = {"refresh": 3.0, "token": 3.0, "login": 1.0, "expir": 2.0}
    >>> auth, css = [frozenset({"refresh", "token", "login"})], [frozenset({"login"})]
    >>> pointed_at(Pointing(rare, {"auth": auth, "css": css}))
    'auth'
    >>> pointed_at(Pointing(rare, {"auth": css, "css": css}))
    """
    rare, total = message.rare, fsum(message.rare.values())

    def share(terms: Iterable[str]) -> float:
        return fsum(map(rare.__getitem__, terms)) / total

    together = {name: frozenset[str]().union(*each) for name, each in message.said.items()}
    single = {name: max(map(share, each)) for name, each in message.said.items()}
    scores = {name: single[name] + share(terms) for name, terms in together.items()}
    if not scores:
        return None
    best, *others = nlargest(2, scores, key=scores.__getitem__)
    telling = [term for term in long_enough(together[best]) if rare[term] >= _USUAL]
    leads = scores[best] - max((scores[name] for name in others), default=0.0) >= _LEAD
    enough = single[best] >= _ONE and share(together[best]) >= _ALL
    return best if len(telling) >= _OVERLAP and enough and leads else None


def notes(work: RunningTurn, line: Timeline) -> list[Event]:
    """Return the events that put hints, and a nudge, before the running message."""
    hints, line_of_nudge = _hints(work, line), _nudge(work)
    events: list[Event] = [{"type": "hinted", "hints": hints}] if hints else []
    return [*events, {"type": "nudged", "said": line_of_nudge}] if line_of_nudge else events


def _question(work: RunningTurn) -> str:
    """Return what the user said in the running turn, as one text."""
    messages = (message for message in work.view.running.messages if message["type"] == "human")
    return "\n".join(map(text, messages))


def hint_lines(view: ArchiveView, given: Sequence[Hint]) -> list[str]:
    """Return the lines of hints, from what the archive has; of what is gone there is none."""
    lines = []
    for hint in given:
        name, begin = hint.get("turn", hint.get("effort")), hint["offset"]
        line = _line(view, name, ())
        if shown := line[begin : begin + _SHOWN]:
            more = "…" if begin + _SHOWN < len(line) else ""
            named = f"turn {name}" if "turn" in hint else name
            lines.append(f"- {named}: {'…' if begin else ''}{shown}{more}")
    return lines


def _hints(work: RunningTurn, line: Timeline) -> list[Hint]:
    """Return what the running message points at and the context lacks.

    Efforts named by their id come first, then the effort or turn that it clearly is about.
    """
    words, limit = _question(work)[:_READ], work.settings.recall_hints
    if not limit or not query_terms(words):
        return []
    ids, elsewhere, _ = mentions(work, [words])
    absent = [name for name in sorted(ids | elsewhere) if not _in_context(work, name, line)]
    stored = work.view.efforts_named(absent, work.state.events)
    names: list[str | int] = [e.id for e in stored if e.id in elsewhere or query_terms(e.id)]
    all_in_view = len(line.turns) == line.built and not line.older
    if len(names) < limit and not all_in_view and len(long_enough(query_terms(words))) >= _OVERLAP:
        best = pointed_at(work.view.archive.pointing(work.view.owner, work.view.tip, words))
        if isinstance(best, int):
            absent_turn = best <= line.built and best not in line.turns
            names += [best] if absent_turn else []
        elif best is not None and best not in names and not _in_context(work, best, line):
            names.append(best)
    return [_hint(work, name, words) for name in names[:limit]]


def _in_context(work: RunningTurn, name: str, line: Timeline) -> bool:
    """Tell whether an effort is open, has a line, or was concluded or mentioned since a rebuild."""
    recent = work.state.summaries.get(name, 0) > line.built
    return recent or name in work.state.open or name in line.summaries


def _hint(work: RunningTurn, name: str | int, words: str) -> Hint:
    """Return a hint whose line begins with the piece of the text that the message is about."""
    line = _line(work.view, name, work.state.events)
    last, begin = len(line) - _SHOWN, 0
    if last > 0:
        begin, _ = best_piece(line, frozenset(query_terms(words)))
        begin = begin if begin <= last else word_begin(line, last)
    return {"turn" if isinstance(name, int) else "effort": name, "offset": begin}


def _line(view: ArchiveView, name: str | int, events: Sequence[Event]) -> str:
    """Return a turn, or the summary of an effort, else its goal, in one line; empty if gone."""
    if isinstance(name, int):
        return one_line(view.render(name))
    efforts = view.efforts_named([name], events)
    return one_line("".join(effort.summary or effort.goal for effort in efforts))


def _nudge(work: RunningTurn) -> str:
    """Return the line that says, once, that the active effort is unmentioned for so long, or "".

    It waits for the first message that has a topic of its own.
    """
    active = work.state.active
    if not work.settings.nudges or not active:
        return ""
    message = _question(work)
    topic = telling(own_words(message[:_LONGEST])[:_READ_FOR_TOPIC])
    if not topic or not _left_alone(work, active):
        return ""
    (effort,) = work.known([active])
    if speaks_of(work, own_words(message), effort):
        return ""
    return render("nudge_still_open", effort=effort.id, turns=work.settings.decay_threshold)


def _left_alone(work: RunningTurn, name: str) -> bool:
    """Tell whether an effort was active and unmentioned for so long, and no nudge said so."""
    turn, last = work.state.turn, work.state.open[name]["last_referenced_turn"]
    quiet = work.settings.decay_threshold
    if not 0 < last < turn - quiet:
        return False
    records = work.view.turns(range(max(last, turn - quiet - _PATIENCE - 1), turn))
    newest = reversed(records)
    alone = [*takewhile(lambda r: r.turn > last and r.efforts[:1] == (name,), newest)]
    nudged = any(event["type"] == "nudged" for record in alone for event in record.events)
    return quiet <= len(alone) < len(records) and not nudged
