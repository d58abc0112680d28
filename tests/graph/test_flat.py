"""Invariant 6: what a turn costs does not depend on how long the session has run."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings
from tests.graph.journeys import Turn, begin, using
from tests.graph.living import CountingArchive, Life

SAID = "Another quarter of an hour has passed, and nothing has come to a stop yet. " * 5
BUDGET = 3_600


@pytest.mark.parametrize("last", [120, pytest.param(400, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("first", "chosen"),
    [
        (Turn(SAID), {"ambient_window": 0}),
        (Turn(SAID, using("open_effort", name="night-watch")), {}),
    ],
    ids=["no-window", "one-effort"],
)
def test_a_late_turn_costs_what_an_early_one_did(
    tmp_path: Path, first: Turn, chosen: dict[str, Any], last: int
) -> None:
    """Context tokens, bytes of the state and records read at the end are those after the middle."""
    # Talk outside of efforts, all of which the window lets in, and an effort that never ends.
    archive = CountingArchive(tmp_path, durable=False)
    turns = [first, *[Turn(SAID)] * (last - 1)]
    settings = Settings(context_budget=BUDGET, **chosen)
    life = Life(begin(tmp_path, turns, archive=archive, settings=settings))
    life.live(turns)

    for series in life.costs:
        middle, quarter = last // 2, last // 4
        early, late = series[middle : middle + quarter], series[-quarter:]
        assert sum(late) <= 1.02 * sum(early)
        assert max(late) <= 1.02 * max(early)
