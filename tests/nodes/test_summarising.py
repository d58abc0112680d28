"""The calls that summarise: form after form, and an error instead of an exception."""

from typing import Any

import pytest

from ebbtide.memory.errors import SummaryError
from ebbtide.memory.summary import EffortSummary, SummaryRequest
from ebbtide.nodes.retrying import Patience
from ebbtide.nodes.summarising import asummarise, summarise
from tests.doubles import ScriptedModel

REQUEST = SummaryRequest("Summarise.", "user: It rained.")
GIVEN: dict[str, Any] = {"summary": "It rained.", "keywords": ["rain"], "importance": 7}
SUMMARY = EffortSummary(**GIVEN)
QUICK = Patience(first_wait=0.001)
WORDS = (
    'Here it is:\n```json\n{"summary": "It rained.", "keywords": ["rain"], "importance": 7}\n```'
)


class RefusedError(Exception):
    """A provider's answer with an HTTP status."""

    def __init__(self, status_code: int) -> None:
        """Keep the status as providers' packages do."""
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


CASES = [
    ({"structured": [GIVEN]}, ["json_schema"]),
    ({"structured": [GIVEN], "methods": ("function_calling",)}, ["function_calling"]),
    ({"structured": ["no JSON", GIVEN]}, ["json_schema", "function_calling"]),
    ({"structured": [RefusedError(400), GIVEN]}, ["json_schema", "function_calling"]),
    ({"structured": [{"summary": " "}, GIVEN]}, ["json_schema", "function_calling"]),
    ({"answers": [WORDS], "methods": ()}, []),
    ({"answers": [WORDS], "structured": ["?", "?"]}, ["json_schema", "function_calling"]),
]
"""What a model can, and the methods of structured output that it was asked by."""


@pytest.mark.parametrize(("script", "methods"), CASES)
def test_forms_are_tried_until_one_gives_a_summary(
    script: dict[str, Any], methods: list[str]
) -> None:
    """A form that a model lacks, or answers badly, is followed by the next one."""
    model = ScriptedModel(**script)

    assert summarise(model, REQUEST) == SUMMARY
    assert [sent.options["method"] for sent in model.asked] == methods


@pytest.mark.parametrize(("script", "methods"), CASES)
async def test_forms_are_tried_without_holding_a_thread(
    script: dict[str, Any], methods: list[str]
) -> None:
    """The asynchronous path tries the same forms."""
    model = ScriptedModel(**script)

    assert await asummarise(model, REQUEST) == SUMMARY
    assert [sent.options["method"] for sent in model.asked] == methods


def test_a_request_is_the_instructions_and_the_log() -> None:
    """A model is sent the instructions as system message and the log as user message."""
    model = ScriptedModel(structured=[GIVEN])

    summarise(model, REQUEST)

    sent = [(message.type, message.text) for message in model.asked[0].messages]
    assert sent == [("system", "Summarise."), ("human", "user: It rained.")]


def test_a_model_without_structured_output_is_told_the_form() -> None:
    """Only a request for text says which JSON is wanted."""
    model = ScriptedModel(answers=[WORDS], methods=())

    summarise(model, REQUEST)

    assert "JSON" in model.sent[0].messages[0].text


@pytest.mark.parametrize("error", [RuntimeError("boom"), RefusedError(401), RefusedError(403)])
async def test_an_error_that_stays_is_returned_at_once(error: Exception) -> None:
    """An error that neither time nor another form can mend is returned; nothing else is tried."""
    model, other = ScriptedModel(structured=[error]), ScriptedModel(structured=[error])

    found = [summarise(model, REQUEST), await asummarise(other, REQUEST)]

    assert [str(one) for one in found] == [f"{type(error).__name__}: {error}"] * 2
    assert [len(model.asked), len(other.asked)] == [1, 1]


@pytest.mark.parametrize("error", [ConnectionError("gone"), RefusedError(429), RefusedError(500)])
async def test_an_error_that_passes_is_waited_out(error: Exception) -> None:
    """A provider that is busy or down is asked again in the same form."""
    model = ScriptedModel(structured=[error, GIVEN])
    other = ScriptedModel(structured=[error, GIVEN])

    found = [summarise(model, REQUEST, QUICK), await asummarise(other, REQUEST, QUICK)]

    assert found == [SUMMARY, SUMMARY]
    assert {sent.options["method"] for sent in model.asked + other.asked} == {"json_schema"}


async def test_no_form_gives_a_summary() -> None:
    """If every form is answered badly the last error is returned, not raised."""
    script: dict[str, Any] = {"answers": ["I would rather not."], "structured": ["?", "?"]}

    found = [
        summarise(ScriptedModel(**script), REQUEST),
        await asummarise(ScriptedModel(**script), REQUEST),
    ]

    assert [type(one) for one in found] == [SummaryError, SummaryError]
