"""What a turn costs in time and in checkpoints, beside the agents that a user would take instead.

python benchmarks/turn_cost.py --out results
python benchmarks/turn_cost.py --out results --agents ebbtide --turns 5000
python benchmarks/turn_cost.py --out results --url postgresql+psycopg://USER@HOST/NAME

A conversation (see `talks`) is held by all agents in turn, turn by turn, in one process, so that
what else the machine does hits all alike. A cell is the median of milliseconds over some turns;
the model answers from a list, so that its own time is next to nothing.
"""

import argparse
import asyncio
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from context_cost import CONFIG, MEMORY_TOOLS, OURS, TALKS
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from peers import PEERS, Maker, ours
from report import write
from talks import TalkingModel, Turn

from ebbtide import DiskArchive, SqlArchive

AGENTS = (OURS, "create_agent", "SummarizationMiddleware, 4,000", "deepagents")
SPANS = ((10, 60), (450, 500), (950, 1_000), (4_950, 5_000), (9_950, 10_000))
"""Turns over which the median is taken, where there are so many."""

_SIZE = """
SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = %s AND c.relname LIKE 'checkpoint%%'
"""


@dataclass(slots=True)
class Side:
    """One agent in its conversation, and the seconds that each turn took: by clock, of the CPU.

    `kept` is the file of its checkpoints, or the schema of them.
    """

    name: str
    model: TalkingModel
    agent: Any
    kept: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def turn(self, turn: Turn, durability: str, runner: asyncio.Runner | None) -> None:
        """Hold a turn."""
        self.model.begin(turn, MEMORY_TOOLS if self.name == OURS else {"look_up"})
        said: Any = {"messages": [("user", turn.question)]}
        begun, busy = time.perf_counter(), time.process_time()
        if runner is None:
            self.agent.invoke(said, CONFIG, durability=durability)
        else:
            runner.run(self.agent.ainvoke(said, CONFIG, durability=durability))
        self.wall.append(time.perf_counter() - begun)
        self.cpu.append(time.process_time() - busy)

    def row(self, stored: int) -> dict[str, Any]:
        """Return what it took."""
        spans = [(first, last) for first, last in SPANS if last <= len(self.wall)]
        return {
            "agent": self.name,
            **{f"ms, turns {a:,}-{z:,}": _median(self.wall[a - 1 : z]) for a, z in spans},
            **{f"CPU ms, turns {a:,}-{z:,}": _median(self.cpu[a - 1 : z]) for a, z in spans},
            "checkpoint bytes a turn": round(stored / len(self.wall)),
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Where checkpoints and archives are: a folder, or a PostgreSQL; opened until `stack` ends."""

    folder: Path
    url: str
    runner: asyncio.Runner | None
    stack: ExitStack

    def side(self, name: str) -> Side:
        """Return an agent; raises `ModuleNotFoundError` if it is not installed."""
        model = TalkingModel().watched(lambda *_: None)
        kept = f"of_{name.partition(',')[0].lower()}" if self.url else str(self.folder / name)
        agent = self._maker(name)(model, self._saver(kept), self.folder / "archive")
        return Side(name, model, agent, kept)

    def stored(self, kept: str) -> int:
        """Return the bytes of checkpoints."""
        if not self.url:
            return sum(one.stat().st_size for one in self.folder.glob(f"{Path(kept).name}*"))
        with psycopg.connect(self._uri) as connection:
            found = connection.execute(_SIZE, (kept,)).fetchone()
        return int(found[0]) if found else 0

    @property
    def _uri(self) -> str:
        return self.url.replace("+psycopg", "")

    def _maker(self, name: str) -> Maker:
        if name != OURS:
            return PEERS[name][0]
        archive = SqlArchive(self.url) if self.url else DiskArchive(self.folder / "archive")
        return ours(self.stack.enter_context(archive))

    def _saver(self, kept: str) -> Any:
        if self.url:
            with psycopg.connect(self._uri) as connection:
                connection.execute(f"CREATE SCHEMA {kept}")  # type: ignore[call-overload]
        where = psycopg.conninfo.make_conninfo(self._uri, options=f"-csearch_path={kept}")
        if self.runner is None:
            saver: Any = (
                PostgresSaver.from_conn_string(where)
                if self.url
                else SqliteSaver.from_conn_string(kept)
            )
            opened = self.stack.enter_context(saver)
            opened.setup()
            return opened
        later: Any = (
            AsyncPostgresSaver.from_conn_string(where)
            if self.url
            else AsyncSqliteSaver.from_conn_string(kept)
        )
        opened = self.runner.run(later.__aenter__())
        self.stack.callback(lambda: self.runner.run(later.__aexit__(None, None, None)))
        self.runner.run(opened.setup())
        return opened


def held(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Hold the conversation with all agents that are installed, and return their rows."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner()) if options.asynchronous else None
        place = Place(folder, options.url, runner, stack)
        sides = [*_installed(place, options.agents)]
        for number, turn in enumerate(TALKS[options.talk][0](options.turns)):
            at = number % len(sides)
            for side in [*sides[at:], *sides[:at]]:
                side.turn(turn, options.durability, runner)
            if number % 100 == 0:
                print(f"turn {number}", flush=True)
        return [side.row(place.stored(side.kept)) for side in sides]


def _installed(place: Place, agents: Sequence[str]) -> Iterator[Side]:
    for name in agents:
        try:
            yield place.side(name)
        except ModuleNotFoundError as missing:
            print(f"{name}: no {missing.name}")


def _median(seconds: Sequence[float]) -> float:
    return round(1_000 * median(seconds), 1)


def main() -> None:
    """Measure the agents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="turn_cost", help="what the files are called")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=AGENTS)
    parser.add_argument("--talk", choices=[*TALKS], default="scripted")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--url", default="", help="a PostgreSQL that is empty")
    parser.add_argument("--durability", choices=["async", "exit", "sync"], default="async")
    parser.add_argument("--asynchronous", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        rows = held(options, Path(folder))
    write(options.out, options.name, "Cost per turn", rows)


if __name__ == "__main__":
    main()
