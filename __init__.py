"""Ebbtide: a LangGraph agent whose working memory manages itself."""

from .graph.agent import build_memory_graph, create_memory_agent
from .graph.restore import arestore, restore
from .memory.archive import Archive, EffortList, Finding
from .memory.disk.archive import DiskArchive
from .memory.efforts import Effort
from .memory.errors import (
    ArchiveError,
    ArchiveFormatError,
    ArchiveLockedError,
    EbbtideError,
    InputError,
    SessionNotFoundError,
    SettingsError,
)
from .memory.record import Group, Owner, Record, Tip
from .memory.settings import Settings
from .nodes.state import MemoryState

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchiveFormatError",
    "ArchiveLockedError",
    "DiskArchive",
    "EbbtideError",
    "Effort",
    "EffortList",
    "Finding",
    "Group",
    "InputError",
    "MemoryState",
    "Owner",
    "Record",
    "SessionNotFoundError",
    "Settings",
    "SettingsError",
    "Tip",
    "arestore",
    "build_memory_graph",
    "create_memory_agent",
    "restore",
]
