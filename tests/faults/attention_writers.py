"""Processes that write to the attention of one user at the same time."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from redis import Redis

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.attention.law import Attention, Memory
from ebbtide.memory.attention.redis import RedisAttention
from ebbtide.memory.turn import Session, Tip
from tests.memory.turns import concluded, turn
from tests.processes import forks

NOW = datetime(2026, 3, 1, tzinfo=UTC)
USER = "ann"
WRITERS = 8
ROUNDS = 8
SHARED = ("shared/1", "shared/2")
CROWD = 20


@dataclass(frozen=True)
class Place:
    """Where attention is: the URL of a database, and the socket of a Redis in front of it."""

    url: str
    socket: str = ""

    @contextmanager
    def open(self, capacity: int = 1_000) -> Iterator[tuple[SqlArchive, Attention]]:
        """Open the archive and its attention."""
        with SqlArchive(self.url, pool_size=2, lock_timeout=60) as archive:
            table = archive.attention(capacity=capacity)
            if not self.socket:
                yield archive, table
                return
            with Redis(unix_socket_path=self.socket) as client:
                yield archive, RedisAttention(client, table)


Task = Callable[[Place, int], None]


def write_together(task: Task, place: Place) -> None:
    """Let `WRITERS` processes do a task, each with its number."""
    with ProcessPoolExecutor(WRITERS, mp_context=forks()) as processes:
        for done in [processes.submit(task, place, number) for number in range(WRITERS)]:
            done.result()


def mixed(place: Place, number: int) -> None:
    """Access shared memories, add memories of its own, and suppress every second one of these."""
    with place.open() as (_, attention):
        for one in range(ROUNDS):
            for memory_id in SHARED:
                attention.touch(USER, memory_id, now=NOW)
            own = Memory(f"{number}/{one}", 60, NOW, ("shared term", f"term {number}"))
            attention.add(USER, own, now=NOW)
            attention.touch(USER, own.id, now=NOW)
            attention.top(USER, 1, now=NOW)
            if one % 2:
                attention.suppress(USER, own.id, now=NOW)


def conclude(place: Place, number: int) -> None:
    """Commit turns that conclude an effort each, and expand what is shared in alternating order."""
    with place.open() as (archive, attention):
        session, tip = Session(USER, f"t{number}"), Tip()
        for one in range(ROUNDS):
            used = SHARED if number % 2 else SHARED[::-1]
            events = [{"type": "expanded", "effort": memory_id} for memory_id in used]
            ended = concluded(f"e{one}", "Done.", importance=100)
            tip = archive.commit(session, tip, turn(one + 1, events=[*events, ended])).tip
            attention.changed(USER)
            attention.top(USER, 1, now=NOW)


def crowding(place: Place, number: int) -> None:
    """Add more memories than fit, each of which holds more or less than all others."""
    with place.open(CROWD) as (_, attention):
        for memory in crowd(number):
            attention.add(USER, memory, now=NOW)


def crowd(number: int) -> list[Memory]:
    """Return the memories that a writer adds when it crowds, in a wild order."""
    created = NOW - timedelta(minutes=number)
    order = sorted(range(ROUNDS), key=lambda one: one * 7 % ROUNDS)
    return [Memory(f"{number}/{one}", 50 + one, created) for one in order]
