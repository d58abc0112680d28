"""The archive: where manifest and raw logs are kept, in the words of the domain.

An archive is whatever passes the conformance suite in `tests/memory/conformance`. Every operation
names the owner; what is not that owner's does not exist. Reads are as seen from a `Tip`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..efforts import Effort
from ..erasing import Erased
from ..meaning import Embedder, Meaning
from ..record import Group, Owner, Record, Tip
from ..salience import Compression, ExtractionEntry


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `verify` found: where (file and line, or key), what, and how grave it is."""

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
    """An effort that matches a query, with its best turn; or an ambient turn, of no effort.

    `said` are the terms of the query that the effort, or the turn, says. Scores of one search can
    be compared, those of two cannot.
    """

    effort: str | None
    turn: int
    score: float
    said: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A concluded effort of another session of the same user that matches a query.

    `effort` is as the newest branch of its session left it; `tip` is of the turn that concluded
    it, so that its text can be read again, and `at` says when; `said` are the terms of the query
    that it says.
    """

    owner: Owner
    effort: Effort
    tip: Tip
    at: str
    score: float = 0.0
    said: frozenset[str] = frozenset()


class Archive(Protocol):
    """Storage of the turns of many sessions, fork-safe, exactly once, until they are erased."""

    def commit(self, owner: Owner, tip: Tip, group: Group) -> Record:
        """Store a group after `tip`, once, and return its record.

        The same group after the same tip is stored once however often it is committed. If the
        slot is taken by another group, a new branch begins. Raises `ArchiveLockedError` if the
        session stays locked, `OSError` if writing fails; nothing is then committed, or all.
        """

    def turns(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the visible records with these turn numbers, ascending; missing ones left out."""

    def ambient(self, owner: Owner, tip: Tip, last: int) -> tuple[int, ...]:
        """Return the numbers of the `last` newest visible ambient turns, ascending."""

    def ambient_count(self, owner: Owner, tip: Tip) -> int:
        """Count the visible ambient turns, at a cost that does not grow with the session."""

    def effort(self, owner: Owner, tip: Tip, effort_id: str) -> Effort | None:
        """Return one visible effort, None if there is none of that id."""

    def efforts_named(self, owner: Owner, tip: Tip, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the visible efforts with these ids, in the order of the ids, in one reading."""

    def effort_turns(self, owner: Owner, tip: Tip, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the visible turns of an effort, ascending."""

    def efforts(self, owner: Owner, tip: Tip, newest: int) -> EffortList:
        """Return the `newest` visible efforts by their last status change, and the total."""

    def search(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: Meaning | None = None
    ) -> tuple[Found, ...]:
        """Return the visible efforts and ambient turns that match a query, best first.

        What the turns say counts, and the ids, goals, summaries and keywords of efforts. A query
        of stop words only finds nothing. Up to `limit` are returned. With the `meaning` of the
        query a ranking by cosine joins, for what has a vector of the same model, and what is as
        near as the meaning's floor is found without a shared word.
        """

    def search_sessions(self, owner: Owner, query: str, limit: int) -> tuple[Elsewhere, ...]:
        """Return the concluded efforts of the user's other sessions that match a query, best first.

        Their ids, goals, summaries and keywords count; of equal ones the newest come first. Of
        each session its newest branch counts. Up to `limit` are returned, none to an anonymous
        owner. Sessions that cannot be read are left out, with a warning; it raises nothing.
        """

    def concluded_elsewhere(self, owner: Owner, newest: int) -> tuple[Elsewhere, ...]:
        """Return the `newest` concluded efforts of the user's other sessions, newest first.

        As `search_sessions` it goes by the newest branch of each and raises nothing.
        """

    def embed(self, owner: Owner, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors of up to `limit` turns, newest first; return of how many.

        Vectors are kept, so that each is computed once; those of another model are thrown away.
        Raises `EmbeddingError` if the model fails; nothing is then changed.
        """

    def erase(self, owner: Owner, tip: Tip, turn: int) -> Erased:
        """Erase a visible turn for good, on every branch that holds it, and say what was done.

        A tombstone keeps its place, so that what follows stays where it is. What was made from
        the turn goes too: summaries that it went into are redacted and marked `stale`. Other
        turns that say the same are named and stay. Cut off by a crash, it is finished when the
        session is opened next. A turn that is erased already is no error. Raises
        `SessionNotFoundError`, `TurnNotFoundError`.
        """

    def resummarised(self, owner: Owner, tip: Tip, effort: Effort) -> None:
        """Store a visible effort's summary, keywords and importance in place of redacted ones.

        Does nothing if the effort's last change is not stale.
        """

    def commit_compression(self, owner: Owner, tip: Tip, made: Compression) -> Compression:
        """Store what stands for older turns of an effort, made when `tip` was the newest turn.

        One is stored for each effort and tip: if there is one, it is returned and stays. Raises
        `ArchiveLockedError`, `OSError`; nothing is then stored.
        """

    def compression(self, owner: Owner, tip: Tip, effort_id: str) -> Compression | None:
        """Return the newest visible compression of an effort, None if there is none."""

    def log_extraction(self, owner: Owner, entry: ExtractionEntry) -> None:
        """Append what a pass that compresses found and did to the session's log of extractions."""

    def hold(self, owner: Owner, state: Mapping[str, Any] | None) -> None:
        """Keep plain data as the state of a session that has no other for a while; None lets it go.

        It takes the place of what was held before, all at once, and survives a crash. It may hold
        text that `erase` erases: whoever holds it replaces it. Raises `SessionNotFoundError`.
        """

    def held(self, owner: Owner) -> dict[str, Any] | None:
        """Return the state that is held for a session, None if none is."""

    def newest(self, owner: Owner) -> Tip | None:
        """Return the tip of the branch that was committed to last, None for no session."""

    def tips(self, owner: Owner) -> tuple[Tip, ...]:
        """Return the tip of every branch, in the order of their names."""

    def sessions(self, user: str) -> tuple[Owner, ...]:
        """Return the sessions of a user, in the order of their names."""

    def verify(self, owner: Owner) -> tuple[Finding, ...]:
        """Check every record of a session from the stored bytes alone.

        Finds torn and damaged lines, digests that do not match, parents that are missing, and
        leaf branches (not fatal). An unknown session raises `SessionNotFoundError`.
        """
