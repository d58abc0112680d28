"""Looking for text in the bytes of files, as it stands there or escaped in JSON."""

import json
import mmap
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

_CHECKED = 20
"""Pieces that are looked for: every one of them is a reading of all files."""


def holding(paths: Iterable[Path], pieces: Iterable[str]) -> tuple[Path, ...]:
    """Return the files that hold any of the first 20 pieces of text; missing ones hold nothing."""
    forms = sorted({form for piece in islice(pieces, _CHECKED) for form in _forms(piece)})
    return tuple(path for path in paths if forms and _holds(path, forms))


def _forms(piece: str) -> tuple[bytes, ...]:
    """Return text as files may hold it: UTF-8, inside JSON, inside JSON of ASCII alone."""
    plain = json.dumps(piece, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(piece)[1:-1]
    return tuple(form.encode(errors="replace") for form in (piece, plain, ascii_only))


def _holds(path: Path, forms: Iterable[bytes]) -> bool:
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return any(data.find(form) >= 0 for form in forms)
    except FileNotFoundError:
        return False
