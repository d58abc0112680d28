"""Files with a line of JSON for each entry, to which several processes may append at once."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from .template import EvaluationError, Strict

Entry = TypeVar("Entry", bound=Strict)


def read_lines(path: Path, kind: type[Entry]) -> Iterator[Entry]:
    """Yield the entries of a file, none if there is no file; a line that a kill tore is left out.

    Raises `EvaluationError` for a line that holds something else.
    """
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            if line:
                yield kind.model_validate(json.loads(line))
        except ValueError as error:
            if not line.startswith(b"{") or isinstance(error, ValidationError):
                place = f"{str(path)!r}, line {number}"
                raise EvaluationError(f"{place}: no {kind.__name__}: choose another one") from error


def append(path: Path, entry: Strict) -> None:
    """Append an entry in one write, behind a torn line too, and wait until it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        begin = b"" if file.read(1) in {b"", b"\n"} else b"\n"
        file.write(begin + json.dumps(entry.model_dump(mode="json")).encode() + b"\n")
        os.fsync(file.fileno())
