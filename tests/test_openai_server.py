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


def test_text() -> None:
    """A scripted text comes back as the answer, with the usage of the script."""
    with serving(Say("Hello.", usage=(7, 3))) as server:
        answer = client(server).invoke("hi")

    assert answer.text == "Hello."
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["total_tokens"] == 10


def test_requests_are_recorded() -> None:
    """The server keeps path, headers and body of each request."""
    with serving(Say("Hello.")) as server:
        client(server).bind_tools([TOOL], tool_choice="none").invoke(
            [("system", "s"), ("user", "hi")]
        )

    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer x"
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert request.body["tools"][0]["function"]["name"] == "add"
    assert request.body["tool_choice"] == "none"


def test_streamed_text() -> None:
    """A text is streamed in several chunks that add up to it."""
    with serving(Say("Hello, world.")) as server:
        chunks = [*client(server).stream("hi")]

    assert "".join(chunk.text for chunk in chunks) == "Hello, world."
    assert len([chunk for chunk in chunks if chunk.text]) == 4


def test_streamed_usage_only_if_asked_for() -> None:
    """Usage is part of a stream when the client asks for it, as OpenAI does."""
    with serving(Say("Hello."), Say("Hello.", usage=(7, 3))) as server:
        without = reduce(operator.add, client(server).stream("hi"))
        reported = reduce(operator.add, client(server, stream_usage=True).stream("hi"))

    assert without.usage_metadata is None
    assert reported.usage_metadata is not None
    assert reported.usage_metadata["input_tokens"] == 7


def test_no_usage() -> None:
    """A server that reports no usage can be scripted."""
    with serving(Say("Hello.", usage=None)) as server:
        answer = client(server).invoke("hi")

    assert answer.usage_metadata is None


def test_parallel_calls() -> None:
    """Several calls in one message keep their order, names and arguments."""
    with serving(Say(calls=[("add", {"a": 1}), ("add", {"a": 2})])) as server:
        answer = client(server).bind_tools([TOOL]).invoke("add")

    assert [call["args"] for call in answer.tool_calls] == [{"a": 1}, {"a": 2}]
    assert [call["id"] for call in answer.tool_calls] == ["call_1_add", "call_2_add"]


def test_streamed_parallel_calls() -> None:
    """Calls whose arguments are split over chunks are put together again."""
    with serving(Say("Adding.", calls=[("add", {"a": 1, "b": 2}), ("add", {"a": 3})])) as server:
        answer = reduce(operator.add, client(server).bind_tools([TOOL]).stream("add"))

    assert answer.text == "Adding."
    assert [call["args"] for call in answer.tool_calls] == [{"a": 1, "b": 2}, {"a": 3}]
    assert len(server.requests) == 1


async def test_streamed_calls_async() -> None:
    """The asynchronous client assembles streamed calls likewise."""
    with serving(Say(calls=[("add", {"a": 1, "b": 2})])) as server:
        chunks = [chunk async for chunk in client(server).bind_tools([TOOL]).astream("add")]

    answer = reduce(operator.add, chunks)
    assert answer.tool_calls[0]["args"] == {"a": 1, "b": 2}


def test_malformed_arguments() -> None:
    """Arguments that are not JSON become an invalid call."""
    with serving(Say(calls=[("add", '{"a": oops')])) as server:
        answer = client(server).bind_tools([TOOL]).invoke("add")

    assert answer.tool_calls == []
    assert answer.invalid_tool_calls[0]["args"] == '{"a": oops'


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


def test_server_error_then_success() -> None:
    """After a 500 the client tries again with the same body."""
    with serving(Fail(500), Say("Hello.")) as server:
        answer = client(server).invoke("hi")

    assert answer.text == "Hello."
    assert server.requests[0].body == server.requests[1].body


def test_failure_without_retries() -> None:
    """A client without retries gets the error and its message."""
    with (
        serving(Fail(429, retry_after=1, message="slow down")) as server,
        pytest.raises(openai.RateLimitError, match="slow down"),
    ):
        client(server, max_retries=0).invoke("hi")

    assert len(server.requests) == 1


def test_dropped_before_headers() -> None:
    """A connection dropped before any header is retried."""
    with serving(Drop(), Say("Hello.")) as server:
        answer = client(server).invoke("hi")

    assert answer.text == "Hello."
    assert len(server.requests) == 2


def test_dropped_before_headers_without_retries() -> None:
    """Without retries a dropped connection is a connection error."""
    with serving(Drop()) as server, pytest.raises(openai.APIConnectionError):
        client(server, max_retries=0).invoke("hi")

    assert len(server.requests) == 1


def test_dropped_inside_a_stream() -> None:
    """A stream that breaks off raises after the chunks that came before."""
    with serving(Drop(Say("Hello, world."), after=3)) as server:
        chunks = client(server).stream("hi")
        seen = [next(chunks).text for _ in range(3)]
        with pytest.raises(openai.APIConnectionError):
            next(chunks)

    assert seen == ["", "Hell", "o, w"]
    assert len(server.requests) == 1


def test_dropped_inside_a_body() -> None:
    """A response cut off in the middle of its body is an error, not half an answer."""
    with serving(Drop(Say("Hello, world."))) as server, pytest.raises(openai.APIConnectionError):
        client(server, max_retries=0).invoke("hi")

    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(method: str) -> None:
    """A structured answer parses, as a JSON text and as a forced call."""
    with serving(Structured({"summary": "s", "importance": 7})) as server:
        model = client(server).with_structured_output(Summary, method=method)
        answer = model.invoke("summarise")

    assert answer == Summary(summary="s", importance=7)


async def test_structured_output_async() -> None:
    """The asynchronous client parses structured answers likewise."""
    with serving(Structured({"summary": "s", "importance": 7})) as server:
        model = client(server).with_structured_output(Summary, method="json_schema")
        answer = await model.ainvoke("summarise")

    assert answer == Summary(summary="s", importance=7)


def test_function_instead_of_a_script() -> None:
    """A function of the request's body can answer every request."""
    with serving(by=lambda body: Say(body["messages"][-1]["content"][::-1])) as server:
        model = client(server)
        answers = [model.invoke("abc").text, model.invoke("def").text]

    assert answers == ["cba", "fed"]


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


def test_other_paths() -> None:
    """Only chat completions are served; another endpoint is a 404."""
    with serving(Say("Hello.")) as server, pytest.raises(openai.NotFoundError):
        client(server, use_responses_api=True).invoke("hi")

    assert server.requests[0].path == "/v1/responses"


@pytest.mark.parametrize("name", ["functions.add", "add numbers", "a" * 65, ""])
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
    with serving(Say("Hello.")) as server, pytest.raises(openai.BadRequestError) as raised:
        openai.OpenAI(base_url=server.url, api_key="x").chat.completions.create(
            model="gpt-5-mini", messages=asked
        )

    assert f"{where}': string does not match pattern" in str(raised.value)
