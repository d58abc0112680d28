"""The folder of a session: which files it holds, and whose it is."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArchiveFormatError
from ..names import original, safe_name
from ..record import Owner
from .log import make_folder, replace_file

FORMAT = 1
RAW = "raw.jsonl"
COMPRESSED = "compressed.jsonl"
MANIFEST = "manifest.yaml"
_EFFORTS, _SUFFIX = "efforts", ".jsonl"
_NAMESPACE_BYTES = 50
_SEPARATOR = "@"
"""Stands before the namespace; `safe_name` leaves none in a name."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one session. `durable`: what is written survives a power cut."""

    path: Path
    durable: bool = True

    @property
    def lock(self) -> Path:
        """The file that is locked while the session is written."""
        return self.path / ".lock"

    @property
    def index(self) -> Path:
        """The index: a cache that may be deleted."""
        return self.path / "index.sqlite"

    @property
    def manifest(self) -> Path:
        """The projection of the records' events."""
        return self.path / MANIFEST

    @property
    def description(self) -> Path:
        """The format's version and the owner in clear."""
        return self.path / "session.json"

    @property
    def erasing(self) -> Path:
        """The erasure that is under way; there is none if the file is missing."""
        return self.path / "erasing.json"

    @property
    def held(self) -> Path:
        """The state of the thread while its checkpoints are replaced; else the file is missing."""
        return self.path / "held.json"

    @property
    def erased(self) -> Path:
        """The turns that were erased, without their text."""
        return self.path / "erased.json"

    @property
    def extractions(self) -> Path:
        """The log of what passes that compress found and did."""
        return self.path / "extractions.jsonl"

    def files(self) -> tuple[Path, ...]:
        """Return all files of the session."""
        return tuple(path for path in sorted(self.path.rglob("*")) if path.is_file())

    def sizes(self) -> dict[str, int]:
        """Return the size of every log by its name within the folder."""
        sizes = {name: size for name, size in _files(self.path) if name in {RAW, COMPRESSED}}
        efforts = _files(self.path / _EFFORTS)
        return sizes | {
            f"{_EFFORTS}/{name}": size for name, size in efforts if name.endswith(_SUFFIX)
        }

    def make(self) -> None:
        """Make the folder, if it is not there yet."""
        make_folder(self.path / _EFFORTS, durable=self.durable)


def session_folder(root: Path, owner: Owner) -> Path:
    """Return the folder of a session: the name of its thread, and of its namespace if any."""
    name = safe_name(owner.thread)
    if owner.namespace:
        name += f"{_SEPARATOR}{safe_name(owner.namespace, _NAMESPACE_BYTES)}"
    return user_folder(root, owner.user) / name


def owner_named(name: str, user: str) -> Owner | None:
    """Return the owner whose session folder has this name, None if the name does not tell.

    >>> owner_named("%54%2f1@sub", "ann")
    Owner(user='ann', thread='T/1', namespace='sub')
    """
    before, separator, after = name.partition(_SEPARATOR)
    thread, namespace = original(before), original(after) if separator else ""
    return None if thread is None or namespace is None else Owner(user, thread, namespace)


def user_folder(root: Path, user: str) -> Path:
    """Return the folder of a user's sessions."""
    return root / safe_name(user)


def logs(efforts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the logs that a record of these efforts is in, its own one first.

    >>> logs(()), logs(("auth-bug",))
    (('raw.jsonl',), ('efforts/auth-bug.jsonl',))
    """
    return tuple(f"{_EFFORTS}/{safe_name(effort)}{_SUFFIX}" for effort in efforts) or (RAW,)


def describe(folder: Folder, owner: Owner, version: int = FORMAT) -> None:
    """Write the version of the format and the owner."""
    said = {
        "format": version,
        "user": owner.user,
        "thread": owner.thread,
        "namespace": owner.namespace,
    }
    text = json.dumps(said, ensure_ascii=False, indent=1)
    data = text.encode("utf-8", "backslashreplace") + b"\n"
    replace_file(folder.description, data, durable=folder.durable)


def description(folder: Folder) -> dict[str, Any] | None:
    """Return the version and the owner as they were written, None if they never were.

    Raises `ArchiveFormatError` if they cannot be read.
    """
    try:
        said = json.loads(folder.description.read_bytes())
        if type(said["format"]) is int:
            return dict(said)
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError):
        pass
    raise ArchiveFormatError(
        f"{str(folder.description)!r} is damaged: restore it, or write "
        f'{{"format": {FORMAT}, "user": ..., "thread": ..., "namespace": ...}} there'
    )


def owner_in(folder: Folder) -> Owner | None:
    """Return the owner of a session folder, None if it does not say."""
    said = description(folder)
    if said is None:
        return None
    return Owner(*(str(said.get(key, "")) for key in ("user", "thread", "namespace")))


def _files(path: Path) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(path) as listed:
            for entry in listed:
                if entry.is_file():
                    yield entry.name, entry.stat().st_size
    except FileNotFoundError:
        return
