"""The options that several commands share."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Root: TypeAlias = Annotated[
    str | None,
    typer.Option("--root", help="Folder of the archive, or URL (default: sessions)."),
]
User: TypeAlias = Annotated[
    str | None, typer.Option("--user", help="Whose sessions (default: default).")
]
ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", help="Settings file (default: ebbtide.yaml).")
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", help="Such as openai:gpt-5-mini, or offline."),
]
Thread: TypeAlias = Annotated[str, typer.Option("--thread", help="Name of the conversation.")]
Session: TypeAlias = Annotated[str, typer.Argument(help="Name of the session, or of its thread.")]
AnySession: TypeAlias = Annotated[
    str | None, typer.Argument(help="Name of a session or a thread; without it, all of them.")
]
