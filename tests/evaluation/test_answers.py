"""Recorded answers: a trial's calls are counted, written down and replayed by their requests."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata

from ebbtide.evaluation.answers import Answers, Calls
from ebbtide.evaluation.template import EvaluationError
from tests.doubles import ScriptedModel, call

USED = UsageMetadata(input_tokens=10, output_tokens=2, total_tokens=12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of recorded answers."""
    return tmp_path / "answers.jsonl"


def called(calls: Calls, *answers: Any) -> ScriptedModel:
    """Return a model whose calls are noted."""
    return ScriptedModel(answers=[*answers]).model_copy(update={"cache": calls})


def recording(path: Path, *answers: Any) -> ScriptedModel:
    """Return a model whose answers are recorded."""
    return called(Calls(Answers(path)), *answers)


def replaying(path: Path) -> Calls:
    """Return calls that are replayed."""
    return Calls(Answers(path, replayed=True))


def test_answers_are_replayed(path: Path) -> None:
    """Each request has its answer again, calls included, in any order; no model is asked."""
    model = recording(
        path, AIMessage("One.", usage_metadata=USED), call("look", what="é\u2028\ud800"), "Three."
    )
    said = [model.invoke(words) for words in ("first", "second", "third")]
    player = called(replaying(path))
    heard = [player.invoke(words) for words in ("third", "second", "first")][::-1]

    assert [one.text for one in heard] == [one.text for one in said] == ["One.", "", "Three."]
    assert heard[1].tool_calls[0]["args"] == {"what": "é\u2028\ud800"}


def test_a_request_is_its_messages(path: Path) -> None:
    """Kinds, texts and calls make a request; ids, random keys and the model's options do not."""
    key, other = "3f2a90b1c4d5e6f7", "0a1b2c3d4e5f6071"
    model = recording(path, "As user.", "As system.", "With a call.")
    model.invoke([HumanMessage(f"<log key={key}>", id="1")])
    model.invoke([SystemMessage("Hello.")])
    model.invoke([HumanMessage("Go."), call("look", what="a")])
    player = called(replaying(path))

    assert (
        player.invoke([HumanMessage(f"<log key={other}>", id="2")], stop=["x"]).text == "As user."
    )
    assert player.invoke([HumanMessage("Go."), call("look", what="a")]).text == "With a call."
    for request in ("Hello.", "12345678", [HumanMessage("Go."), call("look", what="b")]):
        with pytest.raises(EvaluationError):
            player.invoke(request)


def test_costs() -> None:
    """Tokens add up and have a price if there are prices; a silent answer makes them unknown."""
    calls, prices = Calls(), (100_000.0, 1_000_000.0)
    model = called(calls, *(AIMessage("One.", usage_metadata=USED) for _ in range(2)), "Two.")
    model.invoke("a")
    without_prices = calls.usage(0, None)
    model.invoke("a")
    spent = calls.usage(0, prices)
    model.invoke("a")

    assert spent == {"model_read": 20, "model_written": 4, "cost": 6.0}
    assert without_prices == {"model_read": 10, "model_written": 2, "cost": None}
    assert Calls().usage(0, prices) == {"model_read": 0, "model_written": 0, "cost": 0.0}
    assert calls.usage(0, prices) == {}
    assert calls.usage(3, None) == {"model_read": 0, "model_written": 0, "cost": None}
