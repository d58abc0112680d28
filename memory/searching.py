"""Searching what is stored, for the model: efforts and ambient turns, each with an excerpt.

Of other sessions of the user what they concluded is found, with its summary as the excerpt, and
what was said: both are stored as references like any quote, so that nothing of another session is
kept in this one.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
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
from .qualified import qualified, session_name
from .recall import Recalled, compact
from .terms import asked
from .transitions import happened
from .view import past

_log = logging.getLogger("ebbtide.embeddings")

_ECHOED = 500


def search_efforts(desk: Desk, args: Search) -> tuple[Any, ...]:
    """Answer with what matches best, as much as the free budget allows, and name what is quoted.

    The running turn is not searched: it is in the context. An event tells which efforts were found.
    """
    wanted = asked(args.query)
    if not wanted:
        why = prompt("nothing_to_search")
        return desk, {"query": args.query[:_ECHOED], "results": [], "why": why}
    results, quoted = _within_budget(desk, _found(desk, args.query), wanted)
    ids = dict.fromkeys(entry["id"] for entry in results if entry["id"])
    space = happened(desk.space, {"type": "searched", "efforts": [*ids]})
    result: dict[str, Any] = {"query": args.query[:_ECHOED], "results": results}
    result |= {} if results else {"why": prompt("nothing_found")}
    return desk.put(space), result, *quoted


def _found(desk: Desk, query: str) -> tuple[Result, ...]:
    limit = desk.settings.search_limit
    own = desk.view.search(query, limit, _meaning(desk, query))
    return merged(own, desk.view.search_sessions(query, limit), limit)


def _within_budget(
    desk: Desk, found: Sequence[Result], wanted: Collection[str]
) -> tuple[list[Mapping[str, Any]], list[Recalled]]:
    """Return the results that there is room for, one at least, and what each of them quotes."""
    own = [one.effort for one in found if isinstance(one, Found) and one.effort]
    efforts = {effort.id: effort for effort in desk.known(own)}
    results: list[Mapping[str, Any]] = []
    quoted: list[Recalled] = []
    free = desk.free
    for one in found:
        if isinstance(one, Elsewhere):
            entry, recalled = _elsewhere(one) if one.effort else _said(desk, one, wanted)
        else:
            entry, recalled = _entry(desk, one, efforts.get(one.effort or ""), wanted)
        free -= desk.count(compact(entry))
        if free >= 0 or not results:
            results.append(entry)
            quoted.append(recalled)
    return results, quoted


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
    desk: Desk, found: Found, effort: Effort | None, wanted: Collection[str]
) -> tuple[Mapping[str, Any], Recalled]:
    log = desk.view.render(found.turn)
    begin, end = best_piece(log, wanted)
    entry = {
        "id": found.effort,
        "status": effort.status if effort else None,
        "summary": effort.summary if effort else "",
        "excerpt": log[begin:end],
        "turn": found.turn,
        "offset": begin,
        "score": round(found.score, 2),
    }
    return entry, Recalled(found.turn, begin, end)


def _elsewhere(found: Elsewhere) -> tuple[Mapping[str, Any], Recalled]:
    """Return what another session concluded, and the reference to its summary."""
    effort, session = cast("Effort", found.effort), session_name(found.owner)
    entry = {
        "id": qualified(found.owner, effort.id),
        "status": effort.status,
        "session": session,
        "concluded": day_of(found.at),
        "excerpt": effort.summary,
        "score": round(found.score, 2),
    }
    end, branch = len(effort.summary), found.tip.branch
    return entry, Recalled(found.tip.turn, 0, end, session, branch, effort.id)


def _said(
    desk: Desk, found: Elsewhere, wanted: Collection[str]
) -> tuple[Mapping[str, Any], Recalled]:
    """Return the best piece of a turn of another session, and the reference to it."""
    session = session_name(found.owner)
    log = past(desk.view.archive, found.owner, found.tip).render(found.tip.turn)
    begin, end = best_piece(log, wanted)
    entry = {
        "id": None,
        "session": session,
        "turn": found.tip.turn,
        "at": day_of(found.at),
        "excerpt": log[begin:end],
        "score": round(found.score, 2),
    }
    return entry, Recalled(found.tip.turn, begin, end, session, found.tip.branch)
