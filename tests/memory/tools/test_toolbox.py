"""The memory tools: their schemas, and how calls to them are run."""

import json
from typing import Any

import pytest
from langchain_core.messages import SystemMessage

from ebbtide.memory.context.budget import instructions
from ebbtide.memory.questions import Question
from ebbtide.memory.running_turn import Turn
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import count_message, count_tools
from ebbtide.memory.tool_names import MEMORY_TOOLS
from ebbtide.memory.tools.summary import EffortSummary
from ebbtide.memory.tools.toolbox import run, schemas
from ebbtide.prompts.loader import render
from tests.memory.asking import step
from tests.memory.conversations import LONG_ENOUGH, Call, Conversation, call
from tests.processes import ROOT

PARAMETERS = {
    "open_effort": (["name", "goal", "constraints"], ["name"]),
    "close_effort": (["effort_id", "summary", "keywords", "importance", "final"], []),
    "switch_effort": (["effort_id"], []),
    "reopen_effort": (["effort_id", "goal"], ["effort_id"]),
    "update_goal": (["goal", "rationale", "add_constraints", "drop_constraints"], []),
    "expand_effort": (["effort_id", "turns", "query"], ["effort_id"]),
    "collapse_effort": (["effort_id"], ["effort_id"]),
    "effort_status": (["effort_id"], []),
    "search_efforts": (["query", "also", "limit", "since", "until"], ["query"]),
    "read_log": (["turns", "offset", "limit", "session"], ["turns"]),
}


@pytest.fixture
def talk(talk: Conversation) -> Conversation:
    """Return the conversation in a running first turn."""
    talk.ask(LONG_ENOUGH)
    return talk


@pytest.mark.parametrize("schema", schemas(), ids=list(PARAMETERS))
def test_a_schema_is_what_every_provider_takes(schema: dict[str, Any]) -> None:
    """Function form, described by its prompt, parameters as specified, no titles or defaults."""
    function = schema["function"]
    assert [one["function"]["name"] for one in schemas()] == list(PARAMETERS)
    assert set(PARAMETERS) == MEMORY_TOOLS
    properties, required = PARAMETERS[function["name"]]

    assert schema["type"] == "function"
    assert function["description"] == render(f"tools/{function['name']}")
    assert list(function["parameters"]["properties"]) == properties
    assert function["parameters"].get("required", []) == required
    assert '"title"' not in json.dumps(schema)
    assert '"default"' not in json.dumps(schema)
    assert "description" not in function["parameters"]


def test_instructions_and_tools_are_short() -> None:
    """Together at most what the page says, and enough for providers that cache from 1,024 on."""
    told = instructions("", Settings())
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    most = int(page.partition("schemas take up to ")[2].partition(" ")[0].replace(",", ""))

    system = count_message(SystemMessage(told))

    assert 1_064 <= system + count_tools(schemas()) <= most


def test_an_unknown_tool_is_an_error_that_lists_all(talk: Conversation) -> None:
    """The application's tools are listed too."""
    result = talk.call("fly")

    assert result["error"].startswith("there is no tool 'fly'; the tools are close_effort, ")
    assert "look_up" in result["error"]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (call("open_effort"), "open_effort: name is missing; it takes name, goal, "),
        (call("open_effort", name=5), "open_effort: name: Input should be a valid string (got 5)"),
        (
            call("open_effort", name="a", color="red"),
            "open_effort: color: Extra inputs are not permitted (got 'red'); it takes name, goal",
        ),
        (
            call("read_log", turns="last"),
            "turns 'last' cannot be read; write them like \"3-5,8\"",
        ),
        (
            {**call("open_effort"), "args": '{"name":'},
            "the arguments of 'open_effort' are not a JSON object: '{\"name\":'",
        ),
        (
            {**call("fly"), "args": "{", "type": "invalid_tool_call"},
            "the arguments of 'fly' are not a JSON object: '{'",
        ),
    ],
)
def test_wrong_arguments_are_errors_that_say_what_is_right(
    talk: Conversation, asked: Call, error: str
) -> None:
    """The error quotes the bad value and lists the arguments."""
    (result,) = talk.run(asked)

    assert result["error"].startswith(error)
    assert talk.state.events == ()


def test_calls_of_one_message_run_one_after_the_other(talk: Conversation) -> None:
    """Each call sees what the one before left, and a failed one leaves no trace."""
    results = talk.run(
        call("open_effort", name="a"),
        call("open_effort", name="a"),
        call("switch_effort", effort_id="b"),
        call("close_effort", effort_id="a"),
        call("close_effort", effort_id="a"),
        call("reopen_effort", effort_id="a"),
        call("effort_status"),
    )

    assert ["error" in result for result in results] == [
        False,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert [event["type"] for event in talk.state.events] == ["opened", "concluded", "reopened"]
    assert results[-1]["efforts"][0]["status"] == "open"


def test_banners_come_as_things_happen(talk: Conversation) -> None:
    """Each banner comes before the next call is run; a failed call has none."""
    calls = [
        call("open_effort", call_id="1", name="a"),
        call("open_effort", call_id="2", name="a"),
        call("close_effort", call_id="3"),
    ]
    told: list[str] = []
    steps = run(talk.work, calls, frozenset(), told.append)
    asking, before = step(steps), [*told]
    done = step(steps, EffortSummary(summary="It works."))

    assert before == ["--- Started effort: a ---"]
    assert isinstance(asking, Question)
    assert told == [*before, "--- Concluded effort: a ---\nIt works."]
    assert isinstance(done, Turn)
    assert done.efforts.banners == tuple(told)
