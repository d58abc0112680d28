"""The commands on attention: list it, explain a memory, suppress or forget one."""

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime

from langchain_core.runnables import RunnableConfig

from ...memory.attention.law import Attention
from ...memory.attention.law import Explanation as Explanation  # noqa: PLC0414 (exported with the commands)
from ...memory.errors import CommandError
from ...memory.record import Owner
from ...nodes.turn.turn import user_of
from .threads import Agent, on_a_thread, place_of

_ALIKE = 0.5
"""The `difflib` ratio from which an error suggests an existing id for an unknown one."""


@dataclass(frozen=True, slots=True)
class UserAttention:
    """The attention of one user, with the commands on it as methods."""

    stored: Attention
    user: str

    def listed(self) -> tuple[Explanation, ...]:
        """Return the memories in attention, strongest first, then the suppressed ones."""
        now = datetime.now(UTC)
        # The limit is above any capacity, so these are all memories.
        inside = (memory.id for memory in self.stored.top(self.user, 10_000, now=now))
        ids = (*inside, *self.stored.suppressed(self.user, now=now))
        explanations = (self.stored.explain(self.user, memory_id, now=now) for memory_id in ids)
        return tuple(filter(None, explanations))

    def explain(self, memory_id: str) -> Explanation:
        """Return the explanation of a memory; raises `CommandError` for an unknown id."""
        explanation = self.stored.explain(self.user, memory_id, now=datetime.now(UTC))
        if explanation is None:
            ids = [memory.id for memory in self.listed()]
            close = difflib.get_close_matches(memory_id, ids, n=1, cutoff=_ALIKE)
            hint = f"did you mean {close[0]!r}?" if close else "an id is <session>/<effort>"
            raise CommandError(f"no memory {memory_id!r}: {hint}")
        return explanation

    def suppress(self, memory_id: str) -> Explanation:
        """Suppress a memory, and explain it."""
        self.stored.suppress(self.user, memory_id, now=datetime.now(UTC))
        return self.explain(memory_id)

    def unsuppress(self, memory_id: str) -> Explanation:
        """Undo the suppression of a memory, and explain it."""
        self.stored.unsuppress(self.user, memory_id, now=datetime.now(UTC))
        return self.explain(memory_id)

    def forget(self, memory_id: str) -> Explanation:
        """Delete a memory from attention, and explain it as it was."""
        explanation = self.explain(memory_id)
        self.stored.forget(self.user, memory_id, now=datetime.now(UTC))
        return explanation


def attention(agent: Agent, config: RunnableConfig) -> tuple[Explanation, ...]:
    """Return the memories in the user's attention, strongest first, then the suppressed ones.

    Like all commands here, raises `CommandError` if `config` names no user, and `AttentionError` if
    attention cannot be reached.
    """
    return _of(agent, config).listed()


def explain(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Return why a memory is in attention or not, and when it will fade.

    Raises `CommandError` if the user has no such memory.
    """
    return _of(agent, config).explain(memory_id)


def suppress(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Take a memory out of attention until `unsuppress`, and explain it.

    Search still finds it. Raises `CommandError` if the user has no such memory.
    """
    return _of(agent, config).suppress(memory_id)


def unsuppress(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Undo `suppress`, and explain the memory; raises `CommandError` as `suppress` does."""
    return _of(agent, config).unsuppress(memory_id)


def forget(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Delete a memory from attention, and explain it as it was; its session stays.

    For memories of sessions that were deleted. Raises `CommandError` as `suppress` does.
    """
    return _of(agent, config).forget(memory_id)


def nobody() -> CommandError:
    """Return the error for a command on attention without a user."""
    return CommandError(
        "the run has no user, so it has no memory across sessions: pass a user_id (in the terminal "
        "`--user NAME`)"
    )


def _of(agent: Agent, config: RunnableConfig) -> UserAttention:
    parts = place_of(agent).parts
    owner = Owner(user_of(parts.settings, config.get("configurable", {})), "")
    stored = parts.attention_of(owner, parts.settings)
    if stored is None:
        raise nobody()
    return UserAttention(stored, owner.user)


aattention = on_a_thread(attention)
aexplain = on_a_thread(explain)
asuppress = on_a_thread(suppress)
aunsuppress = on_a_thread(unsuppress)
aforget = on_a_thread(forget)
