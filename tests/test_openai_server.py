"""The local OpenAI server, proved with the real client."""

import operator
from functools import reduce
from typing import Any

import openai
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from tests.openai_server import Drop, Fail, OpenAIServer, Say, Structured, serving

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    },
}


class Summary(BaseModel):
    """A structured answer."""

    summary: str
    importance: int


def client(server: OpenAIServer, **options: Any) -> BaseChatModel:
    """Return the real client, pointed at the server."""
    options = {"timeout": 5, **options}
    model: BaseChatModel = init_chat_model(
        "openai:gpt-5-mini", base_url=server.url, api_key="x", **options
    )
    return model


def test_streamed_parallel_calls() -> None:
    """Calls whose arguments are split over chunks are put together again."""
    with serving(Say("Adding.", calls=[("add", {"a": 1, "b": 2}), ("add", {"a": 3})])) as server:
        answer = reduce(operator.add, client(server).bind_tools([TOOL]).stream("add"))

    assert answer.text == "Adding."
    assert [call["args"] for call in answer.tool_calls] == [{"a": 1, "b": 2}, {"a": 3}]
    assert len(server.requests) == 1


def test_streamed_malformed_arguments() -> None:
    """Streamed arguments that are not JSON become an invalid call too."""
    with serving(Say(calls=[("add", "oops, no JSON")])) as server:
        answer = reduce(operator.add, client(server).bind_tools([TOOL]).stream("add"))

    assert answer.tool_calls == []
    assert answer.invalid_tool_calls[0]["args"] == "oops, no JSON"


def test_retry_after() -> None:
    """After a 429 the client waits as long as Retry-After says, and tries again."""
    with serving(Fail(429, retry_after=1), Say("Hello.")) as server:
        answer = client(server).invoke("hi")

    waited = server.requests[1].at - server.requests[0].at
    assert answer.text == "Hello."
    assert 1.0 <= waited < 2.0


def test_dropped_inside_a_stream() -> None:
    """A stream that breaks off raises after the chunks that came before."""
    with serving(Drop(Say("Hello, world."), after=3)) as server:
        chunks = client(server).stream("hi")
        seen = [next(chunks).text for _ in range(3)]
        with pytest.raises(openai.APIConnectionError):
            next(chunks)

    assert seen == ["", "Hell", "o, w"]
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(method: str) -> None:
    """A structured answer parses, as a JSON text and as a forced call."""
    with serving(Structured({"summary": "s", "importance": 7})) as server:
        model = client(server).with_structured_output(Summary, method=method)
        answer = model.invoke("summarise")

    assert answer == Summary(summary="s", importance=7)


def test_concurrent_requests() -> None:
    """Requests at the same time are answered at the same time."""
    with serving(by=lambda body: Say(body["messages"][-1]["content"])) as server:
        answers = client(server).batch([str(number) for number in range(32)])

    assert [answer.text for answer in answers] == [str(number) for number in range(32)]


def test_end_of_the_script() -> None:
    """A request too many fails at once and says so."""
    with serving() as server, pytest.raises(openai.BadRequestError, match="request 1, but"):
        client(server).invoke("hi")

    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["add numbers", ""])
@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("tool_calls[0].function.name", lambda bad: (bad, {})),
        ("name", lambda bad: ("add", {"name": bad})),
    ],
)
def test_bad_names(name: str, where: str, names: Any) -> None:
    """A name of a call or of a result that OpenAI refuses is an error 400 that says where."""
    function, more = names(name)
    called = {"id": "1", "type": "function", "function": {"name": function, "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "1", "content": "3", **more}
    asked: Any = [{"role": "assistant", "tool_calls": [called]}, result]
    with (
        serving(Say("Hello.")) as server,
        openai.OpenAI(base_url=server.url, api_key="x") as asking,
        pytest.raises(openai.BadRequestError) as raised,
    ):
        asking.chat.completions.create(model="gpt-5-mini", messages=asked)

    assert f"{where}': string does not match pattern" in str(raised.value)
