"""Hints: stored efforts and turns that a user's message points at and that the context lacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..archive.protocol import Found
from ..desk import Desk
from ..earlier_mentions import mentions
from ..excerpt import best_piece
from ..mentions import mentionable
from ..messages import text
from ..terms import asked, is_pair
from ..view import View
from .pointing import OVERLAP, pointed_at
from .timeline import Timeline

Hint: TypeAlias = Mapping[str, Any]
"""Where a hint points: an `effort` or a `turn`, and the `offset` at which its line begins.

It is kept as an event of its turn, so that the same line is sent again; its text is not.
"""

CANDIDATES = 250
"""How much of what a search finds is compared."""

_READ = 2_000
_WEIGHED = 200
_SHORTEST = 3
_SHOWN = 160


def hints(desk: Desk, line: Timeline) -> list[Hint]:
    """Return what the running message points at and the context lacks: efforts, or a turn.

    Efforts named by their id come first, then what the message clearly is about. A message without
    content points at nothing.
    """
    said = "\n".join(text(one) for one in desk.view.running.messages if one["type"] == "human")
    said, limit = said[:_READ], desk.settings.recall_hints
    if not limit or not asked(said):
        return []
    names = dict.fromkeys(_named(desk, said, line))
    found = [] if len(names) >= limit else [*_about(desk, said, line)]
    given = [_of_effort(desk, name, said) for name in names] + [
        _of_turn(desk, one.turn, said) if one.effort is None else _of_effort(desk, one.effort, said)
        for one in found
        if one.effort not in names
    ]
    return given[:limit]


def hint_lines(view: View, given: Sequence[Hint]) -> list[str]:
    """Return the lines of hints, from what the archive has; of what is gone there is none."""
    return [line for hint in given if (line := _line(view, hint))]


def clearly(said: str, found: Sequence[Found], stored: int) -> Found | None:
    """Return which of the things found a text clearly points at; `stored` is how many there are."""
    vocabulary = {one: one.said for one in found}
    return pointed_at(_telling(said), vocabulary, min(stored, max(_WEIGHED, len(found))))


def _telling(said: str) -> list[str]:
    return [term for term in asked(said) if len(term) >= _SHORTEST or is_pair(term)]


def _named(desk: Desk, said: str, line: Timeline) -> Iterator[str]:
    elsewhere = mentions(desk, [said])
    named = frozenset[str]().union(elsewhere.efforts, *map(mentionable, elsewhere.texts))
    stored = [name for name in sorted(named) if not _in_context(desk, name, line)]
    for effort in desk.view.efforts_named(stored, desk.space.events):
        if effort.id in elsewhere.efforts or asked(effort.id):
            yield effort.id


def _about(desk: Desk, said: str, line: Timeline) -> Iterator[Found]:
    if len(_telling(said)) < OVERLAP:
        return
    stored = desk.view.efforts(0).total + desk.view.ambient_count()
    best = clearly(said, desk.view.search(said, CANDIDATES), stored)
    if best is None:
        return
    seen = best.turn > line.built or best.turn in line.turns
    if not (seen if best.effort is None else _in_context(desk, best.effort, line)):
        yield best


def _in_context(desk: Desk, name: str, line: Timeline) -> bool:
    """Tell whether an effort is open, has a line, or was concluded or mentioned since a rebuild."""
    recent = desk.space.summaries.get(name, 0) > line.built
    return recent or name in desk.space.open or name in line.summaries


def _of_effort(desk: Desk, name: str, said: str) -> Hint:
    efforts = desk.view.efforts_named([name], desk.space.events)
    told = "".join(effort.summary or effort.goal for effort in efforts)
    return {"effort": name, "offset": _begin(told, said)}


def _of_turn(desk: Desk, turn: int, said: str) -> Hint:
    return {"turn": turn, "offset": _begin(desk.view.render(turn), said)}


def _begin(told: str, said: str) -> int:
    """Return where the piece of a text begins that the message is about."""
    line = " ".join(told.split())
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
    line = " ".join(told.split())
    shown = line[begin : begin + _SHOWN]
    if not shown:
        return ""
    return f"- {name}: {'…' if begin else ''}{shown}{'…' if begin + _SHOWN < len(line) else ''}"
