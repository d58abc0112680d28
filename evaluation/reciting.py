"""A model that says what a template's assistant said, so that an agent lives through it."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr


class Reciter(BaseChatModel):
    """Answers each call with the next message that it was given."""

    _lines: deque[AIMessage] = PrivateAttr(default_factory=deque)

    def learn(self, messages: Iterable[AIMessage]) -> None:
        """Take these messages to say next, instead of what is left."""
        self._lines = deque(messages)

    @property
    def _llm_type(self) -> str:
        return "reciter"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],  # noqa: ARG002
        **_kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model as it is: which tools it calls is written down."""
        return self.bind()

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 (the base class's signature)
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._lines.popleft())])
