"""What the nodes work with, bound when the graph is built."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from ...memory.archive.protocol import Archive
from ...memory.attention.law import Attention
from ...memory.attention.surfacing import Attended
from ...memory.compression.merge import Likeness
from ...memory.context.budget import fixed_parts, instructions
from ...memory.context.timeline import Part
from ...memory.efforts import EffortState
from ...memory.embeddings import Embedder
from ...memory.errors import AttentionError, SettingsError
from ...memory.lru_cache import LruCache
from ...memory.record import Owner
from ...memory.references import KeywordCache
from ...memory.running_turn import LAID_OUT, LaidOut
from ...memory.settings import Settings, resolve
from ...memory.tokens import TokenCounter
from ...memory.view import ArchiveView
from ..llm.calls import Models

_log = logging.getLogger("ebbtide.attention")

STEADY = 2.0
"""Seconds for which a turn takes its session to be as its beginning has read it.

The steps before a model's answer take a few milliseconds; what somebody else erases while they run
is in that call as it would be in one that is on its way. After a slower answer it is read again.
"""


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The agent's parts. `schemas`: all tools as the provider sees them.

    Their tokens are counted once: `schema_tokens` of all, `own_schema_tokens` of the application's.
    `system` is the application's part of the system message, `attention` a cache before the
    archive's. `fixed` are the tokens of system message and tools where these are not known here.
    """

    model: BaseChatModel
    summary_model: BaseChatModel
    extraction_model: BaseChatModel
    compression_model: BaseChatModel
    alike: Likeness
    archive: Archive
    settings: Settings
    count: TokenCounter
    system: str
    tools: Mapping[str, BaseTool]
    schemas: tuple[dict[str, Any], ...]
    schema_tokens: int
    own_schema_tokens: int
    embedder: Embedder | None = None
    attention: Attention | None = None
    fixed: tuple[int, int] | None = None
    keywords: KeywordCache = field(default_factory=KeywordCache)
    laid_out: LaidOut = field(default_factory=lambda: LruCache(LAID_OUT))

    @property
    def models(self) -> Models:
        """Which model is asked what."""
        return {
            "summary": self.summary_model,
            "extraction": self.extraction_model,
            "background": self.compression_model,
            "anchor": self.model,
        }

    def opening(self, settings: Settings) -> tuple[Part, Part]:
        """Return what is sent in any case: the system message, and the tool schemas."""
        system = instructions(self.system, settings)
        return fixed_parts(system, self.schema_tokens, self.count)

    def sizes(self, settings: Settings) -> tuple[int, int]:
        """Return the tokens of the system message and of the tool schemas."""
        if self.fixed is not None:
            return self.fixed
        system, tools = self.opening(settings)
        return system.tokens, tools.tokens

    def attention_of(self, owner: Owner, settings: Settings) -> Attention | None:
        """Return the attention of an owner, the agent's or the archive's; None for nobody."""
        if owner.anonymous:
            return None
        archived = self.archive.attention(settings.attention_threshold)
        return self.attention or archived

    def surfaced(
        self, state: EffortState, view: ArchiveView, said: str, runtime: Runtime[Settings]
    ) -> EffortState:
        """Return the state of a first turn with what is in its user's attention."""
        try:
            attended = self._attended(view, runtime)
            return state if attended is None else attended.surfaced(state, said)
        except AttentionError as error:
            _log.warning("session %r begins without memories: %s", view.owner.thread, error)
            return state

    def related(self, view: ArchiveView, said: str, runtime: Runtime[Settings]) -> Sequence[str]:
        """Return the memories that a text is about."""
        try:
            attended = self._attended(view, runtime)
            return () if attended is None else attended.related(said)
        except AttentionError as error:
            _log.warning("session %r has no related memories: %s", view.owner.thread, error)
            return ()

    def _attended(self, view: ArchiveView, runtime: Runtime[Settings]) -> Attended | None:
        settings = resolve(runtime.context, self.settings)
        attention = self.attention_of(view.owner, settings)
        return None if attention is None else Attended(attention, view, settings, datetime.now(UTC))

    def memories_changed(self, owner: Owner) -> bool:
        """Tell the agent's own attention, a cache; return False if it could not be told."""
        if self.attention is None or owner.anonymous:
            return True
        try:
            return self.attention.changed(owner.user)
        except AttentionError as error:
            _log.warning("attention of %r may be a day old: %s", owner.user, error)
            return False


def taking_tools(model: BaseChatModel) -> BaseChatModel:
    """Return a model; raises `SettingsError` if it takes no tools, such as LangChain's fakes."""
    known = getattr(type(model), "bind_tools", BaseChatModel.bind_tools)
    if known is BaseChatModel.bind_tools:
        raise SettingsError(
            f"{type(model).__name__} takes no tools, which the memory needs: pass a chat model "
            "with bind_tools, and not what with_retry() or with_fallbacks() make of it"
        )
    return model
