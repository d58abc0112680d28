"""How many exchanges of no effort are sent, in the real graph."""

from pathlib import Path

import pytest

from ebbtide import Settings
from tests.graph.journeys import play, trains


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        (Settings(), [*range(26)]),
        (Settings(rebuild="every-turn"), [*range(11), *[10] * 15]),
        (Settings(ambient_window=0), [*range(26)]),
        (Settings(ambient_window=3), [*range(14), *range(3, 12), 3, 4, 5]),
    ],
)
def test_the_window_in_each_turn(tmp_path: Path, settings: Settings, sent: list[int]) -> None:
    """At least the window is sent, and more until a rebuild is worth it; a window of 0 is all."""
    afters = play(tmp_path, trains(26), settings=settings)

    assert [after.ambient_sent for after in afters] == sent
