"""The plan of the context, as the state keeps it."""

import json
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.context.plan import Plan, Rounds, Why, keeping_anchor

TURN, NAMES = st.integers(1, 2_000), st.lists(st.text(), unique=True, max_size=4).map(tuple)
PLACES = st.dictionaries(st.text(), TURN, max_size=4)
PLANS = st.builds(
    Plan,
    after_turn=st.integers(0, 2_000),
    turns=st.sets(TURN).map(sorted).map(tuple),
    previews=st.integers(0, 2_000),
    brief=st.sets(TURN).map(sorted).map(tuple),
    rounds=st.none()
    | st.builds(
        Rounds,
        until=TURN,
        left=st.integers(0, 50),
        gone=st.lists(st.tuples(st.text(), TURN, TURN), max_size=2).map(tuple),
        limits=st.lists(st.tuples(TURN, TURN, st.none() | TURN), max_size=3).map(tuple),
        request=st.none() | TURN,
        bare=st.integers(0, 4),
        excerpt=st.integers(0, 50),
    ),
    summaries=NAMES,
    older=NAMES,
    unnamed=st.integers(0, 50),
    open=NAMES,
    quotes=PLACES,
    logs=PLACES,
    anchor=st.none() | st.dictionaries(st.text(), st.text(), max_size=4),
    size=st.integers(0, 10**6),
    within=st.integers(0, 50),
    events=st.integers(0, 50),
    key=st.text(),
    why=st.sampled_from(get_args(Why)),
)


@given(PLANS)
def test_what_is_packed_is_unpacked(plan: Plan) -> None:
    """Written as JSON and read again, a plan is the same, its order included."""
    read = Plan.unpacked(json.loads(json.dumps(plan.packed())))

    assert read == plan
    assert read is not None
    assert [*read.logs] == [*plan.logs]
    assert [*read.quotes] == [*plan.quotes]


def test_a_state_without_a_plan_has_none() -> None:
    """A thread before its first turn, or after erasing."""
    assert Plan.unpacked(None) is None
    assert Plan.unpacked({}) is None


def test_the_first_block_that_was_shown_stays() -> None:
    """However often a new one is written, the place keeps what it showed when the plan was made."""
    plan = keeping_anchor(Plan(3).packed(), {})

    assert keeping_anchor(plan, {"Goal": "new"})["anchor"] == {}
