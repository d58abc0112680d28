"""The model calls that summarise efforts: an error instead of an exception."""

from langchain_core.language_models import BaseChatModel

from ..memory.errors import SummaryError
from ..memory.summary import EffortSummary, SummaryRequest
from .asking import Question, aask, ask, noted
from .retrying import Patience

PATIENCE = Patience()
"""How long one summary is tried."""


def summarise(
    model: BaseChatModel, request: SummaryRequest, patience: Patience = PATIENCE
) -> EffortSummary | SummaryError:
    """Ask for a summary, form by form; return the error if none gives one."""
    try:
        return ask(model, _question(request), patience)
    except Exception as error:  # noqa: BLE001 (any provider's: the effort must stay open)
        return SummaryError(noted(error))


async def asummarise(
    model: BaseChatModel, request: SummaryRequest, patience: Patience = PATIENCE
) -> EffortSummary | SummaryError:
    """Do what `summarise` does, without holding a thread."""
    try:
        return await aask(model, _question(request), patience)
    except Exception as error:  # noqa: BLE001 (as above)
        return SummaryError(noted(error))


def _question(request: SummaryRequest) -> Question[EffortSummary]:
    return Question(
        name="summarise_effort",
        instructions=request.instructions,
        log=request.log,
        answer=EffortSummary,
        as_text="summary_as_text",
    )
