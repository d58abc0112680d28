"""What counts tokens: once for each text, and with the application's counter if it gives one."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings
from ebbtide.memory.errors import SettingsError
from ebbtide.memory.tokens import count_message, count_tools
from ebbtide.memory.tools.toolbox import schemas
from tests.agents import THREAD, talk
from tests.doubles import call, words


class Recorder:
    """A word counter that keeps what it was asked, and fails when told to."""

    def __init__(self) -> None:
        """Begin with no questions."""
        self.asked: list[str] = []
        self.failing = False

    def __call__(self, text: str) -> int:
        """Count the words of `text` and keep it."""
        if self.failing:
            raise ConnectionError("the tokeniser is down")
        self.asked.append(text)
        return words(text)

    def taken(self) -> int:
        """Return how many characters it was asked since the last time."""
        size = sum(map(len, self.asked))
        self.asked.clear()
        return size


def test_the_counter_of_the_application_counts_everything(tmp_path: Path) -> None:
    """Messages and tools are counted by it, with what is around them."""
    chat = talk(tmp_path, ["fine"], token_counter=words)

    report = chat.say("how are you")["memory"]["context_report"]

    sent = sum(count_message(message, words) for message in chat.last)
    assert report["total"] == 3 + sent + count_tools(schemas(), words)


@pytest.mark.thorough
@pytest.mark.parametrize("opening", [[call("open_effort", name="a")]], ids=["effort"])
def test_a_turn_costs_its_new_text(tmp_path: Path, opening: list[Any]) -> None:
    """Over 40 turns the characters that are counted in a turn do not grow."""
    recorder = Recorder()
    answers, off = [*opening, *["answer " * 20] * 100], Settings(compression="off")
    chat = talk(tmp_path, answers, token_counter=recorder, settings=off)
    turns: list[int] = []
    for number in range(40):
        chat.say(f"question {number:03} " * 10)
        turns.append(recorder.taken())

    new = len("question 000 " * 10) + len("answer " * 20)
    assert max(turns[20:]) <= max(turns[2:20]) <= 2 * new
    assert turns[0] > 10 * new


def test_a_turn_with_tools_costs_its_new_text(tmp_path: Path) -> None:
    """A tool loop counts its calls and results once, not again in each round."""
    recorder = Recorder()
    rounds = [*[call("read_log", turns=1)] * 4, "read"]
    chat = talk(tmp_path, ["x", *rounds, *rounds], token_counter=recorder)
    [chat.say(said) for said in ("a fact " * 300, "read turn 1")]
    recorder.taken()

    chat.say("read it again")

    assert max(map(recorder.asked.count, recorder.asked)) == 1
    assert not any("a fact " * 300 in text for text in recorder.asked)


def test_instructions_and_tools_are_counted_once(tmp_path: Path) -> None:
    """The second turn asks for neither the system message nor a schema."""
    recorder = Recorder()
    chat = talk(tmp_path, ["one", "two"], token_counter=recorder, system_prompt="Be kind.")
    chat.say("first")
    before = {*recorder.asked}
    recorder.taken()

    chat.say("second")

    assert any(text.endswith("Be kind.") for text in before)
    assert not before.intersection(recorder.asked)


def test_what_a_counter_raises_comes_out_and_the_turn_goes_on(tmp_path: Path) -> None:
    """A tokeniser that fails stops the run with its own error; resuming finishes the turn."""
    recorder = Recorder()
    chat = talk(tmp_path, ["fine"], token_counter=recorder)
    recorder.failing = True
    with pytest.raises(ConnectionError, match="the tokeniser is down"):
        chat.say("hello")
    recorder.failing = False

    state = chat.agent.invoke(None, THREAD)

    assert [message.text for message in state["messages"]] == ["hello", "fine"]


@pytest.mark.parametrize("given", [[1, 2], None, True, -1])
def test_a_counter_that_does_not_count_is_refused(tmp_path: Path, given: Any) -> None:
    """An encoder in place of a counter, say, is told what is wanted when the agent is made."""
    with pytest.raises(SettingsError, match="token_counter returned"):
        talk(tmp_path, [], token_counter=lambda _: given)


def test_a_counter_that_fails_at_once_fails_when_the_agent_is_made(tmp_path: Path) -> None:
    """A counter of messages, say, raises its own error where it is passed."""
    with pytest.raises(AttributeError, match="content"):
        talk(tmp_path, [], token_counter=lambda messages: messages.content)
