"""A model that says next to nothing and remembers what it was sent."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from .toolless import Toolless


class Listener(Toolless):
    """Stands where an agent has its model, to learn which context the agent would send."""

    _heard: list[BaseMessage] = PrivateAttr(default_factory=list)

    @property
    def heard(self) -> list[BaseMessage]:
        """The messages of the last request."""
        return self._heard

    @property
    def _llm_type(self) -> str:
        return "listener"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_kwargs: Any,
    ) -> ChatResult:
        self._heard = list(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Noted."))])
