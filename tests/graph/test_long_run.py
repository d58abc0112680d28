"""Many turns and efforts: the context stays below one ceiling while the full history grows."""

from pathlib import Path

import pytest

from ebbtide.memory.metrics import report
from tests.agents import Talk
from tests.graph.journeys import Turn, begin, using

CEILING = 6_000
PAGE = (
    "The {n}th machine, called {a}{n}, reports {b}{n} and {c}{n}. " + "It waits for its part. " * 20
)


def turns_of(number: int) -> list[Turn]:
    """Return the five turns of one effort; every fifth effort names the one before."""
    page = PAGE.format(n=number, a="lathe", b="noise", c="torque")
    again = f"Was machine-{number - 1} like that?" if number % 5 == 0 else "Anything else?"
    return [
        Turn(page, using("open_effort", name=f"machine-{number}")),
        Turn(page.upper()),
        Turn(again),
        Turn("It is mended.", using("close_effort")),
        Turn(f"How far is it to town {number}? " + "The road is long. " * 20),
    ]


def lived(root: Path, efforts: int) -> tuple[Talk, dict[str, object], int]:
    """Return an agent after five turns for each effort, its state, and the largest context."""
    turns = [turn for number in range(1, efforts + 1) for turn in turns_of(number)]
    pages = [PAGE.format(n=n, a="lathe", b="noise", c="torque")[:80] for n in range(1, efforts + 1)]
    here = begin(root, turns, pages)
    states = [here.say(turn.said, durability="exit") for turn in turns]
    return here, states[-1], max(state["context_report"]["total"] for state in states)


@pytest.mark.parametrize("efforts", [40, pytest.param(200, marks=pytest.mark.soak)])
def test_the_context_stays_below_one_ceiling(tmp_path: Path, efforts: int) -> None:
    """However many turns there are, no context is larger than the same ceiling."""
    here, state, largest = lived(tmp_path, efforts)
    found = report(here.records(state))

    assert largest < CEILING
    assert found.turns[-1].full_history > 100 * 5 * efforts
    assert found.evictions > 0.8 * efforts


def test_the_context_does_not_grow_with_the_session(tmp_path: Path) -> None:
    """The second half of a long run has no larger contexts than the first."""
    here, state, _ = lived(tmp_path, 40)
    totals = [turn.total for turn in report(here.records(state)).turns]

    assert max(totals[100:]) < 1.1 * max(totals[:100])
