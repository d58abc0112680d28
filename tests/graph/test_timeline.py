"""The timeline through the graph: it goes on whatever fails, and stays where it may not change."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from ebbtide import Settings
from ebbtide.nodes.turn.langchain_messages import to_dicts
from ebbtide.nodes.turn.state import unpacked
from tests.agents import talk
from tests.doubles import call
from tests.graph.long_effort import SMALL, compressing, talked


def test_a_pass_that_fails_leaves_the_rebuild(tmp_path: Path) -> None:
    """With every-turn the context is rebuilt after each turn, also while no model compresses."""
    failing: dict[str, Any] = {"background": lambda _: ValueError("no answer")}
    settings = SMALL.model_copy(update={"rebuild": "every-turn"})
    chat = compressing(tmp_path, settings=settings, **failing)

    states = [unpacked(state) for state in talked(chat, 20)]

    assert states[-1].get("compressed", {}) == {}
    assert [state["view"]["built"] for state in states if state["view"]] == [*range(2, 21)]


def test_a_smaller_room_changes_nothing_before_the_next_rebuild(tmp_path: Path) -> None:
    """A provider that reports more in the middle of a turn makes room by a rebuild that is told."""

    def greedy(_: list[BaseMessage]) -> AIMessage:
        asked = call("effort_status")
        usage: Any = {"input_tokens": 4_000, "output_tokens": 1, "total_tokens": 4_001}
        return asked.model_copy(update={"usage_metadata": usage})

    block = "Noted.\n---STATE---\nGoal: " + "a long goal " * 120 + "\n---END STATE---"
    chat = talk(tmp_path, [block, "Yes.", greedy, greedy, "Done."], settings=Settings())
    chat.say("Hello.")
    chat.say("Now.", context={"ambient_window": 5})
    chat.say("And now?", context={"ambient_window": 5})
    sent = [to_dicts(one.messages) for one in chat.model.sent[2:]]

    assert chat.model.sent[2].text.count("a long goal") > 50
    assert all(after[: len(before)] == before for before, after in pairwise(sent))
