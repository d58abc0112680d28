"""The implementations of attention that the suite runs against.

A further one is a name in `KINDS` and a branch in `make`, which returns it over an empty store.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore
from redis import Redis

from ebbtide.memory.attention import Attention
from ebbtide.memory.redis_attention import RedisAttention
from ebbtide.memory.store_attention import StoreAttention
from tests.databases import Server
from tests.redis_server import RedisServer

Make: TypeAlias = Callable[..., Attention]
"""Makes attention, over the same store each time; takes `threshold` and `capacity`."""

KINDS = ("memory", "sqlite", "postgres", "redis")


@pytest.fixture(scope="session")
def postgres_store(postgres: Server) -> Iterator[PostgresStore]:
    """Yield a store in a database of its own, for one test after the other."""
    with PostgresStore.from_conn_string(postgres.database().uri) as store:
        store.setup()
        yield store


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Yield what makes attention of every kind, one after the other, over an empty store."""
    if request.param == "memory":
        yield _over(StoreAttention, InMemoryStore())
    elif request.param == "sqlite":
        with SqliteStore.from_conn_string(str(tmp_path / "attention.sqlite")) as store:
            store.conn.execute("PRAGMA synchronous = OFF")  # no power cut is tested
            yield _over(StoreAttention, store)
    elif request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        with server.client() as client:
            yield _over(RedisAttention, client)
    else:
        kept: PostgresStore = request.getfixturevalue("postgres_store")
        with kept._cursor() as cursor:
            cursor.execute("TRUNCATE store")
        yield _over(StoreAttention, kept)


@pytest.fixture
def attention(make: Make) -> Attention:
    """Return attention with its usual threshold and capacity."""
    return make()


def _over(kind: Callable[..., Attention], store: BaseStore | Redis) -> Make:
    def make(**numbers: float) -> Attention:
        capacity = int(numbers.get("capacity", 200))
        return kind(store, threshold=numbers.get("threshold", 40.0), capacity=capacity)

    return make
