"""Raw logs as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.messages import Message
from ebbtide.memory.record import Group
from ebbtide.memory.tools.toolbox import NAMES
from ebbtide.memory.transcript import OWN_TOOLS, rendered, transcript
from tests.memory.conversations import ai, call, human, tool

RECALLED = {"recalled": [{"turn": 2, "offset": 5, "end": 90}]}
TWO = {"recalled": [*RECALLED["recalled"], {"turn": 4, "offset": 0, "end": 7}]}
PLACES = "recalled turn 2, characters 5-90; recalled turn 4, characters 0-7"
BLOCK = "---STATE---\nGoal: ship 1.2\n---END STATE---"
MESSAGES = st.lists(
    st.sampled_from(
        [
            human("Which port?"),
            human(""),
            human([{"type": "image", "url": "a.png"}]),
            ai("8080\n"),
            ai(f"8081\n{BLOCK}"),
            ai(""),
            ai("", call("look_up", call_id="1", key="port"), call("look_up", call_id="2")),
            tool("1", "80\n80"),
            tool("2", "secret", "read_log", artifact=RECALLED),
        ]
    )
)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (human("Which port?"), "user: Which port?"),
        (human("a\n\n  b\x85c\x00"), "user: a\n\n  b\x85c\x00"),
        (human(""), "user: "),
        (human([{"type": "image", "url": "a.png"}]), "user: [image]"),
        (human([{"type": "text", "text": "see "}, {"type": "image"}]), "user: see [image]"),
        (ai("8080"), "assistant: 8080"),
        (ai(""), "assistant: "),
        (ai(f"8080\n{BLOCK}"), "assistant: 8080"),
        (ai([{"type": "text", "text": BLOCK}]), "assistant: "),
        (ai(BLOCK, call("a", call_id="1")), "assistant calls a {}"),
        (human(BLOCK), f"user: {BLOCK}"),
        (tool("1", BLOCK), f"tool look_up: {BLOCK}"),
        ({"type": "system", "data": {"content": "Be brief."}}, "system: Be brief."),
        (tool("1", "80"), "tool look_up: 80"),
        ({"type": "tool", "data": {"content": "80", "tool_call_id": "1"}}, "tool: 80"),
        (
            ai("", call("look_up", call_id="1", key="größe", n=2)),
            'assistant calls look_up {"key": "größe", "n": 2}',
        ),
        (
            ai("I look.", call("a", call_id="1"), call("b", call_id="2")),
            "assistant: I look.\nassistant calls a {}\nassistant calls b {}",
        ),
        (
            ai(invalid_tool_calls=[{"name": "a", "args": '{"x":', "id": "1", "error": None}]),
            'assistant calls a {"x":',
        ),
        (
            tool("1", '{"turns":[{"text":"x"}]}', "read_log", artifact=RECALLED),
            "tool read_log: (recalled turn 2, characters 5-90)",
        ),
        (
            tool(
                "1", '{"results":[{"excerpt":"x"},{"excerpt":"y"}]}', "search_efforts", artifact=TWO
            ),
            f"tool search_efforts: ({PLACES})",
        ),
    ],
)
def test_a_message_as_text(message: Message, text: str) -> None:
    """Contents follow who spoke, without the model's state blocks; calls and images are named."""
    assert rendered([message]) == text


@given(MESSAGES, MESSAGES)
def test_more_messages_only_append(before: list[Message], more: list[Message]) -> None:
    """The text of a running turn grows at its end, so that offsets into it stay valid."""
    assert rendered([*before, *more]).startswith(rendered(before))


def test_turns_stand_under_their_numbers() -> None:
    """A transcript names each turn before its messages, an empty one too."""
    turns = [Group(3, (human("a"), ai("b")), ""), Group(4, (), ""), Group(8, (human("c"),), "")]

    assert transcript(turns) == "[turn 3]\nuser: a\nassistant: b\n\n[turn 4]\n\n\n[turn 8]\nuser: c"


def test_all_memory_tools_are_known() -> None:
    """The names of the memory's own tools are those of the toolbox."""
    assert OWN_TOOLS - {"search_efforts"} == NAMES - {"search_efforts"}


def test_no_turns_give_no_text() -> None:
    """A log without turns is empty."""
    assert transcript([]) == ""
