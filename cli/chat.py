"""`ebbtide chat`: a conversation at the terminal or through a pipe, kept from run to run."""

import os
import re
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Annotated, TextIO, TypeAlias

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.utils import is_dumb_terminal
from rich.console import Console

from ..graph.commands.threads import on_a_thread
from ..memory.errors import CommandError, SessionNotFoundError
from ..memory.metrics import prices_of
from .chat_commands import OWN, arguments, completions, help_page, page_of, parsed, question, usages
from .conversation import Conversation, conversation
from .home import Compressing, ConfigFile, Embedding, Extracting, Root, Thread, User, configured
from .printable import in_line, one_line
from .reports import Prices
from .screen import Pipe, Screen

_ReadLine: TypeAlias = Callable[[], str | None]
"""Returns the next line without white space at its end, None after the last one."""

_EXCERPT = 60
"""Characters of an unfinished turn's message that the offer to resume it quotes: one line."""

_AGREED = " --yes"
"""What a command that asks first ends with, to go on without a question."""

_TOOL = re.compile(r"\b(open|close|switch|reopen|expand|collapse)_effort\b")
"""A tool name in an error: the user reads the command's name, `/open` for `open_effort`."""

_IN_CHAT: Mapping[str, str] = {
    "effort_status": "/efforts",
    "search_efforts": "/search",
    "read_log reads them": "/search finds them",
    "continue it with None first, by `invoke(None, config)`": "resume it first",
    "pass a user_id (in the terminal `--user NAME`)": "start the chat with --user NAME",
}
"""Words of errors for the model or a program, and what they are called in the chat."""


