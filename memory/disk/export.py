"""Writing a session as a folder for people: its logs, and the manifest in its readable form."""

import shutil
from pathlib import Path

from ..errors import ArchiveError
from ..manifest import block
from .folder import Folder
from .log import make_folder
from .projection import read_manifest


def export(folder: Folder, target: Path) -> None:
    """Copy a session that is locked and up to date to `target`, a new or empty folder.

    The copy is a session folder itself, so it can be put into an archive.
    """
    if target.exists() and any(target.iterdir()):
        raise ArchiveError(f"{str(target)!r} is not empty: name a new folder to export to")
    for name in (folder.description.name, *folder.sizes()):
        copied = target / name
        make_folder(copied.parent, durable=False)
        shutil.copyfile(folder.path / name, copied)
    for path in (folder.erased, folder.extractions):
        if path.exists():
            shutil.copyfile(path, target / path.name)
    text = block(read_manifest(folder).entries)
    (target / folder.manifest.name).write_text(text, encoding="utf-8", newline="\n")
