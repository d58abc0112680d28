"""What commands share: their options, where things are kept, and sessions by their names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from langchain_core.language_models import BaseChatModel

from ..graph.commands.on_attention import UserAttention, nobody
from ..graph.config import ROOT, load, redis_attention
from ..graph.models import choose_model
from ..memory.archive.sql import SqlArchive
from ..memory.attention.law import Attention
from ..memory.errors import SettingsError
from ..memory.names import safe_name
from ..memory.record import DEFAULT_USER, Owner
from ..memory.settings import Settings
from .printable import discreet, in_line, one_line

Root = Annotated[str | None, typer.Option(help=f"Folder of the archive, or URL (default: {ROOT}).")]
User = Annotated[str | None, typer.Option(help="Whose sessions (default: default).")]
ConfigFile = Annotated[Path | None, typer.Option(help="Settings file (default: ebbtide.yaml).")]
Session = Annotated[str, typer.Argument(help="Name of the session, or of its thread.")]
AnySession = Annotated[
    str | None, typer.Argument(help="Name of a session or a thread; without it, all of them.")
]


@contextmanager
def choosing(what: str) -> Iterator[None]:
    """Raise `SettingsError` if what was chosen fails: each provider's package raises its own."""
    try:
        yield
    except Exception as error:
        raise SettingsError(f"{what} cannot be used: {one_line(error, os.environ)}") from error


@dataclass(frozen=True, slots=True)
class Home:
    """The archive's folder or the URL of its database, whose sessions, the settings, a model."""

    root: str | Path
    user: str = DEFAULT_USER
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    model: str | None = None

    @property
    def _is_database(self) -> bool:
        return "://" in str(self.root)

    @property
    def shown(self) -> str:
        """Where the archive is, from the root of the disk, without a password."""
        return discreet(str(self.root if self._is_database else Path(self.root).absolute()))

    @property
    def none(self) -> str:
        """That the user has no sessions here."""
        return in_line(f"No sessions of {self.user} in {self.shown}")

    def archive(self) -> SqlArchive:
        """Open the archive."""
        return SqlArchive(self.root)

    def chat_folder(self) -> Path:
        """Make the chat's folder: one per user, so that threads of one name stay apart."""
        root = Path(ROOT).expanduser() if self._is_database else Path(self.root)
        folder = root / ".ebbtide" / safe_name(self.user)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def chat_model(self) -> BaseChatModel:
        """Return the model; raises `SettingsError` if there is no such model, or no key for it."""
        with choosing(f"model {self.model!r}"):
            return choose_model(self.model, os.environ)

    def redis(self, archive: SqlArchive) -> Attention | None:
        """Return the archive's attention behind the Redis that the environment names, if it does.

        Raises `SettingsError` if it cannot be.
        """
        return redis_attention(archive, self.settings, os.environ)

    def attention(self) -> UserAttention:
        """Return attention as the chat keeps it; raises `CommandError` for who has no name."""
        if self.user == DEFAULT_USER:
            raise nobody()
        archive = self.archive()
        attention = self.redis(archive) or archive.attention(self.settings.attention_threshold)
        return UserAttention(attention, self.user)


def configured(
    root: str | None, user: str | None, config: Path | None = None, model: str | None = None
) -> Home:
    """Read the configuration under the options of a command; one that is None was not given."""
    read = load({"root": root, "model": model}, environment=os.environ, path=config)
    return Home(read.root, user or DEFAULT_USER, read.settings, read.model)


def session_label(owner: Owner) -> str:
    """Return the name of a session: its thread, and its namespace if there is one."""
    return f"{owner.thread} ({owner.namespace})" if owner.namespace else owner.thread
