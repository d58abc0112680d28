"""Reading what a model answered to a question, whole or as far as it came."""

import json
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.utils.json import parse_partial_json
from pydantic import BaseModel, TypeAdapter

Value = TypeVar("Value", bound=BaseModel | str)

_CUT_OFF = "LengthFinishReasonError"
"""How OpenAI's package calls a structured answer that was cut off; it holds the answer."""

_LENGTH = frozenset({"length", "max_tokens", "MAX_TOKENS"})
"""How providers say that an answer was cut off, in what LangChain keeps of the response."""


class CutOffError(ValueError):
    """An answer was cut off at its limit before anything could be read from it."""


def read(answer: Any, wanted: type[Value]) -> Value:
    """Return what a model or its parser answered as the type that is wanted.

    Raises `ValueError` if it is something else, `CutOffError` if the limit is why.

    >>> read("It works.", str)
    'It works.'
    """
    if not isinstance(answer, BaseMessage):
        return TypeAdapter(wanted).validate_python(answer)
    reasons = {answer.response_metadata.get(key) for key in ("finish_reason", "stop_reason")}
    return _written(str(answer.text), wanted, cut=bool(reasons & _LENGTH))


def saved(error: Exception, wanted: type[Value]) -> Value | None:
    """Return what an answer that was cut off holds, None for any other error."""
    if type(error).__name__ != _CUT_OFF:
        return None
    completion: Any = getattr(error, "completion", None)
    try:
        return _written(completion.choices[0].message.content or "", wanted, cut=True)
    except (AttributeError, LookupError, ValueError):
        return None


def is_cut_off(error: Exception) -> bool:
    """Tell whether the limit left nothing of an answer."""
    return isinstance(error, CutOffError) or type(error).__name__ == _CUT_OFF


def _written(text: str, wanted: type[Value], *, cut: bool) -> Value:
    known: TypeAdapter[Value] = TypeAdapter(wanted)
    try:
        if issubclass(wanted, str):
            return known.validate_python(_some(text))
        return known.validate_python(_complete(text) if cut else _json(text))
    except ValueError as error:
        raise (CutOffError("the answer was cut off") if cut else error) from error


def _some(text: str) -> str:
    if not text.strip():
        raise ValueError("the answer is empty")
    return text


def _json(text: str) -> Any:
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def _complete(text: str) -> Any:
    """Return the JSON of a text that breaks off, up to the last object in it that is complete."""
    return parse_partial_json(text[text.index("{") : text.rindex("}") + 1])
