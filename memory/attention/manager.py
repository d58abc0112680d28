"""The interface of the attention manager that this project grew from, over `Attention`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .law import DAY, Attention, Memory, effective


def compute_effective_salience(
    base_salience: float, created_at: datetime, access_count: int
) -> float:
    """Return the strength of a memory now, 0-100, by the formula of `docs/attention.md`.

    >>> from datetime import timedelta
    >>> compute_effective_salience(50, datetime.now(UTC) - timedelta(days=20), 0) < 50
    True
    """
    days = (datetime.now(UTC) - created_at.astimezone(UTC)) / DAY
    return effective(base_salience, days, access_count)


@dataclass(frozen=True, slots=True)
class AttentionManager:
    """Attention for applications that store the memories of their users themselves.

    Example:
        >>> from ebbtide.testing import InMemoryArchive
        >>> manager = AttentionManager(InMemoryArchive().attention(40))
        >>> manager.add_to_attention("ann", "m1", 62.0)
        >>> manager.get_attention("ann")
        ['m1']
    """

    attention: Attention

    def add_to_attention(self, user_id: str, memory_id: str, effective_salience: float) -> None:
        """Store a memory with this much attention now; it enters at the threshold or above."""
        now = datetime.now(UTC)
        self.attention.add(user_id, Memory(memory_id, round(effective_salience), now), now=now)

    def get_attention(self, user_id: str, limit: int = 10) -> list[str]:
        """Return the memories in attention, the strongest first; faded ones are taken out."""
        found = self.attention.top(user_id, limit, now=datetime.now(UTC))
        return [memory.id for memory in found]

    def prune_attention(self, user_id: str) -> int:
        """Take faded memories out of attention, and return their number."""
        return self.attention.prune(user_id, now=datetime.now(UTC))

    def refresh_for_context(self, user_id: str, context: str, limit: int = 10) -> Sequence[str]:
        """Return the memories in attention, those about the subject of a message first.

        Attention itself is not changed.
        """
        now = datetime.now(UTC)
        found = self.attention.refresh_for_context(user_id, context, limit, now=now)
        return [memory.id for memory in found]
