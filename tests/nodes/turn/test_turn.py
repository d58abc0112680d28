"""A turn is loaded once, carried from node to node, and dropped with its commit."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import create_memory_agent
from ebbtide.memory.turn import Session
from ebbtide.nodes.turn.state import unpacked
from ebbtide.nodes.turn.turn import as_archived
from ebbtide.nodes.turn.updates import tip_of
from ebbtide.testing import InMemoryArchive, ScriptedModel
from tests.agents import THREAD
from tests.doubles import call


class Counting(InMemoryArchive):
    """An archive that counts how often the past of a turn was loaded."""

    loaded = 0

    def keyed_digest(self, content: str) -> str:
        """Count a loading, which makes the secret of the session."""
        self.loaded += content.startswith('["fence"')
        return super().keyed_digest(content)


def agent_of(archive: InMemoryArchive, **more: Any) -> Any:
    """Return an agent that answers twice."""
    return create_memory_agent(ScriptedModel(["Noted.", "Found."]), archive=archive, **more)


def test_nodes_of_a_turn_share_what_was_loaded() -> None:
    """The past is loaded in `begin_turn` alone, and not kept when the turn is over."""
    archive = Counting()
    agent = agent_of(archive)

    agent.invoke({"messages": "Hello."})

    assert archive.loaded == 1
    assert not agent.builder.parts.turns


def test_turn_that_is_not_carried_is_loaded_again() -> None:
    """Where the holder has lost a turn, the next node loads it, and the model is sent the same."""
    saver, archive = InMemorySaver(), Counting()
    agent = agent_of(archive, checkpointer=saver)
    agent.invoke({"messages": "Hello."}, THREAD, interrupt_before=["detect_references"])

    agent.builder.parts.turns.clear()
    agent.invoke(None, THREAD)

    assert archive.loaded == 2
    assert agent.get_state(THREAD).values["messages"][-1].text == "Noted."
    assert archive.load(Session("", "t")).tip == tip_of(unpacked(agent.get_state(THREAD).values))


def test_message_that_changes_is_converted_again() -> None:
    """A middleware may edit a message in its place; an unchanged one is converted once."""
    asked, answer = HumanMessage("Which port?", id="1"), AIMessage("80", id="2")

    before = as_archived([asked, answer], {})
    answer.content = "8443"
    after = as_archived([asked, answer], before)

    assert after[id(asked)] is before[id(asked)]
    assert [message.content for *_, message in after.values()] == ["Which port?", "8443"]


def test_run_with_other_settings_has_its_own() -> None:
    """A turn that goes on with another budget is sent within that one, in the same process."""
    agent = agent_of(InMemoryArchive(), checkpointer=InMemorySaver())
    asked: Any = {"messages": "Hello."}
    agent.invoke(asked, THREAD, interrupt_before=["assemble_context"])

    state = agent.invoke(None, THREAD, context={"context_budget": 4_321})

    assert state["memory"]["context_report"]["budget"] == 4_321


def test_run_that_goes_back_inside_a_turn_does_not_see_what_came_later() -> None:
    """An earlier checkpoint of the turn has its own efforts and plan, also in the same process."""
    opening = call("open_effort", name="auth-bug")
    model = ScriptedModel([opening, "Opened.", "Noted."])
    agent = create_memory_agent(
        model,
        archive=InMemoryArchive(),
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": "Hello."}, THREAD, interrupt_after=["memory_tools"])
    before = next(one for one in agent.get_state_history(THREAD) if one.next == ("call_model",))
    opened = agent.invoke(None, THREAD)

    state = agent.invoke(None, before.config)

    assert [*opened["memory"]["open_efforts"]] == ["auth-bug"]
    assert state["messages"][-1].text == "Noted."
    assert state["memory"]["open_efforts"] == {}
    assert "auth-bug" not in str(model.prompts[-1])
