"""What the model says beside its answer: the state block, which users do not see."""

from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ..memory import banners
from ..memory.anchor import limited, newest, rendered
from ..memory.context.timeline import packed as packed_line
from ..memory.context.timeline import unpacked, with_anchor
from ..memory.messages import speaks
from ..memory.settings import Settings, resolve
from ..memory.state_blocks import cut_content
from ..memory.transitions import happened
from ..memory.workspace import Workspace
from .collaborators import Collaborators
from .plain import jsonable
from .session import packed, workspace
from .state import TurnState


def anchored(
    state: TurnState,
    runtime: Runtime[Settings],
    answer: AIMessage,
    *,
    collaborators: Collaborators,
) -> tuple[AIMessage, dict[str, Any]]:
    """Return the answer as users see it, and the update that keeps the rest.

    The last complete block becomes the anchor; what the model said goes on to `persist`. That an
    answer is nothing but a block is told in a banner: its message is empty.
    """
    settings = resolve(runtime.context, collaborators.settings)
    said = jsonable(answer.content)
    seen = cut_content(said)
    if settings.anchor == "off" or seen is said:
        return answer, {}
    raw = {**state.get("raw_answers", {}), str(answer.id): said}
    update: dict[str, Any] = {"raw_answers": raw}
    before = workspace(state)
    space = _with_anchor(before, said, settings, collaborators)
    if not (speaks(seen) or answer.tool_calls or answer.invalid_tool_calls):
        space = replace(space, banners=(*space.banners, banners.wordless()))
    for banner in space.banners[len(before.banners) :]:
        runtime.stream_writer({"banner": banner})
    if space is not before:
        update |= packed(space)
    line = unpacked(state.get("view"))
    if line is not None and space.anchor != before.anchor:
        update["view"] = packed_line(with_anchor(line, before.anchor))
    return answer.model_copy(update={"content": seen}), update


def _with_anchor(
    space: Workspace, said: Any, settings: Settings, collaborators: Collaborators
) -> Workspace:
    """Return the workspace after the block that a model wrote, the same one if it says nothing."""
    fields = newest(said)
    if fields is None:
        return space
    limit = settings.anchor_max_tokens
    anchor = limited(fields, limit, collaborators.count)
    if list(anchor.items()) == list(space.anchor.items()):
        return space
    banner = ""
    if anchor != fields:
        banner = banners.anchor_cut(collaborators.count(rendered(fields)), limit)
    return happened(space, {"type": "anchored", "anchor": anchor}, banner)
