"""Searching what is stored, for the model: efforts and ambient turns, each with an excerpt."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from ..prompts.loader import text as prompt
from .archive import Found
from .arguments import Search
from .desk import Desk
from .efforts import Effort
from .errors import EmbeddingError
from .excerpt import best_piece
from .meaning import Meaning
from .recall import Recalled, compact
from .terms import asked
from .transitions import happened

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
    found = desk.view.search(args.query, desk.settings.search_limit, _meaning(desk, args.query))
    efforts = {
        effort.id: effort for effort in desk.known([one.effort for one in found if one.effort])
    }
    results: list[Mapping[str, Any]] = []
    quoted: list[Recalled] = []
    free = desk.free
    for one in found:
        entry, recalled = _entry(desk, one, efforts.get(one.effort or ""), wanted)
        free -= desk.count(compact(entry))
        if free >= 0 or not results:
            results.append(entry)
            quoted.append(recalled)
    ids = dict.fromkeys(entry["id"] for entry in results if entry["id"])
    space = happened(desk.space, {"type": "searched", "efforts": [*ids]})
    return desk.put(space), {"query": args.query[:_ECHOED], "results": results}, *quoted


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
