"""The manifest of an export: what the records say of the efforts, for people to read."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from ..efforts import changes
from ..record import Record

# What YAML takes for the end of a line, or does not take at all.
_REFUSED = re.compile("[\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufeff\ufffe\uffff]")


class _Dumper(yaml.SafeDumper):
    """Writes what YAML would take for a line end as an escape, which PyYAML fails to do."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if _REFUSED.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def entries(record: Record) -> list[dict[str, Any]]:
    """Return the status changes of a record, oldest first: how each effort was left, and when."""
    return [
        {
            "id": effort.id,
            "status": effort.status,
            "summary": effort.summary,
            "keywords": [*effort.keywords],
            "importance": effort.importance,
            "goal": effort.goal,
            "constraints": [*effort.constraints],
            "tokens": effort.tokens,
            "turn": effort.turn,
            "branch": record.branch,
            "at": record.at,
            **({"stale": True} if effort.stale else {}),
        }
        for effort in changes(record.events, record.turn)
    ]


def as_yaml(listed: Sequence[Mapping[str, Any]]) -> str:
    """Return entries as YAML in the form that people read best."""
    return yaml.dump([*listed], Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100)
