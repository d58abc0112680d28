"""`ebbtide chat`: a conversation at the terminal, kept from one run to the next."""

import os

from rich.console import Console

from ..memory.errors import SessionNotFoundError
from .chat_commands import COMPLETED, in_commands, obeyed
from .conversation import Conversation, conversation
from .faults import one_line
from .home import Setup
from .lines import ReadLine, lines
from .printable import in_line
from .screen import Screen

_SHOWN = 60


def chat(setup: Setup, thread: str) -> None:
    """Talk on a thread until the user leaves."""
    screen = Screen(Console(highlight=False), setup.settings.context_budget)
    with conversation(setup, thread) as talk:
        _greet(talk, screen, in_line(f"Thread {thread} in {setup.home.shown}"))
        _Chat(talk, screen, lines(talk.history, COMPLETED)).talk()


class _Chat:
    """The dialogue: lines in, turns out; whatever fails, it goes on."""

    def __init__(self, talk: Conversation, screen: Screen, read: ReadLine) -> None:
        self._talk = talk
        self._screen = screen
        self._read = read

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
            obeyed(self._talk, self._screen, line, self._confirmed)
        except EOFError:
            return False
        except KeyboardInterrupt:
            self._screen.notice("Stopped.", "yellow")
            self._offer("A turn is not finished")
        except SessionNotFoundError:
            self._screen.notice("Nothing was said on this thread yet.")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            self._screen.notice(in_commands(one_line(error, os.environ)), "red")
            self._offer("A turn is not finished")
        return True

    def _confirmed(self, warning: str) -> bool:
        """Ask whether to go on with what cannot be taken back; only "yes" is one."""
        self._screen.notice(f"{warning} Type yes to go on.", "yellow")
        agreed = (self._read() or "").strip().lower() == "yes"
        if not agreed:
            self._screen.notice("Nothing was changed.")
        return agreed

    def _turn(self, said: str | None) -> None:
        """Run a turn, or the rest of one."""
        try:
            self._talk.run(said, self._screen.show)
        except KeyboardInterrupt:
            self._screen.end()
            self._offer("Stopped")
        except Exception as error:  # noqa: BLE001 (any provider's: the chat goes on)
            self._screen.end()
            self._screen.notice(one_line(error, os.environ), "red")
            self._offer("The turn is not finished")
        else:
            self._screen.end()

    def _offer(self, why: str) -> None:
        """Say how to go on with an unfinished turn, if there is one."""
        said = self._talk.unfinished()
        if said is not None:
            short = in_line(said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…")
            self._screen.notice(
                f'{why}: "{short}". Enter resumes it, a new message takes its place.', "yellow"
            )


def _greet(talk: Conversation, screen: Screen, where: str) -> None:
    """Say which conversation this is and how far it has come."""
    if talk.restored:
        screen.notice("There were no checkpoints: restored from the archive.", "yellow")
    stands = f"turn {talk.turn} was the last" if talk.turn else "new"
    screen.notice(f"{where} ({stands}). /help for help.")
