"""How many exchanges of no effort are sent, in the real graph."""

from pathlib import Path

import pytest

from ebbtide import Settings
from tests.doubles import call
from tests.graph.journeys import Turn, play, trains


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        (Settings(), [*range(26)]),
        (Settings(rebuild="every-turn"), [*range(11), *[10] * 15]),
        (Settings(ambient_window=0), [*range(26)]),
        (Settings(ambient_window=3), [*range(16), *range(3, 13)]),
    ],
)
def test_the_window_in_each_turn(tmp_path: Path, settings: Settings, sent: list[int]) -> None:
    """At least the window is sent, and more until a rebuild is worth it; a window of 0 is all."""
    afters = play(tmp_path, trains(26), settings=settings)

    assert [after.ambient_sent for after in afters] == sent


def test_a_group_counts_as_one(tmp_path: Path) -> None:
    """However many messages of tools a turn holds, the window has as many turns, each whole."""
    asked = (call("effort_status"), call("effort_status"), "Done.")
    turns = [Turn(f"# And train {number}?", asked) for number in range(6)]
    settings = Settings(ambient_window=3, rebuild="every-turn")

    afters = play(tmp_path, [*turns, *trains(1)], settings=settings)

    assert [after.ambient_sent for after in afters] == [0, 1, 2, 3, 3, 3, 3]
    assert sum(message.type == "tool" for message in afters[-1].sent) == 3 * 2
