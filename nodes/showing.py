"""What LangGraph's `messages` stream shows of an answer: its pieces without the state block.

The run of the model is hidden from that stream by its tag, and what a handler lets pass is pushed
into it. So there is one run only: usage is counted once, and a model that does not stream needs
nothing, since its node gives the whole answer.
"""

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, set_config_context
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.message import push_message

from ..memory.settings import Settings
from ..memory.state_blocks import Cutter, appended, passed


def showing(settings: Settings) -> RunnableConfig | None:
    """Return the configuration of a model call whose stream shows no block.

    None if the model keeps no block: then it is called as any other.
    """
    if settings.anchor == "off":
        return None
    config = get_config()
    return merge_configs(config, {"tags": [TAG_NOSTREAM], "callbacks": [_Showing(config)]})


class _Showing(BaseCallbackHandler):
    """Pushes the pieces of an answer into the stream, in which it holds back the blocks."""

    run_inline = True
    """In the thread and context of the node, so that the pieces stay in order."""

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config
        self._runs: dict[UUID, tuple[Cutter, RunnableConfig]] = {}

    def on_chat_model_start(
        self, *_given: Any, run_id: UUID, metadata: Any = None, tags: Any = None, **_more: Any
    ) -> None:
        """Begin an answer, which the stream describes as it does those of other models."""
        own = [tag for tag in tags or () if tag != TAG_NOSTREAM and not tag.startswith("seq:step")]
        told = {**(metadata or {}), **({"tags": own} if own else {})}
        self._runs[run_id] = Cutter(), merge_configs(self._config, {"metadata": told})

    def on_llm_new_token(self, *_given: Any, run_id: UUID, chunk: Any = None, **_more: Any) -> None:
        """Push what can be shown of a piece; the last one brings what was held back."""
        message = getattr(chunk, "message", None)
        if not isinstance(message, AIMessageChunk):
            return
        cutter, config = self._runs[run_id]
        content = passed(cutter, message.content)
        if message.chunk_position == "last":
            content = appended(content, cutter.end())
        piece = message.model_copy(update={"content": content})
        with set_config_context(config) as context:
            context.run(push_message, piece, state_key=None)
