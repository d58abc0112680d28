"""Tapes: a trial's calls are counted, written down and played again."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel

from ebbtide.evaluation.results import Answers, AnswerTape, TapeError, Tapes, append
from tests.doubles import ScriptedModel, call
from tests.openai_server import Structured, serving

HEADER = '{"tape": 1, "model": "m", "judge": null}\n'
USED = UsageMetadata(input_tokens=10, output_tokens=2, total_tokens=12)


def taped(tape: AnswerTape, *answers: Any) -> ScriptedModel:
    """Return a model on a tape."""
    return ScriptedModel(answers=[*answers]).model_copy(update={"cache": tape})


def recorded(tmp_path: Path, tape: AnswerTape) -> Answers:
    """Return a tape after a round trip through a file."""
    path = tmp_path / "tape.jsonl"
    Tapes.begin(path, "m", "j")
    append(path, tape.line("a/b/1", {"digest": "{}"}))
    return Tapes.read(path).trials["a/b/1"]


def test_answers_are_played_again(tmp_path: Path) -> None:
    """A recorded trial gives the same answers, calls and usage included, and asks no model."""
    tape = AnswerTape()
    model = taped(
        tape, AIMessage("One.", usage_metadata=USED), call("look", what="é\u2028\ud800"), "One."
    )
    said = [model.invoke("same"), model.invoke("same"), model.invoke("same")]
    again = AnswerTape(recorded(tmp_path, tape))
    player = taped(again)
    heard = [player.invoke("other"), player.invoke("other"), player.invoke("other")]

    assert [one.text for one in heard] == [one.text for one in said] == ["One.", "", "One."]
    assert heard[1].tool_calls[0]["args"] == {"what": "é\u2028\ud800"}
    assert again.answers == tape.answers
    assert again.missing == 0


def test_costs() -> None:
    """Tokens add up and have a price if there are prices; a silent answer makes them unknown."""
    tape, prices = AnswerTape(), (100_000.0, 1_000_000.0)
    model = taped(tape, *(AIMessage("One.", usage_metadata=USED) for _ in range(2)), "Two.")
    model.invoke("a")
    without_prices = tape.usage(0, None)
    model.invoke("a")
    spent = tape.usage(0, prices)
    model.invoke("a")

    assert spent == {"model_read": 20, "model_written": 4, "cost": 6.0}
    assert without_prices == {"model_read": 10, "model_written": 2, "cost": None}
    assert AnswerTape().usage(0, prices) == {"model_read": 0, "model_written": 0, "cost": 0.0}
    assert tape.usage(0, prices) == {}
    assert tape.usage(3, None) == {"model_read": 0, "model_written": 0, "cost": None}


def test_a_call_that_is_repeated_is_one(tmp_path: Path) -> None:
    """A call that fails and is made again is played again as the one that succeeded."""
    tape = AnswerTape()
    model = taped(tape, OSError("gone"), "There.")
    with pytest.raises(OSError, match="gone"):
        model.invoke("a")
    failed = tape.failed
    model.invoke("a")
    player = taped(AnswerTape(recorded(tmp_path, tape)))

    assert (failed, tape.failed) == (1, 0)
    assert player.invoke("a").text == "There."


def test_a_call_that_failed_for_good_is_counted() -> None:
    """A call that is never answered stays open, whatever comes after it."""
    tape = AnswerTape()
    model = taped(tape, OSError("gone"), "There.")
    with pytest.raises(OSError, match="gone"):
        model.invoke("a")
    model.invoke("b")

    assert tape.failed == 1


def test_a_call_too_many_is_noticed(tmp_path: Path) -> None:
    """A call that was never recorded is an error, and is counted."""
    tape = AnswerTape(recorded(tmp_path, AnswerTape()))

    with pytest.raises(TapeError, match="no recorded answer for call 1"):
        taped(tape, "New.").invoke("a")
    assert tape.missing == 1


def test_structured_answers_are_recorded(tmp_path: Path) -> None:
    """Structured output is played again through the model's own parser."""
    tape = AnswerTape()
    model = ScriptedModel(structured=[{"score": 1}]).model_copy(update={"cache": tape})
    schema = {"title": "S", "type": "object", "properties": {"score": {"type": "integer"}}}
    said = model.with_structured_output(schema).invoke("a")
    player = taped(AnswerTape(recorded(tmp_path, tape)))

    assert player.with_structured_output(schema).invoke("a") == said == {"score": 1}


class Port(BaseModel):
    """A structured answer."""

    port: int


def test_a_parsed_answer_is_recorded(tmp_path: Path) -> None:
    """OpenAI's client keeps the parsed object in its message; it is played again as it was."""
    tape = AnswerTape()
    with serving(Structured({"port": 8443})) as server:
        model = init_chat_model("openai:gpt-5-mini", base_url=server.url, api_key="x", cache=tape)
        said = model.with_structured_output(Port).invoke("Which port?")
    player = model.model_copy(update={"cache": AnswerTape(recorded(tmp_path, tape))})

    assert player.with_structured_output(Port).invoke("Which port?") == said == Port(port=8443)


def test_a_file_knows_who_spoke(tmp_path: Path) -> None:
    """A file of tapes has the model, the judge and its answers; the later of two trials counts."""
    path = tmp_path / "tape.jsonl"
    second: Answers = [{"type": "ai", "data": {"content": "Two."}}]
    tape = AnswerTape(second)
    tape.lookup("a", "m")
    Tapes.begin(path, "m", None)
    append(path, AnswerTape().line("a/b/1", {"d": "1"}) + tape.line("a/b/1", {"d": "2"}))
    tapes = Tapes.read(path)

    assert (tapes.model, tapes.judge) == ("m", None)
    assert (dict(tapes.trials), dict(tapes.judged)) == ({"a/b/1": second}, {"d": "2"})


def test_what_is_on_the_tapes() -> None:
    """Strategies, templates and the number of trials are read from the names."""
    trials: dict[str, Answers] = {"a/x/1": (), "b/x/y/3": ()}

    assert Tapes("m", None, trials, {}).jobs() == (["a", "b"], ["x", "x/y"], 3)
    assert Tapes("m", None, {}, {}).jobs() == ([], [], 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense\n",
        "[]\n",
        '{"tape": 2}\n',
        '{"tape": 1}\n',
        HEADER + "{}\n",
        HEADER + AnswerTape().line("no-number", {}),
        HEADER + '{"trial": "a", "answers": 1, "judged": {}}\n',
        HEADER + '{"trial": "a", "answers": [{}], "judged": {}}\n',
        HEADER + '{"trial": "a", "answers": [], "judged": []}\n',
    ],
)
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    """A file that holds no tapes is refused by its name."""
    path = tmp_path / "tape.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(TapeError, match=r"tape\.jsonl"):
        Tapes.read(path)


def test_a_tape_is_not_cleared() -> None:
    """LangChain's call to clear its caches does not touch a tape."""
    tape = AnswerTape()
    taped(tape, AIMessage("One.", usage_metadata=USED)).invoke("a")
    tape.clear()

    assert len(json.loads(tape.line("a/b/1", {}))["answers"]) == 1
