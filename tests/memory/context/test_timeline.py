"""What the context shows between two rebuilds, as the state keeps it."""

import json
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.context.timeline import (
    Timeline,
    Why,
)

TURN, NAMES = st.integers(1, 2_000), st.lists(st.text(), unique=True, max_size=4).map(tuple)
PLACES = st.dictionaries(st.text(), TURN, max_size=4)
TIMELINES = st.builds(
    Timeline,
    built=st.integers(0, 2_000),
    turns=st.sets(TURN).map(sorted).map(tuple),
    previews=st.integers(0, 2_000),
    short=st.dictionaries(TURN, st.tuples(TURN, TURN), max_size=4),
    first=st.integers(0, 2_000),
    summaries=NAMES,
    older=st.integers(0, 50),
    open=NAMES,
    quotes=PLACES,
    logs=PLACES,
    anchor=st.none() | st.dictionaries(st.text(), st.text(), max_size=4),
    size=st.integers(0, 10**6),
    hold=st.integers(0, 10**6).map(lambda tenths: tenths / 10),
    key=st.text(),
    why=st.sampled_from(get_args(Why)),
)


@given(TIMELINES)
def test_what_is_packed_is_unpacked(line: Timeline) -> None:
    """Written as JSON and read again, a timeline is the same, its order included."""
    read = Timeline.unpacked(json.loads(json.dumps(line.packed())))

    assert read == line
    assert read is not None
    assert [*read.logs] == [*line.logs]
    assert [*read.quotes] == [*line.quotes]


def test_a_state_without_a_timeline_has_none() -> None:
    """A thread before its first turn, or after erasing."""
    assert Timeline.unpacked(None) is None
    assert Timeline.unpacked({}) is None


def test_the_first_block_that_was_shown_stays() -> None:
    """However often a new one is written, the place keeps what it showed when it was rebuilt."""
    line = Timeline(3).with_anchor({})

    assert line.with_anchor({"Goal": "new"}).anchor == {}
