"""The notes before a message: hints at what is stored, and one line that an effort is open."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import takewhile
from math import fsum, log
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..archive.protocol import Pointing
from ..efforts import one_line
from ..keywords import about
from ..messages import text
from ..passages import best_piece, word_begin
from ..record import Record
from ..references import KeywordCache, keywords_of, mentionable, mentions, own_words, statements
from ..running_turn import RunningTurn
from ..terms import asked, content, long_enough, telling
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

    one = {name: max(map(share, each)) for name, each in message.said.items()}
    whole = {name: share(frozenset[str]().union(*each)) for name, each in message.said.items()}
    scores = {name: one[name] + whole[name] for name in message.said}
    if not scores:
        return None
    best, *rest = nlargest(2, scores, key=scores.__getitem__)
    known = frozenset[str]().union(*message.said[best])
    telling = [term for term in long_enough(known) if rare[term] >= _USUAL]
    leads = scores[best] - max((scores[name] for name in rest), default=0.0) >= _LEAD
    enough = one[best] >= _ONE and whole[best] >= _ALL
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
    asking = (message for message in work.view.running.messages if message["type"] == "human")
    said, limit = "\n".join(map(text, asking))[:_READ], work.settings.recall_hints
    if not limit or not asked(said):
        return []
    names: dict[str | int, None] = dict.fromkeys(_named(work, said, line))
    if len(names) < limit:
        names |= dict.fromkeys(_about(work, said, line))
    return [_hint(work, name, said) for name in names][:limit]


def hint_lines(view: ArchiveView, given: Sequence[Hint]) -> list[str]:
    """Return the lines of hints, from what the archive has; of what is gone there is none."""
    return [line for hint in given if (line := _line(view, hint))]


def _named(work: RunningTurn, said: str, line: Timeline) -> Iterator[str]:
    elsewhere, texts = mentions(work, [said])
    named = frozenset[str]().union(elsewhere, *map(mentionable, texts))
    stored = [name for name in sorted(named) if not _in_context(work, name, line)]
    for effort in work.view.efforts_named(stored, work.state.events):
        if effort.id in elsewhere or asked(effort.id):
            yield effort.id


def _about(work: RunningTurn, said: str, line: Timeline) -> Iterator[str | int]:
    all_in_view = len(line.turns) == line.built and not line.older
    if all_in_view or len(long_enough(asked(said))) < _OVERLAP:
        return
    best = pointed_at(work.view.archive.pointing(work.view.owner, work.view.tip, said))
    if isinstance(best, int):
        shown = best > line.built or best in line.turns
    else:
        shown = best is None or _in_context(work, best, line)
    if best is not None and not shown:
        yield best


def _in_context(work: RunningTurn, name: str, line: Timeline) -> bool:
    """Tell whether an effort is open, has a line, or was concluded or mentioned since a rebuild."""
    recent = work.state.summaries.get(name, 0) > line.built
    return recent or name in work.state.open or name in line.summaries


def _hint(work: RunningTurn, name: str | int, said: str) -> Hint:
    if isinstance(name, int):
        return {"turn": name, "offset": _begin(work.view.render(name), said)}
    efforts = work.view.efforts_named([name], work.state.events)
    told = "".join(effort.summary or effort.goal for effort in efforts)
    return {"effort": name, "offset": _begin(told, said)}


def _begin(told: str, said: str) -> int:
    """Return where the piece of a text begins that the message is about."""
    line = one_line(told)
    if len(line) <= _SHOWN:
        return 0
    begin, _ = best_piece(line, frozenset(asked(said)))
    last = len(line) - _SHOWN
    return begin if begin <= last else word_begin(line, last)


def _line(view: ArchiveView, hint: Hint) -> str:
    if "turn" in hint:
        return _short(f"turn {hint['turn']}", view.render(hint["turn"]), hint["offset"])
    efforts = view.efforts_named([hint["effort"]], ())
    told = "".join(effort.summary or effort.goal for effort in efforts)
    return _short(hint["effort"], told, hint["offset"])


def _short(name: str, told: str, begin: int) -> str:
    line = one_line(told)
    shown = line[begin : begin + _SHOWN]
    if not shown:
        return ""
    return f"- {name}: {'…' if begin else ''}{shown}{'…' if begin + _SHOWN < len(line) else ''}"


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
    active, said = work.state.active, statements(work.view.running.messages)[0]
    if not work.settings.nudges or not active or not _topic(said) or not _due(work, active):
        return ""
    (effort,) = work.known([active])
    words = own_words(said)
    known = {effort.id: keywords_of(work, effort, KeywordCache())}
    named = effort.id in mentionable(words)
    if named or about(content(words), known, [effort.id]):
        return ""
    return render("nudge_still_open", effort=effort.id, turns=work.settings.decay_threshold)


def _due(work: RunningTurn, name: str) -> bool:
    """Tell whether an effort was active and unmentioned for so long, and nobody was told."""
    turn, last = work.state.turn, work.state.open[name]["last_referenced_turn"]
    quiet = work.settings.decay_threshold
    if not 0 < last < turn - quiet:
        return False
    records = work.view.turns(range(max(last, turn - quiet - _PATIENCE - 1), turn))
    alone = [*takewhile(partial(_left_alone, name, last), reversed(records))]
    told = any(event["type"] == "nudged" for record in alone for event in record.events)
    return quiet <= len(alone) < len(records) and not told


def _left_alone(name: str, last: int, record: Record) -> bool:
    return record.turn > last and record.efforts[:1] == (name,)


def _topic(said: str) -> frozenset[str]:
    return telling(own_words(said[:_LONGEST])[:_READ_FOR_TOPIC])
