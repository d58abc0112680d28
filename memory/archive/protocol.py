"""The protocol of an archive, which stores turns and efforts.

An archive must pass the conformance suite in `tests/memory/conformance`. Each operation only sees
the session of its `session`, and a `Past` only what its tip sees.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..attachments import Texts
from ..attention.law import Attention
from ..compressions import Compression, ExtractionEntry
from ..efforts import Effort
from ..erasing import DeletionReport, Erased
from ..facts import Fact
from ..search.embeddings import Embedder
from ..turn import Part, Session, StoredTurn, Tip
from .load import Past


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of `verify`: where (a turn and its id), what, and whether it is damage."""

    where: str
    what: str
    fatal: bool = True


class Archive(Protocol):
    """Stores the turns of many sessions, each exactly once, on branches, until they are erased."""

    @property
    def id(self) -> str:
        """The id of the archive, which states name: 32 hexadecimal digits."""

    def keyed_digest(self, content: str) -> str:
        """Return a digest of a text, 32 hexadecimal digits, keyed with a secret of the archive."""

    def load(self, session: Session, tip: Tip | None = None) -> Past:
        """Return what a tip sees of its session, by default the turn that was committed last.

        If the user has no such turn it sees nothing, and its `tip` is None. A tip with a smaller
        number than its turn's sees the branch up to that number. Raises `ArchiveFormatError` and
        `ArchiveUnavailableError`.
        """

    def commit(
        self, session: Session, tip: Tip, turn: StoredTurn, embedder: Embedder | None = None
    ) -> StoredTurn:
        """Store a turn after `tip`, and return it as stored. Committing it again changes nothing.

        A turn with the status `command` is not counted as a turn. After a thread was copied, a
        turn may follow one of another session of the user. One transaction stores the turn, its
        changes of attention, and with an `embedder` its vectors, unless embedding fails. Raises
        `TipNotFoundError` if the user has no such turn, `UserDeletedError`, `ArchiveLockedError`
        and `ArchiveUnavailableError`; a turn is never stored in part.
        """

    def ended(self, session: Session, marks: Sequence[str]) -> tuple[tuple[str, Tip], ...]:
        """Return the marks and tips of turns that end with one of these marks, newest first.

        Commands that follow such a turn are returned too. Marks are made by `rows.mark`.
        """

    def claim(self, session: Session) -> bool:
        """Make a thread this user's if it is nobody's; return whether it is; raises as `commit`."""

    def attention(self, threshold: float) -> Attention:
        """Return the attention of the archive's users, which commits write with their turns."""

    def facts(self, user: str, ids: Collection[str] = ()) -> Mapping[str, Fact]:
        """Return a user's facts and rules from state blocks, by memory id: all, or these."""

    def embed(self, session: Session, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors of up to `limit` turns, newest first; return the number of turns.

        Vectors of another model are deleted. Raises `EmbeddingError` if the model fails, and then
        changes nothing.
        """

    def erase(self, session: Session, tip: Tip, turn: int) -> Erased:
        """Erase a visible turn for good, on every branch that holds it, in one transaction.

        So are its edited forms and its copies. A tombstone keeps the place of each. The commands
        that follow the turn, and those before the first turn with that one, lose their texts too.
        Summaries made from its log are emptied and marked `stale`; other turns that repeat its
        words stay and are reported. A turn that is erased already is no error. Raises
        `SessionNotFoundError`, `TurnNotFoundError`.
        """

    def reseed(self, session: Session, tip: Tip | None) -> None:
        """Store the `Past.reseed` of a session; None deletes it."""

    def delete_session(self, session: Session) -> DeletionReport:
        """Delete a session and its memories in attention, and return what was deleted.

        Turns that copied threads go on from stay, out of sight; the report names these threads.
        """

    def attach(self, session: Session, texts: Texts) -> None:
        """Store attachments of the running turn by digest, each once per user."""

    def attachments(self, session: Session, digests: Sequence[str]) -> Texts:
        """Return the stored attachments of the session's user with these digests."""

    def add_part(self, session: Session, part: Part) -> str:
        """Store rounds of the running turn, and return the part's id; repeating it is harmless."""

    def parts(self, session: Session, last: str) -> tuple[Part, ...]:
        """Return the parts of a turn of the user up to the one with the id `last`, in order.

        There are none if one is missing: its session was deleted, or its turn erased.
        """

    def delete_user(
        self, user: str, also: Callable[[Sequence[Session]], None] | None = None
    ) -> DeletionReport:
        """Delete everything of a user, each session in a transaction, and return what was deleted.

        `also` is called with the sessions of each thread before they are deleted. If it raises, or
        the process dies, the rest is still there, and deleting again goes on; until then the user
        begins no session.
        """

    def resummarised(self, session: Session, tip: Tip, effort: Effort) -> None:
        """Store a rewritten summary, keywords and importance, if the effort's summary is stale."""

    def commit_compression(
        self, session: Session, entry: ExtractionEntry, made: Compression | None
    ) -> Compression | None:
        """Log a pass, and store what it made of an effort's older turns; return what is stored.

        If the effort has a compression at this turn, that one stays. Raises `ArchiveLockedError`
        and `ArchiveUnavailableError`, and then stores nothing.
        """

    def tips(self, session: Session) -> tuple[Tip, ...]:
        """Return the end of every branch, in the order of their commit."""

    def sessions(self, user: str, name: str | None = None) -> tuple[Session, ...]:
        """Return the sessions of a user, in the order of their names.

        With a `name`, the one that `names.session_name` calls so, if there is one.
        """

    def verify(self, session: Session) -> tuple[Finding, ...]:
        """Check all turns of a session against their messages, and the tables that list them.

        Leaf branches are reported too, as not fatal. Raises `SessionNotFoundError`.
        """
