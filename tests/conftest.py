"""What holds for all tests: no keys, no deadlines, and on demand no skips.

What takes long to import is imported by the fixtures: the process that starts the workers reads
this file before they begin, and needs none of it.
"""

import gc
import os
import ssl
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

from tests.draws import NO_SKIP, SOAK, WHOLE, examples

if TYPE_CHECKING:
    from tests.databases import Database, Server
    from tests.redis_server import RedisServer

SECRETS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LANGSMITH_API_KEY", "LANGSMITH_TRACING")
_IN_TURN = ("entry", "provider", "durability", "way")
"""Parameters of which a quick run takes one value for each test, now this one and now that one. The
soak takes all of them, and so does whoever names a test."""
_DATABASES = ("address", "archive", "make", "place", "unused", "uri")
"""Fixtures that are taken in turn as well, unless nothing may skip."""

hypothesis.settings.register_profile(
    "ebbtide", deadline=None, print_blob=True, derandomize=not SOAK, max_examples=examples(40)
)
hypothesis.settings.load_profile("ebbtide")

gc.disable()
"""While the tests are imported and collected: nothing of that becomes garbage."""


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test as on a fresh machine: no keys, no configuration, an archive of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [*SECRETS, *(name for name in os.environ if name.startswith("EBBTIDE_"))]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _authorities_read_once() -> Iterator[None]:
    """Let all clients have one list of certificates: to read it takes each of them 30 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        if find_spec("httpcore2"):
            once = cache(import_module("httpcore2").default_ssl_context)
            patch.setattr("httpcore2.default_ssl_context", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _statements_compiled_once() -> Iterator[None]:
    """Let all archives share what SQLAlchemy compiled for one: each test has its own."""
    library, dialects = import_module("sqlalchemy"), import_module("sqlalchemy.engine.default")
    compiled = library.util.LRUCache(2_000)
    made = library.Engine.__init__

    def sharing(engine: Any, *args: Any, **kwargs: Any) -> None:
        made(engine, *args, **kwargs)
        engine._compiled_cache = compiled

    with pytest.MonkeyPatch.context() as patch:
        dialect = dialects.DefaultDialect
        patch.setattr(dialect, "__eq__", lambda one, other: type(one) is type(other))
        patch.setattr(dialect, "__hash__", lambda one: hash(type(one)))
        patch.setattr(library.Engine, "__init__", sharing)
        yield


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing between two attempts to reach a model, unless the provider says so."""
    monkeypatch.setattr("ebbtide.nodes.ask.FIRST_WAIT", 0.0)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run of the tests have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def postgres() -> Iterator["Server"]:
    """Yield a PostgreSQL server, started when the first test asks for it."""
    with import_module("tests.databases").serving() as server:
        yield server


@pytest.fixture(params=["graph", "middleware"])
def entry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the graph and with the middleware: what it talks to is made so."""
    monkeypatch.setattr("tests.agents.entry", request.param)
    return str(request.param)


@pytest.fixture
def database(postgres: "Server") -> "Database":
    """Return an empty database."""
    return postgres.database()


@pytest.fixture(scope="session")
def shared_database(postgres: "Server") -> "Database":
    """Return a database that tests empty and share, one after the other."""
    return postgres.database()


@pytest.fixture(scope="session")
def running_redis() -> Iterator["RedisServer"]:
    """Yield a Redis server, started when the first test asks for it."""
    with import_module("tests.redis_server").serving_redis() as server:
        yield server


@pytest.fixture
def redis_server(running_redis: "RedisServer") -> "RedisServer":
    """Return a Redis server that holds nothing."""
    with running_redis.client() as client:
        client.flushall()
    return running_redis


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in the docstrings of the package alone, not in those of tests."""
    return [one for one in (yield) if not isinstance(one, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Leave to longer runs all but one value of what is taken in turn, and thorough tests."""
    in_turn = _IN_TURN if WHOLE else _IN_TURN + _DATABASES
    alike = defaultdict[Any, list[pytest.Item]](list)
    for item in items:
        if not WHOLE and item.get_closest_marker("thorough"):
            item.add_marker(pytest.mark.skip("takes seconds: EBBTIDE_NO_SKIP=1 runs it"))
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if "acceptance" not in item.path.parts and not given.keys().isdisjoint(in_turn):
            rest = tuple((name, id(given[name])) for name in given if name not in in_turn)
            alike[item.path, item.name.partition("[")[0], rest].append(item)
    numbers = defaultdict[Path, Iterator[int]](count)
    for (path, name, _), group in alike.items():
        del group[crc32(f"{name} {next(numbers[path])}".encode()) % len(group)]
        for item in group:
            item.add_marker(pytest.mark.soak)


def pytest_collection_finish() -> None:
    """Let the collector of garbage leave alone what was imported: it stays as long as the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)  # the usual 700 look through each test's agents many times
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failure where nothing may skip; expected failures stay."""
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", _forbidden(report.longrepr)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a skipped module into a failure where nothing may skip."""
    report = yield
    if NO_SKIP and report.skipped:
        report.outcome, report.longrepr = "failed", _forbidden(report.longrepr)
    return report


def _forbidden(why: object) -> str:
    return f"skipped, but EBBTIDE_NO_SKIP=1 forbids it: {why}"
