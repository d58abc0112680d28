"""Messages whose values somebody changed to a wrong type: they are stored so that they are read."""

from math import nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from ebbtide import commands, transcript
from ebbtide.memory.serialised import stored_form
from ebbtide.nodes.turn.langchain_messages import messages_in_state
from ebbtide.nodes.turn.well_typed import well_typed
from ebbtide.testing import InMemoryArchive
from tests.agents import THREAD, Talk, talk
from tests.doubles import call

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
"""What stores checkpoints warns of such a value, and stores it."""

CALL = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
INVALID = {"name": "look", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
USAGE: Any = {
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
    "input_token_details": {"cache_read": 1, "ephemeral_5m_input_tokens": 7},
}
MADE: list[BaseMessage] = [
    *(HumanMessage("Hi", id="h"), SystemMessage([{"type": "text", "text": "Be brief."}])),
    AIMessage("", tool_calls=[CALL], usage_metadata=USAGE, response_metadata={"ebbtide": {}}),
    AIMessage(["Well"], invalid_tool_calls=[INVALID]),
    *(
        ToolMessage("Found.", tool_call_id="1", artifact=np.zeros(2)),
        ChatMessage(content="Hi", role="guest"),
    ),
]
KEYS = ["name", "args", "id", "type", "text", "error", "extras", "ebbtide", "raw", "x"]
ODD = st.recursive(
    st.sampled_from([None, True, 5, 1.5, nan, "x", "", "{}", b"\xff", object, 1 << 80]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=6,
)
FIELDS = [(at, name) for at, message in enumerate(MADE) for name in vars(message)]


@given(st.sampled_from(FIELDS), ODD)
def test_whatever_is_written_into_a_message_can_be_read_again(
    field: tuple[int, str], odd: Any
) -> None:
    """Every field of every message takes every value."""
    at, name = field
    changed = MADE[at].model_copy(update={name: odd})

    (read,) = stored_form([well_typed(changed)])

    assert stored_form([well_typed(read)]) == stored_form([read])


def test_message_as_it_was_made_stays_the_same() -> None:
    """Nothing is copied where nothing is wrong."""
    assert all(well_typed(message) is message for message in MADE)


class Note(BaseMessage):
    """A message of an application's own class."""

    type: Literal["note"] = "note"
    colour: str = "red"


def test_message_of_an_own_class() -> None:
    """It stays in the role of its type, with all that it has."""
    (read,) = stored_form([well_typed(Note(content="Buy milk.", id="n"))])

    assert isinstance(read, ChatMessage)
    assert (read.role, read.text, read.id) == ("note", "Buy milk.", "n")
    assert dict(read)["colour"] == "red"


def look(city: str) -> str:
    """Look at a city."""
    return f"Fine in {city}."


CHANGED: list[dict[int, dict[str, Any]]] = [
    {
        2: {"type": "user", "name": 5, "additional_kwargs": None},
        3: {"tool_calls": [{**CALL, "id": None}], "usage_metadata": {"input_tokens": "x"}},
        4: {"tool_call_id": 5, "status": "odd"},
        5: {"additional_kwargs": {"tool_calls": [{"function": {"name": 5}}]}},
    },
    {
        2: {"content": [5, {"text": 5}]},
        3: {"tool_calls": [{"name": 5, "args": "{}"}], "response_metadata": {"ebbtide": 5}},
        4: {"tool_call_id": None},
        5: {"additional_kwargs": None, "invalid_tool_calls": [{}]},
    },
]
"""Edits of the second turn's messages, by their places."""


def talked(archive: InMemoryArchive) -> Talk:
    """Return an agent after two turns; a tool was called in the second one."""
    script = ["Hello.", call("look", city="Rome"), "It is fine.", "Bye.", "And bye."]
    chat = talk(Path(), script, archive=archive, tools=[look])
    chat.say_all(["Hi", "How is Rome?"])
    return chat


@pytest.mark.parametrize("changed", CHANGED)
def test_edits_to_wrong_types_block_no_thread(
    entry: str, changed: dict[int, dict[str, Any]]
) -> None:
    """The thread goes on, and all of it can be read."""
    chat = talked(InMemoryArchive())
    messages = chat.agent.get_state(THREAD).values["messages"]
    edited = [messages[at].model_copy(update=fields) for at, fields in changed.items()]
    update: Any = {"messages": edited}
    chat.agent.update_state(THREAD, update)

    states = chat.say_all(["Thanks.", "Bye."])

    assert chat.said(states[-1])[2:] == ["Thanks.", "Bye."], entry
    messages, _ = transcript(chat.agent, THREAD)
    assert [m.response_metadata["ebbtide"]["turn"] for m in messages if m.text == "Thanks."] == [3]
    assert not [one for one in commands.verify(chat.agent, THREAD) if one.fatal]


def test_answer_written_as_json_with_calls_of_a_wrong_type() -> None:
    """LangChain converts it without looking at them."""
    written = {"type": "ai", "content": "Hi", "invalid_tool_calls": [5], "usage_metadata": None}

    (message,) = stored_form(map(well_typed, messages_in_state([written])))

    assert message.additional_kwargs == {"wrong": {"invalid_tool_calls": [5]}}
