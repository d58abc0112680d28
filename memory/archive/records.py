"""Records as rows, and back."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..efforts import Effort, changes
from ..errors import ArchiveFormatError
from ..messages import Message, clean, fingerprint, unserialisable
from ..record import Group, Record, Status
from ..state_blocks import cut_content

_STATUSES: Mapping[Any, Status] = {"aborted": "aborted", "erased": "erased"}
"""What a row may say beside "done", for which anything else is taken."""

# What most rows say alike, the most frequent last; rows can only be read with the very same text.
COMMON = (
    b" about after again because before could different every first from have into just like "
    b"more need only other please right should some something than thank that the their them "
    b"then there these they thing think this through time very want were what when where which "
    b"with without would you your and for not are but can how why it is in of to a "
    b'"type":"thinking","thinking":"","signature":"","artifact":"status":"error","example":'
    b'"additional_kwargs":{},"invalid_tool_calls":[],"response_metadata":{"finish_reason":"stop",'
    b'"model_name":"usage_metadata":{"input_tokens":,"output_tokens":,"total_tokens":,'
    b'"input_token_details":{"cache_read":0},"output_token_details":{"reasoning":0}}'
    b'{"type":"opened","effort":"","goal":"","type":"concluded","effort":"","summary":"'
    b'","keywords":["","importance":5},{"type":"reopened","effort":"","type":"expanded",'
    b'"type":"searched","efforts":["","type":"anchor","anchor":{"goal":"","type":"compressed",'
    b'"effort":"","turn":,"through":,"method":"salience","tokens":{"before":,"after":}},'
    b'{"turn":1,"active_effort":"","open_efforts":{"":{"opened_turn":,"last_referenced_turn":,'
    b'"last_active_turn":}},"summaries":{"","expanded":{"position":{"compressed":{"branch":'
    b'{"type":"referenced","effort":""},{"type":"context","tokens":{"system":,"tools":,"memory"'
    b':,"ambient":,"active":,"notes":,"turn":},"said":}][{"type":"system","data":{"content":['
    b'{"type":"text","text":""}],"id":"run--","tool_calls":[{"name":"","args":{"","id":"call_'
    b'","type":"tool_call"}]}},{"type":"tool","data":{"content":"","name":"","id":"'
    b'","tool_call_id":"call_"}},{"type":"ai","data":{"content":"","id":"lc_run--"}}]'
    b'[{"type":"human","data":{"content":"","id":""}},{"type":"ai","data":{"content":"'
)


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


def zipped(text: str) -> bytes:
    """Return text as zlib data, compressed with a dictionary of what most rows repeat.

    >>> data = zipped('[{"type":"human","data":{"content":"Which port?"}}]')
    >>> len(data), unzipped(data)
    (24, '[{"type":"human","data":{"content":"Which port?"}}]')
    """
    packing = zlib.compressobj(zdict=COMMON)
    return packing.compress(text.encode()) + packing.flush()


def unzipped(data: bytes) -> str:
    """Return the text of zlib data; raises `ValueError` if they are damaged."""
    unpacking = zlib.decompressobj(zdict=COMMON)
    try:
        text = unpacking.decompress(data) + unpacking.flush()
    except (TypeError, zlib.error) as error:
        raise ValueError(f"no zlib data: {error}") from error
    if not unpacking.eof:
        raise ValueError("the zlib data are cut off")
    return text.decode()


def mark(messages: Sequence[Message]) -> str:
    """Return the mark by which the last of some messages is recognised, state blocks aside.

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
    same = ("branch", "turn", "digest", "parent", "status", "at")
    return {
        **{name: getattr(record, name) for name in same},
        "last": mark(record.messages),
        "efforts": packed(record.efforts),
        "events": zipped(packed(record.events)),
        "size": len(messages),
        "messages": zipped(messages),
    }


def record_of(row: Any, origin: tuple[str, int] | None = None) -> Record:
    """Return the record of a row; raises `ArchiveFormatError` that names the turn."""
    try:
        return Record(
            turn=row.turn,
            branch=row.branch,
            parent=row.parent,
            digest=row.digest,
            messages=tuple(json.loads(unzipped(row.messages))),
            at=row.at,
            origin=origin,
            efforts=tuple(json.loads(row.efforts)),
            events=tuple(json.loads(unzipped(row.events))),
            status=_STATUSES.get(row.status, "done"),
        )
    except (TypeError, ValueError) as error:
        raise _unreadable(row, error) from error


def state_of(row: Any) -> Any:
    """Return the state in the row of a turn, None if there is none; raises as `record_of`."""
    try:
        return None if row.state is None else dict(json.loads(unzipped(row.state)))
    except (TypeError, ValueError) as error:
        raise _unreadable(row, error) from error


def _unreadable(row: Any, error: Exception) -> ArchiveFormatError:
    return ArchiveFormatError(f"turn {row.turn} of branch {row.branch!r} is damaged: {error}")


def left_by(turn: Group | Record) -> tuple[Effort, ...]:
    """Return how a turn left efforts whose status it changed, oldest change first."""
    return changes(turn.events, turn.turn)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(clean(key))
    if key is None or isinstance(key, int | float):
        return json.dumps(key)
    return type(key).__name__
