"""The memory inside agents of agents: deepagents, a supervisor, a swarm."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END

from ebbtide import DiskArchive, EbbtideMiddleware, build_memory_graph
from ebbtide.graph.other_middleware import warn_of_summariser
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session, StoredTurn
from ebbtide.prompts.loader import render
from tests.agents import SUMMARY, THREAD
from tests.doubles import ScriptedModel, call, together
from tests.test_complaints import orphans

WHY = "pip install 'ebbtide[bench]'"


def kept_in(root: Path) -> DiskArchive:
    """Return an archive."""
    return DiskArchive(root, durable=False)


def remembering(root: Path) -> tuple[EbbtideMiddleware, DiskArchive]:
    """Return the middleware and its archive."""
    archive = kept_in(root)
    return EbbtideMiddleware(archive=archive), archive


def turns(archive: DiskArchive, namespace: str) -> list[list[StoredTurn]]:
    """Return the turns of an agent inside the graph, branch by branch."""
    session = Session("", "t", namespace)
    return [
        [*archive.load(session, tip).turns(range(1, tip.turn + 1))]
        for tip in sorted(archive.tips(session), key=lambda tip: tip.turn)
    ]


def asked(turns: list[StoredTurn]) -> list[str]:
    """Return what users said in turns."""
    return [text(m) for turn in turns for m in turn.messages if m.type == "human"]


def test_sub_agents_of_deepagents(tmp_path: Path) -> None:
    """The agent and its sub-agents remember apart; two that run at once are each kept once."""
    deepagents = pytest.importorskip("deepagents", reason=WHY)
    outer, whole = remembering(tmp_path / "outer")
    inner, parts = remembering(tmp_path / "inner")
    finding = ScriptedModel(answers=lambda messages: f"Found: {messages[-1].text}")
    tasks = [
        call("task", description=f"Find the {what}.", subagent_type="finder")
        for what in ("parcel", "letter")
    ]
    model = ScriptedModel(
        answers=[together(call("open_effort", name="post"), *tasks), "Found both.", "In Lyon."]
    )
    finder = {"name": "finder", "description": "Finds things.", "system_prompt": "Find."}
    agent = deepagents.create_deep_agent(
        model=model,
        middleware=[outer],
        subagents=[{**finder, "model": finding, "tools": [], "middleware": [inner]}],
        checkpointer=InMemorySaver(),
    )

    for words in ("Where are they?", "Where is the parcel?"):
        state = agent.invoke({"messages": words}, THREAD)

    assert state["memory"]["active_effort"] == "post"
    (own,) = turns(whole, "")
    assert asked(own) == ["Where are they?", "Where is the parcel?"]
    results = [text(m) for m in own[0].messages if m.type == "tool"][1:]
    assert sorted(results) == ["Found: Find the letter.", "Found: Find the parcel."]
    found = sorted(asked(branch) for branch in turns(parts, "tools"))
    assert found == [["Find the letter."], ["Find the parcel."]]
    assert [orphans(one.messages) for one in (*model.sent, *finding.sent)] == [0] * 5


@pytest.mark.parametrize("first", [True, False])
def test_summariser_of_deepagents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, first: bool
) -> None:
    """It is warned of too, before the memory or after it."""
    deepagents = pytest.importorskip("deepagents", reason=WHY)
    warn_of_summariser.cache_clear()
    memory, _ = remembering(tmp_path)
    summarising = deepagents.middleware.summarization.SummarizationMiddleware(
        ScriptedModel(answers=lambda _: "They talked."),
        backend=deepagents.backends.FilesystemBackend(tmp_path, virtual_mode=True),
        trigger=("messages", 4),
        keep=("messages", 1),
    )
    both = [summarising, memory] if first else [memory, summarising]
    model = ScriptedModel(answers=lambda _: "Noted.")
    agent: Any = create_agent(model, middleware=both, checkpointer=InMemorySaver())

    for words in ("one", "two", "three", "four"):
        agent.invoke({"messages": words}, THREAD)

    (warning,) = (one for one in caplog.records if one.name == "ebbtide.config")
    assert "remove SummarizationMiddleware" in warning.getMessage()


@pytest.mark.filterwarnings("ignore:create_react_agent")
@pytest.mark.parametrize("mode", ["last_message", "full_history"])
def test_agent_of_a_supervisor(tmp_path: Path, mode: Any) -> None:
    """Each question is a turn, whatever the supervisor keeps of it and says between them."""
    supervisor = pytest.importorskip("langgraph_supervisor", reason=WHY)
    memory, archive = remembering(tmp_path)
    answers = [call("open_effort", name="parcel"), "In Lyon.", "In Nice.", call("close_effort")]
    finding = ScriptedModel(answers=[*answers, "Closed."], structured=[SUMMARY])
    finder = create_agent(finding, [], name="finder", middleware=[memory])
    handing = call("transfer_to_finder")
    model = ScriptedModel(answers=[answer for n in range(3) for answer in (handing, f"So. {n}")])
    workflow = supervisor.create_supervisor([finder], model=model, output_mode=mode)
    agent = workflow.compile(checkpointer=InMemorySaver())

    for words in ("Where is it?", "And now?", "Close it."):
        agent.invoke({"messages": words}, THREAD)

    (committed,) = turns(archive, "finder")
    assert asked(committed) == ["Where is it?", "And now?", "Close it."]
    assert [turn.number for turn in committed] == [1, 2, 3]
    said = [text(message) for turn in committed for message in turn.messages]
    assert said.count("Transferring back to supervisor") == 2
    assert '"concluded"' in finding.sent[-1].text
    back = [
        r.number for r in committed if "Transferring back to supervisor" in map(text, r.messages)
    ]
    assert back == [2, 3]  # it came after the turn before, and begins the next one
    assert render("unasked") not in finding.sent[-1].text
    assert finding.sent[-1].text.count(render("unasked_later")) == 2
    assert [orphans(one.messages) for one in finding.sent] == [0] * 5


@pytest.mark.filterwarnings("ignore:create_react_agent")
@pytest.mark.parametrize("entry", ["create_memory_agent", "EbbtideMiddleware"])
@pytest.mark.parametrize("mode", ["last_message", "full_history"])
def test_supervisor_itself(tmp_path: Path, entry: str, mode: Any) -> None:
    """What it hears of the agents that it asks begins a turn of its own."""
    supervisor = pytest.importorskip("langgraph_supervisor", reason=WHY)
    hand_over, archive = supervisor.create_handoff_tool(agent_name="finder"), kept_in(tmp_path)
    asking = call("transfer_to_finder")
    opening = together(call("open_effort", name="parcel"), asking)
    answers = [opening, asking, "So.", asking, "And so."]
    model = ScriptedModel(answers=[*answers, call("close_effort"), "Closed."], structured=[SUMMARY])
    finder = create_agent(ScriptedModel(answers=lambda _: "In Lyon."), [], name="finder")
    workflow = supervisor.create_supervisor([finder], model=model, output_mode=mode)
    del workflow.nodes["supervisor"]  # its own agent takes no middleware
    own: Any
    if entry == "EbbtideMiddleware":
        memory = EbbtideMiddleware(archive=archive)
        own = create_agent(model, [hand_over], name="supervisor", middleware=[memory])
    else:
        own = build_memory_graph(model, tools=[hand_over], archive=archive).compile()
    workflow.add_node("supervisor", own, destinations=("finder", END))
    agent = workflow.compile(checkpointer=InMemorySaver())

    questions = ["Where is it?", "And now?", "Close it."]
    for words in questions:
        state = agent.invoke({"messages": words}, THREAD)

    tip = archive.load(Session("", "t", "supervisor")).tip
    assert tip is not None
    turns = archive.load(Session("", "t", "supervisor"), tip).turns(range(1, tip.turn + 1))
    assert asked([*turns]) == questions
    said = [text(message) for turn in turns for message in turn.messages]
    assert said.count("In Lyon.") == 3
    events = [event for turn in turns for event in turn.events]
    changes = [event["type"] for event in events if event.get("effort") == "parcel"]
    assert (changes[0], changes[-1]) == ("opened", "concluded")
    assert [event["type"] for event in events].count("sent") == 7
    ids = [message.id for message in state["messages"]]
    assert len({*ids}) == len(ids)
    assert [orphans(one.messages) for one in model.sent] == [0] * 7


def test_agents_of_a_swarm(tmp_path: Path) -> None:
    """What an agent did in the turn in which it hands over is kept, and goes on when it returns."""
    swarm = pytest.importorskip("langgraph_swarm", reason=WHY)
    memory, archive = remembering(tmp_path / "alice")
    other, of_other = remembering(tmp_path / "bob")
    answers = [call("open_effort", name="parcel"), call("transfer_to_bob")]
    again = call("transfer_to_bob")  # with the id of the first call
    alice = ScriptedModel(answers=[*answers, call("effort_status"), "It is open.", again])
    bob = ScriptedModel(answers=["I am Bob.", call("transfer_to_alice"), "Bob again."])
    to_bob = swarm.create_handoff_tool(agent_name="bob")
    to_alice = swarm.create_handoff_tool(agent_name="alice")
    agents = [
        create_agent(alice, [to_bob], name="alice", middleware=[memory]),
        create_agent(bob, [to_alice], name="bob", middleware=[other]),
    ]
    workflow = swarm.create_swarm(agents, default_active_agent="alice")
    agent = workflow.compile(checkpointer=InMemorySaver())

    questions = ["Where is my parcel?", "Let me speak to Alice.", "And now to Bob."]
    for words in questions:
        agent.invoke({"messages": words}, THREAD)

    assert '"status":"open"' in alice.sent[3].text
    assert '"turns":"1-2"' in alice.sent[3].text
    for kept, name in ((archive, "alice"), (of_other, "bob")):
        (committed,) = turns(kept, name)
        assert asked([*committed]) == questions
        said = [text(message) for turn in committed for message in turn.messages]
        assert said.count("Successfully transferred to bob") == 2
    assert [orphans(one.messages) for one in (*alice.sent, *bob.sent)] == [0] * 8
