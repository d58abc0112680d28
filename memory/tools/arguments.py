"""Types of the memory tools' arguments, lenient towards what models send in their place."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def _as_turns(value: Any) -> Any:
    """Return a list of turns as text, whether a model sends text, numbers, a list or null."""
    listed = ",".join(map(str, value)) if isinstance(value, list) else value
    return "" if listed is None else str(listed).strip().strip("[]")


# Models send null for what they leave out, and a text where a list is required.
Number: TypeAlias = Annotated[int, BeforeValidator(lambda value: 0 if value is None else value)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(lambda value: value or False)]
Text: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
Texts: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) and value else value or []),
]
Turns: TypeAlias = Annotated[str, BeforeValidator(_as_turns)]
"""Turns such as "3-5,8"."""
