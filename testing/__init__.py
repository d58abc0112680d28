"""For tests of applications: a chat model with a script, and an archive that writes no file."""

from .in_memory import InMemoryArchive
from .scripted import Answer, ScriptedModel, ScriptError

__all__ = ["Answer", "InMemoryArchive", "ScriptError", "ScriptedModel"]
