"""A local server that speaks OpenAI's chat completions, for testing real clients over HTTP.

    with serving(Say("Hello."), Fail(429, retry_after=1), Say("Again.")) as server:
        model = init_chat_model("openai:gpt-5-mini", base_url=server.url, api_key="x")

Each request takes the next answer of the script; `server.requests` records them all. Names of
calls and results that OpenAI does not take are answered as OpenAI does, with an error 400.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]
Usage: TypeAlias = tuple[int, int] | Callable[[Body], int]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Say:
    """A completion: a text, calls as (tool, arguments), or both.

    Arguments that are a string are sent as they are, so they can be malformed. `usage` is
    (prompt tokens, completion tokens), a function of the request's body that gives the prompt
    tokens, or None for a server that reports none. Streamed in pieces of `piece` characters, with
    `pause` seconds before each. One that is `cut` says that it was cut off at its limit.
    """

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    usage: Usage | None = (100, 20)
    piece: int = 4
    pause: float = 0.0
    cut: bool = False


@dataclass(frozen=True)
class Structured:
    """A structured answer, in the form that the request asks for: JSON text or a forced call."""

    value: Mapping[str, Any]


@dataclass(frozen=True)
class Fail:
    """An HTTP error, with a Retry-After header in seconds if given."""

    status: int
    retry_after: float | None = None
    message: str = "scripted failure"


@dataclass(frozen=True)
class Drop:
    """A dropped connection: before any header, or inside `during` after `after` stream chunks."""

    during: Say | None = None
    after: int = 1


Answer: TypeAlias = Say | Structured | Fail | Drop


@dataclass(frozen=True)
class Request:
    """One request as it came in; `at` is in seconds of the monotonic clock."""

    path: str
    headers: Mapping[str, str]
    body: Body
    at: float


@dataclass
class OpenAIServer:
    """The script and the record of a running server; a function as script answers every request."""

    answers: list[Answer] | Callable[[Body], Answer]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Request) -> Answer:
        """Record a request and return its answer; after the script's end an error 400."""
        with self.lock:
            self.requests.append(request)
            number = len(self.requests)
        if callable(self.answers):
            return self.answers(request.body)
        if number > len(self.answers):
            return Fail(400, message=f"request {number}, but the script has {len(self.answers)}")
        return self.answers[number - 1]


@contextmanager
def serving(*answers: Answer, by: Callable[[Body], Answer] | None = None) -> Iterator[OpenAIServer]:
    """Run a server on a free local port while the context lasts; `by` answers without a script."""
    script = OpenAIServer(by or [*answers])

    class Bound(_Handler):
        server_script = script

    with running(Bound) as url:
        script.url = f"{url}/v1"
        yield script


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free local port while the context lasts; yields the address."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Say nothing about clients that go away: tests close them on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_script: OpenAIServer

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        """Answer a chat completion."""
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server_script.take(Request(self.path, headers, body, time.monotonic()))
        answer = next(_bad_names(body), answer)
        if not self.path.endswith("/chat/completions"):
            answer = Fail(404, message=f"only chat completions are served, not {self.path}")
        if isinstance(answer, Structured):
            answer = _structured(answer, body)
        if isinstance(answer, Fail):
            self._fail(answer)
        elif isinstance(answer, Say):
            self._say(answer, body)
        else:
            self._drop(answer, body)

    def _say(self, answer: Say, body: Body) -> None:
        if body.get("stream"):
            self._start("text/event-stream", {"transfer-encoding": "chunked"})
            for event in _events(answer, body):
                time.sleep(answer.pause)
                self._chunk(event)
            self._chunk(b"")
        else:
            self._send(200, _completion(answer, body), {})

    def _fail(self, answer: Fail) -> None:
        error = {"message": answer.message, "type": "scripted", "param": None, "code": None}
        retry = {} if answer.retry_after is None else {"retry-after": f"{answer.retry_after:g}"}
        self._send(answer.status, {"error": error}, retry)

    def _drop(self, answer: Drop, body: Body) -> None:
        """Send what comes before the break, then close without ending the response."""
        if answer.during and body.get("stream"):
            self._start("text/event-stream", {"transfer-encoding": "chunked"})
            for event in [*_events(answer.during, body)][: answer.after]:
                self._chunk(event)
        elif answer.during:
            whole = json.dumps(_completion(answer.during, body)).encode()
            self._start("application/json", {"content-length": str(len(whole))})
            self.wfile.write(whole[: len(whole) // 2])
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, body: Body, headers: Mapping[str, str]) -> None:
        data = json.dumps(body).encode()
        length = {"content-length": str(len(data))}
        self._start("application/json", {**length, **headers}, status)
        self.wfile.write(data)

    def _start(self, kind: str, headers: Mapping[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def _bad_names(body: Body) -> Iterator[Fail]:
    """Yield an error 400 for each name of a call or of a result that OpenAI does not take."""
    for at, message in enumerate(body.get("messages", ())):
        named = {
            f"tool_calls[{number}].function.name": call["function"]["name"]
            for number, call in enumerate(message.get("tool_calls") or ())
        }
        if message["role"] == "tool" and "name" in message:
            named["name"] = message["name"]
        for where, name in named.items():
            if not _NAME.fullmatch(name):
                why = "string does not match pattern '^[a-zA-Z0-9_-]{1,64}$'"
                yield Fail(400, message=f"Invalid 'messages[{at}].{where}': {why}")


def _structured(answer: Structured, body: Body) -> Say:
    written = json.dumps(answer.value)
    if body.get("response_format"):
        return Say(written)
    choice = body.get("tool_choice")
    named = choice["function"]["name"] if isinstance(choice, Mapping) else None
    return Say(calls=[(named or body["tools"][0]["function"]["name"], written)])


def _completion(answer: Say, body: Body) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [_call(number, *one) for number, one in enumerate(answer.calls, 1)]
    choice = {"index": 0, "message": message, "finish_reason": _reason(answer)}
    whole = _envelope(body, "chat.completion") | {"choices": [choice]}
    return whole | ({"usage": _usage(answer.usage, body)} if answer.usage else {})


def _events(answer: Say, body: Body) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed completion."""
    base = _envelope(body, "chat.completion.chunk")
    for delta in _deltas(answer):
        yield _event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    end = {"index": 0, "delta": {}, "finish_reason": _reason(answer)}
    yield _event(base | {"choices": [end]})
    if answer.usage and (body.get("stream_options") or {}).get("include_usage"):
        yield _event(base | {"choices": [], "usage": _usage(answer.usage, body)})
    yield b"data: [DONE]\n\n"


def _deltas(answer: Say) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a message: the role, its text, then each call's name and arguments."""
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(answer.text, answer.piece):
        yield {"content": piece}
    for index, one in enumerate(answer.calls):
        call = _call(index + 1, *one)
        arguments, call["function"]["arguments"] = call["function"]["arguments"], ""
        yield {"tool_calls": [{"index": index, **call}]}
        for piece in _pieces(arguments, answer.piece):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str, size: int) -> list[str]:
    return re.findall(rf"(?s).{{1,{size}}}", text)


def _call(number: int, tool: str, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": tool, "arguments": written}
    return {"id": f"call_{number}_{tool}", "type": "function", "function": function}


def _event(value: Body) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _envelope(body: Body, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": body.get("model", "")}


def _reason(answer: Say) -> str:
    if answer.cut:
        return "length"
    return "tool_calls" if answer.calls else "stop"


def _usage(usage: Usage, body: Body) -> dict[str, int]:
    read, written = (usage(body), 20) if callable(usage) else usage
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
