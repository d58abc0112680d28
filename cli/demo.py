"""`ebbtide demo`: a scripted conversation through the real graph, and what its context costs."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from rich.console import Console

from ..graph.looking import astats
from ..memory.metrics import Report, ratio
from ..memory.record import Owner
from ..memory.settings import Settings
from .conversation import Conversation, conversation
from .demo_page import WIDTH, Page
from .demo_script import SCRIPT, Line
from .home import Home, Setup
from .stats import percent

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
        setup = Setup(
            Home(folder),
            Settings(summary_eviction_threshold=_FORGOTTEN, rebuild="every-turn"),
            "offline",
        )
        page.opening(str(folder))
        found = _play(setup, thread, page)
        results = [*_results(setup, thread, found), ("Time", f"{perf_counter() - began:.1f} s")]
    page.summary(results)
    if root is not None:
        go_on = f"--root {root}"
        page.command(f"The same figures, turn by turn: ebbtide stats {thread} {go_on}")
        page.command(f"Go on with it: ebbtide chat --model offline {go_on} --thread {thread}")


def _play(setup: Setup, thread: str, page: Page) -> Report:
    """Play the script, with a new agent after a cut; return what `ebbtide stats` says of it."""
    playing = _Playing(page)
    while playing.left:
        with conversation(setup, thread) as talk:
            playing.go_on(talk)
            found = talk.command(astats)
    return found


class _Playing:
    """The script while it is played: what is left, whether a turn was cut, the last one shown."""

    def __init__(self, page: Page) -> None:
        self.left = deque(enumerate(SCRIPT, start=1))
        self._page = page
        self._cut = False
        self._shown = 0

    def go_on(self, talk: Conversation) -> None:
        """Play until a turn is cut, beginning with the rest of the one that was."""
        while self.left:
            number, line = self.left[0]
            try:
                self._turn(talk, number, line)
            except _CutError:
                self._cut = True
                self._asked(talk.command(astats), number, line)
                self._page.remark(_STOPPED, "bold red")
                return
            self.left.popleft()

    def _turn(self, talk: Conversation, number: int, line: Line) -> None:
        resumes, self._cut = self._cut, False
        seen = _Seen(cut=line.cut and not resumes)
        talk.run(None if resumes else line.said, seen.show)
        if not (line.scene or line.note or seen.values["memory"]["banners"]):
            return
        found = talk.command(astats)
        if resumes:
            self._page.remark(_RESUMED, "bold green")
        else:
            self._asked(found, number, line)
        self._page.answered(seen.values, found.turns[-1], line.note)

    def _asked(self, found: Report, number: int, line: Line) -> None:
        """Print a question, and before it what the turns since the last one came to."""
        if self._shown < number - 1:
            self._page.quiet(self._shown + 1, found.turns[number - 2])
        self._page.asked(number, line.said, line.scene)
        self._shown = number


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


def _results(setup: Setup, thread: str, found: Report) -> list[tuple[str, str]]:
    """Return what came of it: the figures of `ebbtide stats`, and what the archive says."""
    owner = Owner(setup.home.user, thread)
    with setup.home.archive() as archive:
        (tip,) = archive.tips(owner)
        efforts = archive.efforts(owner, tip, len(SCRIPT)).efforts
        findings = archive.verify(owner)
    dearer = max(one.turn for one in found.turns if one.total >= one.full_history)
    last, saved = found.turns[-1], ratio(found.full_history - found.sent, found.full_history)
    return [
        ("Sent", f"{found.sent:,} tokens in {len(found.turns)} turns"),
        ("Full history", f"{found.full_history:,} tokens, had all been sent each time"),
        ("Saved", f"{percent(saved)}; {percent(last.savings)} in the last turn"),
        ("Less is sent", f"from turn {dearer + 1} on; before it instructions and tools weigh more"),
        ("The last turn", f"sent {last.total:,} tokens, full history {last.full_history:,}"),
        ("Efforts", f"{len(efforts)}, all {' and '.join({one.status for one in efforts})}"),
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
