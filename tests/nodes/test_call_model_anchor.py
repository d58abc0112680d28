"""An answer with a state block: what the context shows from then on."""

from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage

from ebbtide.memory.context.plan import Plan
from tests.nodes.model_calls import a_call

BLOCK = "Done.\n\n---STATE---\nGoal: ship\n---END STATE---"


def test_a_block_in_the_call_that_cut_the_context_keeps_the_cut(tmp_path: Path) -> None:
    """The next prompt begins with this one: with the turns that it showed, and the old block."""
    state = {
        "messages": [HumanMessage("Go on.", id="1")],
        "anchor": {"Goal": "test"},
        "plan": Plan(9, (3, 4, 5)).packed(),
    }
    call = a_call(tmp_path, state, plan=Plan(9, (5,), why="high-water").packed())

    update = call.answered([AIMessage(BLOCK)])

    assert update["messages"][0].text == "Done."
    assert update["anchor"] == {"Goal": "ship"}
    assert update["plan"] == Plan(9, (5,), why="high-water", anchor={"Goal": "test"}).packed()
