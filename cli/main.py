"""The command `ebbtide`."""

import io
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import archive, attention
from .chat import chat as talk
from .demo import demo as show
from .evaluate import evaluate
from .faults import Logged, reported
from .home import configured
from .options import AnySession, ConfigFile, Model, Root, Thread, User
from .sessions import table
from .settings import settings as show_settings
from .stats import stats as metrics

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(archive.app, name="archive")
app.add_typer(attention.app, name="attention")


@app.callback()
def ebbtide() -> None:
    """Talk to an agent whose working memory manages itself, and look after what it stored."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Logged())


@app.command()
@reported()
def chat(
    thread: Thread = "default",
    root: Root = None,
    model: Model = None,
    user: User = None,
    config: ConfigFile = None,
) -> None:
    """Talk to the agent; the conversation is kept and goes on the next time."""
    talk(configured(root, user, config, model), thread)


@app.command()
@reported()
def sessions(root: Root = None, user: User = None, config: ConfigFile = None) -> None:
    """List the sessions of a user."""
    table(configured(root, user, config).home)


@app.command()
@reported()
def settings(config: ConfigFile = None) -> None:
    """Show the settings that are in force, and where each was given."""
    show_settings(config)


@app.command()
@reported()
def stats(
    session: AnySession = None, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Show what the memory of a session did, and what its context cost."""
    metrics(configured(root, user, config).home, session)


@app.command()
@reported()
def demo(
    root: Annotated[
        Path | None,
        typer.Option("--root", help="Keep the files here (default: a temporary folder)."),
    ] = None,
) -> None:
    """Watch a scripted conversation and what becomes of its context, offline."""
    show(root)


app.command("eval")(reported()(evaluate))


if __name__ == "__main__":
    app()
