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
from .home import ConfigFile, Root, User, configured
from .printable import in_line, one_line
from .screen import Screen

_ReadLine: TypeAlias = Callable[[], str | None]
"""Returns the next line without white space at its end, None if there are no more."""

_SHOWN = 60
"""Characters of an unfinished turn that an offer to resume it quotes: they fit on its line."""

_TOOL = re.compile(r"\b(open|close|switch|reopen|expand|collapse)_effort\b")
"""A tool that an error names, for the command to stand in its place; two have other names."""


def chat(  # noqa: PLR0913, PLR0917 (the options of a command)
    thread: Annotated[str, typer.Option(help="Name of the conversation.")] = "default",
    root: Root = None,
    model: Annotated[
        str | None, typer.Option(help="Such as openai:gpt-5-mini, or offline.")
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="Searches by meaning too: minilm, or such as openai:text-embedding-3-small.",
        ),
    ] = None,
    user: User = None,
    config: ConfigFile = None,
) -> None:
    """Talk to the agent; the conversation is kept and goes on the next time.

    Of lines that are piped in, each is a turn or a command; errors go to stderr, and exit code 1
    says that there were some.
    """
    home = configured(root, user, config, model)
    screen = Screen(Console(highlight=False), home.settings.context_budget)
    with conversation(home, thread, embeddings) as talk:
        if talk.restored:
            screen.notice("There were no checkpoints: restored from the archive.", "yellow")
        stands = f"turn {talk.turn} was the last" if talk.turn else "new"
        where = in_line(f"Thread {thread} in {home.location}")
        screen.notice(f"{where} ({stands}). /help for help.")
        typing = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        dialogue = _Chat(talk, screen, _typed(talk.history) if typing else _piped)
        dialogue.talk()
    if dialogue.failed and not typing:
        raise typer.Exit(1)


class _Chat:
    """The dialogue: lines in, turns out; whatever fails, it goes on."""

    def __init__(self, talk: Conversation, screen: Screen, read: _ReadLine) -> None:
        self._talk, self._screen, self._read = talk, screen, read
        self.failed = False

    def talk(self) -> None:
        self._offer("The last turn was left unfinished")
        while (line := self._read()) is not None:
            if line.startswith("/"):
                if not self._command(line):
                    return
            elif line or self._talk.unfinished() is not None:
                self._turn(line.lstrip() or None)

    def _command(self, line: str) -> bool:
        """Do what a command says; return whether the chat goes on."""
        try:
            self._obey(line)
        except EOFError:
            return False
        except KeyboardInterrupt:
            self._screen.notice("Stopped.", "yellow")
            self._offer("A turn is not finished")
        except SessionNotFoundError:
            self._screen.notice("Nothing was said on this thread yet.")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            shown = _TOOL.sub(r"/\1", one_line(error, os.environ))
            shown = shown.replace("effort_status", "/efforts").replace("search_efforts", "/search")
            self._fail(shown)
            self._offer("A turn is not finished")
        return True

    def _obey(self, line: str) -> None:
        """Do it, once what cannot be taken back is confirmed; raises `CommandError`."""
        name, *more = line.split(maxsplit=1)
        words = more[0].strip() if more else ""
        entry = COMMANDS.get(name)
        if entry is None:
            close = get_close_matches(name, COMMANDS, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            how = "To send such a line as a message, begin it with a space"
            raise CommandError(f"{name} is no command here; {meant}/help lists them. {how}")
        if not words and re.match(r"/\w+ [A-Z]", entry.usage):
            raise CommandError(f"write {entry.usage}")
        if entry.alone and words:
            raise CommandError(f"{name} takes nothing after it; {words!r} was given")
        if entry.question:
            warning = entry.question(self._talk, words)
            self._screen.notice(f"{warning} Type yes to go on.", "yellow")
            if (self._read() or "").strip().lower() != "yes":
                self._screen.notice("Nothing was changed.")
                return
        for part in entry.act(self._talk, words):
            self._screen.page(part)

    def _turn(self, message: str | None) -> None:
        """Run a turn on a message, or without one the rest of an unfinished turn."""
        try:
            try:
                self._talk.run(message, self._screen.show)
            finally:
                self._screen.end()
        except KeyboardInterrupt:
            self._offer("Stopped")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            self._fail(one_line(error, os.environ))
            self._offer("The turn is not finished")

    def _fail(self, error: str) -> None:
        self.failed = True
        self._screen.error(error)

    def _offer(self, why: str) -> None:
        """Say how to go on with an unfinished turn, if there is one."""
        request = self._talk.unfinished()
        if request is not None:
            short = in_line(request if len(request) <= _SHOWN else f"{request[:_SHOWN]}…")
            how = "Enter resumes it, a new message takes its place."
            self._screen.notice(f'{why}: "{short}". {how}', "yellow")


class _OnFile(FileHistory):
    """What the file holds now: what was deleted there is not brought back from memory."""

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield what was typed, the newest first."""
        for line in self.load_history_strings():
            yield line


def _typed(history: Path) -> _ReadLine:
    """Read from a terminal; arrow up brings back what was typed, Tab completes a command."""
    session: PromptSession[str] = PromptSession(
        history=_OnFile(str(history)),
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


def _piped() -> str | None:
    """Read from a file or a pipe; there is none in a process without standard input."""
    line = sys.stdin.readline() if sys.stdin else ""
    return line.rstrip() if line else None
