"""What of a turn is searched."""

from typing import Any

import pytest

from ebbtide.memory.messages import Message
from ebbtide.memory.tools.toolbox import NAMES
from ebbtide.memory.transcript import OWN_TOOLS, sayings
from tests.memory.conversations import ai, call, human, tool


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (human("Which port?"), ("Which port?",)),
        (human([{"type": "text", "text": "see"}, {"type": "image"}, "this"]), ("see\nthis",)),
        (ai("", call("look_up", key="größe")), ('\nlook_up {"key": "größe"}',)),
        (ai("", call("expand_effort", effort_id="a")), ()),
        (tool("1", "8080"), ("8080",)),
        (tool("1", "8080", "read_log"), ()),
        (human(" \n"), ()),
        (human(f"see {'QUJD' * 200} here"), ("see   here",)),
        (human([None, {"text": 5}], tool_calls={"name": "x"}), ()),
        (human(None, tool_calls=[None, 5]), ()),
        ({"type": "tool", "data": {}}, ()),
    ],
)
def test_what_a_message_says(message: Message, said: tuple[str, ...]) -> None:
    """Texts, tools of the application and what they found count; quotes and encoded data do not."""
    assert sayings([message]) == said


def test_each_message_is_apart() -> None:
    """Of several messages each says its own, and a silent one nothing."""
    messages: list[Any] = [human("a"), ai(""), ai("b")]

    assert sayings(messages) == ("a", "b")


def test_all_memory_tools_are_known() -> None:
    """The names of the memory's own tools are those of the toolbox."""
    assert OWN_TOOLS - {"search_efforts"} == NAMES - {"search_efforts"}
