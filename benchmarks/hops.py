"""How many files and functions a turn enters, and how often it changes from file to file.

`sys.setprofile` counts the frames of the agent's own package, in a warm process.
"""

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType, ModuleType
from typing import Any

import langchain
from langgraph.checkpoint.memory import InMemorySaver
from peers import langchain as create_agent
from report import argument_parser, write

import ebbtide
from ebbtide import DiskArchive, create_memory_agent
from ebbtide.testing import ScriptedModel

TALK: Mapping[str, str] = {
    "begin an effort": "Let's work on the auth bug",
    "go on": "The token expires after 3600 s.",
    "plain turn": "The server is nginx on port 8443.",
    "close an effort": "That's done",
    "plain turn, no effort": "How is the weather in Oslo?",
    "expand an effort": "Show me the details of the auth bug",
    "open an effort": "Let's work on the css grid",
}
WARMING = ("begin an effort", "go on")


_COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Frames of Python 3.11 that later versions do not have."""


@dataclass
class Walk:
    """The frames of a package that a turn entered, without doubles for tests and what they call."""

    package: ModuleType
    files: Counter[str] = field(default_factory=Counter)
    functions: set[tuple[str, str]] = field(default_factory=set)
    changes: int = 0
    known: dict[str, bool] = field(default_factory=dict)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call of a function of the package."""
        if event != "call" or frame.f_code.co_name in _COMPREHENSIONS:
            return
        own = self._own(frame)
        if own is None or self._is_for_double(frame):
            return
        caller, before = frame.f_back, None
        while caller is not None and before is None:
            caller, before = caller.f_back, self._own(caller)
        self.files[own] += 1
        self.functions.add((own, frame.f_code.co_qualname))
        self.changes += before is not None and before != own

    def _own(self, frame: FrameType) -> str | None:
        """Return the file of a frame in the package, None elsewhere."""
        name = frame.f_code.co_filename
        if name not in self.known:
            inside = (
                name.startswith(self._root) and "/site-packages/" not in name[len(self._root) :]
            )
            self.known[name] = inside and not self._is_double(frame)
        return name if self.known[name] else None

    def _is_for_double(self, frame: FrameType) -> bool:
        """Tell whether a double called a frame, itself or by other functions of the package."""
        caller = frame.f_back
        while caller is not None and self._own(caller):
            caller = caller.f_back
        return caller is not None and self._is_double(caller)

    def _is_double(self, frame: FrameType) -> bool:
        """Tell whether a frame is of a double for tests, as the scripted model."""
        return frame.f_code.co_filename.startswith(f"{self._root}testing/")

    @cached_property
    def _root(self) -> str:
        return f"{Path(str(self.package.__file__)).parent}/"

    def row(self, agent: str, turn: str) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "agent": agent,
            "turn": turn,
            "files": len(self.files),
            "functions": len(self.functions),
            "changes of file": self.changes,
            "calls": self.files.total(),
        }


def walked(package: ModuleType, say: Callable[[], Any]) -> Walk:
    """Return how far a turn walks through a package."""
    walk = Walk(package)
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        say()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk


def rows_of(name: str, agent: Any, package: ModuleType) -> list[dict[str, Any]]:
    """Return the rows of an agent, of which the first turns only warm the process."""
    thread: Any = {"configurable": {"thread_id": "t"}}
    rows = []
    for turn, words in TALK.items():
        walk = walked(package, partial(agent.invoke, {"messages": words}, thread))
        if turn not in WARMING:
            rows.append(walk.row(name, turn))
    return rows


def main() -> None:
    """Measure the agents."""
    options = argument_parser(__doc__).parse_args()
    with TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        saver = InMemorySaver()
        with DiskArchive(folder) as archive:
            agent = create_memory_agent(ScriptedModel(), archive=archive, checkpointer=saver)
            rows = rows_of("create_memory_agent", agent, ebbtide)
        plain = create_agent()(ScriptedModel(), InMemorySaver(), Path(folder))
        peer = rows_of("create_agent", plain, langchain)
    write(options.out, "hops", "How far a turn walks", [*rows, peer[0]])


if __name__ == "__main__":
    main()
