"""`ebbtide demo`: a scripted conversation through the real graph, and what its context does."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from rich.console import Console

from ..memory.record import Owner
from ..memory.settings import Settings
from ..memory.tokens import count_messages
from .budget import moving
from .conversation import Conversation, conversation
from .demo_page import WIDTH, Page
from .demo_script import SCRIPT
from .home import Home, Setup

_FORGOTTEN = 8
"""Turns without a mention that evict a summary here, so that a short day shows it."""

_STOPPED = "✂ Stopped: the model has called close_effort, and the tool has not run."
_RESUMED = "↻ A new agent on the same files resumes the turn."


class _CutError(Exception):
    """The agent was stopped on purpose, in the middle of a turn."""


def demo(root: Path | None) -> None:
    """Run the demonstration on the files in `root`, or in a temporary folder."""
    page = Page(_console())
    thread = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    began = perf_counter()
    with _folder(root) as folder:
        setup = Setup(Home(folder), Settings(summary_eviction_threshold=_FORGOTTEN), "offline")
        page.opening(str(folder))
        sizes = _play(setup, thread, page)
        results = [*_results(setup, thread, sizes), ("Time", f"{perf_counter() - began:.1f} s")]
    page.summary(results)
    if root is not None:
        page.command(f"Go on with it: ebbtide chat --model offline --root {root} --thread {thread}")


def _play(setup: Setup, thread: str, page: Page) -> list[int]:
    """Play the script, with a new agent after a cut; return the tokens of each turn's context."""
    playing = _Playing(page)
    while playing.left:
        with conversation(setup, thread) as talk:
            playing.go_on(talk)
    return playing.sizes


class _Playing:
    """The script while it is played: the turns that are left, and whether one was cut."""

    def __init__(self, page: Page) -> None:
        self.left = deque(enumerate(SCRIPT, start=1))
        self.sizes: list[int] = []
        self._page = page
        self._cut = False

    def go_on(self, talk: Conversation) -> None:
        """Play until a turn is cut, beginning with the rest of the one that was."""
        while self.left:
            try:
                self._turn(talk)
            except _CutError:
                self._cut = True
                self._page.remark(_STOPPED, "bold red")
                return

    def _turn(self, talk: Conversation) -> None:
        number, line = self.left[0]
        resumes, self._cut = self._cut, False
        if resumes:
            self._page.remark(_RESUMED, "bold green")
        else:
            self._page.asked(number, line.said, line.scene)
        seen = _Seen(cut=line.cut and not resumes)
        talk.run(None if resumes else line.said, seen.show)
        self.sizes.append(moving(seen.values["memory"]["context_report"]["tokens"]))
        self._page.answered(seen.values, line.note)
        self.left.popleft()


class _Seen:
    """Keeps the newest state of a turn; cuts the turn when a tool is called, if asked to."""

    def __init__(self, *, cut: bool) -> None:
        self.values: dict[str, Any] = {}
        self._cut = cut

    def show(self, mode: str, event: Any) -> None:
        if mode != "values":
            return
        self.values = event
        if self._cut and getattr(event["messages"][-1], "tool_calls", None):
            raise _CutError


def _results(setup: Setup, thread: str, sizes: list[int]) -> list[tuple[str, str]]:
    """Return what came of it, read back from the archive; `sizes` are those of the contexts."""
    owner = Owner(setup.home.user, thread)
    with setup.home.archive() as archive:
        (tip,) = archive.tips(owner)
        records = archive.turns(owner, tip, range(1, tip.turn + 1))
        efforts = archive.efforts(owner, tip, len(SCRIPT)).efforts
        findings = archive.verify(owner)
    said = sum(count_messages(one.messages) for one in records)
    return [
        ("Said in all", f"{said:,} tokens in {len(records)} turns"),
        ("In the context at the end", f"{sizes[-1]:,} tokens, at most {max(sizes):,} on the way"),
        ("Efforts", ", ".join(f"{effort.id} ({effort.status})" for effort in efforts)),
        ("Archive", "; ".join(one.what for one in findings) or "verified: intact, every turn once"),
    ]


def _console() -> Console:
    """Return a console of at most 100 columns, 100 if nobody says how many there are."""
    console = Console(highlight=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    return console


@contextmanager
def _folder(root: Path | None) -> Iterator[Path]:
    if root is not None:
        yield root
        return
    with TemporaryDirectory(prefix="ebbtide-demo-") as folder:
        yield Path(folder)
