"""`ebbtide inspect`: the inspector in a browser, on a local server."""

import secrets
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Annotated, Any

import typer
from langgraph.checkpoint.sqlite import SqliteSaver

from ..graph.agent import choose_embedder, create_memory_agent
from ..graph.commands.threads import Agent
from ..memory.archive.sql import SqlArchive
from ..memory.errors import SettingsError
from ..memory.turn import ANONYMOUS
from .home import CHECKPOINTS, ConfigFile, Embedding, Home, Root, configured, installing


def inspect(  # noqa: PLR0913 (the options of a command)
    root: Root = None,
    user: Annotated[str | None, typer.Option(help="User id (default: all users).")] = None,
    config: ConfigFile = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 0,
    *,
    embeddings: Embedding = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="Let the page close, expand, suppress and erase.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Show what the model was sent, what left the context, and why, in a browser."""
    server = inspector("server")
    uvicorn = _imported("uvicorn")
    home = configured(root, user, config)
    token = secrets.token_urlsafe(32)
    with home.archive() as archive:
        users = (lambda: (home.user,)) if home.user != ANONYMOUS else archive.users
        embedder = choose_embedder(home.embeddings(embeddings))
        inspected = server.Inspected(archive, users, home.settings, home.redis(archive), embedder)
        listening = _listening(port)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}"
        typer.echo(f"{home.location}\n{address}\nStop with Ctrl-C.")
        if browser:
            webbrowser.open(address)
        opened = ChatAgents(home, archive, embeddings) if actions else None
        options = uvicorn.Config(
            server.local_app(inspected, token, opened),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,  # open pages hold a stream of events
        )
        uvicorn.Server(options).run(sockets=[listening])


@dataclass(frozen=True, slots=True)
class ChatAgents:
    """Opens the agent that `ebbtide chat` has for a user."""

    home: Home
    archive: SqlArchive
    embeddings: str | None = None

    @contextmanager
    def __call__(self, user: str) -> Iterator[Agent]:
        """Open the agent with the user's checkpoints."""
        home = replace(self.home, user=user)
        path = home.chat_folder() / CHECKPOINTS
        with SqliteSaver.from_conn_string(str(path)) as saver:
            yield create_memory_agent(
                home.chat_model(),
                checkpointer=saver,
                archive=self.archive,
                settings=home.settings,
                attention=home.redis(self.archive),
                embeddings=home.embeddings(self.embeddings),
            )


def _listening(port: int) -> Any:
    import socket  # noqa: PLC0415 (of this command alone)

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # the browser may ask before the server has begun
    except OSError as error:
        raise SettingsError(f"port {port} cannot be used: {error}; pass another --port") from error
    return listening


def inspector(name: str) -> Any:
    """Return a module of the inspector; raises `SettingsError` if its packages are missing."""
    return _imported(f"..inspector.{name}")


def _imported(name: str) -> Any:
    try:
        return import_module(name, __package__)
    except ModuleNotFoundError as error:
        needed = f"the inspector needs {error.name}, which is not installed"
        raise SettingsError(f"{needed}: {installing('inspect')}") from error
