"""The plan through the graph goes on whatever fails."""

from pathlib import Path
from typing import Any

from ebbtide.nodes.turn.state import unpacked
from tests.graph.long_effort import SMALL, compressing, talked


def test_a_pass_that_fails_leaves_the_change(tmp_path: Path) -> None:
    """With every-turn the plan is made after each turn, also while no model compresses."""
    failing: dict[str, Any] = {"background": lambda _: ValueError("no answer")}
    settings = SMALL.model_copy(update={"rebuild": "every-turn"})
    chat = compressing(tmp_path, settings=settings, **failing)

    states = [unpacked(state) for state in talked(chat, 20)]

    assert states[-1].get("compressed", {}) == {}
    assert [state["plan"]["after_turn"] for state in states if state["plan"]] == [*range(2, 21)]
