"""The scripted model, which other tests rely on."""

import operator
from functools import reduce

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from tests.doubles import Broken, ScriptedModel, call, malformed, together, words

TOOL = {"type": "function", "function": {"name": "add", "description": "", "parameters": {}}}


class Point(BaseModel):
    """A structured answer."""

    x: int


def test_answers_in_order() -> None:
    """Texts, messages and functions are used up in their order."""
    model = ScriptedModel(answers=["one", AIMessage("two"), lambda sent: f"{len(sent)} messages"])
    answers = [model.invoke(text).text for text in ("a", "b", "c")]

    assert answers == ["one", "two", "1 messages"]


def test_one_function_answers_all() -> None:
    """A function instead of a list answers every request."""
    model = ScriptedModel(answers=lambda sent: sent[-1].text.upper())
    answers = [answer.text for answer in model.batch(["a", "b"])]

    assert answers == ["A", "B"]


def test_requests_are_recorded() -> None:
    """Messages, tools, tool choice and other options of each request are kept."""
    model = ScriptedModel(answers=["ok"])
    model.bind_tools([TOOL], tool_choice="none", parallel_tool_calls=False).invoke("hi")

    assert model.sent[0].messages == [HumanMessage("hi")]
    assert model.sent[0].tool_names == ["add"]
    assert model.sent[0].tool_choice == "none"
    assert model.sent[0].options == {"parallel_tool_calls": False}


def test_errors_are_raised() -> None:
    """An error in the script is raised, and the next request gets the next answer."""
    model = ScriptedModel(answers=[ValueError("down"), "up"])
    with pytest.raises(ValueError, match="down"):
        model.invoke("a")

    assert model.invoke("b").text == "up"


def test_the_end_of_the_script() -> None:
    """A request too many is a failed test, not a loop."""
    model = ScriptedModel()

    with pytest.raises(AssertionError, match="asked 1 times, its script has 0"):
        model.invoke("a")


def test_the_script_is_not_changed() -> None:
    """The ids that LangChain sets on an answer do not reach the script."""
    scripted = AIMessage("one")
    ScriptedModel(answers=[scripted]).invoke("a")

    assert scripted.id is None


def test_streaming() -> None:
    """Texts and calls are streamed in parts that add up, malformed arguments included."""
    answer = together(call("add", a=1), call("add", a=2), malformed("add", "oops"), text="so be it")
    chunks = [*ScriptedModel(answers=[answer]).stream("a")]
    whole = reduce(operator.add, chunks)

    assert [chunk.text for chunk in chunks[:3]] == ["so ", "be ", "it"]
    assert whole.tool_calls == answer.tool_calls
    assert whole.invalid_tool_calls[0]["args"] == "oops"


def test_a_stream_that_breaks_off() -> None:
    """A broken answer streams its text first, then raises."""
    chunks = ScriptedModel(answers=[Broken("half", ConnectionError("gone"))]).stream("a")
    first = next(chunks).text

    assert first == "half"
    with pytest.raises(ConnectionError, match="gone"):
        next(chunks)


def test_a_broken_answer_without_streaming() -> None:
    """Without streaming a broken answer only raises."""
    model = ScriptedModel(answers=[Broken("half", ConnectionError("gone"))])

    with pytest.raises(ConnectionError, match="gone"):
        model.invoke("a")


async def test_async() -> None:
    """The asynchronous paths use the same script."""
    model = ScriptedModel(answers=["one", "two words"])
    first = await model.ainvoke("a")
    chunks = [chunk.text async for chunk in model.astream("b")]

    assert first.text == "one"
    assert chunks == ["two ", "words", ""]


async def test_structured_answers() -> None:
    """Structured answers have a script and a record of their own."""
    model = ScriptedModel(structured=[{"x": 1}, Point(x=2), ValueError("down")])
    structured = model.with_structured_output(Point, method="json_schema")
    answers = [structured.invoke("a"), await structured.ainvoke("b")]

    assert answers == [Point(x=1), Point(x=2)]
    assert [sent.text for sent in model.asked] == ["a", "b"]
    assert model.sent == []
    with pytest.raises(ValueError, match="down"):
        structured.invoke("c")


def test_structured_answers_that_do_not_parse() -> None:
    """Text that is no instance of the schema is a parser's error."""
    model = ScriptedModel(structured=["no JSON"])

    with pytest.raises(OutputParserException):
        model.with_structured_output(Point).invoke("a")


def test_methods_that_it_lacks() -> None:
    """A model can be made that lacks a method of structured output."""
    model = ScriptedModel(methods=("function_calling",))

    with pytest.raises(NotImplementedError, match="json_schema"):
        model.with_structured_output(Point, method="json_schema")


def test_words() -> None:
    """The word counter counts words."""
    assert words("one two  three") == 3
