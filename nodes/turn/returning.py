"""Go on with the turn of an agent that another agent calls again before the user speaks."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage

from ...memory.archive.protocol import Archive
from ...memory.messages import Message, digest
from ...memory.record import Owner, Record, Tip
from ...memory.state_block import METADATA_KEY, calls_sent, without_blocks
from ...memory.view import past
from .arrivals import SplitInput, turn_numbers
from .langchain_messages import MADE_HERE, from_dicts, to_dicts
from .turn import as_archived, memory_at
from .updates import tip_update

_MADE_AT_COMMIT = frozenset({"spans", "fixed", "context"})
"""Events that a commit makes anew from the whole turn."""


def last_turn_again(
    arrived: SplitInput, tip: Tip, archive: Archive, owner: Owner, window: int
) -> dict[str, Any] | None:
    """Return the update with which the last turn runs again, None if a new turn begins.

    It does in a larger graph if nobody but agents spoke since, as a supervisor is called again when
    the agent that it asked has answered. When it ends it is committed once more, after the turn
    before it. What was committed of it stays a branch that no checkpoint names.
    """
    is_new = arrived.unfinished or any(one.type not in MADE_HERE for one in arrived.new)
    if is_new or not owner.namespace:
        return None
    for record in archive.at(owner, tip).turns([tip.turn]):
        if record.tip == tip and record.status != "erased":  # nor does a command follow it
            return _running_again(record, arrived, archive, owner, window)
    return None


def _running_again(
    record: Record, arrived: SplitInput, archive: Archive, owner: Owner, window: int
) -> dict[str, Any]:
    memory = memory_at(archive, owner, record.tip)
    said = _messages(record, arrived.known.turns.get(record.turn, []), archive, owner)
    turns = arrived.kept_turns(record.turn, window + 1)
    before = {number: turn for number, turn in turns.items() if number < record.turn}
    messages = [one for turn in before.values() for one in turn]
    again = calls_sent(to_dicts(said))
    return {
        **memory,
        **tip_update(Tip(record.turn - 1, record.parent)),
        "plan": None,  # what was archived is of the turn after this one
        "events": [
            event
            for event in record.events
            if event["type"] not in _MADE_AT_COMMIT and event not in again
        ],
        "messages": [*messages, *said, *arrived.new],
        "archived": str(messages[-1].id) if messages else "",
        "asked": {
            **turn_numbers({**before, record.turn: said}),
            str(arrived.new[-1].id): record.turn,
        },
    }


def _messages(
    record: Record, there: Sequence[BaseMessage], archive: Archive, owner: Owner
) -> list[BaseMessage]:
    """Return the messages of a turn: those in the state, the archive's if some are not there."""
    if digest(as_archived(to_dicts(there))) == digest(record.messages):
        return [*there]
    stored = past(archive, owner, record.tip).messages(record)
    messages = from_dicts([_with_raw(message) for message in stored])
    for message in messages:
        message.id = message.id or str(uuid4())
    return messages


def _with_raw(message: Message) -> Mapping[str, Any]:
    """Return a message as the state has it: its state block stands in its metadata."""
    bare, data = without_blocks(message), message["data"]
    if bare is message:
        return message
    metadata = {**(data.get("response_metadata") or {}), METADATA_KEY: {"raw": data["content"]}}
    return {**bare, "data": {**bare["data"], "response_metadata": metadata}}
