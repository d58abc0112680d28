"""A local server that answers as OpenAI, Anthropic and Google do, and records what they are sent.

    with provided(Say("Hello.")) as server:
        model = server.model("anthropic")

Each request takes the next answer of the script, after its end the last one again; or a function
answers it by its body. `server.bodies` has the requests as they came in over HTTP.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from typing import Any, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.openai_server import Fail, Say, running

PROVIDERS = ("openai", "anthropic", "google")
_ADAPTERS = {
    "anthropic": ("langchain_anthropic", "ChatAnthropic"),
    "google": ("langchain_google_genai", "ChatGoogleGenerativeAI"),
}

Answering: TypeAlias = Callable[[dict[str, Any]], Say | Fail]


@dataclass
class ProviderServer:
    """The script and the record of a running server."""

    answers: list[Say] | Answering
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def model(self, provider: str, name: str = "claude-sonnet-5") -> BaseChatModel:
        """Return LangChain's model of a provider, which sends its requests here, once each."""
        key = SecretStr("x")
        if provider == "anthropic":
            options = {"model": name, "api_key": key, "max_retries": 0}
            return cast("BaseChatModel", adapter(provider)(base_url=self.url, **options))
        if provider == "google":
            options = {"model": "gemini-2.5-flash", "google_api_key": key}
            return cast("BaseChatModel", adapter(provider)(base_url=self.url, **options))
        return ChatOpenAI(model="gpt-4o", base_url=f"{self.url}/v1", api_key=key)

    def take(self, body: dict[str, Any]) -> Say | Fail:
        """Record a request and return its answer."""
        self.bodies.append(body)
        if callable(self.answers):
            return self.answers(body)
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]


def adapter(provider: str) -> Any:
    """Return LangChain's class of a provider; the import, which takes long, waits until here."""
    module, name = _ADAPTERS[provider]
    return getattr(import_module(module), name)


@contextmanager
def provided(*answers: Say, by: Answering | None = None) -> Iterator[ProviderServer]:
    """Run a server on a free local port while the context lasts; `by` answers by the request."""
    script = ProviderServer(by or [*answers])

    class Bound(_Handler):
        server_script = script

    with running(Bound) as script.url:
        yield script


class _Handler(BaseHTTPRequestHandler):
    server_script: ProviderServer

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        """Answer in the form of the provider whose route it is."""
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        answer = self.server_script.take(body)
        number = len(self.server_script.bodies)
        if isinstance(answer, Fail):
            form = {"type": "error", "error": {"type": "api_error", "message": answer.message}}
        elif self.path.endswith("/messages"):
            form = _of_anthropic(answer, number)
        elif "generateContent" in self.path:
            form = _of_google(answer)
        else:
            form = _of_openai(answer, number)
        data = json.dumps(form).encode()
        self.send_response(answer.status if isinstance(answer, Fail) else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _arguments(written: Mapping[str, Any] | str) -> Any:
    return json.loads(written) if isinstance(written, str) else written


def _of_openai(answer: Say, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    calls = [
        {
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(_arguments(args))},
        }
        for at, (tool, args) in enumerate(answer.calls)
    ]
    message |= {"tool_calls": calls} if calls else {}
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "gpt-4o"}
    return {**envelope, "choices": [choice], "usage": usage}


def _of_anthropic(answer: Say, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": tool, "input": _arguments(args)}
        for at, (tool, args) in enumerate(answer.calls)
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _of_google(answer: Say) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    parts += [
        {"functionCall": {"name": tool, "args": _arguments(args)}} for tool, args in answer.calls
    ]
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage}
