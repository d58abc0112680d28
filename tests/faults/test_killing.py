"""Processes that are killed in the middle of a turn lose nothing and double nothing."""

import json
from pathlib import Path

import pytest

from tests.databases import Server
from tests.draws import WHOLE
from tests.processes import ended

CLEAN = {"lost": 0, "doubled": 0, "disordered": 0, "altered": 0, "back": 0, "told": 0, "damage": 0}
KILLS = 120 if WHOLE else 6
"""Each of the soak tests below kills 400 times."""


@pytest.fixture(params=["sqlite", "postgresql"])
def uri(request: pytest.FixtureRequest) -> str:
    """Return where all is kept: nothing for SQLite's files, else the URI of a database."""
    if request.param == "sqlite":
        return ""
    server: Server = request.getfixturevalue("postgres")
    return server.database().uri


def run(root: Path, uri: str, durability: str, kills: int, seed: int) -> dict[str, int]:
    """Run the killing in a process of its own and return its report."""
    command = ["-m", "tests.faults.killing", str(root), uri, durability, str(kills), str(seed)]
    done = ended(command)
    assert done.code == 0, done.failed[-4_000:]
    report: dict[str, int] = json.loads(done.printed)
    return report


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_now_and_then(tmp_path: Path, uri: str, durability: str) -> None:
    """Every answered turn stands once, in order and unaltered; what was erased stays away."""
    report = run(tmp_path, uri, durability, kills=KILLS, seed=1)

    assert report | CLEAN == report
    assert report["answered"] >= KILLS // 4
    assert durability != "sync" or report["leaves"] == 0


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("seed", [10, 11])
def test_killed_hundreds_of_times(tmp_path: Path, uri: str, durability: str, seed: int) -> None:
    """So it is after several hundred kills, with conclusions, compressions and erasures between."""
    report = run(tmp_path, uri, durability, kills=400, seed=seed)

    assert report | CLEAN == report
    assert report["answered"] >= 400 // 4
    assert min(report["concluded"], report["erased"]) >= 3
    assert report["compressed"], "with `exit` few turns live long enough"
    assert durability != "sync" or report["leaves"] == 0
