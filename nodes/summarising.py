"""The model calls that summarise: structured output where the model has it, else JSON in text."""

import json
import logging
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from langgraph.constants import TAG_NOSTREAM

from ..memory.errors import SummaryError
from ..memory.summary import EffortSummary, SummaryRequest
from ..prompts.loader import text as prompt

_log = logging.getLogger("ebbtide.summary")
_CONFIG: Any = {"tags": [TAG_NOSTREAM], "run_name": "summarise_effort"}
_SCHEMA = EffortSummary.model_json_schema()
"""As a dict: ChatOpenAI warns when it streams a pydantic class."""

_REFUSED = frozenset({400, 404, 422})
"""The HTTP answers of a provider that does not know a form of structured output."""


def summarise(model: BaseChatModel, request: SummaryRequest) -> EffortSummary | SummaryError:
    """Ask for a summary, form by form; return the error if none gives one."""
    failed = SummaryError("the model knows no form of structured output")
    for form in _forms(model):
        try:
            return _parsed(form.invoke(_messages(request, form is model), _CONFIG))
        except Exception as error:  # noqa: BLE001 (any provider's: the effort must stay open)
            failed = _noted(error)
            if not _mendable(error):
                break
    return failed


async def asummarise(model: BaseChatModel, request: SummaryRequest) -> EffortSummary | SummaryError:
    """Do what `summarise` does, without holding a thread."""
    failed = SummaryError("the model knows no form of structured output")
    for form in _forms(model):
        try:
            return _parsed(await form.ainvoke(_messages(request, form is model), _CONFIG))
        except Exception as error:  # noqa: BLE001 (any provider's: the effort must stay open)
            failed = _noted(error)
            if not _mendable(error):
                break
    return failed


def _forms(model: BaseChatModel) -> list[Runnable[Any, Any]]:
    forms: list[Runnable[Any, Any]] = []
    for method in ("json_schema", "function_calling"):
        try:
            forms.append(model.with_structured_output(_SCHEMA, method=method))
        except (NotImplementedError, ValueError, TypeError) as error:
            _log.debug("%s has no structured output by %s: %s", type(model).__name__, method, error)
    return [*forms, model]


def _messages(request: SummaryRequest, as_text: bool) -> list[BaseMessage]:  # noqa: FBT001
    form = f"\n\n{prompt('summary_as_text')}" if as_text else ""
    return [SystemMessage(request.instructions + form), HumanMessage(request.log)]


def _parsed(answer: Any) -> EffortSummary:
    if isinstance(answer, EffortSummary):
        return answer
    if isinstance(answer, BaseMessage):
        written = answer.text
        answer = json.loads(written[written.index("{") : written.rindex("}") + 1])
    return EffortSummary.model_validate(answer)


def _noted(error: Exception) -> SummaryError:
    why = f"{type(error).__name__}: {str(error)[:200]}"
    _log.warning("summary call failed: %s", why)
    return SummaryError(why)


def _mendable(error: Exception) -> bool:
    """Tell whether another form of the same call may succeed: the answer, not the way, was bad."""
    refused = getattr(error, "status_code", None) in _REFUSED
    return refused or isinstance(error, ValueError | TypeError | NotImplementedError)
