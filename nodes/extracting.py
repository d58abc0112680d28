"""The calls of a compression: what is asked of which model, and an error where one fails."""

from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

from ..memory.background import BackgroundRequest
from ..memory.compressing import Reply
from ..memory.errors import SalienceError
from ..memory.extraction import Extraction, ExtractionRequest
from ..memory.settings import Settings
from .asking import Question, aask, ask, noted
from .retrying import Patience


@dataclass(frozen=True, slots=True)
class Ask:
    """A question for a model, what the log calls it, and how long an answer is waited for."""

    what: Literal["extraction", "background"]
    model: BaseChatModel
    question: Question[Any]
    patience: Patience


def extraction(model: BaseChatModel, request: ExtractionRequest, settings: Settings) -> Ask:
    """Return how a model is asked what of a log must stay."""
    question = Question(
        name="extract_salient",
        instructions=request.instructions,
        log=request.log,
        answer=Extraction,
        as_text="extraction_as_text",
        limit=settings.extraction_max_tokens,
    )
    return Ask("extraction", model, question, Patience(seconds=settings.compression_timeout))


def background(model: BaseChatModel, request: BackgroundRequest, settings: Settings) -> Ask:
    """Return how a model is asked for the background."""
    question = Question(
        name="write_background",
        instructions=request.instructions,
        log=request.log,
        answer=str,
        limit=settings.background_max_tokens,
    )
    return Ask("background", model, question, Patience(seconds=settings.compression_timeout))


def answered(asked: Ask) -> Reply | SalienceError:
    """Return what the model answers, or why it did not."""
    try:
        reply: Reply = ask(asked.model, asked.question, asked.patience)
    except Exception as error:  # noqa: BLE001 (any provider's: the log then stays as it is)
        return SalienceError(noted(error))
    return reply


async def aanswered(asked: Ask) -> Reply | SalienceError:
    """Do what `answered` does, without holding a thread."""
    try:
        reply: Reply = await aask(asked.model, asked.question, asked.patience)
    except Exception as error:  # noqa: BLE001 (as above)
        return SalienceError(noted(error))
    return reply
