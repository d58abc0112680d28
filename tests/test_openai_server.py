"""The local OpenAI server, proved with the real client."""

from typing import Any

import openai
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from tests.openai_server import OpenAIServer, Say, serving


def client(server: OpenAIServer, **options: Any) -> BaseChatModel:
    """Return the real client, pointed at the server."""
    options = {"timeout": 5, **options}
    model: BaseChatModel = init_chat_model(
        "openai:gpt-5-mini", base_url=server.url, api_key="x", **options
    )
    return model


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
