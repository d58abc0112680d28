"""The driver: it asks what a rule asks, and throws into it what failed."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from ebbtide.memory.compressions import Kind
from ebbtide.memory.efforts import Effort
from ebbtide.memory.errors import AnswerError
from ebbtide.memory.questions import Asks, Question
from ebbtide.memory.salience.extract import Asking, Extracted, Previous, background, extract
from ebbtide.memory.settings import Settings
from ebbtide.memory.tools.summary import EffortSummary
from ebbtide.memory.turn import StoredTurn
from ebbtide.nodes.ask import LateError, Models, QuestionCost, adrive, drive
from tests.doubles import ScriptedModel
from tests.memory.conversations import FENCES
from tests.openai_server import Answer, Fail, Say, serving

pytestmark = pytest.mark.usefixtures("impatient")

DEFAULTS = Settings()
EFFORT = Effort("port", "open")
TURNS = [StoredTurn(1, (HumanMessage("The port must be 8443."),), "")]
ITEM = {"quote": "The port must be 8443.", "kind": "constraint", "turn": 1}
QUOTE = Extracted(quote="The port must be 8443.", kind=Kind.CONSTRAINT, turn=1)
ASKED = Question("summary", "Summarise.", "user: It rained.", EffortSummary, "summary_as_text")
GIVEN: dict[str, Any] = {"summary": "It rained.", "keywords": ["rain"], "importance": 7}
SUMMARY = EffortSummary(**GIVEN)
WORDS = f"Here it is:\n```json\n{json.dumps(GIVEN)}\n```"


class RefusedError(Exception):
    """A provider's answer with an HTTP status."""

    def __init__(self, status_code: int) -> None:
        """Keep the status as providers' packages do."""
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


def summarising(_: Settings = DEFAULTS) -> Asks[EffortSummary]:
    """Ask for one summary."""
    answer: EffortSummary = yield ASKED
    return answer


def selecting(settings: Settings = DEFAULTS) -> Asks[Any]:
    """Ask what of a log must stay."""
    return extract(EFFORT, TURNS, Previous(), Asking(settings.context_budget, FENCES))


def describing(settings: Settings = DEFAULTS) -> Asks[str]:
    """Ask for a background."""
    return background(EFFORT, TURNS, Previous(), Asking(settings.context_budget, FENCES))


