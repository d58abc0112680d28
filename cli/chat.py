"""`ebbtide chat`: a conversation at the terminal or through a pipe, kept from run to run."""

import os
import re
import sys
from collections.abc import AsyncGenerator, Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory
from rich.console import Console

from ..memory.errors import CommandError, SessionNotFoundError
from .chat_commands import COMMANDS, COMPLETED
from .conversation import Conversation, conversation
from .home import Compressing, ConfigFile, Embedding, Extracting, Root, User, configured
from .printable import in_line, one_line
from .screen import Screen

_ReadLine: TypeAlias = Callable[[], str | None]
"""Returns the next line without white space at its end, None after the last one."""

_EXCERPT = 60
"""Characters of an unfinished turn's message that the offer to resume it quotes: one line."""

_TOOL = re.compile(r"\b(open|close|switch|reopen|expand|collapse)_effort\b")
"""A tool name in an error: the user reads the command's name, `/open` for `open_effort`."""


def chat(  # noqa: PLR0913, PLR0917 (the options of a command)
    thread: Annotated[str, typer.Option(help="Name of the conversation.")] = "default",
    root: Root = None,
    model: Annotated[
        str | None, typer.Option(help="Such as openai:gpt-5-mini, or scripted.")
    ] = None,
    embeddings: Embedding = None,
    extraction_model: Extracting = None,
    compression_model: Compressing = None,
    user: User = None,
    config: ConfigFile = None,
) -> None:
    """Talk to the agent; the conversation is kept and goes on the next time.

    Each line that is piped in is a turn or a command; errors go to stderr, and if there was one
    the exit code is 1.
    """
    models = {"extraction_model": extraction_model, "compression_model": compression_model}
    home = configured(root, user, config, model=model, **models)
    screen = Screen(Console(highlight=False), home.settings.context_budget)
    with conversation(home, thread, embeddings) as talk:
        if talk.restored:
            screen.notice("There were no checkpoints: restored from the archive.", "yellow")
        state = f"turn {talk.turn} was the last" if talk.turn else "new"
        location = in_line(f"Thread {thread} in {home.location}")
        screen.notice(f"{location} ({state}). /help for help.")
        interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        read_line = _terminal_reader(talk.history) if interactive else _read_piped
        dialogue = _Dialogue(talk, screen, read_line)
        dialogue.run()
    if dialogue.failed and not interactive:
        raise typer.Exit(1)


class _Dialogue:
    """Reads lines and runs each as a turn or a command; an error does not end it."""

    def __init__(self, talk: Conversation, screen: Screen, read_line: _ReadLine) -> None:
        self._talk, self._screen, self._read_line = talk, screen, read_line
        self.failed = False

    def run(self) -> None:
        """Read lines until they end, or /quit is one of them."""
        self._offer_to_resume("The last turn was left unfinished")
        while (line := self._read_line()) is not None:
            if line.startswith("/"):
                if not self._command(line):
                    return
            elif line or self._talk.unfinished() is not None:
                self._turn(line.lstrip() or None)

    def _command(self, line: str) -> bool:
        """Run a command and print its errors; return whether the dialogue goes on."""
        try:
            self._execute(line)
        except EOFError:
            return False
        except KeyboardInterrupt:
            self._screen.notice("Stopped.", "yellow")
            self._offer_to_resume("A turn is not finished")
        except SessionNotFoundError:
            self._screen.notice("Nothing was said on this thread yet.")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            text = _TOOL.sub(r"/\1", one_line(error, os.environ))
            text = text.replace("effort_status", "/efforts").replace("search_efforts", "/search")
            self._fail(text)
            self._offer_to_resume("A turn is not finished")
        return True

    def _execute(self, line: str) -> None:
        """Run a command, after a question if it destroys something; raises `CommandError`."""
        name, *arguments = line.split(maxsplit=1)
        words = arguments[0] if arguments else ""  # the line has no white space at its end
        entry = COMMANDS.get(name)
        if entry is None:
            matches = get_close_matches(name, COMMANDS, n=1)
            suggestion = f"did you mean {matches[0]}? " if matches else ""
            hint = "To send such a line as a message, begin it with a space"
            raise CommandError(f"{name} is no command here; {suggestion}/help lists them. {hint}")
        if not words and re.match(r"/\w+ [A-Z]", entry.usage):  # a word that is not in brackets
            raise CommandError(f"write {entry.usage}")
        if entry.bare and words:
            raise CommandError(f"{name} takes nothing after it; {words!r} was given")
        if entry.warning:
            warning = entry.warning(self._talk, words)
            self._screen.notice(f"{warning} Type yes to go on.", "yellow")
            if (self._read_line() or "").strip().lower() != "yes":
                self._screen.notice("Nothing was changed.")
                return
        for part in entry.run(self._talk, words):
            self._screen.page(part)

    def _turn(self, message: str | None) -> None:
        """Run a turn on a message; without a message, resume the unfinished turn."""
        try:
            try:
                self._talk.run(message, self._screen.show)
            finally:
                self._screen.end()
        except KeyboardInterrupt:
            self._offer_to_resume("Stopped")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            self._fail(one_line(error, os.environ))
            self._offer_to_resume("The turn is not finished")

    def _fail(self, error: str) -> None:
        self.failed = True
        self._screen.error(error)

    def _offer_to_resume(self, reason: str) -> None:
        """Print how to go on with an unfinished turn, if there is one."""
        request = self._talk.unfinished()
        if request is not None:
            quote = in_line(request if len(request) <= _EXCERPT else f"{request[:_EXCERPT]}…")
            hint = "Enter resumes it, a new message takes its place."
            self._screen.notice(f'{reason}: "{quote}". {hint}', "yellow")


class _RereadHistory(FileHistory):
    """Reads the file anew at each prompt, so that erased lines do not come back from memory."""

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield the lines that were typed, the newest first."""
        for line in self.load_history_strings():
            yield line


def _terminal_reader(history: Path) -> _ReadLine:
    """Return a reader of a terminal, with the history on arrow up and completion on Tab."""
    session: PromptSession[str] = PromptSession(
        history=_RereadHistory(str(history)),
        completer=WordCompleter([*COMPLETED], sentence=True),
        complete_while_typing=False,
    )

    def read() -> str | None:
        try:
            return session.prompt(FormattedText([("ansicyan bold", "> ")])).rstrip()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    return read


def _read_piped() -> str | None:
    """Read a line of a file or a pipe; a process without standard input has none."""
    line = sys.stdin.readline() if sys.stdin else ""
    return line.rstrip() if line else None
