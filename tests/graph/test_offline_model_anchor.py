"""The offline model keeps the constants that it was told in a state block."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, create_memory_agent
from ebbtide.graph.offline_model import OfflineModel
from ebbtide.memory.anchor import anchor_instructions, rendered
from ebbtide.memory.messages import fenced
from ebbtide.memory.settings import Settings
from ebbtide.memory.valid_history import note
from ebbtide.prompts.loader import render
from tests.agents import THREAD

TOLD = SystemMessage(anchor_instructions(Settings()))
ANCHOR = {"Goal": "ship", "Technical Anchors": "port 8443"}
NOTE = note(render("anchor_note", how="", quote=fenced("state", rendered(ANCHOR))))["data"]


def asked(words: str) -> list[BaseMessage]:
    """Return the prompt of a turn in which the user says this."""
    return [TOLD, HumanMessage("port 1111 before"), AIMessage("port 2222"), HumanMessage(words)]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("The gateway is at 10.0.0.7:5432.", "10.0.0.7:5432"),
        ("Port 8443, then port 8443 and port 9000.", "Port 8443\nport 9000"),
        ("We run version 3.9.", "version 3.9"),
        ("See https://db.example/a?b=1.", "https://db.example/a?b=1"),
    ],
)
def test_constants_are_kept(words: str, kept: str) -> None:
    """Ports, versions and addresses that the user states go into the block."""
    answer = OfflineModel().invoke(asked(words))

    assert answer.text.startswith("Noted: ")
    assert answer.text.endswith(f"\n\n---STATE---\nTechnical Anchors: {kept}\n---END STATE---")


@pytest.mark.parametrize("words", ["Is it port 8443?", "Hello.", "Support 12 users."])
def test_without_a_constant_there_is_no_block(words: str) -> None:
    """Questions state nothing."""
    assert "---STATE---" not in OfflineModel().invoke(asked(words)).text


def test_what_is_known_is_not_said_again() -> None:
    """The block is written on change, and says again what still holds."""
    note = HumanMessage(**NOTE)

    same, more = (
        OfflineModel().invoke([TOLD, note, HumanMessage(f"It has {stated}.")]).text
        for stated in ("port 8443", "version 2")
    )

    assert same == "Noted: It has port 8443."
    assert "\nGoal: ship\nTechnical Anchors: port 8443\nversion 2\n" in more


def test_a_model_that_was_not_told_writes_none() -> None:
    """Without the instructions, as with anchor="off", the answer is all there is."""
    assert OfflineModel().invoke("It has port 8443.").text == "Noted: It has port 8443."


def test_it_answers_from_the_anchor(tmp_path: Path) -> None:
    """What stood in a turn that left the context can be quoted from the notes."""
    agent = create_memory_agent(
        OfflineModel(),
        archive=DiskArchive(tmp_path, durable=False),
        checkpointer=InMemorySaver(),
    )
    near = {"ambient_window": 1, "rebuild": "every-turn", "recall_hints": 0}
    told = agent.invoke({"messages": "The gateway has port 8443."}, THREAD)
    agent.invoke({"messages": "Bread is baked at night."}, THREAD)

    state = agent.invoke({"messages": "Which port?"}, THREAD, context=near)

    assert [told["messages"][-1].text, told["memory"]["anchor"]] == [
        "Noted: The gateway has port 8443.",
        {"Technical Anchors": "port 8443"},
    ]
    assert state["messages"][-1].text.startswith('From the state block: "')
