"""The model calls of a compression, extraction and background: an error instead of an exception."""

from langchain_core.language_models import BaseChatModel

from ..memory.background import BackgroundRequest
from ..memory.errors import SalienceError
from ..memory.extraction import Extraction, ExtractionRequest
from ..memory.settings import Settings
from .asking import Question, aask, ask, noted
from .retrying import Patience


def extract(
    model: BaseChatModel, request: ExtractionRequest, settings: Settings
) -> Extraction | SalienceError:
    """Ask what of a log must stay, within `compression_timeout`; return the error if it failed."""
    try:
        return ask(model, _extraction(request, settings), _patience(settings))
    except Exception as error:  # noqa: BLE001 (any provider's: the log then stays as it is)
        return SalienceError(noted(error))


async def aextract(
    model: BaseChatModel, request: ExtractionRequest, settings: Settings
) -> Extraction | SalienceError:
    """Do what `extract` does, without holding a thread."""
    try:
        return await aask(model, _extraction(request, settings), _patience(settings))
    except Exception as error:  # noqa: BLE001 (as above)
        return SalienceError(noted(error))


def background(
    model: BaseChatModel, request: BackgroundRequest, settings: Settings
) -> str | SalienceError:
    """Ask for the background, within `compression_timeout`; return the error if it failed."""
    try:
        return ask(model, _background(request, settings), _patience(settings))
    except Exception as error:  # noqa: BLE001 (as above)
        return SalienceError(noted(error))


async def abackground(
    model: BaseChatModel, request: BackgroundRequest, settings: Settings
) -> str | SalienceError:
    """Do what `background` does, without holding a thread."""
    try:
        return await aask(model, _background(request, settings), _patience(settings))
    except Exception as error:  # noqa: BLE001 (as above)
        return SalienceError(noted(error))


def _extraction(request: ExtractionRequest, settings: Settings) -> Question[Extraction]:
    return Question(
        name="extract_salient",
        instructions=request.instructions,
        log=request.log,
        answer=Extraction,
        as_text="extraction_as_text",
        limit=settings.extraction_max_tokens,
    )


def _background(request: BackgroundRequest, settings: Settings) -> Question[str]:
    return Question(
        name="write_background",
        instructions=request.instructions,
        log=request.log,
        answer=str,
        limit=settings.background_max_tokens,
    )


def _patience(settings: Settings) -> Patience:
    return Patience(seconds=settings.compression_timeout)