def chat(  # noqa: PLR0913, PLR0917 (the options of a command)
    message: Annotated[
        str | None, typer.Argument(help="Ask one question; piped text is added to it.")
    ] = None,
    thread: Thread = "default",
    root: Root = None,
    model: Annotated[
        str | None, typer.Option(help="Chat model, such as openai:gpt-5-mini, or scripted.")
    ] = None,
    system: Annotated[str, typer.Option(help="Instructions for the model.")] = "",
    embeddings: Embedding = None,
    extraction_model: Extracting = None,
    compression_model: Compressing = None,
    user: User = None,
    config: ConfigFile = None,
    prices: Prices = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per answer.")] = False,
) -> None:
    """Chat with the agent. The conversation is saved and continues next time.

    With a message or piped input, only the answers are printed. Each piped line is a turn or a
    command. Errors and banners go to stderr; after an error the exit code is 1.
    """
    models = {"extraction_model": extraction_model, "compression_model": compression_model}
    home = configured(root, user, config, model=model, **models)
    rates = prices_of(prices) if prices is not None else None
    options = {"system_prompt": system, "embeddings": home.embeddings(embeddings)}
    interactive = message is None and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    with conversation(home, thread, **options) as talk:
        console = Console(highlight=False)
        if interactive and not json:
            screen, read_line = Screen(console, talk.budget, rates), _terminal_reader(talk)
        else:
            screen = Pipe(console, rates, as_json=json)
            read_line = _read_piped if message is None else _one(message)
        if talk.restored:
            screen.notice("There were no checkpoints: restored from the archive.", "yellow")
        if interactive:
            location = in_line(f"Thread {thread} in {home.location}")
            found = f"turn {talk.turn} was the last" if talk.turn else "new"
            screen.notice(f"{location} ({found}). /help for help.")
        dialogue = _Dialogue(talk, screen, read_line, interactive=interactive)
        dialogue.run()
    if dialogue.failed and not interactive:
        raise typer.Exit(1)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream is a terminal; a process may have none."""
    return stream is not None and stream.isatty()


class _Dialogue:
    """Reads lines and runs each as a turn or a command; an error does not end it."""

    def __init__(
        self, talk: Conversation, screen: Screen, read_line: _ReadLine, *, interactive: bool
    ) -> None:
        self._talk, self._screen, self._read_line = talk, screen, read_line
        self._interactive, self.failed = interactive, False

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
            if not self._interactive:
                raise
            self._screen.notice("Stopped.", "yellow")
            self._offer_to_resume("A turn is not finished")
        except SessionNotFoundError:
            self._screen.notice("Nothing was said on this thread yet.")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            self._fail(_in_chat(one_line(error, os.environ)))
            self._offer_to_resume("A turn is not finished")
        return True

    def _execute(self, line: str) -> None:
        """Run a command, after a question if it destroys something; raises `CommandError`."""
        talk, screen = self._talk, self._screen
        own, *words = line.split(maxsplit=1)
        if own in OWN:
            if own == "/quit":
                raise EOFError
            if screen.as_json:
                screen.data(usages(*words))
            else:
                screen.pages(help_page(*words), long=False)
            return
        command, rest = parsed(line)
        destroys, agreed = command.method == "DELETE", rest.endswith(_AGREED)
        given = arguments(command, rest.removesuffix(_AGREED) if destroys else rest)
        if destroys and not agreed and not self._agrees(line, question(talk, command, given)):
            screen.notice("Nothing was changed.")
            return
        try:
            if screen.as_json:
                screen.data(talk.command(on_a_thread(command.answered), **given))
            else:
                result = talk.command(command.asynchronous, **given)
                is_long = command.name == "show_context"
                screen.pages(page_of(talk, command, result, given), long=is_long)
        except (KeyboardInterrupt, OSError, sqlite3.Error):
            if destroys:
                screen.notice(f"It may be done in part: {line} finishes it.", "yellow")
            raise
        if destroys:
            talk.history.unlink(missing_ok=True)  # arrow up would bring the turn's words back

    def _agrees(self, command: str, warning: str) -> bool:
        """Ask a question; raises `CommandError` where nobody can answer it."""
        if not self._interactive:
            raise CommandError(f"{warning} If so, write {command}{_AGREED}")
        self._screen.notice(f"{warning} Type yes to go on.", "yellow")
        return (self._read_line() or "").strip().lower() == "yes"

    def _turn(self, message: str | None) -> None:
        """Run a turn on a message; without a message, resume the unfinished turn."""
        try:
            try:
                self._talk.run(message, self._screen.show)
            finally:
                self._screen.end()
        except KeyboardInterrupt:
            if not self._interactive:
                raise
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
            resuming = "Enter" if self._interactive else "An empty message"
            hint = f"{resuming} resumes it, a new message takes its place."
            self._screen.notice(f'{reason}: "{quote}". {hint}', "yellow")


def _in_chat(error: str) -> str:
    """Return an error in the words of the chat."""
    for words, own in _IN_CHAT.items():
        error = error.replace(words, own)
    return _TOOL.sub(r"/\1", error)


class _RereadHistory(FileHistory):
    """Reads the file anew at each prompt, so that erased lines do not come back from memory."""

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield the lines that were typed, the newest first."""
        for line in self.load_history_strings():
            yield line


def _terminal_reader(talk: Conversation) -> _ReadLine:
    """Return a reader of a terminal, with the history on arrow up and completion on Tab."""
    keys = KeyBindings()
    keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    session: PromptSession[str] = PromptSession(
        history=_RereadHistory(str(talk.history)), complete_while_typing=False, key_bindings=keys
    )

    def read() -> str | None:
        words = completions(talk.effort_names())
        # Without control of the cursor a completion would print the line again and again.
        completer = None if is_dumb_terminal() else WordCompleter(words, sentence=True)
        prompt = FormattedText([("ansicyan bold", "> ")])
        try:
            return session.prompt(prompt, completer=completer).rstrip()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    return read


def _read_piped() -> str | None:
    """Read a line of a file or a pipe; a process without standard input has none."""
    line = sys.stdin.readline() if sys.stdin else ""
    return line.rstrip() if line else None


def _one(message: str) -> _ReadLine:
    """Return a reader of one message, and of the text that is piped in, as a part of it."""
    piped = "" if sys.stdin is None or is_terminal(sys.stdin) else sys.stdin.read()
    lines = iter([f"{message}\n\n{piped}".rstrip() if piped.strip() else message.rstrip()])
    return lambda: next(lines, None)
