"""Committing a turn, and what an earlier run left behind."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ...memory.anchor import with_blocks
from ...memory.archive.protocol import Archive
from ...memory.archive.records import mark
from ...memory.embeddings import Embedder
from ...memory.errors import ArchiveLockedError, TipNotFoundError
from ...memory.messages import Message, calls, digest
from ...memory.record import Group, Owner, Record, Tip
from ...memory.transcript import OWN_TOOLS
from .arrivals import Arrivals
from .state import TurnState
from .values import committed, group, tip_of, tip_update


# The next attempt opens a lost connection anew, and stores nothing twice. The waits are short since
# the archive has itself waited for a lock, and random to part writers; what fails thrice will last.
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
    tip, ended = tip_of(state), {}
    if arrived.last is not None and (again := edited(state, owner, arrived.last, archive)):
        tip = commit_again(archive, owner, tip, again).tip
        ended = {"archived": str(arrived.last[-1].id)}
    if not arrived.left:  # what a pass did after the last commit is stored with the next turn
        events = [event for event in state.get("events", []) if event["type"] == "compressed"]
        return {**tip_update(tip), **ended, "events": events}
    record = commit(archive, owner, tip, group(state, arrived.left))
    return committed(record, str(arrived.left[-1].id))


def edited(
    state: TurnState, owner: Owner, last: Sequence[BaseMessage], archive: Archive
) -> Group | None:
    """Return the last archived turn as its messages are now, None if they are as archived.

    An erasure may have taken text from what is archived: both, with it and without it, are no edit.
    Nor is it one that calls and their results are missing, which clients do not keep.
    """
    tip, now = tip_of(state), group(state, last)
    if digest(now.messages) == tip.digest:
        return None
    records = archive.turns(owner, tip, [tip.turn])
    known = {tip.digest, *(digest(record.messages) for record in records)}
    if known & {digest(now.messages), digest(_with_blocks_again(now.messages, records))}:
        return None
    if any(_is_retold(now.messages, record.messages) for record in records):
        return None
    return replace(now, events=())


def _is_retold(messages: Sequence[Message], turn: Sequence[Message]) -> bool:
    """Tell whether messages are a turn as a client keeps it: without calls, or with other ids."""
    ids = [[message["data"].get("id") for message in told] for told in (messages, turn)]
    return ids[0] != ids[1] and before_turn(messages, turn) == 0


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
        messages=_with_blocks_again(turn.messages, [original]),
        events=events,
        efforts=tuple(dict.fromkeys(efforts)) if turn.events else original.efforts,
        status=turn.status if turn.events or original.status == "erased" else original.status,
    )
    return commit(archive, owner, parent, again)


def _with_blocks_again(
    messages: Sequence[Message], records: Sequence[Record]
) -> tuple[Message, ...]:
    """Return messages that were archived with the state blocks that users do not see."""
    archived = (message["data"] for record in records for message in record.messages)
    return with_blocks(messages, {data.get("id"): data.get("content") for data in archived})


def before_turn(history: Sequence[Message], turn: Sequence[Message]) -> int | None:
    """Return how much of a history comes before a turn, None if it does not end in that turn."""
    left = len(history)
    for message in reversed(turn):
        if left and known_by(message) == known_by(history[left - 1]):
            left -= 1
        elif left and message["type"] != "tool" and not calls(message):
            return None
    return left


def known_by(message: Message) -> list[Any]:
    """Return the key by which a message is recognised; results of memory tools by name alone."""
    data = message["data"]
    name = data.get("name") if message["type"] == "tool" else None
    said = "" if name in OWN_TOOLS else mark([message])
    called = [(call.get("name"), call.get("args")) for call in calls(message)]
    return [message["type"], said, called]
