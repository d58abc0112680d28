"""`context_report`: what was sent, what was left out, what is as before, and why it is not."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide import Settings
from ebbtide.memory.messages import text
from ebbtide.memory.names import numbers
from ebbtide.memory.tokens import count_messages, count_tools
from tests.agents import THREAD, Talk, talk
from tests.doubles import call, together

BUDGET = 4_500
LONG = "The port of the service is 8080, and the connection was refused again. " * 12


def look_up() -> str:
    """Look something up."""
    return LONG * 15


def shared(before: Sequence[BaseMessage], now: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages that two requests begin with alike, byte for byte."""
    pairs = zip(before, now, strict=False)
    alike = next((at for at, (one, other) in enumerate(pairs) if one != other), len(before))
    return now[:alike]


@dataclass(frozen=True)
class Call:
    """A call of the model: what it was sent, and what the report says of it."""

    messages: Sequence[BaseMessage]
    tools: Sequence[dict[str, Any]]
    report: dict[str, Any]

    @property
    def text(self) -> str:
        """All that was sent as one text."""
        return "\n".join(text(message) for message in self.messages)


def calls(chat: Talk, words: str, **options: Any) -> list[Call]:
    """Go through a turn, and return its calls."""
    begin, message = len(chat.model.sent), {"messages": words}
    steps = [*chat.agent.stream(message, THREAD, stream_mode="updates", **options)]
    found = [step["assemble_context"]["memory"] for step in steps if "assemble_context" in step]
    sent = chat.model.sent[begin:]
    return [
        Call(one.messages, one.tools, memory["context_report"])
        for one, memory in zip(sent, found, strict=True)
    ]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """Return the calls of a conversation that has more of everything than there is room for."""
    script: list[Any] = []
    for name in ("first", "second", "third"):
        script += [call("open_effort", name=name), *["Noted. " + LONG] * 3]
        script += [call("close_effort"), "Closed."]
    script += [call("expand_effort", effort_id="first"), "Shown.", *["Well. " + LONG] * 4]
    script += [call("open_effort", name="left"), *["Yes. " + LONG] * 9]
    script += [call("open_effort", name="right"), *["No. " + LONG] * 3]
    script += [together(*[call("look_up")] * 3), "Found.", *["So. " + LONG] * 9]
    settings = Settings(context_budget=BUDGET, ambient_window=0, decay_threshold=100)
    root = tmp_path_factory.mktemp("report")
    chat = talk(root, script, [{"summary": LONG}] * 3, tools=[look_up], settings=settings)
    found, turn = list[Call](), 0
    while len(chat.model.sent) < len(script):
        turn += 1
        found += calls(chat, f"Question {turn}. {LONG}")
    return found


def test_the_prefix_is_what_the_request_before_began_with(tmp_path: Path) -> None:
    """Its tokens are those of the tools and of the messages that both requests begin with."""
    answers = [*["Yes."] * 3, call("open_effort", name="a"), *["Well."] * 3]
    chat = talk(tmp_path, answers, settings=Settings(context_budget=BUDGET))
    begin, found = 0, []
    for _ in range(6):
        said = chat.say(LONG)["memory"]["context_report"]["prefix"]
        sent = chat.model.sent
        before = sent[-2].messages if len(sent) > 1 else []
        alike = shared(before, sent[-1].messages)
        tools = count_tools(sent[-1].tools) if alike else 0
        found.append(said == tools + count_messages(alike))
        begin += len(alike)

    assert found == [True] * 6
    assert begin > 20


@pytest.mark.thorough
def test_what_changed_is_told(lived: list[Call]) -> None:
    """The report names why the plan was made, and after which turn."""
    told = [one.report["changed"] for one in lived]
    made = [after for before, after in pairwise(told) if before != after]

    assert told[0] == {"after_turn": 0, "why": "new"}
    assert {one["why"] for one in made} >= {"concluded", "high-water", "compressed"}
    assert [one["after_turn"] for one in made] == sorted(one["after_turn"] for one in made)


def test_a_step_of_the_window_is_told(tmp_path: Path) -> None:
    """What is out of the window leaves in a step, and until then the prompt only grows."""
    chat = talk(tmp_path, ["Yes."] * 8, settings=Settings(ambient_window=4))

    found = [calls(chat, f"Question {turn}. {LONG}")[0].report for turn in range(1, 9)]

    before, after = {"after_turn": 0, "why": "new"}, {"after_turn": 7, "why": "window"}
    assert [one["changed"] for one in found] == [before] * 7 + [after]
    assert found[-1]["left_out"]["turns"] == "1-3"
    assert found[-1]["prefix"] < found[-2]["prefix"]


@pytest.mark.thorough
def test_each_cut_in_the_middle_of_a_turn_is_told(tmp_path: Path) -> None:
    """Where each round fills most of the room, each call after two says that it was cut anew."""
    script = [*[together(*[call("look_up")] * 3)] * 4, "Found."]
    chat = talk(tmp_path, script, tools=[look_up], settings=Settings(context_budget=BUDGET))

    found = calls(chat, "Look.")

    told = [one.report["changed"] for one in found]
    cuts = [{"after_turn": 0, "why": "high-water", "within": at} for at in (9, 13, 17)]
    assert told == [*[{"after_turn": 0, "why": "new"}] * 2, *cuts]


@pytest.mark.thorough
def test_what_was_left_out_is_named_with_its_place(lived: list[Call]) -> None:
    """Turns by number, none of which is in the prompt; what stands for them, and previews."""
    for one in lived:
        left, built = one.report["left_out"], one.report["changed"]["after_turn"]
        gone = {turn for turn in range(1, built + 1) if f"Question {turn}. " not in one.text}
        shortened = numbers(left.get("shortened", ""))

        assert gone - {*shortened} <= {*numbers(left.get("turns", ""))}
    seen = {name for one in lived for name in one.report["left_out"]}
    assert seen == {"efforts", "turns", "previews", "shortened", "compressed"}


def test_the_model_is_told_what_was_left_out(lived: list[Call]) -> None:
    """Two lines of the memory name it in the words of the report."""
    last = next(one for one in reversed(lived) if "efforts" in one.report["left_out"])
    left = last.report["left_out"]

    told = [line for line in last.text.splitlines() if "out of view" in line]
    assert any(f"turns {left['turns']}." in line for line in told)
    assert left["efforts"]
    assert "search_efforts finds them" in last.text
