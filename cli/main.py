"""The command `ebbtide`; what a command needs is imported when it is called."""

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

from ..memory.errors import EbbtideError
from .printable import installed_version, one_line, printable

COMMANDS: Mapping[str, tuple[str, str]] = {
    "chat": ("chat:chat", "Talk to the agent; the conversation is kept."),
    "sessions": ("reports:sessions", "List the sessions of a user."),
    "settings": ("reports:settings", "Show the settings in force, and where each was given."),
    "stats": ("reports:stats", "Show what the memory did, and what its context cost."),
    "demo": ("demo:demo", "Watch a scripted conversation and its context, offline."),
    "eval": ("evaluate:evaluate", "Measure how well strategies keep a conversation's goal."),
    "archive": ("archive:app", "Check, export, import and copy what is stored."),
    "attention": ("reports:attention", "See what is in a user's attention, and why."),
}
"""Each command: the module and the name of its function or of its own commands, and its help."""


class Logged(logging.Formatter):
    """Writes what is logged as the terminal may print it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return printable(super().format(record))


class _Lazy(TyperGroup):
    """Commands of which `--help` knows the name and the help, and nothing more is imported."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called, now imported."""
        name, _, rest = super().resolve_command(ctx, args)
        module, _, function = COMMANDS[name or ""][0].partition(":")
        command = getattr(import_module(f".{module}", __package__), function)
        if not isinstance(command, typer.Typer):
            own = typer.Typer(add_completion=False, rich_markup_mode=None)
            own.command()(command)
            command = own
        return name, get_command(command), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if Ebbtide or the disk fails it ends in one line, with exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (EbbtideError, OSError, UnicodeError, sqlite3.Error) as error:
            typer.echo(f"ebbtide: {one_line(error, os.environ)}", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Lazy,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:  # noqa: FBT001 (as typer calls it)
    if asked:
        typer.echo(f"ebbtide {installed_version()}")
        raise typer.Exit


@app.callback()
def ebbtide(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Talk to an agent whose working memory manages itself, and look after what it stored."""
    del version  # it was heeded before the command is
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Logged())


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)  # stands for the command until it is called


if __name__ == "__main__":
    app()
