"""The arguments of the memory tools as a model may send them: the parameters of their functions."""

from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model


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


def arguments_of(tool: Callable[..., Any]) -> type[BaseModel]:
    """Return the arguments that a tool takes; unknown ones are an error that the model reads."""
    _, *parameters = signature(tool).parameters.values()
    fields: dict[str, Any] = {
        given.name: (given.annotation, ... if given.default is given.empty else given.default)
        for given in parameters
    }
    return create_model(tool.__name__, __config__=ConfigDict(extra="forbid"), **fields)
