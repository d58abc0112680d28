"""How errors end at the terminal: one line on stderr, without secrets, and never a traceback."""

import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer

from ..memory.errors import EbbtideError
from .printable import printable

_SECRET = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST = 6
_LONGEST = 500


@contextmanager
def reported() -> Iterator[None]:
    """End the command with one line on stderr and exit code 1 if Ebbtide or the disk fails."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (EbbtideError, OSError, UnicodeError, sqlite3.Error) as error:
        typer.echo(f"ebbtide: {one_line(error, os.environ)}", file=sys.stderr)
        raise typer.Exit(1) from error


def one_line(error: BaseException, environment: Mapping[str, str]) -> str:
    r"""Return what an error says in one line; values of secret variables become "***".

    >>> one_line(ValueError("key sk-12345 was\nrefused"), {"OPENAI_API_KEY": "sk-12345"})
    'key *** was refused'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    for name, value in environment.items():
        if name.upper().endswith(_SECRET) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    text = printable(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
