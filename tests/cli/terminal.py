"""A terminal of our own: the command on a pseudo-terminal, driven as a person would."""

import os
import pty
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from select import select

from tests.processes import begun

_TIMEOUT = 30.0


@dataclass
class Terminal:
    """A running command and what it has written so far."""

    process: ForkServerProcess
    screen: int
    shown: str = ""

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self.press(f"{text}\r")

    def press(self, keys: str) -> None:
        """Press keys one after the other."""
        os.write(self.screen, keys.encode())

    def see(self, text: str) -> None:
        """Wait until a text is shown, and forget what was shown up to it."""
        end = time.monotonic() + _TIMEOUT
        while text not in self.shown:
            ready, _, _ = select([self.screen], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} was not shown in {_TIMEOUT} s: {self.shown!r}")
            self.shown += os.read(self.screen, 65536).decode("utf-8", "replace")
        self.shown = self.shown.partition(text)[2]

    def converse(self, *lines: tuple[str, str]) -> None:
        """Type each line at a prompt, and wait for what answers it."""
        for line, answer in lines:
            self.see("> ")
            self.type(line)
            self.see(answer)

    def send(self, sent: signal.Signals) -> None:
        """Send a signal to the command, as Ctrl-C does."""
        assert self.process.pid is not None
        os.kill(self.process.pid, sent)

    def quit(self) -> int | None:
        """Leave the chat at its next prompt, and return the exit code."""
        self.see("> ")
        self.type("/quit")
        self.process.join(_TIMEOUT)
        return self.process.exitcode


@contextmanager
def terminal(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Run `ebbtide` with these arguments while the context lasts."""
    screen, own = pty.openpty()
    defaults = {"TERM": "xterm", "COLUMNS": "200", "LINES": "50", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = begun(
        ["-m", "ebbtide.cli.main", *arguments],
        Path.cwd(),
        {**os.environ, **defaults, **environment},
        [os.ttyname(own)] * 3,
    )
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.join()
        os.close(own)
        os.close(screen)
