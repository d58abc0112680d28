"""Ebbtide: a LangGraph agent whose working memory manages itself."""

import sys

from .cli import commands
from .graph.agent import build_memory_graph, create_memory_agent
from .graph.erasing import (
    DeletionReport,
    ErasureReport,
    adelete_session,
    adelete_user,
    aerase,
    delete_session,
    delete_user,
    erase,
)
from .graph.middleware import EbbtideMiddleware
from .graph.restore import arestore, restore
from .memory.archive.protocol import Archive, EffortList, Finding
from .memory.archive.sql import DiskArchive, SqlArchive
from .memory.attention import Attention
from .memory.efforts import Effort
from .memory.errors import (
    ArchiveError,
    ArchiveFormatError,
    ArchiveLockedError,
    ArchiveUnavailableError,
    AttentionError,
    CommandError,
    EbbtideError,
    InputError,
    SessionNotFoundError,
    SettingsError,
    StateError,
    TipNotFoundError,
    TurnArrivedError,
    TurnNotFoundError,
    TurnRunningError,
)
from .memory.record import Group, Owner, Record, Tip
from .memory.settings import Settings
from .nodes.state import MemoryState

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchiveFormatError",
    "ArchiveLockedError",
    "ArchiveUnavailableError",
    "Attention",
    "AttentionError",
    "CommandError",
    "DeletionReport",
    "DiskArchive",
    "EbbtideError",
    "EbbtideMiddleware",
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
    "SqlArchive",
    "StateError",
    "Tip",
    "TipNotFoundError",
    "TurnArrivedError",
    "TurnNotFoundError",
    "TurnRunningError",
    "adelete_session",
    "adelete_user",
    "aerase",
    "arestore",
    "build_memory_graph",
    "create_memory_agent",
    "delete_session",
    "delete_user",
    "erase",
    "restore",
]

sys.modules[f"{__name__}.commands"] = commands  # so that `import ebbtide.commands` finds it as well
