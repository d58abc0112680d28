"""Which model is used: the one named, else OpenAI's with a key, else the offline one."""

import logging
from collections.abc import Mapping

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from .offline_model import OfflineModel

_log = logging.getLogger("ebbtide.models")
_OPENAI = "openai:gpt-5-mini"


def choose_model(name: str | None, environment: Mapping[str, str]) -> BaseChatModel:
    """Return the model called `name`, "offline" for the offline one.

    Without a name it is OpenAI's if `OPENAI_API_KEY` is set, else the offline model, with a notice.
    """
    if name == "offline":
        return OfflineModel()
    if name:
        return init_chat_model(name)
    if environment.get("OPENAI_API_KEY"):
        return init_chat_model(_OPENAI)
    _log.warning("no model chosen and no OPENAI_API_KEY set: the offline model answers by rules")
    return OfflineModel()
