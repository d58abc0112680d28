"""Questions to a model over HTTP: forms, limits, retries and deadlines."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import Any

import openai
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from ebbtide.nodes.asking import Question, aask, ask
from ebbtide.nodes.retrying import Patience
from tests.doubles import ScriptedModel
from tests.openai_server import Answer, Drop, Fail, OpenAIServer, Say, Structured, serving

JSON = '{"port": 8443}'
QUICK = Patience(seconds=20, first_wait=0.001)


class Port(BaseModel):
    """A port."""

    port: int


STRUCTURED = Question("find_port", "Find it.", "port 8443", Port, "summary_as_text", limit=300)
PLAIN = Question("tell", "Tell it.", "port 8443", str, limit=300)


def model(server: OpenAIServer, **options: Any) -> BaseChatModel:
    """Return a model on a server whose client does not try again by itself."""
    options = {"max_retries": 0, "api_key": "x", "base_url": server.url, **options}
    made: BaseChatModel = init_chat_model("openai:gpt-5-mini", **options)
    return made


def both(question: Question[Any], answers: list[Answer], patience: Patience = QUICK) -> list[Any]:
    """Ask synchronously and asynchronously, each on a server of its own; return the outcomes."""
    found: list[Any] = []
    with serving(*answers) as server:
        found.append((outcome(lambda: ask(model(server), question, patience)), server.requests))
    with serving(*answers) as server:
        run = lambda: asyncio.run(aask(model(server), question, patience))  # noqa: E731
        found.append((outcome(run), server.requests))
    return found


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or its error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 (the outcome that is looked at)
        return error


FORMS: list[tuple[list[Answer], list[str]]] = [
    ([Structured({"port": 8443})], ["response_format"]),
    ([Fail(400), Structured({"port": 8443})], ["response_format", "tools"]),
    ([Say("no JSON"), Structured({"port": 8443})], ["response_format", "tools"]),
    ([Fail(404), Fail(422), Say(f"Here:\n{JSON}.")], ["response_format", "tools", "text"]),
    ([Say('{"port": "?"}'), Say("?"), Say(JSON)], ["response_format", "tools", "text"]),
    ([Fail(429), Structured({"port": 8443})], ["response_format"] * 2),
    ([Fail(503), Fail(500), Structured({"port": 8443})], ["response_format"] * 3),
    ([Drop(), Structured({"port": 8443})], ["response_format"] * 2),
    ([Drop(Say(JSON)), Structured({"port": 8443})], ["response_format"] * 2),
]
"""What a provider answers, and the forms in which it is asked."""


@pytest.mark.parametrize(("answers", "forms"), FORMS)
def test_a_question_is_put_until_it_is_answered(answers: list[Answer], forms: list[str]) -> None:
    """What was refused or badly answered is put in another form, what passes in the same again."""
    for answer, requests in both(STRUCTURED, answers):
        bodies = [request.body for request in requests]
        put = [
            next((key for key in ("response_format", "tools") if key in one), "text")
            for one in bodies
        ]

        assert (answer, put) == (Port(port=8443), forms)


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
        ([Fail(400)] * 6, openai.BadRequestError, 6),
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
    """Retry-After is waited for, and the wait is logged."""
    caplog.set_level(logging.WARNING, "ebbtide.calls")

    found = both(PLAIN, [Fail(429, retry_after=0.3), Say("It is 8443.")])

    assert [answer for answer, _ in found] == ["It is 8443."] * 2
    assert all(requests[1].at - requests[0].at >= 0.3 for _, requests in found)
    assert caplog.text.count("waiting 0.3 s") == 2


def test_the_answer_is_limited() -> None:
    """The limit is sent in each form; a lower one of the model's own stays."""
    with serving(Say("?"), Say("?"), Say(JSON), Say("Yes."), Say("Yes.")) as server:
        ask(model(server), STRUCTURED, QUICK)
        ask(model(server, max_tokens=50), PLAIN, QUICK)
        ask(model(server), Question("tell", "Tell it.", "port", str), QUICK)

    limits = [request.body.get("max_completion_tokens") for request in server.requests]
    assert limits == [300, 300, 300, 50, None]


