"""Searching what is stored, for the model: efforts and ambient turns, each with an excerpt.

Of other sessions of the user what they concluded is found, with its summary as the excerpt, and
what was said: both are stored as references like any quote, so that nothing of another session is
kept in this one.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from ..prompts.loader import text as prompt
from .archive.protocol import Elsewhere, Found
from .arguments import Search
from .clock import day_of
from .desk import Desk
from .efforts import Effort
from .errors import EmbeddingError
from .excerpt import best_piece
from .meaning import Meaning
from .merging import Result, merged
from .messages import Message
from .qualified import qualified, session_name
from .recall import Recalled, compact, quotations
from .record import Record
from .slices import fit
from .terms import asked
from .transcript import rendered
from .transitions import happened
from .view import past

_log = logging.getLogger("ebbtide.embeddings")

_ECHOED = 500

_MOST = 20
"""Results that the model can ask for."""

_COUNTED = 50
"""Further results are counted up to here."""

_NAMING = ("id", "session", "turn")


def search_efforts(desk: Desk, args: Search) -> tuple[Any, ...]:
    """Answer with what matches best, as much as the free budget allows, and name what is quoted.

    The running turn is not searched: it is in the context. An event tells which efforts were found.
    """
    wanted = asked(args.query)
    if not wanted:
        why = prompt("nothing_to_search")
        return desk, {"query": args.query[:_ECHOED], "results": [], "why": why}
    limit = min(args.limit, _MOST) if args.limit > 0 else desk.settings.search_limit
    found, total = _found(desk, args.query, limit)
    results, quoted = _within_budget(desk, found, wanted)
    ids = dict.fromkeys(entry["id"] for entry in results if "id" in entry)
    space = happened(desk.space, {"type": "searched", "efforts": [*ids]})
    result: dict[str, Any] = {"query": args.query[:_ECHOED], "results": results}
    result |= {"more": total - len(results)} if results else {"why": prompt("nothing_found")}
    return desk.put(space), result, *quoted


def _found(desk: Desk, query: str, limit: int) -> tuple[tuple[Result, ...], int]:
    """Return the best results, and how many there are."""
    own = desk.view.search(query, _COUNTED, _meaning(desk, query))
    others = desk.view.search_sessions(query, _COUNTED)
    return merged(own[:limit], others[:limit], limit), len(own) + len(others)


def _within_budget(
    desk: Desk, found: Sequence[Result], wanted: Collection[str]
) -> tuple[list[Mapping[str, Any]], list[Recalled]]:
    """Return the results that there is room for, one at least, and what each of them quotes.

    What an earlier call of this turn has found is only named: its text stands above.
    """
    given = {_identity(part) for message in _above(desk) for part, _ in quotations(message)}
    results: list[Mapping[str, Any]] = []
    quoted: list[Recalled] = []
    free = desk.free
    for entry, recalled in _entries(desk, found, wanted):
        known = _identity(entry) in given
        named = {name: entry[name] for name in _NAMING if name in entry}
        shown = named | {"above": True} if known else entry
        free -= desk.count(compact(shown))
        if free >= 0 or not results:
            results.append(shown)
            quoted += [] if known else [recalled]
    return results, quoted


def _entries(
    desk: Desk, found: Sequence[Result], wanted: Collection[str]
) -> Iterator[tuple[Mapping[str, Any], Recalled]]:
    """Yield what was found as the model is told it, each with what it quotes."""
    own = [one for one in found if isinstance(one, Found)]
    efforts = {one.id: one for one in desk.known([one.effort for one in own if one.effort])}
    records = {record.turn: record for record in desk.view.turns([one.turn for one in own])}
    for one in found:
        if isinstance(one, Elsewhere):
            yield _elsewhere(one) if one.effort else _said(desk, one, wanted)
        elif one.turn in records:
            yield _entry(desk, one, efforts.get(one.effort or ""), records[one.turn], wanted)


def _above(desk: Desk) -> Iterator[Message]:
    """Yield the results of searches in this turn, those of the same message included."""
    for message in (*desk.view.running.messages, *desk.results):
        if message["data"].get("name") == "search_efforts":
            yield message


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in (*_NAMING, "excerpt"))


def _meaning(desk: Desk, query: str) -> Meaning | None:
    """Return what the query means, None without a model that can say so."""
    if desk.embedder is None:
        return None
    try:
        return desk.embedder.meaning(query, desk.settings.semantic_floor)
    except EmbeddingError as error:
        _log.warning("searched by words alone, the query could not be embedded: %s", error)
        return None


def _entry(
    desk: Desk, found: Found, effort: Effort | None, record: Record, wanted: Collection[str]
) -> tuple[Mapping[str, Any], Recalled]:
    """Return the best piece of a turn; its offset if one call of `read_log` stops before it."""
    log = rendered(record.messages)
    begin, end = best_piece(log, wanted)
    summary = (effort.summary or effort.goal) if effort else ""
    entry = {
        **({"id": found.effort} if found.effort else {}),
        **({"summary": summary} if summary else {}),
        "turn": found.turn,
        "at": day_of(record.at),
        **({"offset": begin} if fit(log, desk.free, desk.count) < end else {}),
        "excerpt": log[begin:end],
    }
    return entry, Recalled(found.turn, begin, end, score=round(found.score, 2))


def _elsewhere(found: Elsewhere) -> tuple[Mapping[str, Any], Recalled]:
    """Return what another session concluded, and the reference to its summary."""
    effort, session = cast("Effort", found.effort), session_name(found.owner)
    entry = {
        "id": qualified(found.owner, effort.id),
        "session": session,
        "turn": found.tip.turn,
        "at": day_of(found.at),
        "excerpt": effort.summary,
    }
    place, score = (session, found.tip.branch, effort.id), round(found.score, 2)
    return entry, Recalled(found.tip.turn, 0, len(effort.summary), *place, score=score)


def _said(
    desk: Desk, found: Elsewhere, wanted: Collection[str]
) -> tuple[Mapping[str, Any], Recalled]:
    """Return the best piece of a turn of another session, and the reference to it."""
    session, tip, score = session_name(found.owner), found.tip, round(found.score, 2)
    log = past(desk.view.archive, found.owner, tip).render(tip.turn)
    begin, end = best_piece(log, wanted)
    at = day_of(found.at)
    entry = {"session": session, "turn": tip.turn, "at": at, "excerpt": log[begin:end]}
    return entry, Recalled(tip.turn, begin, end, session, tip.branch, score=score)
