"""The notes before a message: hints at what is stored, and one line that an effort is open."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import takewhile
from math import fsum, log
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..archive.protocol import Pointing
from ..efforts import one_line
from ..messages import text
from ..passages import best_piece, word_begin
from ..record import Event, Record
from ..references import mentions, own_words, speaks_of
from ..running_turn import RunningTurn
from ..terms import asked, long_enough, telling
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


Hint: TypeAlias = Mapping[str, Any]
"""Where a hint points: an `effort` or a `turn`, and the `offset` at which its line begins.

It is kept as an event of its turn, so that the same line is sent again; its text is not.
"""

_READ = 2_000
"""Characters of a message in which hints are looked for: a longer one is pasted text."""

_SHOWN = 160
"""Characters of a hint: one line."""


def hints(work: RunningTurn, line: Timeline) -> list[Hint]:
    """Return what the running message points at and the context lacks: efforts, or a turn.

    Efforts named by their id come first, then what the message clearly is about. A message without
    content points at nothing.
    """
    words, limit = _question(work)[:_READ], work.settings.recall_hints
    if not limit or not asked(words):
        return []
    names: dict[str | int, None] = dict.fromkeys(_named(work, words, line))
    if len(names) < limit and (best := _pointed_at(work, words, line)) is not None:
        names[best] = None
    return [_hint(work, name, words) for name in names][:limit]


def _question(work: RunningTurn) -> str:
    messages = (message for message in work.view.running.messages if message["type"] == "human")
    return "\n".join(map(text, messages))


def hint_lines(view: ArchiveView, given: Sequence[Hint]) -> list[str]:
    """Return the lines of hints, from what the archive has; of what is gone there is none."""
    lines = []
    for hint in given:
        name, line, begin = "", "", hint["offset"]
        if "turn" in hint:
            name, line = f"turn {hint['turn']}", one_line(view.render(hint["turn"]))
        else:
            name, line = hint["effort"], one_line(_about(view, hint["effort"], ()))
        if shown := line[begin : begin + _SHOWN]:
            more = "…" if begin + _SHOWN < len(line) else ""
            lines.append(f"- {name}: {'…' if begin else ''}{shown}{more}")
    return lines


def _about(view: ArchiveView, name: str, events: Sequence[Event]) -> str:
    """Return the summary of an effort, or its goal; empty if there is no such effort."""
    return "".join(effort.summary or effort.goal for effort in view.efforts_named([name], events))


def _named(work: RunningTurn, words: str, line: Timeline) -> Iterator[str]:
    """Yield the efforts outside the context whose id the message says."""
    ids, elsewhere, _ = mentions(work, [words])
    stored = [name for name in sorted(ids | elsewhere) if not _in_context(work, name, line)]
    for effort in work.view.efforts_named(stored, work.state.events):
        if effort.id in elsewhere or asked(effort.id):
            yield effort.id


def _pointed_at(work: RunningTurn, words: str, line: Timeline) -> str | int | None:
    """Return the effort or the turn outside the context that the message clearly is about."""
    all_in_view = len(line.turns) == line.built and not line.older
    if all_in_view or len(long_enough(asked(words))) < _OVERLAP:
        return None
    best = pointed_at(work.view.archive.pointing(work.view.owner, work.view.tip, words))
    if isinstance(best, int):
        return None if best > line.built or best in line.turns else best
    return None if best is None or _in_context(work, best, line) else best


def _in_context(work: RunningTurn, name: str, line: Timeline) -> bool:
    """Tell whether an effort is open, has a line, or was concluded or mentioned since a rebuild."""
    recent = work.state.summaries.get(name, 0) > line.built
    return recent or name in work.state.open or name in line.summaries


def _hint(work: RunningTurn, name: str | int, words: str) -> Hint:
    """Return a hint whose line begins with the piece of the text that the message is about."""
    if isinstance(name, int):
        line = one_line(work.view.render(name))
    else:
        line = one_line(_about(work.view, name, work.state.events))
    hint: Hint = {"turn" if isinstance(name, int) else "effort": name}
    last = len(line) - _SHOWN
    if last <= 0:
        return {**hint, "offset": 0}
    begin, _ = best_piece(line, frozenset(asked(words)))
    return {**hint, "offset": begin if begin <= last else word_begin(line, last)}


_READ_FOR_TOPIC = 1_000
"""Characters of a message's own words that are asked for a topic."""

_LONGEST = 8_000
"""Characters of a message in which those words are looked for."""

_PATIENCE = 10
"""Turns for which the nudge waits for a message with a topic."""


def nudge(work: RunningTurn) -> str:
    """Return the line that stands before the running message, or nothing.

    It is said once when the active effort was active and unmentioned for `decay_threshold` turns,
    beside the first message after them that has a topic of its own.
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

    def is_alone(record: Record) -> bool:
        return record.turn > last and record.efforts[:1] == (name,)

    alone = [*takewhile(is_alone, reversed(records))]
    nudged = any(event["type"] == "nudged" for record in alone for event in record.events)
    return quiet <= len(alone) < len(records) and not nudged
