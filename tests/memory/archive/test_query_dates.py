"""Dates that queries name."""

import pytest

from ebbtide.memory.archive import query as queries


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("What did James say in April?", ["2025-04", "2026-04"]),
        ("april 2026", ["2026-04"]),
        ("on the 8th of May, 2026", ["2026-05-08"]),
        ("May 8", ["2025-05-08", "2026-05-08"]),
        ("March 3rd, 2026", ["2026-03-03"]),
        ("since 2026-02-11", ["2026-02-11"]),
        ("in 2026", ["2026"]),
        ("in March and June", ["2025-03", "2026-03", "2025-06", "2026-06"]),
        ("May I march on?", []),
        ("port 2026", []),
        ("", []),
    ],
)
def test_days_begin_like_this(query: str, days: list[str]) -> None:
    """Months, days and years are known as people write them; a verb is no month."""
    assert queries._dates(query, [2025, 2026]) == days
