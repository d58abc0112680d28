"""The implementations of attention that the suite runs against.

A further one is a name in `KINDS` and a branch in `place`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from redis import Redis
from sqlalchemy import delete

from ebbtide.memory.archive.schema import memories, users
from ebbtide.memory.archive.sql import DiskArchive, SqlArchive
from ebbtide.memory.attention.law import Attention
from ebbtide.memory.attention.redis import RedisAttention
from tests.databases import Server
from tests.redis_server import RedisServer

Make: TypeAlias = Callable[..., Attention]
"""Makes attention, over the same table each time; takes `threshold` and `capacity`."""

KINDS = ("sqlite", "postgresql", "redis")


@dataclass(frozen=True)
class Place:
    """An archive with a table of attention, and a client of Redis if that is in front of it."""

    archive: SqlArchive
    client: Redis | None = None

    def empty(self) -> None:
        """Delete all users and memories."""
        with self.archive.database.writing() as connection:
            connection.execute(delete(memories))
            connection.execute(delete(users))
        if self.client:
            self.client.flushall()

    def attention(self, threshold: float = 40.0, capacity: int = 200) -> Attention:
        """Return attention over the table."""
        table = self.archive.attention(threshold, capacity)
        return RedisAttention(self.client, table) if self.client else table


@pytest.fixture(scope="session")
def sqlite_archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlArchive]:
    """Yield an archive on SQLite, for one test after the other."""
    with DiskArchive(tmp_path_factory.mktemp("attention"), durable=False) as archive:
        yield archive


@pytest.fixture(scope="session")
def postgresql_archive(postgres: Server) -> Iterator[SqlArchive]:
    """Yield an archive on PostgreSQL, for one test after the other."""
    with SqlArchive(postgres.database().url) as archive:
        yield archive


@pytest.fixture(params=KINDS, scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Yield a place for attention of every kind, one after the other."""
    kind = "sqlite" if request.param == "redis" else request.param
    archive: SqlArchive = request.getfixturevalue(f"{kind}_archive")
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("running_redis")
        with server.client() as client:
            yield Place(archive, client)
    else:
        yield Place(archive)


@pytest.fixture
def make(place: Place) -> Make:
    """Return what makes attention, over the same empty table each time."""
    place.empty()
    return place.attention


@pytest.fixture
def attention(make: Make) -> Attention:
    """Return attention with its usual threshold and capacity."""
    return make()
