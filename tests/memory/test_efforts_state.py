"""The part of the state that the memory tools change."""

from ebbtide.memory.efforts import Efforts, within_limit
from tests.constants import constants


def test_an_expanded_effort_keeps_its_summary_if_another_can_leave() -> None:
    """Over the limit, summaries without an expanded log leave first."""
    state = Efforts(
        turn=9,
        active=None,
        open={},
        expanded={"x": {"expanded_turn": 8, "last_referenced_turn": 8, "turns": [1]}},
        summaries={"x": {"last_referenced_turn": 1}, "y": {"last_referenced_turn": 2}},
    )

    with constants(MOST_SUMMARIES=1):
        assert [*within_limit(state).summaries] == ["x"]
