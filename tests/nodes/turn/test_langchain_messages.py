"""Messages come back from the archive as they were."""

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from ebbtide import DiskArchive
from ebbtide.memory.record import Group, Session, Tip
from ebbtide.nodes.turn.langchain_messages import cleaned, from_dicts, time_of, to_dicts
from tests.draws import examples

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
stored_integers = st.integers(-(2**63), 2**64 - 1)  # those that checkpointers can store
json_values = st.recursive(
    st.none() | st.booleans() | stored_integers | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, json_values, max_size=3)
blocks = st.one_of(
    st.builds(lambda words: {"type": "text", "text": words}, text),
    st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, text),
    st.builds(lambda data: {"type": "image", "base64": data, "mime_type": "image/png"}, text),
)
content: Any = text | st.lists(blocks, max_size=3)
ids = st.none() | text
calls = st.builds(
    lambda name, args, call_id: {"name": name, "args": args, "id": call_id, "type": "tool_call"},
    text,
    objects,
    text,
)
invalid_calls = st.builds(
    lambda name, args: {
        "name": name,
        "args": args,
        "id": "x",
        "error": None,
        "type": "invalid_tool_call",
    },
    text,
    text,
)
usage = st.none() | st.builds(
    lambda n: {"input_tokens": n, "output_tokens": 1, "total_tokens": n + 1}, st.integers(0, 9999)
)
humans = st.builds(HumanMessage, content=content, id=ids, name=ids, additional_kwargs=objects)
assistants = st.builds(
    AIMessage,
    content=text,
    id=ids,
    tool_calls=st.lists(calls, max_size=2),
    invalid_tool_calls=st.lists(invalid_calls, max_size=2),
    usage_metadata=usage,
    response_metadata=objects,
)
results = st.builds(
    ToolMessage,
    content=text,
    tool_call_id=text,
    name=ids,
    status=st.sampled_from(["success", "error"]),
    artifact=json_values,
)


@settings(max_examples=examples(30))
@given(st.lists(humans | assistants | results, min_size=1, max_size=4))
def test_messages_come_back_equal(messages: list[BaseMessage]) -> None:
    """Content, calls, ids, usage and metadata are the same after the archive."""
    group = Group(1, to_dicts(messages), at="2026-01-01T00:00:00.000Z")
    session = Session("u", "t")

    with TemporaryDirectory() as folder:
        written = DiskArchive(Path(folder), durable=False).commit(session, Tip(), group)
        (record,) = DiskArchive(Path(folder), durable=False).at(session, written.tip).turns([1])

    assert from_dicts(record.messages) == messages


class Point(BaseModel):
    """An artifact with a default and a value."""

    x: int = 1
    kind: str = "point"


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("artifact", "kept"),
    [
        (Point(), {"x": 1, "kind": "point"}),
        ((1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({(1, 2): 3}, {"1,2": 3}),
        (b"\xff", "_w=="),
        ([ValueError("gone")], ["ValueError('gone')"]),
        (LOOP, {"ebbtide_unserialisable": "builtins.list"}),
        (range(2), {"ebbtide_unserialisable": "builtins.range"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_artifacts(artifact: Any, kept: Any) -> None:
    """Whatever a tool leaves as its artifact is kept as JSON holds it, without raising."""
    (stored,) = to_dicts([ToolMessage("x", tool_call_id="1", artifact=artifact)])

    assert stored["data"]["artifact"] == kept


def test_document_artifact_survives_a_checkpoint() -> None:
    """A message gives the same data before and after it went through a checkpoint."""
    found = [Document("text", metadata={"source": "a"}, id="1")]
    message = ToolMessage("x", tool_call_id="1", artifact=found)
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    after = serde.loads_typed(serde.dumps_typed(message))

    assert to_dicts([after]) == to_dicts([message])


def test_what_json_cannot_hold_is_marked() -> None:
    """An artifact that cannot be stored becomes a marker that names its type."""
    (kept,) = to_dicts([ToolMessage("x", tool_call_id="1", artifact={"handle": object()})])

    assert kept["data"]["artifact"] == {"handle": {"ebbtide_unserialisable": "builtins.object"}}


def test_clean_message_is_the_same_object() -> None:
    """A message without lone surrogates is not copied."""
    message = HumanMessage("fine", additional_kwargs={"pair": (1, 2)})

    assert cleaned(message) is message


def test_surrogates_are_replaced_at_any_depth() -> None:
    """Lone surrogates in calls and metadata are replaced, too."""
    call: Any = {"name": "f", "args": {"a": ["\ud800"]}, "id": "1", "type": "tool_call"}

    mended = cleaned(AIMessage("", tool_calls=[call], additional_kwargs={"k": "\udfff"}))

    assert mended.tool_calls[0]["args"] == {"a": ["\ufffd"]}
    assert mended.additional_kwargs == {"k": "\ufffd"}


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_at_its_default_is_left_out(times: int) -> None:
    """Each time alike, for fields with a value and for those with a factory of one."""
    message = AIMessage("hi", id="1", additional_kwargs={"a": 1})
    data = {"content": "hi", "id": "1", "additional_kwargs": {"a": 1}}

    assert to_dicts([message] * times) == ({"type": "ai", "data": data},) * times
    assert to_dicts([AIMessage("hi", id="1", additional_kwargs={})]) == (
        {"type": "ai", "data": {"content": "hi", "id": "1"}},
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"additional_kwargs": {"timestamp": "2024-05-06T07:08:09+00:00"}},
        {"additional_kwargs": {"timestamp": "2024-05-06T09:08:09+02:00"}},
        {"response_metadata": {"created_at": "2024-05-06T07:08:09Z"}},
        {"response_metadata": {"created": 1714979289}},
        {"additional_kwargs": {"created_at": 1714979289000}},
        {"additional_kwargs": {"timestamp": datetime(2024, 5, 6, 7, 8, 9)}},  # noqa: DTZ001
    ],
)
def test_time_that_messages_carry(extra: Any) -> None:
    """The last time among them counts, in any usual form; a time without a zone is in UTC."""
    messages = [HumanMessage("hi", additional_kwargs={"timestamp": 1}), AIMessage("ho", **extra)]

    assert time_of([*messages, AIMessage("")]) == "2024-05-06T07:08:09.000Z"


@pytest.mark.parametrize("value", ["soon", "", None, True, [1], 1e300, float("nan"), -1e30])
def test_what_is_no_time(value: Any) -> None:
    """Anything else is as if no time was there."""
    assert time_of([HumanMessage("hi", additional_kwargs={"timestamp": value})]) == ""
