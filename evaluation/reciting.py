"""A model that says what a template's assistant said, so that an agent lives through it."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from .toolless import Toolless


class Reciter(Toolless):
    """Answers each call with the next message that it was given."""

    _lines: deque[AIMessage] = PrivateAttr(default_factory=deque)

    def learn(self, messages: Iterable[AIMessage]) -> None:
        """Take these messages to say next, instead of what is left."""
        self._lines = deque(messages)

    @property
    def _llm_type(self) -> str:
        return "reciter"

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 (the base class's signature)
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._lines.popleft())])
