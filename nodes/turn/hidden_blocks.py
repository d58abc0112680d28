"""State blocks: kept from users and from their streams.

The run of the model is hidden from that stream by its tag, and what a handler lets pass is pushed
into it. So there is one run only: usage is counted once, and a model that does not stream needs
nothing, since its node gives the whole answer.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, set_config_context
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.message import push_message
from langgraph.runtime import Runtime

from ...memory import banners
from ...memory.anchor import ANCHOR_TOKENS, limited, newest, rendered
from ...memory.context.timeline import packed as packed_line
from ...memory.context.timeline import unpacked, with_anchor
from ...memory.efforts import EffortState, happened
from ...memory.messages import speaks
from ...memory.settings import Settings, resolve
from ...memory.state_blocks import Cutter, appended, cut_content, passed
from .langchain_messages import jsonable
from .parts import AgentParts
from .state import TurnState
from .values import packed, workspace


def anchored(
    state: TurnState,
    runtime: Runtime[Settings],
    answer: AIMessage,
    *,
    parts: AgentParts,
) -> tuple[AIMessage, dict[str, Any]]:
    """Return the answer as users see it, and the update that keeps the rest.

    The last complete block becomes the anchor; what the model said goes on to `persist`. That an
    answer is nothing but a block is told in a banner: its message is empty.
    """
    settings = resolve(runtime.context, parts.settings)
    said = jsonable(answer.content)
    seen = cut_content(said)
    if settings.anchor == "off" or seen is said:
        return answer, {}
    raw = {**state.get("raw_answers", {}), str(answer.id): said}
    update: dict[str, Any] = {"raw_answers": raw}
    before = workspace(state)
    space = _with_anchor(before, said, parts)
    if not (speaks(seen) or answer.tool_calls or answer.invalid_tool_calls):
        space = replace(space, banners=(*space.banners, banners.WORDLESS))
    for banner in space.banners[len(before.banners) :]:
        runtime.stream_writer({"banner": banner})
    if space is not before:
        update |= packed(space)
    line = unpacked(state.get("view"))
    if line is not None and space.anchor != before.anchor:
        update["view"] = packed_line(with_anchor(line, before.anchor))
    return answer.model_copy(update={"content": seen}), update


def _with_anchor(space: EffortState, said: Any, parts: AgentParts) -> EffortState:
    """Return the state after the block that a model wrote, the same one if it says nothing."""
    fields = newest(said)
    if fields is None:
        return space
    anchor = limited(fields, ANCHOR_TOKENS, parts.count)
    if list(anchor.items()) == list(space.anchor.items()):
        return space
    banner = None
    if anchor != fields:
        banner = banners.anchor_cut(parts.count(rendered(fields)), ANCHOR_TOKENS)
    return happened(space, {"type": "anchored", "anchor": anchor}, banner)


def showing(settings: Settings, config: RunnableConfig) -> RunnableConfig:
    """Return the configuration of a model call whose stream shows no block.

    The one given if the model keeps no block: then it is called as any other.
    """
    if settings.anchor == "off":
        return config
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
