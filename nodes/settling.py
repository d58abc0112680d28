"""Committing what an earlier run left behind: an edited turn, an unfinished turn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ..memory.anchor import with_blocks
from ..memory.archive.protocol import Archive
from ..memory.errors import ArchiveLockedError, TipNotFoundError
from ..memory.meaning import Embedder
from ..memory.messages import Message, digest
from ..memory.record import Group, Owner, Record, Tip
from .arrivals import Arrivals
from .session import committed, group, tip_of
from .state import TurnState


@retry(
    retry=retry_if_exception_type((OSError, ArchiveLockedError)),
    stop=stop_after_attempt(3),
    wait=wait_random_exponential(multiplier=0.05, max=0.5),
    reraise=True,
)
def commit(
    archive: Archive, owner: Owner, tip: Tip, turn: Group, embedder: Embedder | None = None
) -> Record:
    """Commit a group; after three attempts that failed, raise what the archive raised."""
    return archive.commit(owner, tip, turn, embedder)


def settle(state: TurnState, owner: Owner, arrived: Arrivals, archive: Archive) -> dict[str, Any]:
    """Commit an edited last turn and an unfinished turn; return what state says of it then."""
    tip = _settle_edit(state, owner, arrived, archive)
    update: dict[str, Any] = {"branch": tip.branch, "persisted": tip.turn, "tip": tip.digest}
    if not arrived.left:
        return {**update, "events": _of_passes(state)}
    record = commit(archive, owner, tip, group(state, arrived.left))
    return {**update, **committed(record, str(arrived.left[-1].id))}


def _of_passes(state: TurnState) -> list[dict[str, Any]]:
    """Return the events since the last commit that go with the next turn: of compressions."""
    return [event for event in state.get("events", []) if event["type"] == "compressed"]


def _settle_edit(state: TurnState, owner: Owner, arrived: Arrivals, archive: Archive) -> Tip:
    """Commit the last archived turn again if its messages were edited: a new branch begins."""
    tip = tip_of(state)
    if arrived.last is None:
        return tip
    edited = group(state, arrived.last)
    if digest(edited.messages) == tip.digest:
        return tip
    said = _as_said(edited.messages, archive.turns(owner, tip, [tip.turn]))
    if digest(said) == tip.digest:
        return tip
    return commit_again(archive, owner, tip, replace(edited, events=())).tip


def commit_again(archive: Archive, owner: Owner, tip: Tip, turn: Group) -> Record:
    """Commit the turn of `tip` as it is now: after the turn before it, with what happened in it.

    Where its messages are not the same a new branch begins. Raises `TipNotFoundError` if the
    archive does not hold the turn.
    """
    before = archive.turns(owner, tip, [tip.turn - 1, tip.turn])
    if not before or before[-1].turn != tip.turn:
        raise TipNotFoundError(tip.branch, tip.turn)
    original = before[-1]
    parent = before[0].tip if len(before) > 1 else Tip(original.branch, 0, "")
    events, efforts = (*original.events, *turn.events), (*turn.efforts, *original.efforts)
    again = replace(
        turn,
        turn=original.turn,
        messages=_as_said(turn.messages, [original]),
        events=events,
        efforts=tuple(dict.fromkeys(efforts)) if turn.events else original.efforts,
        status=turn.status if turn.events or original.status == "erased" else original.status,
    )
    return commit(archive, owner, parent, again)


def _as_said(messages: Sequence[Message], records: Sequence[Record]) -> tuple[Message, ...]:
    """Return messages that were archived with the state blocks that users do not see."""
    archived = (message["data"] for record in records for message in record.messages)
    return with_blocks(messages, {data.get("id"): data.get("content") for data in archived})
