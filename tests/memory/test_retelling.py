"""Summaries that the memory's tools retell."""

import json
from typing import Any

import pytest

from ebbtide.memory.retelling import retold, without_summaries

MARK = "(redacted: a turn of this effort was erased)"


def result(tool: str, body: Any) -> dict[str, Any]:
    """Return the result of a tool."""
    return {"type": "tool", "data": {"name": tool, "content": json.dumps(body)}}


@pytest.mark.parametrize(
    ("tool", "body"),
    [
        ("close_effort", {"effort_id": "a", "summary": "S."}),
        ("reopen_effort", {"effort_id": "a", "prior_summary": "S."}),
        ("effort_status", {"efforts": [{"id": "a", "summary": "S."}, {"id": "b", "summary": ""}]}),
        ("search_efforts", {"results": [{"id": "a", "summary": "S."}, {"id": None, "turn": 3}]}),
    ],
)
def test_every_tool_that_retells_is_known(tool: str, body: dict[str, Any]) -> None:
    """Each tool's result is read, and is the same without the summary."""
    message = result(tool, body)

    assert [*retold(message)] == [("a", "S.")]
    assert json.loads(without_summaries(message, ["a"])["data"]["content"]) == json.loads(
        json.dumps(body).replace("S.", MARK)
    )


def test_other_efforts_keep_their_summaries() -> None:
    """Only what is told of the efforts that are named is redacted."""
    body = {"efforts": [{"id": "a", "summary": "S."}, {"id": "b", "summary": "T."}]}

    told = [*retold(without_summaries(result("effort_status", body), ["b"]))]

    assert told == [("a", "S."), ("b", MARK)]


@pytest.mark.parametrize(
    "message",
    [
        result("look_up", {"id": "a", "summary": "S."}),
        result("close_effort", ["no object"]),
        {"type": "tool", "data": {"name": "close_effort", "content": "no JSON"}},
        {"type": "tool", "data": {"name": "close_effort", "content": [{"type": "text"}]}},
        {"type": "ai", "data": {"content": '{"effort_id": "a", "summary": "S."}'}},
    ],
)
def test_other_messages_retell_nothing(message: dict[str, Any]) -> None:
    """Tools of the application, and what is no result of ours, are left as they are."""
    assert [*retold(message)] == []
    assert without_summaries(message, ["a"]) == message
