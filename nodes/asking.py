"""Questions to a model besides the conversation: structured where it can, else JSON in text."""

import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from ..prompts.loader import text as prompt
from .left_behind import threaded
from .provider_errors import refused
from .reading import is_cut_off, read, saved
from .retrying import Deadline, Patience, acalled, called

Value = TypeVar("Value", bound=BaseModel | str)

_log = logging.getLogger("ebbtide.calls")
_LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""What LangChain's models call the most tokens that they may answer with."""


@dataclass(frozen=True, slots=True)
class Question(Generic[Value]):
    """What is asked, and the form of the answer: a schema with a prompt for it, or plain text.

    `limit` is the most tokens of the answer, where the model can be told; `name` is how traces
    call it.
    """

    name: str
    instructions: str
    log: str
    answer: type[Value]
    as_text: str = ""
    limit: int | None = None


Put: TypeAlias = tuple[Runnable[Any, Any], list[BaseMessage]]
"""A way to put a question: what is invoked, and with what."""


def ask(model: BaseChatModel, question: Question[Value], patience: Patience) -> Value:
    """Return the model's answer, form by form until one gives it; raises the last error."""
    deadline, forms = Deadline(patience), _forms(model, question)
    form = next(forms)
    while True:
        call = partial(form[0].invoke, form[1], _config(question))
        try:
            return read(called(call, deadline), question.answer)
        except Exception as error:  # noqa: BLE001 (any provider's; at last it is raised again)
            if (part := saved(error, question.answer)) is not None:
                return part
            form = forms.send(error)


async def aask(model: BaseChatModel, question: Question[Value], patience: Patience) -> Value:
    """Do what `ask` does, without holding a thread of the event loop."""
    deadline, forms = Deadline(patience), _forms(model, question)
    form = next(forms)
    while True:
        call = partial(form[0].ainvoke, form[1], _config(question))
        if _is_synchronous(model):
            call = partial(threaded, partial(form[0].invoke, form[1], _config(question)))
        try:
            return read(await acalled(call, deadline), question.answer)
        except Exception as error:  # noqa: BLE001 (as above)
            if (part := saved(error, question.answer)) is not None:
                return part
            form = forms.send(error)


def noted(error: Exception) -> str:
    """Return what is said of a call that failed, once it is logged."""
    why = f"{type(error).__name__}: {str(error)[:200]}"
    _log.warning("call failed: %s", why)
    return why


def _forms(model: BaseChatModel, question: Question[Any]) -> Generator[Put, Exception, None]:
    """Yield ways to put a question, is sent the error of each; raises one that no other mends.

    Without the limit it is put again only if a provider did not take it with it, or if the answer
    came to nothing because of it, as may be with models that think first.
    """
    limited = _limited(model, question.limit)
    for bound in (limited, model):
        unlimited_may_help = False
        for form in _of_model(bound, question):
            error = yield form
            if is_cut_off(error):
                unlimited_may_help = True
                break
            unlimited_may_help = unlimited_may_help or refused(error)
            if not _mendable(error):
                raise error
        if limited is model or bound is model or not unlimited_may_help:
            raise error


def _of_model(model: BaseChatModel, question: Question[Any]) -> Iterator[Put]:
    if issubclass(question.answer, str):
        yield model, _messages(question)
        return
    schema = question.answer.model_json_schema()  # a dict: ChatOpenAI warns when it streams a class
    for method in ("json_schema", "function_calling"):
        try:
            form = model.with_structured_output(schema, method=method)
        except (NotImplementedError, ValueError, TypeError) as error:
            _log.debug("%s has no structured output by %s: %s", type(model).__name__, method, error)
        else:
            yield form, _messages(question)
    yield model, _messages(question, f"\n\n{prompt(question.as_text)}")


def _messages(question: Question[Any], form: str = "") -> list[BaseMessage]:
    return [SystemMessage(question.instructions + form), HumanMessage(question.log)]


def _config(question: Question[Any]) -> Any:
    return {"tags": [TAG_NOSTREAM], "run_name": question.name}


def _limited(model: BaseChatModel, limit: int | None) -> BaseChatModel:
    """Return the model with this limit, or itself if it knows none or has a lower one."""
    for name in _LIMITS:
        if limit is not None and name in getattr(type(model), "model_fields", ()):
            own = getattr(model, name)
            low_enough = isinstance(own, int) and 0 < own <= limit
            return model if low_enough else model.model_copy(update={name: limit})
    return model


def _mendable(error: Exception) -> bool:
    """Tell whether another form may succeed: what came, or how it was asked for, was bad."""
    return refused(error) or isinstance(error, ValueError | TypeError | NotImplementedError)


def _is_synchronous(model: BaseChatModel) -> bool:
    """Tell whether a model answers `ainvoke` in a thread of the event loop."""
    methods = ("_agenerate", "_astream")
    return all(getattr(type(model), name, None) is getattr(BaseChatModel, name) for name in methods)
