"""What a turn reads of the archive: loaded once, and carried from node to node."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from ...memory.anchor import as_stored
from ...memory.messages import Message
from ...memory.record import Owner, Tip
from ...memory.view import ArchiveView
from .langchain_messages import to_dicts

CARRIED = 256
"""Turns that are carried at most: those that run at once, and some that broke off."""


@dataclass(frozen=True, slots=True)
class TurnKey:
    """By what a node knows the turn that it runs in: its session, its tip and its nonce."""

    session: Owner
    tip: Tip
    nonce: str


@dataclass(frozen=True, slots=True)
class Turn:
    """The past of a turn, which its user may see, and the secret of its session's fences.

    It is in no channel, so that no client is streamed it. Where it is missing, as in a run that was
    resumed in another process, the next node loads it again.
    """

    past: ArchiveView
    fence_key: bytes
    _stored: dict[int, tuple[BaseMessage, dict[str, Any], Message]] = field(default_factory=dict)

    def stored(self, messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
        """Return the running messages as the archive stores them, each converted once.

        A message that was changed meanwhile is converted again.
        """
        plain = []
        for message in messages:
            entry = self._stored.get(id(message))
            fields = vars(message)
            if entry is None or entry[0] is not message or entry[1] != fields:
                (converted,) = as_stored(to_dicts([message]))
                # The message is kept too, so that no other one gets its id meanwhile.
                entry = self._stored[id(message)] = message, dict(fields), converted
            plain.append(entry[2])
        return tuple(plain)
