"""Erase a turn whose checkpoints are in PostgreSQL, in child processes that are killed.

`python -m tests.faults.erasing_postgres URI ROOT KIND FIRST STEP` kills a child at its operation
FIRST, the next one at FIRST + STEP, and so on until one ends by itself. An operation is one on a
file of the archive, or what is sent to the database: it counts before, and when it was sent and is
not answered. KIND is how checkpoints are replaced: `prune`, `aprune`, or `threads`, where whole
threads are all that can be deleted. It prints one JSON line: how many were killed, how often the
archive was done with its part by then, how often the thread had no state, and what went wrong.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from ebbtide import aerase, erase
from tests.agents import Talk, talk
from tests.databases import Database
from tests.faults.erasing import (
    AGAIN,
    CONFIG,
    OWNER,
    SCRIPT,
    SECRETS,
    TOLD,
    WORDS,
    Countdown,
    traces,
)

OPTIONS: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class WholeThreads(PostgresSaver):
    """A checkpointer that can delete whole threads, and nothing less."""

    prune = BaseCheckpointSaver.prune


class Counted(psycopg.Connection[Any]):
    """A connection that counts what it sends."""

    countdown: Countdown | None = None

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for an operation."""
        return super().wait(counting(gen, self.countdown), *args, **kwargs)


class AsyncCounted(psycopg.AsyncConnection[Any]):
    """A connection that counts what it sends."""

    countdown: Countdown | None = None

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for an operation."""
        return await super().wait(counting(gen, self.countdown), *args, **kwargs)


def counting(operation: Any, countdown: Countdown | None) -> Generator[Any, Any, Any]:
    """Run an operation; count before it is sent, and when the answer is waited for."""
    if countdown is None:
        return (yield from operation)
    countdown.counted()
    try:
        wanted = next(operation)
        countdown.counted()
        while True:
            ready = yield wanted
            wanted = operation.send(ready)
    except StopIteration as end:
        return end.value


@dataclass
class Place:
    """Where a thread is: its files and its database."""

    root: Path
    uri: str
    kind: str
    copies: Iterator[int] = field(default_factory=count)

    @property
    def database(self) -> Database:
        """The database."""
        return Database(self.uri, Path())

    @property
    def name(self) -> str:
        """The name of the database."""
        return str(conninfo_to_dict(self.uri)["dbname"])

    def copy(self) -> "Place":
        """Return a copy of all, made when the last operation that was begun is over."""
        name = self.name
        there = f"{name}_{next(self.copies)}"
        with psycopg.connect(self.uri, dbname="postgres", autocommit=True) as connection:
            asked = "SELECT FROM pg_stat_activity WHERE datname = %s"
            while connection.execute(asked, [name]).fetchall():
                continue
            connection.execute(f'CREATE DATABASE "{there}" TEMPLATE "{name}"'.encode())
        root = self.root.with_name(there)
        shutil.copytree(self.root, root)
        return Place(root, make_conninfo(self.uri, dbname=there), self.kind)

    def drop(self) -> None:
        """Delete the files and the database."""
        shutil.rmtree(self.root)
        with psycopg.connect(self.uri, dbname="postgres", autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{self.name}" (FORCE)'.encode())


@contextmanager
def opened(place: Place, countdown: Countdown | None = None) -> Iterator[Talk]:
    """Open the thread."""
    saver = WholeThreads if place.kind == "threads" else PostgresSaver
    with Counted.connect(place.uri, **OPTIONS) as connection:
        here = agent_of(place, saver(connection))
        connection.countdown = countdown
        yield here
        here.archive.close()


def agent_of(place: Place, saver: Any) -> Talk:
    """Return an agent with its archive in the place's files."""
    return talk(place.root / "archive", [*SCRIPT], [AGAIN] * 9, checkpointer=saver)


def erased(place: Place, countdown: Countdown | None = None) -> list[str]:
    """Erase turn 2, and return what is wrong with the report."""
    if place.kind == "aprune":
        return asyncio.run(aerased(place, countdown))
    with opened(place, countdown) as here:
        report = erase(here.agent, CONFIG, 2)
    return [] if (report.branches, report.stale) == (("main",), ()) else [repr(report)]


async def aerased(place: Place, countdown: Countdown | None) -> list[str]:
    """Do what `erased` does with the asynchronous checkpointer."""
    async with await AsyncCounted.connect(place.uri, **OPTIONS) as connection:
        here = agent_of(place, AsyncPostgresSaver(cast("Any", connection)))
        connection.countdown = countdown
        report = await aerase(here.agent, CONFIG, 2)
        here.archive.close()
    return [] if (report.branches, report.stale) == (("main",), ()) else [repr(report)]


def killed(place: Place, number: int) -> bool:
    """Erase turn 2 in a child that is killed at an operation; tell whether it came to that."""
    child = os.fork()
    if child == 0:
        countdown = Countdown(number, str(place.root))
        sys.addaudithook(countdown.audited)
        erased(place, countdown)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def how_far(place: Place) -> tuple[bool, bool]:
    """Tell whether the archive was done with its part, and whether the thread has no state."""
    archived = any((place.root / "archive").glob("*/*/erased.json"))
    with opened(place) as here:
        return archived, not here.agent.get_state(CONFIG).values


def talked(place: Place, turn: int) -> list[str]:
    """Go on with the thread, and return what was lost."""
    with opened(place) as here:
        here.model.answers = ["On we go."]
        state = here.say("And?", CONFIG)
        records = here.records(state)
    wanted = {
        "turn": (state["memory"]["turn"], state["memory"]["position"]["branch"]) == (turn, "main"),
        "records": [record.turn for record in records] == [*range(1, turn + 1)],
        "efforts": (state["memory"]["active_effort"], list(state["memory"]["summaries"]))
        == (None, ["gate"]),
        "messages": [m.type for m in state["messages"]].count("human") > 1,
    }
    return [f"talked on: {name}" for name, held in wanted.items() if not held]


def left(place: Place) -> list[str]:
    """Return what is left of the turn in files and rows, and what is wrong with the archive."""
    with opened(place) as here:
        records = here.records(here.agent.get_state(CONFIG).values)
        faults = [f"{f.where}: {f.what}" for f in here.archive.verify(OWNER) if f.fatal]
        held = here.archive.held(OWNER)
    other = [record.turn for record in records if (record.status == "erased") != (record.turn == 2)]
    still = [] if held is None else ["held"]
    return [
        *traces(place.root),
        *place.database.holding(SECRETS),
        *faults,
        *map(str, other),
        *still,
    ]


def main(uri: str, root: Path, kind: str, numbers: tuple[int, int]) -> None:
    """Kill child after child, and print what was found."""
    whole = Place(root / f"whole-{kind}", uri, kind)
    whole.root.mkdir()
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
    with opened(whole) as here:
        here.model.structured = [TOLD]
        [here.say(words, CONFIG) for words in WORDS]
    kills, archived, stateless, wrong = 0, 0, 0, dict[int, list[str]]()
    number, step = numbers
    while killed(again := whole.copy(), number):
        on = again.copy()
        done, lost = how_far(again)
        faults = [*erased(again), *left(again), *talked(again, 5)]
        faults += [*talked(on, 5), *erased(on), *left(on), *talked(on, 6)]
        kills, archived, stateless = kills + 1, archived + done, stateless + lost
        wrong |= {number: faults} if faults else {}
        again.drop()
        on.drop()
        number += step
    found = {"kills": kills, "archived": archived, "stateless": stateless, "wrong": wrong}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], (int(sys.argv[4]), int(sys.argv[5])))
