"""What stands where an agent has its model: one that listens, and one that recites."""

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


class Toolless(BaseChatModel):
    """What an agent may bind its tools to, though nobody decides there which to call."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],  # noqa: ARG002
        **_kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model as it is."""
        return self.bind()


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
