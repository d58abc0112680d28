"""Calls of memory tools are run in order, and a wrong call is answered with an error."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from ebbtide.memory.tools.lifecycle import MOST_OPEN
from tests.agents import talk
from tests.doubles import add, call, malformed, together

pytestmark = pytest.mark.usefixtures("entry")

LONG = "The refresh token expires after 3600 seconds, and nobody renews it."


def result(state: dict[str, Any], back: int = 2) -> dict[str, Any]:
    """Return the tool result that stands `back` from the end of the messages."""
    found: dict[str, Any] = json.loads(state["messages"][-back].content)
    return found


def test_failed_summary_leaves_the_effort_open(tmp_path: Path) -> None:
    """When the summary fails the effort stays open and the model is told (complaint 2)."""
    chat = talk(
        tmp_path,
        [call("open_effort", name="a"), "opened", call("close_effort"), "sorry"],
        structured=[RuntimeError("boom")],
    )
    chat.say(LONG)

    state = chat.say("that's done")

    assert state["memory"]["active_effort"] == "a"
    assert "stays open" in result(state)["error"]


def test_parallel_calls_run_in_order(tmp_path: Path) -> None:
    """Of two opens of one slug in a message the second is an error, and the third sees both."""
    opens = [call("open_effort", name="a"), call("open_effort", name="A!"), call("effort_status")]
    chat = talk(tmp_path, [together(*opens), "done"])

    state = chat.say("open it twice")

    assert result(state, 4)["status"] == "opened"
    assert "exists already" in result(state, 3)["error"]
    assert [effort["id"] for effort in result(state, 2)["efforts"]] == ["a"]


def test_sixty_four_parallel_calls(tmp_path: Path) -> None:
    """Sixty-four calls in one message get sixty-four results, the surplus opens an error."""
    opens = [call("open_effort", name=f"effort {number}") for number in range(64)]
    chat = talk(tmp_path, [together(*opens), "done"])

    state = chat.say("open many")

    results = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert len(results) == 64
    assert len(state["memory"]["open_efforts"]) == MOST_OPEN


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (malformed("open_effort", "{bad"), "not a JSON object: '{bad'"),
        (malformed("add", "{bad"), "not a JSON object: '{bad'"),
        (call("open_effort", title="x"), "title"),
        (call("open_effort", name="../../etc"), "../../etc"),
        (call("open_effort", name=""), "''"),
        (call("open_effort", name="x" * 10_000), "64"),
        (call("open_effort", name="😀"), "😀"),
        (call("read_log", turns=99), "turn 99"),
        (call("add", a="one", b=2), "one"),
    ],
)
def test_bad_call_becomes_an_error_that_helps(tmp_path: Path, asked: AIMessage, says: str) -> None:
    """Whatever the model calls wrongly is answered with an error that quotes it."""
    chat = talk(tmp_path, [asked, "I see"], tools=[add])

    state = chat.say("go")

    assert state["messages"][-2].status == "error"
    assert says in state["messages"][-2].text
    assert state["messages"][-1].text == "I see"
