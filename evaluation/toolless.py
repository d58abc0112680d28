"""A model that can be given tools and does not decide to call one."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool


class Toolless(BaseChatModel):
    """What an agent may bind its tools to, though nobody decides there which to call."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],  # noqa: ARG002
        **_kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model as it is."""
        return self.bind()
