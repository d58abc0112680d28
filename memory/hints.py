"""Hints: stored efforts and turns that a user's message points at and that the context lacks."""

from collections.abc import Collection, Iterator, Sequence

from .archive.protocol import Found
from .desk import Desk
from .earlier_mentions import mentions
from .efforts import Effort
from .excerpt import best_piece
from .mentions import mentionable
from .messages import text
from .pointing import pointed_at
from .terms import asked, is_pair

CANDIDATES = 250
"""How much of what a search finds is compared."""

_READ = 2_000
_WEIGHED = 200
_SHORTEST = 3
_SHOWN = 160


def hints(desk: Desk, shown: Collection[int]) -> tuple[str, ...]:
    """Return a line for each effort or ambient turn that the running message points at.

    `shown` are the ambient turns in the context. Efforts named by their id come first, then what
    the message clearly is about. A message without content points at nothing. What other sessions
    have on an effort that is opened in this turn has lines of its own, as many again at most.
    """
    said = "\n".join(text(one) for one in desk.view.running.messages if one["type"] == "human")
    said, limit = said[:_READ], desk.settings.recall_hints
    pointed = (*_named(desk, said), *_about(desk, said, shown)) if limit and asked(said) else ()
    lines = [*tuple(dict.fromkeys(pointed))[:limit], *tuple(_related(desk, said))[:limit]]
    return tuple(dict.fromkeys(lines))


def _named(desk: Desk, said: str) -> Iterator[str]:
    elsewhere = mentions(desk, [said])
    named = frozenset[str]().union(elsewhere.efforts, *map(mentionable, elsewhere.texts))
    stored = [name for name in sorted(named) if not _in_context(desk, name)]
    for effort in desk.view.efforts_named(stored, desk.space.events):
        if effort.id in elsewhere.efforts or asked(effort.id):
            yield _line(effort, said)


def _related(desk: Desk, said: str) -> Iterator[str]:
    """Yield a line for each effort of another session that an opening of this turn is told of."""
    opened = [event for event in desk.space.events if event["type"] == "opened"]
    related = dict.fromkeys(name for event in opened for name in event.get("related", ()))
    stored = [name for name in related if not _in_context(desk, name)]
    for effort in desk.view.efforts_named(stored, desk.space.events):
        yield _line(effort, said)


def clearly(said: str, found: Sequence[Found], stored: int) -> Found | None:
    """Return which of the things found a text clearly points at; `stored` is how many there are."""
    message = [term for term in asked(said) if len(term) >= _SHORTEST or is_pair(term)]
    vocabulary = {one: one.said for one in found}
    return pointed_at(message, vocabulary, min(stored, max(_WEIGHED, len(found))))


def _about(desk: Desk, said: str, shown: Collection[int]) -> Iterator[str]:
    stored = desk.view.efforts(0).total + desk.view.ambient_count()
    best = clearly(said, desk.view.search(said, CANDIDATES), stored)
    if best is None or (best.effort is None and best.turn in shown):
        return
    if best.effort is None:
        yield _turn_line(desk, best, said)
    elif not _in_context(desk, best.effort):
        named = desk.view.efforts_named([best.effort], desk.space.events)
        yield from (_line(effort, said) for effort in named)


def _in_context(desk: Desk, name: str) -> bool:
    return name in desk.space.open or name in desk.space.summaries


def _line(effort: Effort, said: str) -> str:
    return f"- {effort.id}: {_short(effort.summary or effort.goal, said)}"


def _turn_line(desk: Desk, found: Found, said: str) -> str:
    return f"- turn {found.turn}: {_short(desk.view.render(found.turn), said)}"


def _short(text: str, said: str) -> str:
    """Return the piece of a text that the message is about, in one line."""
    line = " ".join(text.split())
    if len(line) <= _SHOWN:
        return line
    begin, _ = best_piece(line, frozenset(asked(said)))
    begin = min(begin, len(line) - _SHOWN)
    shown = line[begin : begin + _SHOWN]
    return f"{'…' if begin else ''}{shown}{'…' if begin + _SHOWN < len(line) else ''}"
