"""The branches of a session as a tree."""

from collections.abc import Mapping
from typing import Any

from ..memory.archive.protocol import Archive
from ..memory.turn import Session, Tip

_MOST = 50
"""Branches that the page shows, those with the most turns."""


def branches(archive: Archive, session: Session) -> list[dict[str, Any]]:
    """Return the end of each branch, and where it left another one; the longest has left none."""
    found: list[dict[str, Any]] = []
    known: list[tuple[Tip, Mapping[int, str]]] = []
    for end in sorted(archive.tips(session), key=lambda tip: -tip.turn)[:_MOST]:
        ids = archive.load(session, end).ids(range(1, end.turn + 1))
        shared = [(_shared(ids, others), tip) for tip, others in known]
        entry: dict[str, Any] = {"turn": end.turn, "id": end.id}
        if shared:
            number, tip = max(shared, key=lambda pair: pair[0])
            entry["from"] = {"turn": number, "id": tip.id}
        found.append(entry)
        known.append((end, ids))
    return found


def _shared(ids: Mapping[int, str], others: Mapping[int, str]) -> int:
    """Return the last turn that two branches share, 0 if they share none."""
    own = (number - 1 for number in ids if others.get(number) != ids[number])
    return min(own, default=len(ids))
