"""Reading what the user says: at a terminal with history, else line by line."""

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TextIO, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory

ReadLine: TypeAlias = Callable[[], str | None]
"""Returns the next line without white space at its end, None if there are no more."""

_PROMPT = FormattedText([("ansicyan bold", "> ")])


def lines(history: Path, commands: Sequence[str]) -> ReadLine:
    """Return how to read from this terminal, or from what is piped in."""
    if sys.stdin is None:
        return lambda: None
    return (
        typed(history, commands) if sys.stdin.isatty() and sys.stdout.isatty() else piped(sys.stdin)
    )


class _OnFile(FileHistory):
    """What the file holds now: what was deleted there is not brought back from memory."""

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield what was typed, the newest first."""
        for said in self.load_history_strings():
            yield said


def typed(history: Path, commands: Sequence[str]) -> ReadLine:
    """Read from a terminal; arrow up brings back what was typed, Tab completes a command."""
    session: PromptSession[str] = PromptSession(
        history=_OnFile(str(history)),
        completer=WordCompleter([*commands], sentence=True),
        complete_while_typing=False,
    )

    def read() -> str | None:
        try:
            return session.prompt(_PROMPT).rstrip()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    return read


def piped(stream: TextIO) -> ReadLine:
    """Read from a file or a pipe."""

    def read() -> str | None:
        line = stream.readline()
        return line.rstrip() if line else None

    return read
