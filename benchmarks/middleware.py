"""What `EbbtideMiddleware` changes in an agent of `create_agent`: checkpoints, requests, losses.

    python benchmarks/middleware.py --out results

All agents have the scripted conversation (see `talks`), turn by turn in one process, with
checkpoints in SQLite files and `durability="sync"`. "Lost" counts turns whose question or answer is
neither in the newest state of the thread nor in an archive.
"""

import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from context_cost import CONFIG
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import PEERS, langchain, ours
from report import argument_parser, ranged, stored_bytes, write
from talks import TalkingModel, Turn, scripted

from ebbtide import DiskArchive, EbbtideMiddleware
from ebbtide.memory.messages import text
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_messages, count_tools
from ebbtide.memory.turn import Session

PLAIN, SUMMARISING = "create_agent", "SummarizationMiddleware, 4,000"
OURS, GRAPH = "EbbtideMiddleware", "create_memory_agent"
AGENTS = (OURS, GRAPH, PLAIN, SUMMARISING)
LAST = 50
"""The last turns, of which the median time is taken."""


@dataclass(slots=True)
class Side:
    """An agent, the file of its checkpoints, its archive or None, and the measurements."""

    name: str
    model: TalkingModel
    agent: Any
    file: Path
    archive: DiskArchive | None
    request: tuple[Sequence[BaseMessage], Sequence[Any]] = ((), ())
    seconds: list[float] = field(default_factory=list)
    messages: list[BaseMessage] = field(default_factory=list)

    def take(self, messages: Sequence[BaseMessage], tools: Sequence[Any], summary: bool) -> None:  # noqa: FBT001 (see `talks.Take`)
        """Keep a request, unless it asks for a summary."""
        if not summary:
            self.request = messages, tools

    def turn(self, turn: Turn) -> None:
        """Run a turn."""
        self.model.begin(turn)
        request: Any = {"messages": [("user", turn.question)]}
        start = time.perf_counter()
        self.messages = self.agent.invoke(request, CONFIG, durability="sync")["messages"]
        self.seconds.append(time.perf_counter() - start)

    def row(self, turns: Sequence[Turn]) -> dict[str, Any]:
        """Return the row of the agent."""
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stored = stored_bytes(self.file.parent, f"{self.file.name}*")
        texts = {*self._texts()}
        sent, tools = self.request
        return {
            "agent": self.name,
            "turns": len(turns),
            "checkpoint bytes a turn": round(stored / len(turns)),
            **ranged("ms, last 50 turns", [1_000 * one for one in self.seconds[-LAST:]]),
            "tokens of the last call": REPLY_OVERHEAD + count_tools(tools) + count_messages(sent),
            "lost": sum(not {turn.question, turn.answer} <= texts for turn in turns),
        }

    def _texts(self) -> Iterator[str]:
        yield from (message.text for message in self.messages)
        if self.archive is not None:
            past = self.archive.load(Session("", "cost"))
            for turn in past.turns(range(1, past.until + 1)):
                yield from map(text, turn.messages)


def side(name: str, folder: Path, stack: ExitStack) -> Side:
    """Return an agent with its checkpoints in a file."""
    file = folder / name.replace(" ", "")
    saver = stack.enter_context(SqliteSaver.from_conn_string(str(file)))
    archive, model = None, TalkingModel()
    if name in {OURS, GRAPH}:
        archive = stack.enter_context(DiskArchive(folder / f"archive of {name}"))
        maker = ours(archive) if name == GRAPH else langchain(EbbtideMiddleware(archive=archive))
    else:
        maker = PEERS[name][0]
    measured_side = Side(name, model, maker(model, saver, folder), file, archive)
    model.take = measured_side.take
    return measured_side


def run_talk(agents: Sequence[str], number: int, folder: Path) -> list[dict[str, Any]]:
    """Hold the conversation with all agents, and return their rows."""
    turns = [*scripted(number)]
    with ExitStack() as stack:
        sides = [side(name, folder, stack) for name in agents]
        for at, turn in enumerate(turns):
            for agent_side in sides:
                agent_side.turn(turn)
            if at % 100 == 0:
                print(f"turn {at}", flush=True)
        return [agent_side.row(turns) for agent_side in sides]


def main() -> None:
    """Measure the agents."""
    parser = argument_parser(__doc__, turns=500)
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=AGENTS)
    options = parser.parse_args()
    with TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        rows = run_talk(options.agents, options.turns, Path(folder))
    write(options.out, "middleware", "The memory as a middleware", rows)


if __name__ == "__main__":
    main()
