"""The cost of a turn in time and in checkpoints, beside other agents.

    python benchmarks/turn_cost.py --out results --url postgresql+psycopg://USER@HOST/NAME
    python benchmarks/turn_cost.py --out results --turns 5000 --cases "SQLite"

In each case all agents have the same conversation (see `talks`), turn by turn in one process, so
that other load on the machine affects all of them. A cell is the median of some turns in
milliseconds, with their 5th and 95th percentile; "of" is the CPU time relative to `create_agent`.
The model answers from a list, so its own time is negligible.

Only the first case is as long as `--turns`. Peers that send everything stop there after 500 turns.
The other cases have 60 turns. Without `--url` there is no PostgreSQL. Checkpoint bytes are per
turn, averaged over all turns.
"""

import asyncio
import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import psycopg
from context_cost import CONFIG, OURS
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from peers import DELTA, PEERS, Maker, ours
from report import argument_parser, ranged, stored_bytes, write
from sqlalchemy import Engine, event, make_url
from talks import TALKS, TalkingModel, Turn

from ebbtide import DiskArchive, SqlArchive

PLAIN = "create_agent"
AGENTS = (OURS, PLAIN, "SummarizationMiddleware, 4,000", "deepagents", DELTA)
SPANS = ((10, 60), (450, 500), (4_950, 5_000), (9_950, 10_000))
"""Turns over which the median is taken, where there are so many."""

SHORT, PEERS_END = 60, 500
"""Turns of the cases but the first, and of the peers at most."""

TALK_TURNS = 500
"""The length that a conversation is planned for: a short run holds its beginning."""

_SIZE = """
SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = %s AND c.relname LIKE 'checkpoint%%'
"""


@dataclass(frozen=True, slots=True)
class Case:
    """The conditions of a conversation: database, sync or async, durability, talk."""

    name: str
    postgres: bool = False
    asynchronous: bool = False
    durability: str = "async"
    talk: str = "scripted"


CASES = (
    Case("SQLite"),
    Case("SQLite, exit", durability="exit"),
    Case("SQLite, ainvoke", asynchronous=True),
    Case("SQLite, a day of efforts", talk="day"),
    Case("SQLite, one long effort", talk="long"),
    Case("PostgreSQL", postgres=True),
    Case("PostgreSQL, exit", postgres=True, durability="exit"),
    Case("PostgreSQL, ainvoke", postgres=True, asynchronous=True),
)


@dataclass(slots=True)
class Side:
    """One agent in its conversation, and the seconds of each turn: by the clock, of the CPU.

    `storage` is the file or the schema of its checkpoints.
    """

    name: str
    model: TalkingModel
    agent: Any
    storage: str
    statements: list[str]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    statement_counts: list[int] = field(default_factory=list)

    def turn(self, turn: Turn, durability: str, runner: asyncio.Runner | None) -> None:
        """Run a turn."""
        self.model.begin(turn)
        request: Any = {"messages": [("user", turn.question)]}
        self.statements.clear()
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        if runner is None:
            self.agent.invoke(request, CONFIG, durability=durability)
        else:
            runner.run(self.agent.ainvoke(request, CONFIG, durability=durability))
        self.wall.append(time.perf_counter() - wall_start)
        self.cpu.append(time.process_time() - cpu_start)
        self.statement_counts.append(len(self.statements))

    def row(self, stored: int, plain: "Side | None", turns: int) -> dict[str, Any]:
        """Return the row of the agent, compared with the plain one."""
        cells: dict[str, Any] = {"agent": self.name}
        for first, last in (span for span in SPANS if span[1] <= turns):
            span, label = slice(first - 1, last), f"turns {first:,}-{last:,}"
            reached = last <= len(self.cpu)
            for name, seconds in (("ms", self.wall), ("CPU ms", self.cpu)):
                times = [1_000 * one for one in seconds[span]]
                cells |= ranged(f"{name}, {label}", times) if reached else {}
            compared = reached and plain and last <= len(plain.cpu)
            ratio = median(self.cpu[span]) / median(plain.cpu[span]) if compared else 0
            cells[f"of {PLAIN}, {label}"] = round(ratio, 2) if compared else ""
        cells["checkpoint bytes a turn"] = round(stored / len(self.wall))
        cells["archive statements a turn"] = (
            median(self.statement_counts) if self.name == OURS else ""
        )
        return cells


