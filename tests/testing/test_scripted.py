"""The scripted model with a list of answers: what applications use in their own tests."""

import operator
from functools import reduce
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall
from pydantic import BaseModel

from ebbtide import create_memory_agent
from ebbtide.testing import InMemoryArchive, ScriptedModel, ScriptError
from tests.doubles import add


class Weather(BaseModel):
    """What a forecast says."""

    place: str
    degrees: int


ADDING = ToolCall(name="add", args={"a": 1, "b": 2}, id=None)


def test_answers_come_in_their_order() -> None:
    """Each call gets the next answer: a text, a copy of a message, what a function returns, JSON.

    An error is raised, and what the model was sent can be looked at.
    """
    message = AIMessage("Two.")
    answers: list[Any] = ["One.", message, lambda sent: sent[-1].text.upper(), {"degrees": 12}]
    model = ScriptedModel([*answers, TimeoutError("too slow")])

    said = [model.invoke(words) for words in ("Hello", "Hello", "hello", "?")]
    said[1].content = "changed"

    assert [one.text for one in said] == ["One.", "changed", "HELLO", '{"degrees": 12}']
    assert message.content == "Two."
    with pytest.raises(TimeoutError, match="too slow"):
        model.invoke([HumanMessage("And?")])
    sent = [[one.text for one in prompt] for prompt in model.prompts]
    assert sent == [["Hello"], ["Hello"], ["hello"], ["?"], ["And?"]]


def test_used_up_script_is_an_error() -> None:
    """The error says how many calls and answers there were."""
    model = ScriptedModel(["One."])
    model.invoke("Hello")

    with pytest.raises(ScriptError, match=r"called 2 times, and its script has 1 answers: add one"):
        model.invoke("Hello")


@pytest.mark.parametrize("script", ["Hello.", {"a": 1}, 3, AIMessage("Hello.")])
def test_a_script_is_a_list(script: Any) -> None:
    """A text alone is not read as one answer for each letter."""
    with pytest.raises(ScriptError, match="must be a list of answers, got"):
        ScriptedModel(script)


@pytest.mark.parametrize("answer", [None, 3, b"Hello.", ["Hello."], ("ai", "Hello.")])
@pytest.mark.parametrize("is_function", [False, True])
def test_what_is_no_answer_is_named(answer: Any, is_function: bool) -> None:
    """The error has the value, and says what an answer is."""
    model = ScriptedModel([(lambda _: answer) if is_function else answer])

    with pytest.raises(ScriptError, match="is no answer: pass a text") as caught:
        model.invoke("Hello")

    assert repr(answer) in str(caught.value)


def test_tool_calls_get_ids() -> None:
    """Calls without an id get one of their own; several in a list are one answer."""
    given = ToolCall(name="add", args={"a": 3, "b": 4}, id="mine")
    answer = ScriptedModel([[ADDING, ADDING, given]]).bind_tools([add]).invoke("Add.")

    ids = [call["id"] for call in answer.tool_calls]
    assert (len({*ids}), ids[2]) == (3, "mine")
    assert [call["args"]["a"] for call in answer.tool_calls] == [1, 1, 3]


@pytest.mark.parametrize("schema", [Weather, Weather.model_json_schema()])
def test_structured_answers(schema: Any) -> None:
    """A mapping fills the schema that is asked for."""
    model = ScriptedModel([{"place": "Tarn", "degrees": 12}])

    answer = model.with_structured_output(schema).invoke("How is it?")

    assert dict(answer) == {"place": "Tarn", "degrees": 12}


@pytest.mark.parametrize("answer", ["It rains in Tarn.", ADDING])
def test_streaming_gives_the_same(answer: Any) -> None:
    """The chunks add up to the answer, calls and usage included."""
    whole = reduce(operator.add, ScriptedModel([answer]).stream("Hi"))
    once = ScriptedModel([answer]).invoke("Hi")

    assert (whole.text, whole.tool_calls) == (once.text, once.tool_calls)
    assert whole.usage_metadata == once.usage_metadata


async def test_async() -> None:
    """The asynchronous paths give the same answers, from the same script."""
    model = ScriptedModel(["One.", "Two and three."])
    first = await model.ainvoke("Hi")
    chunks = [chunk.text async for chunk in model.astream("Hi")]

    assert (first.text, chunks) == ("One.", ["Two ", "and ", "three.", ""])


def test_usage_is_counted() -> None:
    """Usage is counted over messages, tools and the answer, unless a message brings its own."""
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    bare = ScriptedModel(["Hello."]).invoke("one two three")
    bound = ScriptedModel(["Hello."]).bind_tools([add]).invoke("one two three")
    own = ScriptedModel([AIMessage("Hello.", usage_metadata=usage)]).invoke("one two three")

    assert bare.usage_metadata == {"input_tokens": 10, "output_tokens": 6, "total_tokens": 16}
    assert bound.usage_metadata is not None
    assert bound.usage_metadata["input_tokens"] > 10
    assert own.usage_metadata == usage


def test_an_agent_follows_the_script() -> None:
    """In an agent the script drives the memory's tools and the application's."""
    opening = ToolCall(name="open_effort", args={"name": "sums"}, id=None)
    model = ScriptedModel([opening, "Opened.", ADDING, "It is 3."])
    with InMemoryArchive() as archive:
        agent = create_memory_agent(model, tools=[add], archive=archive)
        state = agent.invoke({"messages": "Let's do sums."})
        after = agent.invoke({"messages": "1 and 2?"})

    assert state["memory"]["active_effort"] == "sums"
    assert [m.text for m in after["messages"] if m.type == "tool"] == ["3"]
