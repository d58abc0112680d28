"""Ebbtide: a LangGraph agent whose working memory manages itself."""

import sys

from .cli import commands
from .graph.agent import build_memory_graph, create_memory_agent
from .graph.erasing import ErasureReport, aerase, erase
from .graph.restore import arestore, restore
from .memory.archive.protocol import Archive, EffortList, Finding
from .memory.attention import Attention
from .memory.disk.archive import DiskArchive
from .memory.efforts import Effort
from .memory.errors import (
    ArchiveError,
    ArchiveFormatError,
    ArchiveLockedError,
    AttentionError,
    CommandError,
    EbbtideError,
    InputError,
    SessionNotFoundError,
    SettingsError,
    TurnArrivedError,
    TurnNotFoundError,
    TurnRunningError,
)
from .memory.record import Group, Owner, Record, Tip
from .memory.settings import Settings
from .memory.store_attention import StoreAttention
from .nodes.state import MemoryState

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchiveFormatError",
    "ArchiveLockedError",
    "Attention",
    "AttentionError",
    "CommandError",
    "DiskArchive",
    "EbbtideError",
    "Effort",
    "EffortList",
    "ErasureReport",
    "Finding",
    "Group",
    "InputError",
    "MemoryState",
    "Owner",
    "Record",
    "SessionNotFoundError",
    "Settings",
    "SettingsError",
    "StoreAttention",
    "Tip",
    "TurnArrivedError",
    "TurnNotFoundError",
    "TurnRunningError",
    "aerase",
    "arestore",
    "build_memory_graph",
    "create_memory_agent",
    "erase",
    "restore",
]

sys.modules[f"{__name__}.commands"] = commands  # so that `import ebbtide.commands` finds it as well