@pytest.mark.parametrize(("question", "asked"), [(STRUCTURED, 4), (PLAIN, 2)])
def test_a_provider_that_refuses_the_limit(question: Question[Any], asked: int) -> None:
    """A model that knows no such limit is asked without it."""

    def refusing(body: Mapping[str, Any]) -> Answer:
        return Fail(400) if "max_completion_tokens" in body else Say(JSON)

    with serving(by=refusing) as server:
        answer = ask(model(server), question, QUICK)

    assert answer in (Port(port=8443), JSON)
    assert len(server.requests) == asked


async def test_a_model_that_knows_no_limit() -> None:
    """A model without such a field is asked as it is, one that is chosen by the run as well."""
    scripted = ScriptedModel(structured=[{"port": 8443}] * 2)
    with serving(*[Structured({"port": 8443})] * 2) as server:
        chosen: Any = init_chat_model(
            configurable_fields=("temperature",),
            model="openai:gpt-5-mini",
            base_url=server.url,
            api_key="x",
        )
        found = [
            answer
            for one in (scripted, chosen)
            for answer in (ask(one, STRUCTURED, QUICK), await aask(one, STRUCTURED, QUICK))
        ]

    assert found == [Port(port=8443)] * 4


def test_no_form_is_tried_when_the_time_is_over() -> None:
    """A form that took all the time is the last one."""
    slow = ScriptedModel(structured=lambda _: threading.Event().wait(0.2) or "?")

    failed = outcome(lambda: ask(slow, STRUCTURED, Patience(seconds=0.1)))

    assert isinstance(failed, TimeoutError)
    assert len(slow.asked) == 1


@pytest.mark.parametrize(
    ("question", "answers", "limits"),
    [
        (STRUCTURED, [Say("", cut=True), Say(JSON)], [300, None]),
        (STRUCTURED, [Say('{"port": ', cut=True), Say(JSON)], [300, None]),
        (STRUCTURED, [Say('{"port": 8443} and', cut=True)], [300]),
        (STRUCTURED, [Fail(400), Fail(400), Say("", cut=True), Say(JSON)], [300] * 3 + [None]),
        (PLAIN, [Say("", cut=True), Say("It is 8443.")], [300, None]),
        (PLAIN, [Say("It is", cut=True)], [300]),
    ],
)
def test_an_answer_that_was_cut_off(
    question: Question[Any], answers: list[Answer], limits: list[int | None]
) -> None:
    """What came is taken; if the limit left nothing of it, the question is put without it."""
    for answer, requests in both(question, answers):
        asked = [request.body.get("max_completion_tokens") for request in requests]

        assert isinstance(answer, question.answer)
        assert asked == limits


@pytest.mark.parametrize("question", [STRUCTURED, PLAIN])
def test_a_provider_that_hangs(question: Question[Any]) -> None:
    """After the deadline the call is given up, whatever the client's own timeout is."""
    over = threading.Event()

    def hanging(_: object) -> Answer:
        over.wait(20)
        return Say("late")

    with serving(by=hanging) as server:
        short = Patience(seconds=0.3)
        found = [
            outcome(lambda: ask(model(server), question, short)),
            outcome(lambda: asyncio.run(aask(model(server), question, short))),
        ]
        over.set()

    assert [str(one) for one in found] == ["no answer within 0.3 s"] * 2


HANGING = dedent("""
    import asyncio, threading
    from ebbtide.nodes.asking import Question, aask, ask
    from ebbtide.nodes.retrying import Patience
    from tests.doubles import ScriptedModel

    model = ScriptedModel(answers=lambda messages: threading.Event().wait())
    question = Question("tell", "Tell it.", "port 8443", str)
    try:
        {call}
    except TimeoutError as error:
        print(error)
""")


@pytest.mark.parametrize(
    "call",
    [
        "ask(model, question, Patience(seconds=0.2))",
        "asyncio.run(aask(model, question, Patience(seconds=0.2)))",
    ],
)
def test_a_call_that_hangs_does_not_keep_the_process(call: str) -> None:
    """A model that never returns, and has no asynchronous path, keeps no process from its end."""
    program = [sys.executable, "-c", HANGING.format(call=call)]

    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout) == (0, "no answer within 0.2 s\n")
