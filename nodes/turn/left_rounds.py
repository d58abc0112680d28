"""Rounds of the running turn that left `messages`: they lie in the archive, as parts of the turn.

The first answer of a model that is still in `messages` stands behind them.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ...memory.archive.protocol import Archive
from ...memory.messages import Message
from ...memory.record import Event, Owner, first_round
from .state import TurnState

_log = logging.getLogger("ebbtide.archive")


@dataclass(frozen=True, slots=True)
class LeftRounds:
    """The messages that left, as they are stored, and the events of the calls that made them."""

    messages: tuple[Message, ...] = ()
    events: tuple[Event, ...] = ()


NO_ROUNDS = LeftRounds()


def left_rounds(archive: Archive, owner: Owner, state: TurnState) -> LeftRounds:
    """Return the rounds of a turn that left its state; none, with a warning, if they are gone."""
    last = state.get("part", "")
    if not last:
        return NO_ROUNDS
    parts = archive.parts(owner, last)
    if not parts:
        _log.warning(
            "the archive has no part %s of a running turn of thread %r: it goes on without the "
            "rounds that left its messages",
            last,
            owner.thread,
        )
    return LeftRounds(
        tuple(message for part in parts for message in part.messages),
        tuple(event for part in parts for event in part.events),
    )


def put_back(messages: Sequence[Message], left: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages of a turn with those that left at their place."""
    at = first_round(messages)
    return (*messages[:at], *left, *messages[at:])
