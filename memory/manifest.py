"""The manifest: what the records say of the efforts, for people to read and to edit.

A list in YAML, one entry per line as `- {JSON}`, which is read as JSON; once it was edited by hand
into another form, it is read as YAML.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from .efforts import Effort, EffortStatus, changes
from .record import Record

# What YAML takes for the end of a line, or does not take at all.
_REFUSED = re.compile("[\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufeff\ufffe\uffff]")
_STATUSES: Mapping[Any, EffortStatus] = {"open": "open", "concluded": "concluded"}
_MARK, _OPENING = "- ", b'- {"id": "'


class _Dumper(yaml.SafeDumper):
    """Writes what YAML would take for a line end as an escape, which PyYAML fails to do."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _REFUSED.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)

Key: TypeAlias = tuple[str, int, str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One status change of an effort: how the effort was left, on which branch, and when."""

    effort: Effort
    branch: str
    at: str

    @property
    def key(self) -> Key:
        """What an edit by hand cannot change: branch, turn, id and status."""
        return (self.branch, self.effort.turn, self.effort.id, self.effort.status)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The entries of a manifest, oldest first.

    `strange` counts the items that are no entry; `appendable` tells whether every line is an
    entry of its own, so that a further line can follow.
    """

    entries: tuple[Entry, ...]
    strange: int = 0
    appendable: bool = True


class ManifestError(ValueError):
    """A manifest is no YAML list."""


def entries(record: Record) -> tuple[Entry, ...]:
    """Return the entries that a record adds to the manifest, oldest first."""
    left = changes(record.events, record.turn)
    made = (entry_of(fields(Entry(effort, record.branch, record.at))) for effort in left)
    return tuple(entry for entry in made if entry is not None)


def fields(entry: Entry) -> dict[str, Any]:
    """Return an entry with its keys as they are written."""
    effort = entry.effort
    return {
        "id": effort.id,
        "status": effort.status,
        "summary": effort.summary,
        "keywords": list(effort.keywords),
        "importance": effort.importance,
        "goal": effort.goal,
        "constraints": list(effort.constraints),
        "tokens": effort.tokens,
        "turn": effort.turn,
        "branch": entry.branch,
        "at": entry.at,
        **({"stale": True} if effort.stale else {}),
    }


def entry_of(item: Any) -> Entry | None:
    """Return the entry that an item of the list is, None if it is none.

    People write `summary: 401` and `keywords: auth`, so values of another type are converted.
    """
    if not isinstance(item, Mapping) or type(item.get("turn")) is not int:
        return None
    status = _STATUSES.get(str(item.get("status")))
    if status is None or not {"id", "branch"} <= item.keys():
        return None
    effort = Effort(
        id=_text(item["id"]),
        status=status,
        goal=_text(item.get("goal")),
        constraints=_texts(item.get("constraints")),
        summary=_text(item.get("summary")),
        keywords=_texts(item.get("keywords")),
        importance=min(max(_number(item.get("importance"), 50), 0), 100),
        tokens=_number(item.get("tokens"), 0),
        turn=item["turn"],
        stale=item.get("stale") is True,
    )
    return Entry(effort, _text(item["branch"]), _text(item.get("at")))


def line(entry: Entry) -> str:
    r"""Return an entry as one line that is JSON after its dash, and YAML as a whole.

    >>> line(Entry(Effort("a", "open", goal="x\x85y"), "main", ""))[:50]
    '- {"id": "a", "status": "open", "summary": "", "ke'
    """
    text = json.dumps(fields(entry), ensure_ascii=False)
    return _MARK + _REFUSED.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def block(listed: Iterable[Entry]) -> str:
    """Return entries as YAML in the form that people read best."""
    items = [fields(entry) for entry in listed]
    return yaml.dump(items, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)


def parse(data: bytes) -> Manifest:
    """Read a manifest of either form; a torn last line is left out, it will be written again.

    Raises `ManifestError` if it is neither.
    """
    *lines, rest = data.split(b"\n")
    items = [_item(text) for text in ([*lines, rest] if rest else lines)]
    torn = bool(rest) and items[-1] is None and _begun(rest)
    whole = [item for item in items[: -1 if torn else None] if item is not None]
    if len(whole) + torn < len(items):
        return _manifest(_yaml(data), appendable=False)
    return _manifest(whole, appendable=not rest)


def lacking(known: Sequence[Entry], manifest: Manifest) -> tuple[Entry, ...]:
    """Return the entries of the records that the manifest does not have, oldest first."""
    present = Counter(entry.key for entry in manifest.entries)
    surplus = Counter(entry.key for entry in known)
    surplus.subtract(present)
    lacking: list[Entry] = []
    # An effort may change twice in one turn; the later of the two is the one that is missing.
    for entry in reversed(known):
        if surplus[entry.key] > 0:
            surplus[entry.key] -= 1
            lacking.append(entry)
    return tuple(reversed(lacking))


def edits(known: Iterable[Entry], manifest: Manifest) -> tuple[Entry, ...]:
    """Return the entries that were edited by hand: same key as a record's, other values."""
    said = {entry.key: entry.effort for entry in known}
    written = {entry.key: entry for entry in manifest.entries}
    return tuple(
        entry for key, entry in written.items() if key in said and said[key] != entry.effort
    )


def unknown(known: Iterable[Entry], manifest: Manifest) -> tuple[Entry, ...]:
    """Return the entries of the manifest that match no record."""
    said = {entry.key for entry in known}
    return tuple(entry for entry in manifest.entries if entry.key not in said)


def _item(text: bytes) -> Mapping[str, Any] | None:
    if not text.startswith(_MARK.encode()):
        return None
    try:
        item = json.loads(text[len(_MARK) :])
    except (ValueError, RecursionError):
        return None
    return item if isinstance(item, Mapping) else None


def _begun(text: bytes) -> bool:
    """Tell whether text is the beginning of a line that we write."""
    return text.startswith(_OPENING) or _OPENING.startswith(text)


def _yaml(data: bytes) -> list[Any]:
    try:
        items = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(str(error)) from error
    if not isinstance(items, list):
        raise ManifestError(f"a list of entries was expected, found {type(items).__name__}")
    return items


def _manifest(items: Sequence[Any], *, appendable: bool) -> Manifest:
    found = [entry_of(item) for item in items]
    listed = tuple(entry for entry in found if entry is not None)
    return Manifest(listed, len(found) - len(listed), appendable)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value] if value else []
    return tuple(_text(item) for item in items)


def _number(value: Any, default: int) -> int:
    return round(value) if isinstance(value, int | float) and math.isfinite(value) else default
