"""What compressions, and the log of how they were made, lose when a turn is erased."""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ..salience import without_turn
from .folder import COMPRESSED, Folder
from .lines import Compressed, encode_compressed
from .log import Stored, read, replace_lines

Made: TypeAlias = tuple[str, str, int]
"""What was made of an effort, on a branch, after a turn."""

_ERASED = {"erased": True}


def made_from(folder: Folder, turn: int, sees: Callable[[Made], bool]) -> tuple[Made, ...]:
    """Return what was made from a turn: compressions, and passes in the log of extractions.

    A later pass saw it in the background that it went on from. `sees` tells whether what was made
    there has the turn in its past, and is of its effort.
    """
    compressed = (_place(one) for one in _compressions(folder) if one.made.through >= turn)
    logged = (_logged_place(said) for said in _logged(folder) if _saw(said, turn))
    return tuple(sorted({one for one in chain(compressed, logged) if sees(one)}))


def forget(folder: Folder, turn: int, made: Collection[Made]) -> None:
    """Take a turn out of what was made from it; again, it changes nothing more."""
    if made:
        _rewrite(folder, folder.path / COMPRESSED, lambda one, raw: _without(one, raw, turn, made))
        _rewrite(folder, folder.extractions, lambda _, raw: _untold(raw, turn, made))


def _compressions(folder: Folder) -> Iterator[Compressed]:
    for stored in _lines(folder.path / COMPRESSED):
        if isinstance(stored.line, Compressed):
            yield stored.line


def _logged(folder: Folder) -> Iterator[dict[str, Any]]:
    path = folder.extractions
    with path.open("rb") if path.exists() else nullcontext(()) as lines:
        for raw in lines:
            said = _pass(raw)
            if said is not None:
                yield said


def _lines(path: Path) -> Iterator[Stored]:
    yield from read(path) if path.exists() else ()


def _place(one: Compressed) -> Made:
    return one.made.effort, one.branch, one.made.turn


def _logged_place(said: dict[str, Any]) -> Made:
    return said["effort"], said["branch"], said["turn"]


def _saw(said: dict[str, Any], turn: int) -> bool:
    """Tell whether a pass compressed a turn, or later ones; without turns it made all anew."""
    return max(said["turns"], default=turn) >= turn


def _rewrite(folder: Folder, path: Path, change: Callable[[Stored, bytes], bytes]) -> None:
    def lines() -> Iterator[bytes]:
        with path.open("rb") as file:
            for stored in read(path):
                yield change(stored, file.read(stored.length))

    if path.exists():
        replace_lines(path, lines(), durable=folder.durable)


def _without(stored: Stored, raw: bytes, turn: int, made: Collection[Made]) -> bytes:
    one = stored.line
    if not isinstance(one, Compressed):
        return b""  # damaged: nobody can tell what it holds
    if _place(one) not in made or one.made.through < turn:
        return raw
    return encode_compressed(replace(one, made=without_turn(one.made, turn)))


def _untold(raw: bytes, turn: int, made: Collection[Made]) -> bytes:
    said = _pass(raw)
    if said is None:
        return b""
    if _logged_place(said) not in made or not _saw(said, turn):
        return raw
    return json.dumps({**said, "told": _ERASED}, ensure_ascii=False).encode() + b"\n"


def _pass(raw: bytes) -> dict[str, Any] | None:
    """Return what a line of the log of extractions says, None if it is torn or damaged."""
    try:
        said = json.loads(raw)
        found: dict[str, Any] = {**said, "turns": [*said["turns"]]}
        _logged_place(found)
    except (ValueError, LookupError, TypeError):
        return None
    return found
