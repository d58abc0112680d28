"""The same state and archive give the same bytes, whichever process reads them, and when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.testing import ScriptedModel
from tests.agents import THREAD

BUDGET = 2_900
LONG = "The refresh token expires after 3600 seconds, and nobody renews it. " * 30
SAID = (
    *("The host is 10.0.0.7, port 8443.", "Let's work on the auth bug.", LONG, "That's done."),
    *("Let's work on the login page.", LONG, "That's done.", "Let's work on the sidebar.", LONG),
    *("Let's work on the footer.", LONG, "Show me the full log of the auth bug.", "Good."),
)
SHOWN = f"""
import sys
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.testing import ScriptedModel
with SqliteSaver.from_conn_string(sys.argv[1] + "/checkpoints.sqlite") as saver:
    agent = create_memory_agent(
        ScriptedModel(), archive=DiskArchive(sys.argv[1]), checkpointer=saver,
        settings=Settings(context_budget={BUDGET}),
    )
    asked = HumanMessage("What of the token, the login and the host?", id="asked")
    found = commands.show_context(agent, {THREAD!r}, asked)
    print([(part.name, part.messages, part.turn) for part in found.parts])
    print(found.tools)
"""


def shown(root: Path) -> str:
    """Let a process of its own, with its own order of sets, show the next context."""
    command = [sys.executable, "-c", SHOWN, str(root)]
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout


@pytest.mark.thorough
def test_every_process_sees_the_same_bytes(tmp_path: Path) -> None:
    """Sets in another order change no byte of any part."""
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        settings = Settings(context_budget=BUDGET)
        agent = create_memory_agent(
            ScriptedModel(),
            archive=DiskArchive(tmp_path, durable=False),
            checkpointer=saver,
            settings=settings,
        )
        for words in SAID:
            state = agent.invoke({"messages": words}, THREAD)

        asked = HumanMessage("What of the token, the login and the host?", id="asked")
        here = commands.show_context(agent, THREAD, asked)

    there = shown(tmp_path)

    assert state["memory"]["context_report"]["left_out"]
    assert [
        len(state["memory"][key]) for key in ("summaries", "expanded", "open_efforts", "anchor")
    ] == [*(2, 1, 2, 1)]
    parts = [(part.name, part.messages, part.turn) for part in here.parts]
    assert there == f"{parts}\n{here.tools}\n"
