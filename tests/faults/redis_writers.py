"""Processes that write to the attention of one user at the same time."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context

from redis import Redis

from ebbtide.memory.attention import Memory
from ebbtide.memory.redis_attention import RedisAttention

NOW = datetime(2026, 3, 1, tzinfo=UTC)
USER = "ann"
WRITERS = 8
ROUNDS = 25
SHARED = ("shared/1", "shared/2")
CROWD = 20

Task = Callable[[str, int], None]


def write_together(task: Task, socket: str) -> None:
    """Let `WRITERS` processes do a task, each with its number."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(WRITERS, mp_context=context) as processes:
        for done in [processes.submit(task, socket, number) for number in range(WRITERS)]:
            done.result()


def mixed(socket: str, number: int) -> None:
    """Access shared memories, add memories of its own, and suppress every second one of these."""
    with Redis(unix_socket_path=socket) as client:
        attention = RedisAttention(client, capacity=1_000)
        for one in range(ROUNDS):
            for memory_id in SHARED:
                attention.touch(USER, memory_id, now=NOW)
            own = Memory(f"{number}/{one}", 60, NOW, ("shared term", f"term {number}"))
            attention.add(USER, own, now=NOW)
            attention.touch(USER, own.id, now=NOW)
            if one % 2:
                attention.suppress(USER, own.id, now=NOW)


def crowding(socket: str, number: int) -> None:
    """Add more memories than fit, each of which holds more or less than all others."""
    with Redis(unix_socket_path=socket) as client:
        attention = RedisAttention(client, capacity=CROWD)
        for memory in crowd(number):
            attention.add(USER, memory, now=NOW)


def crowd(number: int) -> list[Memory]:
    """Return the memories that a writer adds when it crowds, in a wild order."""
    created = NOW - timedelta(minutes=number)
    order = sorted(range(ROUNDS), key=lambda one: one * 7 % ROUNDS)
    return [Memory(f"{number}/{one}", 50 + one, created) for one in order]


def building(socket: str, number: int) -> None:
    """Delete the sorted set, read and add, so that it is built by many at once while it changes."""
    with Redis(unix_socket_path=socket, decode_responses=number % 2 == 0) as client:
        attention = RedisAttention(client, capacity=1_000)
        for one in range(ROUNDS):
            attention.add(USER, Memory(f"{number}/{one}", 60, NOW), now=NOW)
            if one % 5 == number % 5:
                client.delete(f"ebbtide:{USER}:attention")
            attention.top(USER, 1, now=NOW)
            if one % 3 == 0:
                attention.withdraw(USER, f"{number}/{one}", now=NOW)
