"""Messages come back from the archive as they were."""

from datetime import datetime
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from ebbtide.memory.serialised import stored_form
from ebbtide.nodes.turn.langchain_messages import accepted, time_of


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
    stored: Any = stored_form([ToolMessage("x", tool_call_id="1", artifact=artifact)])[0]

    assert stored.artifact == kept


def test_document_artifact_survives_a_checkpoint() -> None:
    """A message gives the same data before and after it went through a checkpoint."""
    found = [Document("text", metadata={"source": "a"}, id="1")]
    message = ToolMessage("x", tool_call_id="1", artifact=found)
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    after = serde.loads_typed(serde.dumps_typed(message))

    assert stored_form([after]) == stored_form([message])


def test_clean_message_is_the_same_object() -> None:
    """A message without lone surrogates is not copied."""
    message = HumanMessage("fine", additional_kwargs={"pair": (1, 2)})

    assert accepted(message) is message


def test_surrogates_are_replaced_at_any_depth() -> None:
    """Lone surrogates in calls and metadata are replaced, too."""
    call: Any = {"name": "f", "args": {"a": ["\ud800"]}, "id": "1", "type": "tool_call"}

    mended = accepted(AIMessage("", tool_calls=[call], additional_kwargs={"k": "\udfff"}))

    assert mended.tool_calls[0]["args"] == {"a": ["\ufffd"]}
    assert mended.additional_kwargs == {"k": "\ufffd"}


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
