"""Choose the chat model: by name, else OpenAI's if there is a key, else the scripted model."""

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from ..memory.errors import SettingsError
from ..testing import ScriptedModel

_log = logging.getLogger("ebbtide.models")

SCRIPTED = "scripted"
"""The name of the scripted model."""


def choose_model(name: str | None, environment: Mapping[str, str]) -> BaseChatModel:
    """Return the model called `name`; "scripted" is the scripted model.

    Without a name it is OpenAI's if `OPENAI_API_KEY` is set, else the scripted model and a warning.
    """
    chosen = model_name(name, environment)
    if chosen != SCRIPTED:
        return init_chat_model(chosen)
    if not name:
        _log.warning(
            "no model chosen and no OPENAI_API_KEY set: the scripted model answers by rules"
        )
    return ScriptedModel()


@lru_cache(maxsize=64)
def by_name(name: str) -> BaseChatModel:
    """Return the model of a name, the same one each time; "scripted" is the scripted model."""
    return ScriptedModel() if name == SCRIPTED else init_chat_model(name)


def model_name(name: str | None, environment: Mapping[str, str]) -> str:
    """Return the name of the model that `choose_model` returns.

    >>> model_name(None, {"OPENAI_API_KEY": "sk-1"}), model_name(None, {})
    ('openai:gpt-5-mini', 'scripted')
    """
    return name or ("openai:gpt-5-mini" if environment.get("OPENAI_API_KEY") else SCRIPTED)


class UnknownModel(BaseChatModel):
    """Stands for the model of a middleware's agent: it depends on the request."""

    @property
    def _llm_type(self) -> str:
        return "unknown"

    def _generate(self, *_given: Any, **_more: Any) -> Any:
        raise self.error

    @property
    def error(self) -> SettingsError:
        """The error of whoever needs the model."""
        return SettingsError(
            "the middleware knows the agent's model only during a turn: give EbbtideMiddleware a "
            "summary_model=, and an extraction_model= and a compression_model="
        )