@dataclass(frozen=True, slots=True)
class Place:
    """The database of checkpoints and archives: a folder or PostgreSQL; open until `stack` ends."""

    folder: Path
    url: str
    runner: asyncio.Runner | None
    stack: ExitStack

    def side(self, name: str) -> Side:
        """Return an agent; raises `ModuleNotFoundError` if it is not installed."""
        model = TalkingModel()
        storage = f"of_{name.partition(',')[0].lower()}" if self.url else str(self.folder / name)
        statements: list[str] = []
        agent = self._maker(name, storage, statements)(model, self._saver(storage), self.folder)
        return Side(name, model, agent, storage, statements)

    def stored(self, storage: str) -> int:
        """Return the bytes of checkpoints."""
        if not self.url:
            with closing(sqlite3.connect(storage)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return stored_bytes(self.folder, f"{Path(storage).name}*")
        with psycopg.connect(self._uri) as connection:
            size = connection.execute(_SIZE, (storage,)).fetchone()
        return int(size[0]) if size else 0

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._uri) as connection:
            connection.execute(cast("Any", statement))

    @property
    def _uri(self) -> str:
        return self.url.replace("+psycopg", "")

    def _maker(self, name: str, storage: str, statements: list[str]) -> Maker:
        if name != OURS:
            return PEERS[name][0]
        url = make_url(self.url or "sqlite://").update_query_dict(_search_path(storage))
        address = url.render_as_string(hide_password=False)
        archive = SqlArchive(address) if self.url else DiskArchive(self.folder / "archive")

        def record_statement(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            if not statement.startswith("BEGIN"):
                statements.append(statement)

        event.listen(Engine, "before_cursor_execute", record_statement)
        self.stack.callback(event.remove, Engine, "before_cursor_execute", record_statement)
        return ours(self.stack.enter_context(archive))

    def _saver(self, storage: str) -> Any:
        conninfo = storage
        if self.url:
            self.stack.callback(self._run, f"DROP SCHEMA {storage} CASCADE")
            self._run(f"CREATE SCHEMA {storage}")
            conninfo = psycopg.conninfo.make_conninfo(self._uri, **_search_path(storage))
        kind: Any
        if self.runner is None:
            kind = PostgresSaver if self.url else SqliteSaver
            saver = self.stack.enter_context(kind.from_conn_string(conninfo))
            saver.setup()
            return saver
        kind = AsyncPostgresSaver if self.url else AsyncSqliteSaver
        opening = kind.from_conn_string(conninfo)
        saver = self.runner.run(opening.__aenter__())
        self.stack.callback(lambda: self.runner.run(opening.__aexit__(None, None, None)))
        self.runner.run(saver.setup())
        return saver


def _search_path(schema: str) -> dict[str, str]:
    return {"options": f"-csearch_path={schema}"}


def run_case(case: Case, turns: int, url: str, agents: Sequence[str]) -> list[dict[str, Any]]:
    """Hold the conversation with all agents that are installed, and return their rows."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner()) if case.asynchronous else None
        place = Place(Path(folder), url if case.postgres else "", runner, stack)
        sides = [*_installed(place, agents)]
        talk = islice(TALKS[case.talk][0](max(turns, TALK_TURNS)), turns)
        for number, turn in enumerate(talk, 1):
            active = [side for side in sides if side.name == OURS or number <= PEERS_END]
            first = number % len(active)
            for side in [*active[first:], *active[:first]]:
                side.turn(turn, case.durability, runner)
            if number % 100 == 0:
                print(f"{case.name}: turn {number}", flush=True)
        plain = next((side for side in sides if side.name == PLAIN), None)
        return [
            {"case": case.name, **side.row(place.stored(side.storage), plain, turns)}
            for side in sides
        ]


def _installed(place: Place, agents: Sequence[str]) -> Iterator[Side]:
    for name in agents:
        try:
            yield place.side(name)
        except ModuleNotFoundError as missing:
            print(f"{name}: no {missing.name}")


def main() -> None:
    """Measure the agents."""
    parser = argument_parser(__doc__)
    parser.add_argument("--name", default="turn_cost", help="what the files are called")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=AGENTS)
    parser.add_argument("--turns", type=int, default=500, help="of the first case")
    parser.add_argument("--url", default="", help="a PostgreSQL that is empty")
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES])
    options = parser.parse_args()
    cases = [case for case in CASES if case.name in (options.cases or [case.name])]
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings(action="ignore"):
        for at, case in enumerate(case for case in cases if options.url or not case.postgres):
            turns = options.turns if at == 0 else min(options.turns, SHORT)
            rows += run_case(case, turns, options.url, options.agents)
    write(options.out, options.name, "Cost per turn", rows)


if __name__ == "__main__":
    main()
