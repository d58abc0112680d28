"""Committing a turn: the line in the log is the commit, all else follows from it."""

import logging

from ..manifest import entries
from ..placement import placement
from ..record import Group, Record, Tip
from .damage import IndexDamagedError
from .folder import logs
from .index import Place
from .indexing import add, intend, set_sizes, settle
from .lines import Reference, encode, encode_reference, storable
from .log import append
from .projection import extend
from .schema import transaction
from .search_rows import said
from .session import Opened, Session

_log = logging.getLogger("ebbtide.archive")


def commit(session: Session, tip: Tip, group: Group) -> tuple[Record, bool]:
    """Write a group after `tip`, once; return its record, and whether it was there already.

    Before a gap is accepted the index is built anew: the turn may be missing there alone.
    """
    group = storable(group)

    def place(opened: Opened) -> tuple[Record, bool]:
        placed = placement(tip, group, opened.index)
        record = placed.record
        if not placed.stored:
            if record.gap and not opened.anew:
                raise IndexDamagedError(f"it lacks turn {tip.turn} of {tip.branch!r}")
            if record.gap:
                _log.warning(
                    "session %r: turn %d follows turn %d of %r, which the archive does not hold",
                    *(session.owner.thread, record.turn, tip.turn, tip.branch),
                )
            _write(session, opened, record)
        return record, placed.stored

    return session.write(logs(group.efforts), place)


def _write(session: Session, opened: Opened, record: Record) -> None:
    folder, connection = session.folder, opened.connection
    fresh, line = entries(record), encode(record)
    own, *others = logs(record.efforts)
    intend(connection, (own, *others))
    offset = append(folder.path / own, line, durable=folder.durable)
    place = Place(record.branch, record.turn, record.digest, own, offset, len(line))
    sizes = {own: offset + len(line)}
    reference = encode_reference(Reference(record.branch, record.turn, own))
    for name in others:
        start = append(folder.path / name, reference, durable=folder.durable)
        sizes[name] = start + len(reference)
    with transaction(connection):
        extend(folder, connection, fresh)
        add(connection, record, place, said(record))
        set_sizes(connection, sizes)
        settle(connection)