def models(model: BaseChatModel) -> Models:
    """Let one model answer everything."""
    return {"summary": model, "extraction": model, "background": model}


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or why a model did not answer."""
    try:
        return call()
    except AnswerError as error:
        return error


def both(rule: Callable[[], Asks[Any]], **script: Any) -> tuple[list[Any], list[ScriptedModel]]:
    """Run a rule on both paths, each with a model of its own."""
    one, other = ScriptedModel(**script), ScriptedModel(**script)
    found = outcome(lambda: drive(rule(), models(one)))
    also = outcome(lambda: asyncio.run(adrive(rule(), models(other))))
    return [found, also], [one, other]


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ({"structured": [GIVEN]}, 1),
        ({"structured": ["no JSON", GIVEN]}, 2),
        ({"answers": [WORDS], "structured": ["no JSON"] * 2}, 3),
        ({"answers": [WORDS], "structured": [RefusedError(400)] * 2}, 3),
        ({"answers": [WORDS], "structured": [{"summary": " "}] * 2}, 3),
        ({"structured": [GIVEN], "methods": ("function_calling",)}, 1),
        ({"answers": [WORDS], "methods": ()}, 1),
        ({"structured": [ConnectionError("gone"), GIVEN]}, 2),
        ({"structured": [TimeoutError("no answer"), GIVEN]}, 2),
        ({"structured": [RefusedError(429), RefusedError(500), GIVEN]}, 3),
    ],
)
def test_a_summary_comes_in_any_form(script: dict[str, Any], asked: int) -> None:
    """A form that a model lacks, or answers badly, is followed by text; trouble is waited out."""
    found, used = both(summarising, **script)

    assert found == [SUMMARY, SUMMARY]
    assert [len(model.asked) + len(model.sent) for model in used] == [asked, asked]


@pytest.mark.parametrize(
    ("structured", "found"),
    [([{"new": [ITEM]}], [QUOTE]), ([{"new": []}], []), ([{"new": [ITEM] * 500}], [QUOTE])],
)
def test_a_model_extracts(structured: list[Any], found: list[Extracted]) -> None:
    """What it chooses comes back, each quote once, on both paths."""
    selections, _ = both(selecting, structured=structured)

    assert [one.new for one in selections] == [found, found]


@pytest.mark.parametrize(
    ("rule", "script"),
    [
        (summarising, {"structured": ["?"] * 2, "answers": ["I would rather not."]}),
        (selecting, {"structured": ["{"] * 2, "answers": ["I would rather not."]}),
        (selecting, {"structured": [ConnectionError("gone")] * 4}),
        *((describing, {"answers": [answer]}) for answer in ("", " \n", RuntimeError("boom"))),
        (describing, {"answers": [ConnectionError("gone")] * 4}),
    ],
)
def test_no_answer_is_an_error(rule: Any, script: dict[str, Any]) -> None:
    """Invalid JSON, an empty answer, a fault of the model and a lost connection are one error."""
    found, _ = both(rule, **script)

    assert [type(one) for one in found] == [AnswerError] * 2


def trying() -> Asks[str]:
    """Ask, and go on without an answer."""
    try:
        yield ASKED
    except AnswerError as failed:
        return f"without: {failed}"
    return "with"


@pytest.mark.parametrize("error", [ConnectionError("gone"), RefusedError(500)])
def test_a_rule_may_go_on_without_an_answer(error: Exception) -> None:
    """What failed is thrown where the rule asked, and noted with what the question cost."""
    calls: list[QuestionCost] = []
    found = drive(trying(), models(ScriptedModel(structured=[error] * 4)), calls.append)

    assert found == f"without: {type(error).__name__}"
    assert [(call.what, call.model, call.failed) for call in calls] == [
        ("summary", "ScriptedModel", type(error).__name__)
    ]


@pytest.mark.parametrize("usage", [(100, 20), None])
def test_the_tokens_of_all_attempts_are_noted(usage: Any) -> None:
    """What the model read and wrote for a question, bad answers included; else nothing is said."""
    tool = Say(calls=[("EffortSummary", GIVEN)], usage=usage)
    script: list[Answer] = [Say("?", usage=usage), Fail(429), tool]
    calls: list[QuestionCost] = []
    for run in (drive, lambda *given: asyncio.run(adrive(*given))):
        with serving(*script) as server:
            options: dict[str, Any] = {"base_url": server.url, "api_key": "x", "max_retries": 0}
            model = init_chat_model("openai:gpt-5-mini", **options)
            run(summarising(), models(model), calls.append)

    told = [call.as_data() for call in calls]
    tokens = {"read": 200, "written": 40} if usage else {}
    assert [{**one, "seconds": 0} for one in told] == [
        {"what": "summary", "model": "gpt-5-mini", "seconds": 0, **tokens}
    ] * 2


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_call_that_takes_too_long_is_not_waited_for(way: str) -> None:
    """The rule is told at once, and what the call answers later goes nowhere."""

    def slow(_: Any) -> Any:
        time.sleep(2)
        raise ValueError("too late to matter")

    models: Models = {"summary": ScriptedModel(structured=slow)}
    costs: list[QuestionCost] = []
    begun = time.monotonic()

    async def ask() -> None:
        if way == "sync":
            drive(summarising(), models, costs.append, seconds=0.2)
        await adrive(summarising(), models, costs.append, seconds=0.2)

    with pytest.raises(LateError):
        await ask()

    assert time.monotonic() - begun < 1.5
    assert [cost.failed.partition(":")[0] for cost in costs] == ["LateError"]
