"""The arguments of the memory tools as a model may send them: the parameters of their functions."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def _as_turns(value: Any) -> Any:
    """Return turns as text, however a model lists them."""
    listed = ",".join(map(str, value)) if isinstance(value, list) else value
    return "" if listed is None else str(listed).strip().strip("[]")


# Models send null for what they leave out, and given text where a list is asked for.
Number: TypeAlias = Annotated[int, BeforeValidator(lambda value: 0 if value is None else value)]
Text: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
Texts: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) and value else value or []),
]
Turns: TypeAlias = Annotated[str, BeforeValidator(_as_turns)]
"""Turns such as "3-5,8"."""
