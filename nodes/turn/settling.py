"""Committing what an earlier run left behind, and turns that a command makes by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ...memory.anchor import with_blocks
from ...memory.archive.protocol import Archive
from ...memory.embeddings import Embedder
from ...memory.errors import ArchiveLockedError, TipNotFoundError
from ...memory.messages import Message, digest
from ...memory.record import Group, Owner, Record, Tip
from ...prompts.loader import render
from .arrivals import Arrivals
from .langchain_messages import cleaned
from .state import TurnState
from .values import committed, group, tip_of


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
    tip = _settle_edit(state, owner, arrived, archive)
    update: dict[str, Any] = {"branch": tip.branch, "persisted": tip.turn, "tip": tip.digest}
    if not arrived.left:
        return {**update, "events": _of_passes(state)}
    record = commit(archive, owner, tip, group(state, arrived.left))
    return {**update, **committed(record, str(arrived.left[-1].id))}


def _of_passes(state: TurnState) -> list[dict[str, Any]]:
    """Return the compression events since the last commit; they are stored with the next turn."""
    return [event for event in state.get("events", []) if event["type"] == "compressed"]


def _settle_edit(state: TurnState, owner: Owner, arrived: Arrivals, archive: Archive) -> Tip:
    """Commit the last archived turn again if its messages were edited: a new branch begins."""
    tip = tip_of(state)
    again = None if arrived.last is None else edited(state, owner, arrived.last, archive)
    return tip if again is None else commit_again(archive, owner, tip, again).tip


def edited(
    state: TurnState, owner: Owner, last: Sequence[BaseMessage], archive: Archive
) -> Group | None:
    """Return the last archived turn as its messages are now, None if they are as archived.

    An erasure may have taken text from what is archived: both, with it and without it, are no edit.
    """
    tip, now = tip_of(state), group(state, last)
    if digest(now.messages) == tip.digest:
        return None
    records = archive.turns(owner, tip, [tip.turn])
    known = {tip.digest, *(digest(record.messages) for record in records)}
    if known & {digest(now.messages), digest(_as_said(now.messages, records))}:
        return None
    return replace(now, events=())


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


_MARK = {"by_hand": True}
"""What stands in `response_metadata` of messages that no model wrote; providers are not sent it."""


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """A tool with its arguments, and the command as the user says it."""

    said: str
    tool: str
    arguments: dict[str, Any]


def question(order: ToolCommand) -> HumanMessage:
    """Return the command as the user message of its turn."""
    return HumanMessage(order.said, id=str(uuid4()))


def calling(order: ToolCommand) -> AIMessage:
    """Return the call of the tool, as a model would make it."""
    call = {"name": order.tool, "args": order.arguments, "id": f"call_{uuid4().hex}"}
    message = AIMessage("", tool_calls=[call], response_metadata=_MARK, id=str(uuid4()))
    return cleaned(message)


def answering(result: dict[str, Any]) -> AIMessage:
    """Return the answer that ends the turn: what was done to which effort."""
    said = render("by_hand", status=result["status"], effort=result.get("effort_id", "no effort"))
    return AIMessage(said, response_metadata=_MARK, id=str(uuid4()))


def by_hand(messages: list[Any]) -> bool:
    """Tell whether no model answered in the turn of these messages.

    >>> by_hand([HumanMessage("/close"), answering({"status": "concluded", "effort_id": "a"})])
    True
    """
    answers = [message for message in messages if isinstance(message, AIMessage)]
    return all("by_hand" in answer.response_metadata for answer in answers)
