"""Questions to a model over HTTP: forms, limits, retries and timeouts."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import openai
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from ebbtide.memory.errors import AnswerError
from ebbtide.memory.questions import Asks, Question
from ebbtide.nodes.ask import adrive, drive
from tests.openai_server import Answer, Drop, Fail, OpenAIServer, Request, Say, Structured, serving

JSON = '{"port": 8443}'

pytestmark = pytest.mark.usefixtures("impatient")


class Port(BaseModel):
    """A port."""

    port: int


STRUCTURED = Question("summary", "Find it.", "port 8443", Port, "summary_as_text", limit=300)
PLAIN = Question("background", "Tell it.", "port 8443", limit=300)


def model(server: OpenAIServer, **options: Any) -> BaseChatModel:
    """Return a model on a server whose client does not try again by itself."""
    options = {"max_retries": 0, "api_key": "x", "base_url": server.url, **options}
    made: BaseChatModel = init_chat_model("openai:gpt-5-mini", **options)
    return made


def asking(question: Question) -> Asks[Any]:
    """Ask one question."""
    return (yield question)


def ask(model: BaseChatModel, question: Question) -> Any:
    """Return what a model answers."""
    return drive(asking(question), {question.what: model})


async def aask(model: BaseChatModel, question: Question) -> Any:
    """Return what a model answers."""
    return await adrive(asking(question), {question.what: model})


def both(question: Question, answers: list[Answer], **options: Any) -> list[Any]:
    """Ask synchronously and asynchronously, each on a server of its own; return the outcomes."""
    found: list[Any] = []
    with serving(*answers) as server:
        found.append((outcome(lambda: ask(model(server, **options), question)), server.requests))
    with serving(*answers) as server:
        run = lambda: asyncio.run(aask(model(server, **options), question))  # noqa: E731 (one of two ways to run)
        found.append((outcome(run), server.requests))
    return found


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the error of the model's provider."""
    try:
        return call()
    except AnswerError as error:
        return error.__cause__


FORMS: list[tuple[list[Answer], list[str]]] = [
    ([Structured({"port": 8443})], ["response_format"]),
    ([Fail(400), Structured({"port": 8443})], ["response_format", "tools"]),
    ([Fail(400), Fail(422), Say(f"Here:\n{JSON}.")], ["response_format", "tools", "text"]),
    ([Say('{"port": "?"}'), Say("8443"), Say(JSON)], ["response_format", "tools", "text"]),
    ([Say('{"port": ', cut=True), Structured({"port": 8443})], ["response_format", "tools"]),
    ([Fail(429), Structured({"port": 8443})], ["response_format"] * 2),
    ([Fail(503), Fail(500), Structured({"port": 8443})], ["response_format"] * 3),
    ([Drop(), Structured({"port": 8443})], ["response_format"] * 2),
    ([Drop(Say(JSON)), Structured({"port": 8443})], ["response_format"] * 2),
]
"""What a provider answers, and the forms in which it is asked."""


def form_of(request: Request) -> str:
    """Return how a question was put: with a schema, as a tool, or in words."""
    return next((form for form in ("response_format", "tools") if form in request.body), "text")


@pytest.mark.thorough
@pytest.mark.parametrize(("answers", "forms"), FORMS)
def test_a_question_is_put_until_it_is_answered(answers: list[Answer], forms: list[str]) -> None:
    """What was refused or badly answered is put in another form, what passes in the same again."""
    put = both(STRUCTURED, answers)

    assert [answer for answer, _ in put] == [Port(port=8443)] * 2
    assert [[form_of(one) for one in requests] for _, requests in put] == [forms] * 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("answers", "error", "asked"),
    [
        ([Fail(401)], openai.AuthenticationError, 1),
        ([Fail(403)], openai.PermissionDeniedError, 1),
        ([Fail(429)] * 4, openai.RateLimitError, 4),
        ([Fail(500)] * 4, openai.InternalServerError, 4),
        ([Drop()] * 4, openai.APIConnectionError, 4),
        ([Fail(429, retry_after=60)], openai.RateLimitError, 1),
        ([Say("?")] * 3, ValueError, 3),
        ([Fail(400)] * 3, openai.BadRequestError, 3),
    ],
)
def test_the_last_error_is_raised(
    answers: list[Answer], error: type[Exception], asked: int
) -> None:
    """Errors that stay are raised at once, others when attempts, time or forms are used up."""
    found = both(STRUCTURED, answers)

    assert [isinstance(failed, error) for failed, _ in found] == [True, True]
    assert [len(requests) for _, requests in found] == [asked, asked]


def test_a_provider_says_how_long_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    """The seconds of its Retry-After are waited for; the wait is logged without its words."""
    caplog.set_level(logging.WARNING, "ebbtide.calls")

    found = both(PLAIN, [Fail(429, retry_after=0.3), Say("It is 8443.")])

    assert [answer for answer, _ in found] == ["It is 8443."] * 2
    assert all(requests[1].at - requests[0].at >= 0.3 for _, requests in found)
    assert caplog.text.count("next attempt in 0.3 s") == 2
    assert "Error code" not in caplog.text


@pytest.mark.parametrize(("question", "asked"), [(STRUCTURED, 3), (PLAIN, 2)])
def test_a_provider_that_refuses_the_limit(question: Question, asked: int) -> None:
    """A model that knows no such limit is asked without it."""

    def refusing(body: Mapping[str, Any]) -> Answer:
        return Fail(400) if "max_completion_tokens" in body else Say(JSON)

    with serving(by=refusing) as server:
        answer = ask(model(server), question)

    assert answer in (Port(port=8443), JSON)
    assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("answers", "answer", "limits"),
    [
        ([Say("", cut=True), Say("It is 8443.")], "It is 8443.", [300, None]),
        ([Say("It is", cut=True)], "It is", [300]),
    ],
)
def test_a_text_that_was_cut_off(
    answers: list[Answer], answer: str, limits: list[int | None]
) -> None:
    """What came is taken; if a model thought until the limit, it is asked without one."""
    put = both(PLAIN, answers)

    asked = [[one.body.get("max_completion_tokens") for one in requests] for _, requests in put]
    assert [found for found, _ in put] == [answer] * 2
    assert asked == [limits] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("question", [STRUCTURED, PLAIN])
def test_a_provider_that_hangs(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt ends at the model's own timeout, and none begins when the time is over."""
    monkeypatch.setattr("ebbtide.nodes.ask.SECONDS", 1.0)
    over = threading.Event()

    def hanging(_: object) -> Answer:
        over.wait(20)
        return Say("late")

    with serving(by=hanging) as server:
        slow = model(server, timeout=0.6)
        found = [
            outcome(lambda: ask(slow, question)),
            outcome(lambda: asyncio.run(aask(slow, question))),
        ]
        over.set()

    assert all(isinstance(one, openai.APITimeoutError) for one in found)
    assert len(server.requests) == 4
