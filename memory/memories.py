"""What is remembered of a user across sessions: list it, reword it, suppress it, delete it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from .archive.protocol import Archive
from .attention.law import Attention, Explanation
from .errors import CommandError
from .facts import behind, holding, is_fact
from .settings import ATTENTION_THRESHOLD, meant
from .turn import Session, Tip
from .view import view_at

_ALIKE = 0.5
"""The `difflib` ratio from which an error suggests an existing id for an unknown one."""


@dataclass(frozen=True, slots=True)
class UserMemories:
    """The memories of one user.

    Methods that name one raise `CommandError` for an unknown id, and for what is no text.
    """

    archive: Archive
    user: str
    attention: Attention

    def list(self) -> tuple[Explanation, ...]:
        """Explain all memories, newest first, also faded, suppressed and lifted ones.

        A fact or rule stands before those in place of which it holds.
        """
        ids, known = self.attention.remembered(self.user), self.archive.facts(self.user)
        current, older, placed = holding(known), behind(known), dict[str, None]()
        for memory_id in ids:
            if (first := current.get(memory_id)) and memory_id not in placed:
                placed |= dict.fromkeys(one.id for one in (first, *older[first.id]))
            placed |= {memory_id: None}
        return tuple(map(self.explain, placed))

    def in_attention(self) -> tuple[Explanation, ...]:
        """Return the memories in attention, strongest first, then the suppressed ones."""
        now = datetime.now(UTC)
        # The limit is above any capacity, so these are all memories.
        inside = (memory.id for memory in self.attention.top(self.user, 10_000, now=now))
        ids = (*inside, *self.attention.suppressed(self.user, now=now))
        explanations = (self.attention.explain(self.user, one, now=now) for one in ids)
        return tuple(self._with_text(one) for one in explanations if one)

    def explain(self, memory_id: str) -> Explanation:
        """Return why a memory is in attention or not."""
        _check("memory_id", memory_id, "`list` has the ids")
        explanation = self.attention.explain(self.user, memory_id, now=datetime.now(UTC))
        if explanation is None:
            ids = self.attention.remembered(self.user)
            ids_are = "an id is <session>/<effort> or <session>/turn-N/fact-k"
            hint = meant(memory_id, ids, _ALIKE) or ids_are
            raise CommandError(f"no memory {memory_id!r}: {hint}")
        return self._with_text(explanation)

    def edit(self, memory_id: str, text: str) -> Explanation:
        """Reword a fact or rule. State blocks that contain it are not changed.

        Raises `CommandError` for an effort as well, whose summary belongs to its session.
        """
        _check("text", text, "delete a memory with `delete`")
        self.explain(memory_id)
        if not is_fact(memory_id):
            raise CommandError(
                f"{memory_id!r} is an effort, and its summary was made from its log: reopen it and "
                "close it again"
            )
        if not text.strip():
            raise CommandError(f"the new text of {memory_id!r} is empty: delete it instead")
        self.attention.reword(self.user, memory_id, " ".join(text.split()))
        return self.explain(memory_id)

    def suppress(self, memory_id: str) -> Explanation:
        """Take a memory out of attention until `unsuppress`, and return its `Explanation`.

        Search still finds it.
        """
        _check("memory_id", memory_id, "`list` has the ids")
        self.attention.suppress(self.user, memory_id, now=datetime.now(UTC))
        return self.explain(memory_id)

    def unsuppress(self, memory_id: str) -> Explanation:
        """Undo `suppress`, and return the memory's `Explanation`."""
        _check("memory_id", memory_id, "`list` has the ids")
        self.attention.unsuppress(self.user, memory_id, now=datetime.now(UTC))
        return self.explain(memory_id)

    def delete(self, memory_id: str) -> Explanation:
        """Delete a memory, and return its `Explanation` as it was.

        The turns of its session stay, and search still finds them.
        """
        explanation = self.explain(memory_id)
        self.attention.forget(self.user, memory_id, now=datetime.now(UTC))
        return explanation

    def _with_text(self, explanation: Explanation) -> Explanation:
        # Seen from a session without a name, so that all sessions are others.
        effort = view_at(self.archive, Session(self.user, ""), Tip()).effort(explanation.id, ())
        return replace(explanation, text=effort.summary) if effort else explanation


def _check(name: str, value: object, advice: str) -> None:
    """Raise `CommandError` for an argument that is no text."""
    if not isinstance(value, str):
        raise CommandError(f"{name} must be a text, got {value!r}: {advice}")


def memories(
    archive: Archive, user: str, *, threshold: float = ATTENTION_THRESHOLD
) -> UserMemories:
    """Return the memories of a user in an archive, to list, edit, suppress and delete.

    Args:
        archive: Where the user's sessions are.
        user: The `user_id` of the sessions.
        threshold: The `attention_threshold` by which they are explained.

    Raises:
        CommandError: The user is no text.

    Example:
        >>> from ebbtide.testing import InMemoryArchive
        >>> memories(InMemoryArchive(), "ann").list()
        ()
    """
    _check("user", user, "pass the user_id of the sessions")
    return UserMemories(archive, user, archive.attention(threshold))
