"""Where the commands keep things: the archive at the root, what only the chat needs beside it."""

import os
from dataclasses import dataclass
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from ..graph.attention_commands import nobody
from ..graph.config import load
from ..graph.models import choose_model
from ..graph.own_store import FOLDER, OwnStore
from ..graph.redis_url import redis_attention
from ..memory.attention import Attention
from ..memory.disk.archive import DiskArchive
from ..memory.errors import SettingsError
from ..memory.names import safe_name
from ..memory.record import DEFAULT_USER
from ..memory.settings import Settings
from ..memory.store_attention import StoreAttention
from .faults import one_line


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of the archive, and whose sessions are meant."""

    root: Path
    user: str = DEFAULT_USER

    def archive(self) -> DiskArchive:
        """Open the archive."""
        return DiskArchive(self.root)

    def checkpoints(self) -> Path:
        """Return the file of the user's checkpoints, its folder made."""
        return self._folder() / "checkpoints.sqlite"

    def history(self) -> Path:
        """Return the file of what the user typed, its folder made."""
        return self._folder() / "history"

    def _folder(self) -> Path:
        """Return a folder per user, so that two users' threads of one name stay apart."""
        folder = self.root / FOLDER / safe_name(self.user)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True, slots=True)
class Setup:
    """What a command works with: its home, the settings, the name of a model."""

    home: Home
    settings: Settings
    model: str | None

    def chat_model(self) -> BaseChatModel:
        """Return the model; raises `SettingsError` if there is no such model, or no key for it."""
        try:
            return choose_model(self.model, os.environ)
        except Exception as error:  # each provider's package raises its own
            why = one_line(error, os.environ)
            raise SettingsError(f"model {self.model!r} cannot be used: {why}") from error

    def redis(self) -> Attention | None:
        """Return attention on the Redis server that the environment names, None if it names none.

        Raises `SettingsError` if it cannot be.
        """
        return redis_attention(self.settings, os.environ)

    def attention(self) -> Attention:
        """Return attention as the chat keeps it; raises `CommandError` for who has no name."""
        if self.home.user == DEFAULT_USER:
            raise nobody()
        return self.redis() or StoreAttention(
            OwnStore(self.home.root)(),
            threshold=self.settings.attention_threshold,
            capacity=self.settings.attention_capacity,
        )


def configured(
    root: Path | None, user: str | None, config: Path | None = None, model: str | None = None
) -> Setup:
    """Read the configuration under the options of a command; one that is None was not given."""
    read = load({"root": root, "model": model}, environment=os.environ, path=config)
    return Setup(Home(read.root, user or DEFAULT_USER), read.settings, read.model)
