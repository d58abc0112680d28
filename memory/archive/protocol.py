"""The archive: where manifest and raw logs are kept, in the words of the domain.

An archive is whatever passes the conformance suite in `tests/memory/conformance`. Every operation
names the owner; what is not that owner's does not exist. Reads are as seen from a `Tip`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ..attention.law import Attention
from ..efforts import Effort
from ..embeddings import Embedder, QueryEmbedding
from ..erasing import Deleted, Erased
from ..record import Group, Owner, Record, Tip
from ..salience import Compression, ExtractionEntry


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `verify` found: where (branch and turn), what, and whether it is damage."""

    where: str
    what: str
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class EffortList:
    """The newest efforts, newest status change first, and how many there are in all."""

    efforts: tuple[Effort, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that matches a query, of an effort or of an ambient turn, which has none.

    `said` are the terms of the query that the effort, or the turn, says; `passage` is its place in
    the turn, None if only the effort's heading matches; `user` tells that the user says it, `near`
    that only its neighbours or its effort match. Scores of two searches cannot be compared.
    """

    effort: str | None
    turn: int
    score: float
    said: frozenset[str] = frozenset()
    passage: int | None = None
    user: bool = False
    near: bool = False


@dataclass(frozen=True, slots=True)
class Pointing:
    """The telling terms of a message, which few passages say, with how rare each is (`rare`).

    `said` has, by effort or ambient turn, which of them each of its turns and headings says.
    """

    rare: Mapping[str, float]
    said: Mapping[str | int, Sequence[frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A concluded effort, or a turn, of another session of the same user.

    `effort` is as the newest branch left it, None for a turn, which has `efforts` and the place of
    its best `passage` instead; `tip` is of the turn, or of the one that concluded the effort, and
    `at` says when; `said` are the terms of the query that it says.
    """

    owner: Owner
    effort: Effort | None
    tip: Tip
    at: str
    score: float = 0.0
    said: frozenset[str] = frozenset()
    efforts: tuple[str, ...] = ()
    passage: int | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """The memory's state after a turn, and the turn's tip."""

    tip: Tip
    state: Mapping[str, Any]


class Archive(Protocol):
    """Storage of the turns of many sessions, fork-safe, exactly once, until they are erased."""

    def seal(self, content: str) -> str:
        """Return 32 hexadecimal digits of a text, which nobody without the archive can make."""

    def commit(
        self, owner: Owner, tip: Tip, group: Group, embedder: Embedder | None = None
    ) -> Record:
        """Store a group after `tip`, once however often it is committed, and return its record.

        If the slot is taken by another group, a new branch begins. What the turn does to attention
        is done with it; with an `embedder` its vectors are stored too, or are missing if that
        fails. Raises `TipNotFoundError` if the archive does not hold the tip, `ArchiveLockedError`,
        `ArchiveUnavailableError`; nothing is then committed, or all.
        """

    def together(self, since: float = 0.0) -> AbstractContextManager[None]:
        """Let what a thread reads here, until it writes, be of one moment and asked for only once.

        A session that was read less than `since` seconds before need not be read again.
        """

    def saved(self, owner: Owner, tip: Tip) -> Saved | None:
        """Return the state that was stored with the turn of a tip, None if there is none."""

    def ended(self, owner: Owner, marks: Sequence[str]) -> tuple[tuple[str, Tip], ...]:
        """Return the turns that end with messages of these marks (`records.mark`), newest first."""

    def holds(self, owner: Owner, tip: Tip) -> bool:
        """Tell whether the archive holds the very turn that a tip names."""
        return any(record.tip == tip for record in self.turns(owner, tip, [tip.turn]))

    def attention(self, threshold: float) -> Attention:
        """Return the attention of the archive's users, kept in the transactions of their turns."""

    def turns(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the visible records with these turn numbers, ascending; missing ones left out."""

    def ambient(self, owner: Owner, tip: Tip, last: int) -> tuple[int, ...]:
        """Return the numbers of the `last` newest visible ambient turns, ascending."""

    def ambient_count(self, owner: Owner, tip: Tip) -> int:
        """Count the visible ambient turns, at a cost that does not grow with the session."""

    def effort(self, owner: Owner, tip: Tip, effort_id: str) -> Effort | None:
        """Return one visible effort, None if there is none of that id."""
        return next(iter(self.efforts_named(owner, tip, [effort_id])), None)

    def efforts_named(self, owner: Owner, tip: Tip, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the visible efforts with these ids, in the order of the ids, in one reading."""

    def effort_turns(self, owner: Owner, tip: Tip, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the visible turns of an effort, ascending."""

    def efforts(self, owner: Owner, tip: Tip, newest: int) -> EffortList:
        """Return the `newest` visible efforts by their last status change, and the total."""

    def search(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: QueryEmbedding | None = None
    ) -> tuple[Found, ...]:
        """Return up to `limit` visible efforts and ambient turns that match a query, best first.

        What the turns say counts, and the ids, goals, summaries and keywords of efforts. A query of
        stop words alone finds nothing. With the query's `meaning`, cosines join the ranking, and
        find what shares no word but is as near as the meaning's floor.
        """

    def search_passages(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: QueryEmbedding | None = None
    ) -> tuple[Found, ...]:
        """Return up to `limit` passages that match, best first.

        The first of an effort has the effort's score; `search` has these alone.
        """

    def pointing(self, owner: Owner, tip: Tip, message: str) -> Pointing:
        """Return who says the telling terms of a message, among 100 turns and as many headings."""

    def search_sessions(self, owner: Owner, query: str, limit: int) -> tuple[Elsewhere, ...]:
        """Return up to `limit` matches of what the user's other sessions concluded and said.

        The best come first, of equal ones the newest. Of efforts the ids, goals, summaries and
        keywords count, of sessions the newest branch. An anonymous owner gets none.
        """

    def concluded_elsewhere(self, owner: Owner, newest: int) -> tuple[Elsewhere, ...]:
        """Return the `newest` concluded efforts of the user's other sessions, newest first."""

    def session_named(self, user: str, name: str) -> Owner | None:
        """Return the user's session that other sessions know by this name, None for none."""

    def embed(self, owner: Owner, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors of up to `limit` turns, newest first; return of how many.

        Those of another model are thrown away. Raises `EmbeddingError` if the model fails; nothing
        is then changed.
        """

    def erase(self, owner: Owner, tip: Tip, turn: int) -> Erased:
        """Erase a visible turn for good, on every branch that holds it, and say what was done.

        In one transaction. A tombstone keeps its place. Summaries whose log it is in are emptied
        and marked `stale`; other turns that say the same are named and stay. A turn that is erased
        already is no error. Raises `SessionNotFoundError`, `TurnNotFoundError`.
        """

    def reseed(self, owner: Owner, tip: Tip | None) -> None:
        """Note from which turn a thread without checkpoints goes on; None: it has some."""

    def reseeding(self, owner: Owner) -> Tip | None:
        """Return the turn that was noted so, None if none is."""

    def delete_session(self, owner: Owner) -> Deleted:
        """Delete all of a session, its memories in attention too, and say what was done."""

    def delete_user(
        self, user: str, also: Callable[[Sequence[Owner]], None] | None = None
    ) -> Deleted:
        """Delete all of a user in one transaction, and say what was done.

        `also` is called with the sessions before it is committed; if it raises, all stays.
        """

    def resummarised(self, owner: Owner, tip: Tip, effort: Effort) -> None:
        """Store a summary, keywords and importance, if the effort's last change is stale."""

    def commit_compression(self, owner: Owner, tip: Tip, made: Compression) -> Compression:
        """Store what stands for older turns of an effort, made at `tip`; return what is stored.

        One of that effort that is stored at the tip already stays. Raises `ArchiveLockedError`,
        `ArchiveUnavailableError`; nothing is then stored.
        """

    def compression(self, owner: Owner, tip: Tip, effort_id: str) -> Compression | None:
        """Return the newest visible compression of an effort, None if there is none."""

    def log_extraction(self, owner: Owner, entry: ExtractionEntry) -> None:
        """Append what a pass that compresses found and did to the session's log of extractions."""

    def newest(self, owner: Owner) -> Tip | None:
        """Return the tip of the branch that was committed to last, None for no session."""

    def tips(self, owner: Owner) -> tuple[Tip, ...]:
        """Return the tip of every branch, in the order of their names."""

    def sessions(self, user: str) -> tuple[Owner, ...]:
        """Return the sessions of a user, in the order of their names."""

    def verify(self, owner: Owner) -> tuple[Finding, ...]:
        """Check all records of a session from their messages alone, and what lists them.

        Leaf branches are named too, as not fatal. Raises `SessionNotFoundError`.
        """


def every_effort(archive: Archive, owner: Owner, tip: Tip) -> tuple[Effort, ...]:
    """Return all efforts that a tip sees, newest status change first."""
    return archive.efforts(owner, tip, archive.efforts(owner, tip, 0).total).efforts
