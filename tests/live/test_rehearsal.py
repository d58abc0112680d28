"""The journeys of the live tests, rehearsed over HTTP: they can pass, and they can fail."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from ebbtide.testing import ScriptedModel
from tests.agents import SUMMARY
from tests.live.journeys import (
    JOURNEYS,
    OTHER,
    Journey,
    broken,
    expands_after_searching,
    expands_again,
    opens_and_closes,
    searches,
)
from tests.openai_server import Answer, OpenAIServer, Say, Structured, serving

NAMES = [journey.__name__ for journey in JOURNEYS]
WORK: list[Answer] = [
    *(Say(calls=[("open_effort", {"name": "login bug"})]), Say("Opened."), Say("Noted.")),
    *(Say(calls=[("close_effort", {})]), Structured(SUMMARY), Say("Concluded.")),
]
SMALL_TALK = [Say("So it is.")] * len(OTHER)
EXPAND = [Say(calls=[("expand_effort", {"effort_id": "login-bug"})]), Say("There it is.")]
SEARCH = [
    Say(calls=[("search_efforts", {"query": "error 401"})]),
    Say("You added an interceptor, as login-bug says."),
]
IDLE = [Say("Sure.")] * 20


@contextmanager
def served(answers: Sequence[Answer]) -> Iterator[tuple[BaseChatModel, OpenAIServer]]:
    """Serve a real client with these answers."""
    with serving(*answers) as server:
        options: Any = {"base_url": server.url, "api_key": "x", "timeout": 5, "max_retries": 0}
        yield init_chat_model("openai:gpt-5-mini", **options), server


@pytest.mark.parametrize(
    ("journey", "answers"),
    [
        (opens_and_closes, WORK),
        (expands_again, [*WORK, *EXPAND, *SMALL_TALK, *EXPAND]),
        (searches, [*WORK, *SMALL_TALK, *SEARCH]),
        (expands_after_searching, [*WORK, *SMALL_TALK, *SEARCH, *EXPAND]),
    ],
    ids=NAMES,
)
def test_a_journey_passes(tmp_path: Path, journey: Journey, answers: list[Answer]) -> None:
    """With a model that calls the right tools everything holds, and no answer is left over."""
    with served(answers) as (model, server):
        claims = journey(model, tmp_path)

    assert broken(claims) == []
    assert len(server.requests) == len(answers)


@pytest.mark.parametrize(
    ("journey", "missed"),
    [
        (opens_and_closes, ["opens an effort", "keeps it open while the work goes on"]),
        (expands_again, ["expands the log", "expands it again"]),
        (searches, ["the summary is evicted", "searches", "answers"]),
        (expands_after_searching, ["searches", "expands what it found", "sees the log"]),
    ],
    ids=NAMES,
)
def test_a_journey_fails(tmp_path: Path, journey: Journey, missed: list[str]) -> None:
    """With a model that calls no tool the claims about tools do not hold."""
    with served(IDLE) as (model, _):
        claims = journey(model, tmp_path)

    assert set(missed) <= set(broken(claims))


@pytest.mark.parametrize("journey", JOURNEYS[:3], ids=NAMES[:3])
def test_the_scripted_model_goes_the_way(tmp_path: Path, journey: Journey) -> None:
    """The model of rules understands the plain speech of the journeys too."""
    claims = journey(ScriptedModel(), tmp_path)

    assert broken(claims) == []
