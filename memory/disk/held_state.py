"""The state of a thread, held in its session's folder while its checkpoints are replaced."""

import json
from collections.abc import Mapping
from typing import Any

from ..errors import ArchiveFormatError
from .folder import Folder
from .log import replace_file, sync_folder


def hold(folder: Folder, state: Mapping[str, Any] | None) -> None:
    """Write a state in the place of the one that is held; None deletes it."""
    if state is not None:
        data = json.dumps({"v": 1, "state": state}, ensure_ascii=False).encode()
        replace_file(folder.held, data, durable=folder.durable)
        return
    folder.held.unlink(missing_ok=True)
    if folder.durable:
        sync_folder(folder.path)


def held(folder: Folder) -> dict[str, Any] | None:
    """Return the state that is held, None if none is; raises `ArchiveFormatError`."""
    try:
        return dict(json.loads(folder.held.read_bytes())["state"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise ArchiveFormatError(
            f"{str(folder.held)!r} is damaged: delete it, and restore the thread"
        ) from error
