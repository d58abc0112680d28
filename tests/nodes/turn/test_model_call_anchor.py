"""An answer with a state block: what the context shows from then on."""

from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.runtime import Runtime

from ebbtide import DiskArchive, Settings, build_memory_graph
from ebbtide.memory.context.timeline import Timeline
from ebbtide.nodes.turn.model_call import Call, answer_update
from ebbtide.nodes.turn.state import TurnState
from tests.doubles import ScriptedModel

BLOCK = "Done.\n\n---STATE---\nGoal: ship\n---END STATE---"


def test_a_block_in_the_call_that_cut_the_context_keeps_the_cut(tmp_path: Path) -> None:
    """The next prompt begins with this one: with the turns that it showed, and the old block."""
    with DiskArchive(tmp_path, durable=False) as archive:
        parts = build_memory_graph(ScriptedModel(), archive=archive).parts
    state = TurnState(
        messages=[HumanMessage("Go on.", id="1")],
        anchor={"Goal": "test"},
        view=Timeline(9, (3, 4, 5)).packed(),  # type: ignore[typeddict-item]
    )
    sent = {"view": Timeline(9, (5,), why="high-water").packed(), "context_report": {"total": 9}}
    call = Call([], {}, None, sent)

    update = answer_update(
        state, Runtime(context=Settings()), call, [AIMessage(BLOCK)], parts=parts
    )

    assert update["messages"][0].text == "Done."
    assert update["anchor"] == {"Goal": "ship"}
    assert update["view"] == Timeline(9, (5,), why="high-water", anchor={"Goal": "test"}).packed()
