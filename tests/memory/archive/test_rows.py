"""Messages in the archive's rows: the same bytes, and so the same ids, as ever."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from ebbtide.memory.attachments import referring
from ebbtide.memory.serialised import digest, serialised, stored_form, to_dict, to_messages
from ebbtide.memory.turn import commit_id
from tests.draws import examples

TEXT = st.text(max_size=20) | st.sampled_from(["", "a\ud800b", "\0", "A" * 70_000])
NAMES = st.none() | st.sampled_from(["Ann", "Ebbtide", "", "look_up"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=2)
BLOCKS = st.one_of(
    TEXT,
    st.builds(lambda words: {"type": "text", "text": words}, TEXT),
    st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, TEXT),
    st.builds(lambda data: {"type": "image", "base64": data, "mime_type": "image/png"}, TEXT),
    st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "c2ln"}, TEXT),
    st.builds(lambda name, given: {"type": "tool_use", "name": name, "input": given}, TEXT, JSON),
    st.builds(lambda kind, given: {"type": kind, **given}, TEXT, OBJECTS),
)
CONTENT = TEXT | st.lists(BLOCKS, max_size=3)
COMMON: dict[str, Any] = {"id": st.none() | TEXT, "name": NAMES, "additional_kwargs": OBJECTS}
CALLS = st.fixed_dictionaries({"name": TEXT, "args": OBJECTS, "id": st.none() | TEXT})
INVALID = st.fixed_dictionaries(
    {"name": st.none() | TEXT, "args": st.none() | TEXT, "id": TEXT, "error": st.none() | TEXT}
)
USAGE = st.none() | st.builds(
    lambda n: {"input_tokens": n, "output_tokens": 1, "total_tokens": n + 1}, st.integers(0, 9999)
)
MESSAGES = st.one_of(
    st.builds(HumanMessage, content=CONTENT, **COMMON),
    st.builds(SystemMessage, content=CONTENT, **COMMON),
    st.builds(ChatMessage, content=CONTENT, role=TEXT, **COMMON),
    st.builds(FunctionMessage, content=CONTENT, **{**COMMON, "name": TEXT}),
    st.builds(
        AIMessage,
        content=CONTENT,
        tool_calls=st.lists(CALLS, max_size=2),
        invalid_tool_calls=st.lists(INVALID, max_size=2),
        usage_metadata=USAGE,
        response_metadata=OBJECTS,
        **COMMON,
    ),
    st.builds(
        ToolMessage,
        content=CONTENT,
        tool_call_id=TEXT,
        status=st.sampled_from(["success", "error"]),
        artifact=JSON,
        **COMMON,
    ),
)


def row_of(message: BaseMessage) -> dict[str, Any]:
    """Return a message as rows have it, written down once more for comparison."""
    data: dict[str, Any] = {}
    for name, value in message:
        field = type(message).model_fields[name]
        required = field.is_required()
        default = None if required else field.get_default(call_default_factory=True)
        same = not required and type(value) is type(default) and value == default
        if name == "type" or same:
            continue
        data[name] = _stored(referring(value) if name == "content" else value)
    for fields in (data, data.get("additional_kwargs", {})):
        if str(fields.get("name")).strip().casefold() == "ebbtide":
            del fields["name"]
            if fields is data and message.type == "function":
                data["name"] = ""
    return {"type": message.type, "data": data}


def _stored(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_stored(key): _stored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_stored(item) for item in value]
    return str(value) if type(value) is int and not -(2**63) <= value < 2**64 else value


@pytest.mark.thorough
@settings(max_examples=examples(60))
@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_rows_hash_as_ever(messages: list[BaseMessage]) -> None:
    """A message has the same row, id and digest before and after it was stored."""
    rows = [row_of(message) for message in messages]
    read = to_messages(json.loads(json.dumps(rows)))

    assert serialised(messages)[1:] == rows[1:]
    assert [*map(to_dict, read)] == rows
    assert [*map(to_dict, stored_form(messages))] == serialised(messages)
    assert commit_id("1", "2", [*map(to_dict, read)]) == commit_id("1", "2", rows)
    assert digest(read) == digest(stored_form(messages)) == digest(to_messages(rows))
