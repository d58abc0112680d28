"""Reading what the user says: at a terminal with history, else line by line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory

ReadLine: TypeAlias = Callable[[], str | None]
"""Returns the next line without white space at its ends, None if there are no more."""

_PROMPT = FormattedText([("ansicyan bold", "> ")])


def lines(history: Path) -> ReadLine:
    """Return how to read from this terminal, or from what is piped in."""
    if sys.stdin is None:
        return lambda: None
    return typed(history) if sys.stdin.isatty() and sys.stdout.isatty() else piped(sys.stdin)


def typed(history: Path) -> ReadLine:
    """Read from a terminal; arrow up brings back what was typed, in earlier runs too."""
    session: PromptSession[str] = PromptSession(history=FileHistory(str(history)))

    def read() -> str | None:
        try:
            return session.prompt(_PROMPT).strip()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    return read


def piped(stream: TextIO) -> ReadLine:
    """Read from a file or a pipe."""

    def read() -> str | None:
        line = stream.readline()
        return line.strip() if line else None

    return read
