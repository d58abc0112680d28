"""The command `ebbtide`; the module of a subcommand is imported when the subcommand is called."""

import io
import logging
import os
import sqlite3
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .. import __version__
from ..memory.errors import EbbtideError, SessionNotFoundError
from .printable import one_line, printable, without_secrets

COMMANDS: Mapping[str, tuple[str, str]] = {
    "chat": ("chat:chat", "Talk to the agent; the conversation is kept."),
    "sessions": ("reports:sessions", "List the sessions of a user."),
    "settings": ("reports:settings", "Show the current settings, and where each is set."),
    "inspect": ("inspect:inspect", "See the context of every turn in a browser."),
    "stats": ("reports:stats", "Show what the memory did, and what its context cost."),
    "demo": ("demo:demo", "Watch a conversation and its context, without a key."),
    "eval": ("evaluate:evaluate", "Measure how well strategies keep a conversation's goal."),
    "bench": ("bench:bench", "Run the benchmarks of a checkout in a small size."),
    "archive": ("archive:app", "Check, export and copy what is stored."),
    "attention": ("reports:attention", "See what is in a user's attention, and why."),
}
"""Maps a command to the `module:name` of its function or its `Typer`, and to its help."""


class PrintableFormatter(logging.Formatter):
    """Formats log records: the terminal shows every character, obeys none, and sees no secret."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the printable text of a record, without the secrets of the environment."""
        return printable(without_secrets(super().format(record), os.environ))


class _LazyGroup(TyperGroup):
    """Imports a command when it is called: `--help` alone takes no second of imports."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that is called, and return it."""
        name, _, arguments = super().resolve_command(ctx, args)
        module, _, function = COMMANDS[name or ""][0].partition(":")
        command = getattr(import_module(f".{module}", __package__), function)
        if not isinstance(command, typer.Typer):
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command()(command)
            command = single
        return name, get_command(command), arguments

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of Ebbtide or of the disk is one line and exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has seen enough, as `head` has: click ends quietly
            raise
        except (EbbtideError, OSError, UnicodeError, sqlite3.Error) as error:
            text = one_line(error, os.environ)
            if type(error) is SessionNotFoundError:
                text += "; `ebbtide sessions` lists them"
            typer.echo(f"ebbtide: {text}", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 (as typer calls it)
    if requested:
        typer.echo(f"ebbtide {__version__}")
        raise typer.Exit


@app.callback()
def ebbtide(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Chat with an agent whose working memory manages itself, and manage what it stored."""
    del version  # `_print_version` has handled it
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode shows "?", no traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PrintableFormatter())


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)  # replaced when it is called


if __name__ == "__main__":
    app()
