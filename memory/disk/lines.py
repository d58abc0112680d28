"""Records as lines of JSON, and back; lines that refer to a record in another file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..messages import Message, clean, unserialisable
from ..record import Group, Record, Status
from ..salience import Compression, as_data, from_data

VERSION = 1
_STATUSES: Mapping[Any, Status] = {"aborted": "aborted", "erased": "erased"}


@dataclass(frozen=True, slots=True)
class Reference:
    """A line that says where the record of a turn stands, in the log of its second effort."""

    branch: str
    turn: int
    file: str


@dataclass(frozen=True, slots=True)
class Compressed:
    """A compression, and the branch on which it was made."""

    branch: str
    made: Compression


Line: TypeAlias = Record | Reference | Compressed


def plain(value: Any) -> Any:
    """Return `value` as JSON will give it back; what JSON cannot hold becomes a marker.

    >>> plain({"sizes": (1, 2), "raw": b"x"})
    {'sizes': [1, 2], 'raw': {'ebbtide_unserialisable': 'builtins.bytes'}}
    """
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return unserialisable(value)


def storable(group: Group) -> Group:
    """Return the group as it will be read back."""
    return replace(
        group,
        messages=tuple(plain(message) for message in group.messages),
        events=tuple(plain(event) for event in group.events),
        efforts=tuple(dict.fromkeys(clean(effort) for effort in group.efforts)),
        at=clean(group.at),
    )


def encode(record: Record) -> bytes:
    """Return the line of a record."""
    body = {
        "v": VERSION,
        "turn": record.turn,
        "branch": record.branch,
        "from": None if record.origin is None else list(record.origin),
        "parent": record.parent,
        "digest": record.digest,
        "efforts": list(record.efforts),
        "status": record.status,
        "at": record.at,
        "messages": list(record.messages),
        "events": list(record.events),
    }
    return _line({**body, "gap": True} if record.gap else body)


def encode_reference(reference: Reference) -> bytes:
    """Return the line of a reference."""
    ref = {"branch": reference.branch, "turn": reference.turn, "file": reference.file}
    return _line({"v": VERSION, "ref": ref})


def encode_compressed(compressed: Compressed) -> bytes:
    """Return the line of a compression."""
    made = plain(as_data(compressed.made))
    return _line({"v": VERSION, "branch": compressed.branch, "compressed": made})


def decode(line: bytes) -> Line | None:
    """Return what a line holds, None if it is torn or damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        body = json.loads(line)
        if "ref" in body:
            return _reference(body["ref"])
        if "compressed" in body:
            return Compressed(_text(body["branch"]), from_data(body["compressed"]))
        return _record(body)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _line(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(body: Mapping[str, Any]) -> Record:
    origin = body["from"]
    return Record(
        turn=_whole(body["turn"]),
        branch=_text(body["branch"]),
        parent=_text(body["parent"]),
        digest=_text(body["digest"]),
        messages=tuple(_message(message) for message in body["messages"]),
        at=_text(body["at"]),
        origin=None if origin is None else (_text(origin[0]), _whole(origin[1])),
        efforts=tuple(_text(effort) for effort in body["efforts"]),
        events=tuple(body["events"]),
        status=_STATUSES.get(body["status"], "done"),
        gap=body.get("gap", False) is True,
    )


def _reference(ref: Mapping[str, Any]) -> Reference:
    return Reference(_text(ref["branch"]), _whole(ref["turn"]), _text(ref["file"]))


def _message(value: Any) -> Message:
    if not isinstance(value["data"], dict) or not isinstance(value["type"], str):
        raise TypeError(value)
    return dict(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(clean(key))
    if key is None or isinstance(key, int | float):
        return json.dumps(key)
    return type(key).__name__


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value
