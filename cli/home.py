"""What commands share: their options, the archive and its settings, the names of sessions."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from langchain.embeddings import init_embeddings
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from ..graph.commands.on_attention import nobody
from ..graph.config import ROOT, load, redis_attention
from ..graph.models import choose_model
from ..memory.archive.sql import SqlArchive
from ..memory.attention.law import Attention
from ..memory.errors import SettingsError
from ..memory.memories import UserMemories
from ..memory.names import safe_name
from ..memory.serialised import clean
from ..memory.settings import Settings
from ..memory.turn import ANONYMOUS
from .printable import discreet, in_line, one_line

Root = Annotated[str | None, typer.Option(help=f"Folder of the archive, or URL (default: {ROOT}).")]
User = Annotated[str | None, typer.Option(help="User id (default: sessions without a user).")]
RequiredUser = Annotated[str | None, typer.Option(help="User id; required.")]
ConfigFile = Annotated[Path | None, typer.Option(help="Settings file (default: ebbtide.yaml).")]
Extracting = Annotated[
    str | None, typer.Option(help="Model that chooses quotes, such as openai:gpt-4o.")
]
Compressing = Annotated[
    str | None, typer.Option(help="Model that writes backgrounds, such as openai:gpt-4o-mini.")
]
Embedding = Annotated[
    str | None,
    typer.Option(help="For search by meaning: minilm, or openai:text-embedding-3-small."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


_NAME = "Name of the session: its thread, or `thread (namespace)` in a larger graph."
_ID = "Id of a memory: <session>/<effort>, of a fact or rule <session>/turn-N/fact-k."

SessionName = Annotated[str, typer.Argument(help=_NAME)]
AnySession = Annotated[
    str | None, typer.Argument(help="Name of a session or thread (default: all).")
]
MemoryId = Annotated[str, typer.Argument(help=_ID)]
Thread = Annotated[str, typer.Option(help="Name of the conversation.")]

CHECKPOINTS = "checkpoints.sqlite"
"""The file of a user's checkpoints in `Home.chat_folder`."""

HISTORY = "history"
"""The file of what a user typed, in the same folder."""


@contextmanager
def as_settings_error(choice: str, remedy: str = "") -> Iterator[None]:
    """Turn any error into a `SettingsError`: each provider's package raises errors of its own."""
    try:
        yield
    except Exception as error:
        said = one_line(error, os.environ)
        # What to do comes first, since the lists of some providers are longer than an error.
        why = f"{remedy} ({said})" if remedy else said
        raise SettingsError(f"{choice} cannot be used: {why}") from error


def remedy_for(model: str, environment: Mapping[str, str]) -> str:
    """Return what to do if a model cannot be made, "" if only its provider knows.

    >>> remedy_for("openai:gpt-5-mini", {}), remedy_for("nosuch", {})
    ('set OPENAI_API_KEY', 'write provider:name, such as openai:gpt-5-mini')
    """
    if model.startswith(("openai:", "gpt-")) and not environment.get("OPENAI_API_KEY"):
        return "set OPENAI_API_KEY"
    return "" if ":" in model else "write provider:name, such as openai:gpt-5-mini"


@dataclass(frozen=True, slots=True)
class Home:
    """Where a command works: folder or URL of the archive, user, settings, name of the model."""

    root: str | Path
    user: str = ANONYMOUS
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    model: str | None = None

    @property
    def _is_database(self) -> bool:
        return "://" in str(self.root)

    @property
    def location(self) -> str:
        """The absolute folder of the archive, or its URL without the password."""
        return discreet(str(self.root if self._is_database else Path(self.root).absolute()))

    @property
    def no_sessions(self) -> str:
        """The sentence for a user without sessions."""
        whose = f"of {self.user}" if self.user else "without a user"
        return in_line(f"No sessions {whose} in {self.location}")

    def archive(self) -> SqlArchive:
        """Open the archive."""
        return SqlArchive(self.root)

    def chat_folder(self) -> Path:
        """Make the folder of checkpoints; one per user, so that threads of one name stay apart.

        Raises `SettingsError` if it cannot be made.
        """
        root = Path(ROOT).expanduser() if self._is_database else Path(self.root)
        folder = root / ".ebbtide" / safe_name(self.user)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            state = f"{str(folder)!r} cannot be created ({error.strerror})"
            raise SettingsError(f"{state}: name another folder with --root") from error
        return folder

    def chat_model(self) -> BaseChatModel:
        """Return the model; raises `SettingsError` for an unknown model or a missing key."""
        with as_settings_error(f"model {self.model!r}", remedy_for(self.model or "", os.environ)):
            return choose_model(self.model, os.environ)

    def embeddings(self, name: str | None) -> Embeddings | str | None:
        """Return embeddings by a name such as `minilm` or `openai:text-embedding-3-small`.

        Raises `SettingsError` if a provider's cannot be used.
        """
        if not name or ":" not in name:  # the agent knows the others
            return name
        with as_settings_error(f"embeddings {name!r}"):
            return init_embeddings(name)

    def redis(self, archive: SqlArchive) -> Attention | None:
        """Return attention in the Redis that the environment names, or None if it names none.

        Raises `SettingsError` if Redis cannot be used.
        """
        return redis_attention(archive, self.settings, os.environ)

    @contextmanager
    def attention(self) -> Iterator[UserMemories]:
        """Open the user's attention; raises `CommandError` if no user was named."""
        if self.user == ANONYMOUS:
            raise nobody()
        with self.archive() as archive:
            attention = self.redis(archive) or archive.attention(self.settings.attention_threshold)
            yield UserMemories(archive, self.user, attention)


def configured(
    root: str | None, user: str | None, config: Path | None = None, **options: str | None
) -> Home:
    """Read the configuration; further `options` of a command override it, unless they are None."""
    if user:
        name_given(user, "--user")
    keys = load({"root": root, **options}, path=config)
    return Home(keys.root, user or ANONYMOUS, keys.settings, keys.model)


def name_given(name: str, option: str) -> str:
    """Return a name as it is; raise `SettingsError` if it is empty, or bytes that are no text."""
    if not name or clean(name) != name:
        raise SettingsError(f"{option} takes a name of at least one letter in UTF-8, not {name!r}")
    return name


def installing(extra: str) -> str:
    """Return how to install an extra."""
    command = f"pip install 'ebbtide[{extra}]', in a checkout pip install '.[{extra}]'"
    return f"install the extra `{extra}`: {command}"
