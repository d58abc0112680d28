"""The notes before a message: hints at what is stored, and one line that an effort is open."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

from ...prompts.loader import text as prompt
from ..archive.protocol import Found
from ..efforts import one_line
from ..excerpt import best_piece
from ..keywords import KeywordCache, Name, about, distinctiveness, having
from ..messages import text
from ..record import Record
from ..references import keywords_of, mentionable, mentions, own_words, statements
from ..running_turn import RunningTurn
from ..terms import asked, content, long_enough, telling
from ..view import View
from .timeline import Timeline

OVERLAP = 3
"""Telling words that a hint needs: two are often chance."""

SHARE = 0.6
"""The weight that they have in the message at least: it is about that more than about else."""

LEAD = 1.0
"""By which the best leads the next: one word that only one of two things has."""

_DISTINCT_SHARE = 0.5
"""The share of the things that may have a distinctive word."""

_ROUNDING = 1e-9
"""Lest a sum in another order falls below a bound."""


def pointed_at(
    message: Collection[str], vocabulary: Mapping[Name, Collection[str]], count: int
) -> Name | None:
    """Return the one thing that a message clearly points at, else None.

    `vocabulary` says which terms of the message each has, `count` how many things there are. It
    shares three terms that at most half of them have, and three fifths of the weight of all that
    the message says (a term that none has weighs 1), and leads the next best by 1.

    >>> said = {"auth": {"refresh", "token", "login"}, "css": {"login"}}
    >>> pointed_at(["refresh", "token", "login", "expir"], said, 4)
    'auth'
    >>> pointed_at(["login", "page"], said, 4)
    """
    wanted = set(message)
    counted = having(wanted, vocabulary)
    known = max(count, len(vocabulary))
    weights = {term: distinctiveness(known, number) for term, number in counted.items()}
    sums = {name: _sum(weights, wanted.intersection(terms)) for name, terms in vocabulary.items()}
    name = max(sums, key=lambda one: sums[one], default=None)
    if name is None:
        return None
    most = max(1.0, _DISTINCT_SHARE * known)
    distinct = [term for term in wanted.intersection(vocabulary[name]) if counted[term] <= most]
    said = sum(weights.get(term, 1.0) for term in wanted)
    lead = sums[name] - max((value for one, value in sums.items() if one != name), default=0.0)
    enough = sums[name] >= SHARE * said - _ROUNDING
    return name if len(distinct) >= OVERLAP and enough and lead >= LEAD - _ROUNDING else None


def _sum(weights: Mapping[str, float], terms: Collection[str]) -> float:
    return sum(weights[term] for term in sorted(terms))


Hint: TypeAlias = Mapping[str, Any]
"""Where a hint points: an `effort` or a `turn`, and the `offset` at which its line begins.

It is kept as an event of its turn, so that the same line is sent again; its text is not.
"""

CANDIDATES = 250
"""How much of what a search finds is compared."""

_READ = 2_000
"""Characters of a message in which hints are looked for: a longer one is pasted text."""

_WEIGHED = 200
"""Things among which a word is weighed at least, so that few results make no word rare."""


_SHOWN = 160
"""Characters of a hint: one line."""


def hints(work: RunningTurn, line: Timeline) -> list[Hint]:
    """Return what the running message points at and the context lacks: efforts, or a turn.

    Efforts named by their id come first, then what the message clearly is about. A message without
    content points at nothing.
    """
    said = "\n".join(text(one) for one in work.view.running.messages if one["type"] == "human")
    said, limit = said[:_READ], work.settings.recall_hints
    if not limit or not asked(said):
        return []
    names = dict.fromkeys(_named(work, said, line))
    found = [] if len(names) >= limit else [*_about(work, said, line)]
    given = [_of_effort(work, name, said) for name in names] + [
        _of_turn(work, one.turn, said) if one.effort is None else _of_effort(work, one.effort, said)
        for one in found
        if one.effort not in names
    ]
    return given[:limit]


def hint_lines(view: View, given: Sequence[Hint]) -> list[str]:
    """Return the lines of hints, from what the archive has; of what is gone there is none."""
    return [line for hint in given if (line := _line(view, hint))]


def clearly(terms: Collection[str], found: Sequence[Found], stored: int) -> Found | None:
    """Return which of the things found terms clearly point at; `stored` is how many there are."""
    vocabulary = {one: one.said for one in found}
    return pointed_at(long_enough(terms), vocabulary, min(stored, max(_WEIGHED, len(found))))


def _named(work: RunningTurn, said: str, line: Timeline) -> Iterator[str]:
    elsewhere = mentions(work, [said])
    named = frozenset[str]().union(elsewhere.efforts, *map(mentionable, elsewhere.texts))
    stored = [name for name in sorted(named) if not _in_context(work, name, line)]
    for effort in work.view.efforts_named(stored, work.space.events):
        if effort.id in elsewhere.efforts or asked(effort.id):
            yield effort.id


def _about(work: RunningTurn, said: str, line: Timeline) -> Iterator[Found]:
    all_in_view = len(line.turns) == line.built and not line.older
    if all_in_view or len(long_enough(asked(said))) < OVERLAP:
        return
    stored = work.view.efforts(0).total + work.view.ambient_count()
    best = clearly(*work.view.search_telling(said, CANDIDATES), stored)
    if best is None:
        return
    seen = best.turn > line.built or best.turn in line.turns
    if not (seen if best.effort is None else _in_context(work, best.effort, line)):
        yield best


def _in_context(work: RunningTurn, name: str, line: Timeline) -> bool:
    """Tell whether an effort is open, has a line, or was concluded or mentioned since a rebuild."""
    recent = work.space.summaries.get(name, 0) > line.built
    return recent or name in work.space.open or name in line.summaries


def _of_effort(work: RunningTurn, name: str, said: str) -> Hint:
    efforts = work.view.efforts_named([name], work.space.events)
    told = "".join(effort.summary or effort.goal for effort in efforts)
    return {"effort": name, "offset": _begin(told, said)}


def _of_turn(work: RunningTurn, turn: int, said: str) -> Hint:
    return {"turn": turn, "offset": _begin(work.view.render(turn), said)}


def _begin(told: str, said: str) -> int:
    """Return where the piece of a text begins that the message is about."""
    line = one_line(told)
    if len(line) <= _SHOWN:
        return 0
    begin, _ = best_piece(line, frozenset(asked(said)))
    return min(begin, len(line) - _SHOWN)


def _line(view: View, hint: Hint) -> str:
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
    active, said = work.space.active, statements(work.view.running.messages)[0]
    if not work.settings.nudges or not active or not _topic(said) or not _due(work, active):
        return ""
    (effort,) = work.known([active])
    words = own_words(said)
    known = {effort.id: keywords_of(work, effort, KeywordCache())}
    named = effort.id in mentionable(words)
    if named or about(content(words), known, [effort.id]):
        return ""
    return prompt("nudge_still_open", effort=effort.id, turns=work.settings.decay_threshold)


def _due(work: RunningTurn, name: str) -> bool:
    """Tell whether an effort was active and unmentioned for so long, and nobody was told."""
    turn, last = work.space.turn, work.space.open[name]["last_referenced_turn"]
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
