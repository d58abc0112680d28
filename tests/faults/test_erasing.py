"""What was being erased when the process was killed is gone, or whole; erasing again completes it.

Whoever opens the archive next finds it so, with nothing left of what is gone.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Server
from tests.faults.erasing import SECRETS, STEMS
from tests.processes import ended
from tests.redis_server import RedisServer

ON_SQLITE, ON_POSTGRESQL = ("turn", "session", "user"), ("turn", "aturn", "session")
PLACES = [
    *(("sqlite", what) for what in ON_SQLITE),
    *(("postgresql", what) for what in (*ON_POSTGRESQL, "user")),
    *(("redis", what) for what in ("turn", "user")),
]
OFTEN = [("sqlite", "turn"), ("postgresql", "session")]
"""What is killed at some statements in each run of the tests; the rest, at each, in the soak."""


@pytest.fixture
def address(request: pytest.FixtureRequest, place: tuple[str, str]) -> tuple[str, str]:
    """Return where all is kept: the URI of a database or "", the socket of Redis or ""."""
    server: Server = request.getfixturevalue("postgres")
    redis: RedisServer = request.getfixturevalue("redis_server")
    uri = server.database().uri if place[0] == "postgresql" else ""
    return uri, redis.socket if place[0] == "redis" else ""


def run(root: Path, address: tuple[str, str], what: str, numbers: tuple[int, int]) -> Any:
    """Run the killing in a process of its own and return its report."""
    program = ["-m", "tests.faults.erasing", str(root / "whole"), *address, what]
    done = ended([*program, *map(str, numbers)])
    assert done.code == 0, done.failed[-4_000:]
    report = json.loads(done.printed)
    assert report["known"] >= len(SECRETS) + len(STEMS)
    assert bool(report["cached"]) == bool(address[1])
    return report


@pytest.mark.thorough
@pytest.mark.parametrize("place", OFTEN, ids="-".join)
def test_killed_now_and_then(
    tmp_path: Path, address: tuple[str, str], place: tuple[str, str]
) -> None:
    """Wherever the process died, nothing of it is left in the end, and the thread goes on."""
    numbers = (9, 32) if place[1] in {"session", "user"} else (23, 70)
    report = run(tmp_path, address, place[1], numbers)

    assert report["wrong"] == {}
    assert report["kills"] >= 2


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_killed_at_every_statement(
    tmp_path: Path, address: tuple[str, str], place: tuple[str, str]
) -> None:
    """So it is at each statement, and in between a thread may be without its checkpoints."""
    report = run(tmp_path, address, place[1], (1, 1))

    assert report["wrong"] == {}
    assert report["kills"] >= 50
    assert 1 <= report["erased"] < report["kills"]
    assert report["stateless"] > 0
