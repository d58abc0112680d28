"""How many exchanges of no effort are sent, in the real graph."""

from pathlib import Path

import pytest

from ebbtide import Settings
from tests.graph.journeys import play, trains


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        (Settings(), [*range(15), *range(10, 15), *range(10, 15), 10]),
        (Settings(window_step=1), [*range(11), *[10] * 15]),
        (Settings(ambient_window=0), [*range(26)]),
        (Settings(ambient_window=3, window_step=2), [0, 1, 2, *[3, 4] * 11, 3]),
    ],
)
def test_the_window_in_each_turn(tmp_path: Path, settings: Settings, sent: list[int]) -> None:
    """Between the window and a step less one more are sent; a window of 0 sends all."""
    afters = play(tmp_path, trains(26), settings=settings)

    assert [after.ambient_sent for after in afters] == sent
