"""Records as rows and as lines of JSON, and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..efforts import Effort, changes
from ..messages import Message, clean, fingerprint, unserialisable
from ..record import Group, Record, Status
from ..state_blocks import cut_content

FORMAT = 1
"""The version of a line of an export; the first build's logs have the same."""

_STATUSES: Mapping[Any, Status] = {"aborted": "aborted", "erased": "erased"}


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
        state=None if group.state is None else plain(group.state),
    )


def packed(value: Any) -> str:
    """Return plain data as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def mark(messages: Sequence[Message]) -> str:
    """Return by what the last of some messages is known again; state blocks do not count.

    Ids do not either: models repeat them, and clients invent them.

    >>> mark([{"type": "ai", "data": {"content": "Port 80.", "id": "1"}}])
    '943135a235c3'
    """
    if not messages:
        return ""
    kind, data = messages[-1]["type"], messages[-1]["data"]
    content = data.get("content") or ""
    return fingerprint([kind, cut_content(content) if kind == "ai" else content], 12)


def columns(record: Record) -> dict[str, Any]:
    """Return what the row of a record holds of the record itself."""
    messages = packed(record.messages)
    return {
        "branch": record.branch,
        "turn": record.turn,
        "digest": record.digest,
        "parent": record.parent,
        "status": record.status,
        "at": record.at,
        "last": mark(record.messages),
        "efforts": packed(record.efforts),
        "events": packed(record.events),
        "size": len(messages),
        "messages": messages,
    }


def record_of(row: Any, origin: tuple[str, int] | None = None) -> Record:
    """Return the record of a row."""
    return Record(
        turn=row.turn,
        branch=row.branch,
        parent=row.parent,
        digest=row.digest,
        messages=tuple(json.loads(row.messages)),
        at=row.at,
        origin=origin,
        efforts=tuple(json.loads(row.efforts)),
        events=tuple(json.loads(row.events)),
        status=_STATUSES.get(row.status, "done"),
    )


def left_by(turn: Group | Record) -> tuple[Effort, ...]:
    """Return how a turn left efforts whose status it changed, oldest change first."""
    return changes(turn.events, turn.turn)


def encoded(record: Record) -> dict[str, Any]:
    """Return a record as an export writes it."""
    return {
        "v": FORMAT,
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


def decoded(body: Mapping[str, Any]) -> Record:
    """Return the record that an export wrote; raises `LookupError`, `TypeError`, `ValueError`."""
    origin = body["from"]
    return Record(
        turn=int(body["turn"]),
        branch=str(body["branch"]),
        parent=str(body["parent"]),
        digest=str(body["digest"]),
        messages=tuple(_message(message) for message in body["messages"]),
        at=str(body["at"]),
        origin=None if origin is None else (str(origin[0]), int(origin[1])),
        efforts=tuple(str(effort) for effort in body["efforts"]),
        events=tuple(dict(event) for event in body["events"]),
        status=_STATUSES.get(body["status"], "done"),
    )


def _message(value: Any) -> Message:
    if not isinstance(value["data"], dict) or not isinstance(value["type"], str):
        raise TypeError(f"no message: {str(value)[:80]!r}")
    return dict(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(clean(key))
    if key is None or isinstance(key, int | float):
        return json.dumps(key)
    return type(key).__name__
