"""The clock, and who reads it."""

import re
from pathlib import Path

from ebbtide.memory.clock import stamp

ROOT = Path(__file__).parents[2]
READ = re.compile(r"\.now\(|\.utcnow\(|import stamp|monotonic\(|\btime\(")


def test_times_are_in_utc_to_the_millisecond() -> None:
    """A time has one form wherever it is written."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp())


def test_rules_are_told_the_time() -> None:
    """Of the memory only the clock itself reads it, and what waits for a server."""
    rules = sorted((ROOT / "memory").glob("*.py"))
    reading = [path.name for path in rules if READ.search(path.read_text(encoding="utf-8"))]

    assert reading == ["clock.py", "redis_attention.py"]
