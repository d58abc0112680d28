"""The calls of a compression: what came of them, or an error instead of an exception."""

import json
from typing import Any

import pytest
from langchain.chat_models import init_chat_model

from ebbtide.memory.background import BackgroundRequest
from ebbtide.memory.errors import SalienceError
from ebbtide.memory.extraction import Extracted, Extraction, ExtractionRequest
from ebbtide.memory.salience import Kind
from ebbtide.memory.settings import Settings
from ebbtide.nodes.extracting import aanswered, answered, background, extraction
from tests.doubles import ScriptedModel
from tests.openai_server import Say, serving

LOG = ExtractionRequest("Extract.", "user: The port must be 8443.")
OLD = BackgroundRequest("Describe.", "user: The port must be 8443.")
ITEM = {"quote": "The port must be 8443.", "kind": "constraint", "turn": 1}
FOUND = Extraction(new=[Extracted(quote=ITEM["quote"], kind=Kind.CONSTRAINT, turn=1)])
SHORT = Settings(compression_timeout=0.2)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ({"structured": [{"new": [ITEM]}]}, FOUND),
        ({"structured": [{"new": []}]}, Extraction(new=[])),
        ({"structured": ["?", {"new": [ITEM]}]}, FOUND),
        (
            {"answers": [f'```json\n{{"new": [{ITEM}]}}\n```'.replace("'", '"')], "methods": ()},
            FOUND,
        ),
        ({"structured": [{"new": [ITEM] * 500}]}, Extraction(new=FOUND.new * 500)),
    ],
)
async def test_a_model_extracts(script: dict[str, Any], found: Extraction) -> None:
    """Items come in any form that the model has, on both paths."""
    got = [
        answered(extraction(ScriptedModel(**script), LOG, Settings())),
        await aanswered(extraction(ScriptedModel(**script), LOG, Settings())),
    ]

    assert got == [found, found]


async def test_an_extraction_that_was_cut_off() -> None:
    """Of an answer that broke off at the limit, the items that are whole are taken."""
    written = json.dumps({"new": [ITEM, ITEM]})
    with serving(*[Say(written[:-9], cut=True)] * 2) as server:
        model = init_chat_model("openai:gpt-5-mini", base_url=server.url, api_key="x")

        got = [
            answered(extraction(model, LOG, Settings())),
            await aanswered(extraction(model, LOG, Settings())),
        ]

    assert got == [FOUND, FOUND]


def test_each_call_has_its_limit() -> None:
    """An extraction has 2,000 tokens for its answer and a background 500, or what is set."""
    fewer = Settings().model_copy(
        update={"extraction_max_tokens": 300, "background_max_tokens": 100}
    )
    items = json.dumps({"new": [ITEM]})
    with serving(*[Say(items), Say("All is well.")] * 2) as server:
        model = init_chat_model("openai:gpt-4o-mini", base_url=server.url, api_key="x")

        for settings in (Settings(), fewer):
            answered(extraction(model, LOG, settings))
            answered(background(model, OLD, settings))

    limits = [request.body["max_completion_tokens"] for request in server.requests]
    assert limits == [2_000, 500, 300, 100]


async def test_a_model_writes_the_background() -> None:
    """The background is the text that the model answers with, on both paths."""
    model = ScriptedModel(answers=["All is well."] * 2)

    got = [
        answered(background(model, OLD, Settings())),
        await aanswered(background(model, OLD, Settings())),
    ]

    assert got == ["All is well."] * 2
    assert [message.text for message in model.sent[0].messages] == [OLD.instructions, OLD.log]


@pytest.mark.parametrize(
    "script",
    [
        {
            "structured": [
                "{",
                "}",
            ],
            "answers": ["I would rather not."],
        },
        {"structured": [RuntimeError("boom")], "answers": [RuntimeError("boom")]},
        {"structured": [ConnectionError("gone")], "answers": [ConnectionError("gone")]},
    ],
)
async def test_a_failed_extraction_is_an_error(script: dict[str, Any]) -> None:
    """Invalid JSON, a fault of the model and a lost connection are returned, not raised."""
    got = [
        answered(extraction(ScriptedModel(**script), LOG, SHORT)),
        await aanswered(extraction(ScriptedModel(**script), LOG, SHORT)),
    ]

    assert [type(one) for one in got] == [SalienceError] * 2


@pytest.mark.parametrize("answer", ["", " \n", RuntimeError("boom"), ConnectionError("gone")])
async def test_a_failed_background_is_an_error(answer: Any) -> None:
    """An empty answer and an error are returned, not raised."""
    got = [
        answered(background(ScriptedModel(answers=[answer]), OLD, SHORT)),
        await aanswered(background(ScriptedModel(answers=[answer]), OLD, SHORT)),
    ]

    assert [type(one) for one in got] == [SalienceError] * 2
