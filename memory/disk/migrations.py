"""The format of a session folder, brought from any older one to the present one.

Each migration is numbered by the format it starts from, can be repeated after a crash, and leaves
lines that it does not understand as they are.
"""

import json
import logging
from collections.abc import Callable, Mapping

from ..errors import ArchiveFormatError
from ..record import Owner
from .folder import FORMAT, Folder, describe, description
from .log import replace_file
from .schema import delete

_log = logging.getLogger("ebbtide.archive")


def migrate(folder: Folder, owner: Owner) -> None:
    """Bring a session folder to the present format; needs the lock.

    Raises `ArchiveFormatError` if it was written by a newer version.
    """
    found = stored_format(folder)
    if found > FORMAT:
        raise ArchiveFormatError(
            f"session {owner.thread!r} has format {found}, this version of Ebbtide reads up to "
            f"{FORMAT}: upgrade Ebbtide"
        )
    for number in range(found, FORMAT):
        _log.info("%s: migrating from format %d to %d", folder.path, number, number + 1)
        MIGRATIONS[number](folder)
    if found < FORMAT:
        delete(folder.index)
    if found < FORMAT or description(folder) is None:
        describe(folder, owner)


def stored_format(folder: Folder) -> int:
    """Return the format of a folder; the oldest one does not say, a new folder has the newest."""
    said = description(folder)
    if said is not None:
        return int(said["format"])
    return 0 if any(folder.sizes().values()) else FORMAT


def _add_version_and_status(folder: Folder) -> None:
    """Format 0 had records without `v` and `status`, and no `session.json`."""
    for name in folder.sizes():
        path = folder.path / name
        lines = [_versioned(line) for line in path.read_bytes().split(b"\n")]
        replace_file(path, b"\n".join(lines), durable=folder.durable)


def _versioned(line: bytes) -> bytes:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(body, dict) or "v" in body:
        return line
    body = {"v": 1, "status": "done", **body}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


MIGRATIONS: Mapping[int, Callable[[Folder], None]] = {0: _add_version_and_status}
"""What leads from each older format to the next."""
