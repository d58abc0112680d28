"""Processes that are killed in the middle of a turn lose nothing and double nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, durability: str, kills: int, seed: int) -> dict[str, int]:
    """Run the killing in a process of its own and return its report."""
    command = [sys.executable, "-m", "tests.faults.killing", str(root), durability]
    done = subprocess.run(
        [*command, str(kills), str(seed)], capture_output=True, check=True, text=True
    )
    report: dict[str, int] = json.loads(done.stdout)
    return report


CLEAN = {"lost": 0, "doubled": 0, "disordered": 0, "altered": 0, "damage": 0}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_a_hundred_times(tmp_path: Path, durability: str) -> None:
    """Every answered turn stands once, in order and unaltered, after a hundred kills."""
    report = run(tmp_path, durability, kills=100, seed=1)

    assert report | CLEAN == report
    assert report["answered"] >= 100 // 4


def test_sync_leaves_no_branches(tmp_path: Path) -> None:
    """With durability sync nothing is left beside the lineage that continues."""
    report = run(tmp_path, "sync", kills=40, seed=2)

    assert report["leaves"] == 0
    assert report["answered"] >= 40 // 4


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("seed", range(10, 15))
def test_killed_a_thousand_times(tmp_path: Path, durability: str, seed: int) -> None:
    """Every answered turn stands once, in order and unaltered, after a thousand kills."""
    report = run(tmp_path, durability, kills=1000, seed=seed)

    assert report | CLEAN == report
    assert report["answered"] >= 1000 // 4
