"""Processes that are forked from one that uses the archive write to it like any other."""

import json

import pytest

from tests.faults.forking import CHILDREN, TURNS
from tests.faults.places import Place
from tests.processes import ended


@pytest.mark.parametrize("threads", [0, 3])
def test_every_turn_of_a_forked_process_is_kept(place: Place, threads: int) -> None:
    """No child hangs or loses a turn, whatever the parent and its threads do meanwhile."""
    done = ended(["-m", "tests.faults.forking", str(place.root), place.uri, str(threads)])

    assert done.code == 0, done.failed[-4_000:]
    assert json.loads(done.printed) == {
        "codes": [0] * CHILDREN,
        "turns": {f"child {number}": TURNS for number in range(CHILDREN)},
    }, done.failed[-4_000:]
