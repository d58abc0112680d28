"""Stored turns as rows, and back."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from sqlalchemy import LargeBinary, Text

from ..attachments import data_of
from ..errors import ArchiveFormatError
from ..serialised import clean, fingerprint, stored_form, to_dict, to_messages, unserialisable
from ..state_block import cut_content
from ..turn import StoredTurn
from .schema import STORED, AnyText

_ZIPPED = {one.name for one in STORED.values() if isinstance(one.type, LargeBinary)}
_PACKED = {one.name for one in STORED.values() if isinstance(one.type, Text)} | _ZIPPED
"""Columns with JSON, and those of them in which it is zlib data."""


_TEXTS = [name for name, one in STORED.items() if isinstance(one.type, AnyText)]


def plain(value: Any) -> Any:
    """Return a value as it is after JSON; what JSON cannot hold becomes a marker.

    >>> plain({"sizes": (1, 2), "raw": b"x"})
    {'sizes': [1, 2], 'raw': {'ebbtide_unserialisable': 'builtins.bytes'}}
    """
    return json.loads(clean(json.dumps(value, ensure_ascii=False, default=_serialisable)))


def storable(turn: StoredTurn) -> StoredTurn:
    """Return a turn as it will be read back, large files as attachments."""
    events, efforts, state = plain((turn.events, turn.efforts, turn.state))
    return replace(
        turn,
        messages=stored_form(turn.messages),
        attachments={**turn.attachments, **data_of(message.content for message in turn.messages)},
        events=tuple(events),
        efforts=tuple(dict.fromkeys(efforts)),
        state=state,
        **{name: clean(getattr(turn, name)) for name in _TEXTS},
    )


def packed(value: Any) -> str:
    """Return plain data, or messages, as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=to_dict)


def zipped(text: str) -> bytes:
    """Return text as zlib data."""
    return zlib.compress(text.encode())


def zipped_json(value: Any) -> bytes:
    """Return plain data as zlib data of compact JSON."""
    return zipped(packed(value))


def unzipped(data: bytes) -> str:
    """Return the text of zlib data; raises `ValueError` if they are damaged."""
    try:
        return zlib.decompress(data).decode()
    except (TypeError, zlib.error) as error:
        raise ValueError(f"no zlib data: {error}") from error


def mark(messages: Sequence[BaseMessage]) -> str:
    """Return a fingerprint of the last message, without its state block and its id.

    Ids are left out because models repeat them and clients invent them.

    >>> mark([AIMessage("Port 80.", id="1")])
    '943135a235c3'
    """
    if not messages:
        return ""
    kind, content = messages[-1].type, messages[-1].content or ""
    return fingerprint([kind, cut_content(content) if kind == "ai" else content], 12)


def columns(turn: StoredTurn) -> dict[str, Any]:
    """Return the columns of a row that follow from the turn alone."""
    values = {column.name: getattr(turn, name) for name, column in STORED.items()}
    texts = {name: packed(values[name]) for name in values if name in _PACKED}
    data = {name: zipped(texts[name]) for name in texts if name in _ZIPPED}
    derived = {"end": mark(turn.messages), "size": len(texts["messages"])}
    return {**values, **texts, **data, **derived}


def turn_of(row: Any) -> StoredTurn:
    """Return the turn of a row; raises an `ArchiveFormatError` that names the turn."""
    values: dict[str, Any] = {}
    try:
        for name, column in STORED.items():
            value = getattr(row, column.name)
            if column.name in _ZIPPED:
                value = unzipped(value)
            values[name] = tuple(json.loads(value)) if column.name in _PACKED else value
        return StoredTurn(**{**values, "messages": to_messages(values["messages"])})
    except (TypeError, ValueError) as error:
        raise _unreadable(row, error) from error


def state_of(row: Any) -> Any:
    """Return the state in a row with its block, None if it has none; raises as `turn_of`."""
    try:
        if row.state is None:
            return None
        state = dict(json.loads(unzipped(row.state)))
        if row.anchor is None:
            return state
        return {**state, "memory": {**state.get("memory", {}), "anchor": anchor_of(row)}}
    except (TypeError, ValueError) as error:
        raise _unreadable(row, error) from error


def anchor_of(row: Any) -> dict[str, str]:
    """Return the fields of the state block in a row; none if there is no row, or no block in it."""
    return {} if row is None or row.anchor is None else dict(json.loads(unzipped(row.anchor)))


def parted_state(state: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Return a state without its state block, and that block, None if it has none.

    >>> parted_state({"memory": {"turn": 2, "anchor": {"Goal": "tidy"}}})
    ({'memory': {'turn': 2}}, {'Goal': 'tidy'})
    """
    memory = (state or {}).get("memory", {})
    if state is None or "anchor" not in memory:
        return state, None
    rest = {key: value for key, value in memory.items() if key != "anchor"}
    return {**state, "memory": rest}, memory["anchor"]


def _unreadable(row: Any, error: Exception) -> ArchiveFormatError:
    return ArchiveFormatError(f"turn {row.turn} ({row.hash}) is damaged: {error}")


def remains(turn: StoredTurn) -> str:
    """Return the digest of what is left of a commit that lost text."""
    return fingerprint([*turn.hashed])


def _serialisable(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else unserialisable(value)
