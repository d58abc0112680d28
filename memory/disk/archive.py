"""The embedded archive: a folder per session, readable without Ebbtide."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..archive.protocol import EffortList, Elsewhere, Finding, Found
from ..efforts import Effort
from ..erasing import Erased
from ..errors import SessionNotFoundError
from ..meaning import Embedder, Meaning
from ..messages import clean
from ..record import Group, Owner, Record, Tip
from ..salience import Compression, ExtractionEntry
from . import committing, compressing, erasing, held_state, verification
from .elsewhere import newest_elsewhere, search_sessions
from .embedding import embed
from .export import export
from .index import Place
from .reading import records
from .records_cache import RecordsCache
from .search import search
from .session import Opened, Session
from .sessions import Sessions

_OPEN_SESSIONS = 64
_CACHED_BYTES = 32 * 1024 * 1024


class DiskArchive:
    """An `Archive` in a folder of the file system, for any number of threads and processes."""

    def __init__(
        self, root: str | os.PathLike[str], *, durable: bool = True, lock_timeout: float = 10.0
    ) -> None:
        """Keep sessions below `root`, which is made when the first one is written.

        `durable`: a committed turn survives a power cut. `lock_timeout`: how long to wait for
        another process that writes the same session, in seconds.
        """
        self.root = Path(root).absolute()
        self._sessions = Sessions(
            self.root, _OPEN_SESSIONS, durable=durable, lock_timeout=lock_timeout
        )
        self._cache = RecordsCache(_CACHED_BYTES)

    def __enter__(self) -> Self:
        """Return the archive itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the archive."""
        self.close()

    def close(self) -> None:
        """Close all files; a later use opens them again."""
        self._sessions.close()

    def commit(self, owner: Owner, tip: Tip, group: Group) -> Record:
        """Store a group after `tip`, once, and return its record; see `Archive.commit`."""
        record, stored = committing.commit(self._sessions.get(owner), tip, group)
        if not stored:
            return record
        found = self.turns(owner, record.tip, [record.turn])
        return found[0] if found else record

    def turns(self, owner: Owner, tip: Tip, numbers: Sequence[int]) -> tuple[Record, ...]:
        """Return the visible records with these turn numbers, ascending; missing ones left out."""
        session = self._sessions.get(owner)

        def read(opened: Opened) -> tuple[Record, ...]:
            places = opened.index.places(tip, numbers)
            return records(session.folder, places, self._cache, opened.generation)

        return session.read(read, ())

    def ambient(self, owner: Owner, tip: Tip, last: int) -> tuple[int, ...]:
        """Return the numbers of the `last` newest visible ambient turns, ascending."""
        return self._sessions.get(owner).read(lambda o: o.index.ambient(tip, last), ())

    def ambient_count(self, owner: Owner, tip: Tip) -> int:
        """Count the visible ambient turns."""
        return self._sessions.get(owner).read(lambda o: o.index.counts(tip)[0], 0)

    def effort(self, owner: Owner, tip: Tip, effort_id: str) -> Effort | None:
        """Return one visible effort, None if there is none of that id."""
        name = clean(effort_id)
        return self._sessions.get(owner).read(lambda o: o.index.effort(tip, name), None)

    def efforts_named(self, owner: Owner, tip: Tip, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the visible efforts with these ids, in the order of the ids."""
        names = clean(list(ids))
        return self._sessions.get(owner).read(lambda o: o.index.efforts_named(tip, names), ())

    def effort_turns(self, owner: Owner, tip: Tip, effort_id: str) -> tuple[int, ...]:
        """Return the numbers of the visible turns of an effort, ascending."""
        name = clean(effort_id)
        return self._sessions.get(owner).read(lambda o: o.index.effort_turns(tip, name), ())

    def efforts(self, owner: Owner, tip: Tip, newest: int) -> EffortList:
        """Return the `newest` visible efforts by their last status change, and the total."""
        nothing = EffortList((), 0)
        return self._sessions.get(owner).read(lambda o: o.index.efforts(tip, newest), nothing)

    def search(
        self, owner: Owner, tip: Tip, query: str, limit: int, meaning: Meaning | None = None
    ) -> tuple[Found, ...]:
        """Return the visible efforts and ambient turns that match a query; see `Archive.search`."""
        asked = clean(query)

        def ask(opened: Opened) -> tuple[Found, ...]:
            return search(opened.index, tip, asked, meaning)

        nothing: tuple[Found, ...] = ()
        return self._sessions.get(owner).read(ask, nothing)[:limit]

    def search_sessions(self, owner: Owner, query: str, limit: int) -> tuple[Elsewhere, ...]:
        """Return the user's other efforts that match a query; see `Archive.search_sessions`."""
        return () if owner.anonymous else search_sessions(self._sessions, owner, query, limit)

    def concluded_elsewhere(self, owner: Owner, newest: int) -> tuple[Elsewhere, ...]:
        """Return what the user concluded last in other sessions, newest first."""
        return () if owner.anonymous else newest_elsewhere(self._sessions, owner, newest)

    def embed(self, owner: Owner, embedder: Embedder, limit: int) -> int:
        """Compute missing vectors, newest first; see `Archive.embed`."""
        session = self._sessions.get(owner)

        def read(opened: Opened, places: Sequence[Place]) -> tuple[Record, ...]:
            return records(session.folder, places, self._cache, opened.generation)

        return embed(session, embedder, limit, read)

    def erase(self, owner: Owner, tip: Tip, turn: int) -> Erased:
        """Erase a visible turn for good; see `Archive.erase`."""
        session = self._existing(owner)
        try:
            return erasing.erase(session, tip, turn)
        finally:
            self._cache.clear()

    def resummarised(self, owner: Owner, tip: Tip, effort: Effort) -> None:
        """Store the summary of a stale effort, written again; see `Archive.resummarised`."""
        erasing.resummarised(self._existing(owner), tip, effort)

    def commit_compression(self, owner: Owner, tip: Tip, made: Compression) -> Compression:
        """Store what stands for older turns, once; see `Archive.commit_compression`."""
        return compressing.commit(self._sessions.get(owner), tip, made)

    def compression(self, owner: Owner, tip: Tip, effort_id: str) -> Compression | None:
        """Return the newest visible compression of an effort, None if there is none."""
        return compressing.newest(self._sessions.get(owner), tip, clean(effort_id))

    def log_extraction(self, owner: Owner, entry: ExtractionEntry) -> None:
        """Append to the log of extractions; see `Archive.log_extraction`."""
        compressing.log(self._sessions.get(owner), entry)

    def hold(self, owner: Owner, state: Mapping[str, Any] | None) -> None:
        """Keep the state of a session for a while, None lets it go; see `Archive.hold`."""
        session = self._existing(owner)
        with session.locked():
            held_state.hold(session.folder, state)

    def held(self, owner: Owner) -> dict[str, Any] | None:
        """Return the state that is held for a session, None if none is."""
        return held_state.held(self._sessions.get(owner).folder)

    def newest(self, owner: Owner) -> Tip | None:
        """Return the tip of the branch that was committed to last, read as it stands in its log."""
        session = self._sessions.get(owner)

        def read(opened: Opened) -> Tip | None:
            tip = opened.index.newest()
            places = () if tip is None else opened.index.places(tip, [tip.turn])
            records(session.folder, places, self._cache, opened.generation)
            return tip

        return session.read(read, None)

    def tips(self, owner: Owner) -> tuple[Tip, ...]:
        """Return the tip of every branch, in the order of their names."""
        return self._sessions.get(owner).read(lambda o: o.index.tips(), ())

    def sessions(self, user: str) -> tuple[Owner, ...]:
        """Return the sessions of a user, in the order of their names."""
        return self._sessions.listed(user)

    def verify(self, owner: Owner) -> tuple[Finding, ...]:
        """Check a session from its bytes alone; see `Archive.verify`."""
        session = self._existing(owner)
        with session.locked():
            return verification.verify(session.folder)

    def export(self, owner: Owner, folder: str | os.PathLike[str]) -> None:
        """Write a session to a new folder, its manifest in the form that people read best."""
        session = self._existing(owner)
        session.write((), lambda _: export(session.folder, Path(folder)))

    def _existing(self, owner: Owner) -> Session:
        session = self._sessions.get(owner)
        if not session.exists:
            raise SessionNotFoundError(owner.thread)
        return session
