"""Requests that the offline model reads in a message, and text that only resembles one."""

import pytest
from langchain_core.messages import HumanMessage

from ebbtide.graph.offline_prompt import Call, Prompt

TOOLS = {"open_effort", "close_effort", "switch_effort", "expand_effort"}
NOTE = HumanMessage('[Memory: the open effort "auth-bug".]', name="ebbtide")


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        ("Let's work on the auth bug", Call("open_effort", {"name": "auth bug", "goal": ""})),
        ("Work on 10:30 meeting", Call("open_effort", {"name": "10:30 meeting", "goal": ""})),
        ("Work on ports: find one.", Call("open_effort", {"name": "ports", "goal": "find one"})),
        ("That's done.", Call("close_effort", {})),
        ("Close the effort", Call("close_effort", {})),
        ("Close the auth thing", None),
        ("Close the auth bug", Call("close_effort", {"effort_id": "auth-bug"})),
        ("Close rates", Call("close_effort", {"effort_id": "rates"})),
        ("Close the door", None),
        ("Expand the auth log", Call("expand_effort", {"effort_id": "auth log"})),
        ("The door is closed.", None),
    ],
)
def test_what_a_sentence_asks_for(sentence: str, call: Call | None) -> None:
    """A name becomes an effort's id; a phrase that names no effort closes none."""
    prompt = Prompt([NOTE, HumanMessage(sentence)])

    assert [*prompt.requests(TOOLS).values()] == [call]


def test_a_tool_that_is_not_bound() -> None:
    """A request for a tool that is not bound makes no call."""
    prompt = Prompt([NOTE, HumanMessage("That's done.")])

    assert [*prompt.requests({"open_effort"}).values()] == [None]
