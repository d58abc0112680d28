"""What the nodes work with, bound when the graph is built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from ...memory.archive.protocol import Archive
from ...memory.attention.law import Attention
from ...memory.compression.merge import Likeness
from ...memory.context.budget import fixed_parts, instructions
from ...memory.context.timeline import Part
from ...memory.embeddings import Embedder
from ...memory.lately import Lately
from ...memory.references import KeywordCache
from ...memory.running_turn import LAID_OUT, LaidOut
from ...memory.settings import Settings
from ...memory.tokens import TokenCounter
from ..llm.calls import Models

STEADY = 2.0
"""Seconds for which a turn takes its session to be as its beginning has read it.

The steps before a model's answer take a few milliseconds; what somebody else erases while they run
is in that call as it would be in one that is on its way. After a slower answer it is read again.
"""


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The agent's parts. `schemas`: all tools as the provider sees them.

    `schema_tokens` have all of these together, `own_schema_tokens` those of the application alone:
    they are counted once. `system` is the application's own part of the system message. `attention`
    stands in front of the archive's own, None for none. `fixed` are the tokens of system message
    and tool schemas where they are not known here.
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
    laid_out: LaidOut = field(default_factory=lambda: Lately(LAID_OUT))

    @property
    def models(self) -> Models:
        """Which model is asked what."""
        return {
            "summary": self.summary_model,
            "extraction": self.extraction_model,
            "background": self.compression_model,
        }


def fixed(parts: AgentParts, settings: Settings) -> tuple[Part, Part]:
    """Return what is sent in any case: the system message, and the tool schemas."""
    system = instructions(parts.system, settings)
    return fixed_parts(system, parts.schema_tokens, parts.count)


def sizes(parts: AgentParts, settings: Settings) -> tuple[int, int]:
    """Return the tokens of the system message and of the tool schemas."""
    if parts.fixed is not None:
        return parts.fixed
    system, tools = fixed(parts, settings)
    return system.tokens, tools.tokens
