"""What each setting is, for people: told by the class itself, and written as a Markdown table."""

from dataclasses import dataclass
from types import NoneType
from typing import Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from ..memory.settings import Settings

_SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}


@dataclass(frozen=True, slots=True)
class Row:
    """A setting in words: its name, default and range, and its meaning with the unit."""

    name: str
    default: str
    range: str
    meaning: str


def described(name: str, field: FieldInfo) -> Row:
    """Return what there is to say of a setting."""
    return Row(name, written(field.default), _range(field), field.description or "")


def written(value: object) -> str:
    """Return a value with its digits grouped as in source text.

    >>> written(16000), written(0.25), written(None)
    ('16_000', '0.25', 'none')
    """
    if value is None:
        return "none"
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def settings_table() -> str:
    """Return a Markdown table with a row for each setting."""
    rows = (_line(described(name, field)) for name, field in Settings.model_fields.items())
    return "\n".join(
        ("| setting | default | range | meaning |", "| --- | --- | --- | --- |", *rows)
    )


def _line(row: Row) -> str:
    default = row.default if row.default == "none" else f"`{row.default}`"
    meaning = row.meaning.replace("|", "\\|")
    return f"| `{row.name}` | {default} | {row.range} | {meaning} |"


def _range(field: FieldInfo) -> str:
    if choices := _choices(field.annotation):
        return ", ".join(f"`{choice}`" for choice in choices)
    limits = [
        f"{sign} {written(getattr(limit, kind.__name__.lower()))}"
        for kind, sign in _SIGNS.items()
        for limit in field.metadata
        if isinstance(limit, kind)
    ]
    return ", ".join(limits) or "any"


def _choices(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return _choices(parts[0]) if len(parts) == 1 else ()
