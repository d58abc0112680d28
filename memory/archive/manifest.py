"""The manifest of an export: what the records say of the efforts, for people to read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from ..efforts import Effort, changes
from ..record import Record

# What YAML takes for the end of a line, or does not take at all.
_REFUSED = re.compile("[\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufeff\ufffe\uffff]")


class _Dumper(yaml.SafeDumper):
    """Writes what YAML would take for a line end as an escape, which PyYAML fails to do."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _REFUSED.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


@dataclass(frozen=True, slots=True)
class Entry:
    """One status change of an effort: how the effort was left, on which branch, and when."""

    effort: Effort
    branch: str
    at: str


def entries(record: Record) -> tuple[Entry, ...]:
    """Return the entries that a record adds to the manifest, oldest first."""
    left = changes(record.events, record.turn)
    return tuple(Entry(effort, record.branch, record.at) for effort in left)


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


def block(listed: Iterable[Entry]) -> str:
    """Return entries as YAML in the form that people read best."""
    items = [fields(entry) for entry in listed]
    return yaml.dump(items, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)
