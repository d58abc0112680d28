"""The manifest's file: kept up with the records, and read again when somebody has edited it."""

import logging
import sqlite3

from ..manifest import Entry, Manifest, ManifestError, edits, lacking, line, parse
from .folder import Folder
from .indexing import (
    ManifestState,
    all_changes,
    manifest_state,
    set_edits,
    set_manifest_state,
)
from .log import append, replace_file

_log = logging.getLogger("ebbtide.archive")


def touched(folder: Folder, connection: sqlite3.Connection) -> bool:
    """Tell whether the manifest is another than the index knows: edited, deleted, or new."""
    known = manifest_state(connection)
    return known is None or known != _state(folder, appendable=known.appendable)


def reconcile(folder: Folder, connection: sqlite3.Connection) -> None:
    """Read the manifest, add what it lacks, and note what was edited by hand."""
    known = all_changes(connection)
    manifest = read_manifest(folder)
    missing = lacking(known, manifest)
    _extend(folder, manifest, missing)
    set_edits(connection, edits(known, manifest))
    appendable = manifest.appendable or bool(missing)
    set_manifest_state(connection, _state(folder, appendable=appendable))


def extend(folder: Folder, connection: sqlite3.Connection, fresh: tuple[Entry, ...]) -> None:
    """Add the entries of a record that was just committed."""
    known = manifest_state(connection)
    if not fresh:
        return
    if known is not None and known.appendable:
        append(folder.manifest, _lines(fresh), durable=False)
    else:
        _extend(folder, read_manifest(folder), fresh)
    set_manifest_state(connection, _state(folder, appendable=True))


def read_manifest(folder: Folder) -> Manifest:
    """Return the manifest; one that cannot be read is kept aside, and is empty from then on."""
    try:
        return parse(folder.manifest.read_bytes())
    except FileNotFoundError:
        return Manifest(())
    except ManifestError as error:
        aside = folder.manifest.with_name(f"{folder.manifest.name}.damaged")
        _log.warning("%s cannot be read, kept as %s: %s", folder.manifest, aside.name, error)
        folder.manifest.replace(aside)
        return Manifest(())


def _extend(folder: Folder, manifest: Manifest, fresh: tuple[Entry, ...]) -> None:
    if fresh and manifest.appendable:
        append(folder.manifest, _lines(fresh), durable=False)
    elif fresh:
        replace_file(folder.manifest, _lines((*manifest.entries, *fresh)), durable=False)


def _lines(entries: tuple[Entry, ...]) -> bytes:
    return "".join(line(entry) for entry in entries).encode()


def _state(folder: Folder, *, appendable: bool) -> ManifestState:
    try:
        stat = folder.manifest.stat()
    except FileNotFoundError:
        return ManifestState(-1, 0, appendable)
    return ManifestState(stat.st_size, stat.st_mtime_ns, appendable)
