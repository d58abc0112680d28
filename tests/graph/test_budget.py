"""The hard budget through the real graph: what the model is sent, in real tokens."""

import random
from pathlib import Path

import pytest

from ebbtide import Settings
from ebbtide.memory.errors import SettingsError
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_messages, count_tools
from tests.agents import Talk, talk
from tests.doubles import Sent, call, together

BUDGET = 8_000
WORDS = "the port of the service is 8080 数据库 连接 🙂 refused again".split()  # noqa: SIM905 (reads as a list of words)


def look_up(key: str) -> str:
    """Look something up."""
    return f"{key}: " + "0123 abcd " * int(key)


def tokens(sent: Sent) -> int:
    """Count a request as it was sent: tool schemas and messages."""
    return REPLY_OVERHEAD + count_tools(sent.tools) + count_messages(sent.messages)


def largest(chat: Talk) -> int:
    """Return the size of the largest request."""
    return max(map(tokens, chat.model.sent))


def said(chance: random.Random, words: int) -> str:
    """Return so many words, drawn at random."""
    return " ".join(chance.choices(WORDS, k=words))


@pytest.mark.thorough
def test_the_floor_is_enough(tmp_path: Path) -> None:
    """At the floor itself every turn is answered, whatever its size; a token less is refused."""
    with pytest.raises(SettingsError) as refused:
        talk(tmp_path / "a", [], tools=[look_up], settings=Settings(context_budget=2_000))
    floor = int(str(refused.value).split("floor of ")[1].split(" ")[0])
    with pytest.raises(SettingsError, match=f"{floor - 1} is below the floor of {floor} tokens"):
        talk(tmp_path / "a", [], tools=[look_up], settings=Settings(context_budget=floor - 1))
    calls = together(*(call("look_up", key=str(300 + at)) for at in range(12)))
    answers = [call("open_effort", name="a", goal="g " * 900), calls, "w " * 900] * 3
    settings = Settings(context_budget=floor)
    chat = talk(tmp_path / "b", answers, tools=[look_up], settings=settings)
    chat.say_all(f"{turn} " + "word " * 800 for turn in range(3))

    assert largest(chat) <= floor


@pytest.mark.thorough
def test_between_cuts_the_prompt_only_grows(tmp_path: Path) -> None:
    """Complaint row 16: most of what a long effort sends is a prefix of the request before."""
    chance = random.Random(2)
    answers = [call("open_effort", name="a"), *["Noted. " + said(chance, 60)] * 36]
    chat = talk(tmp_path, answers, settings=Settings(context_budget=BUDGET, compression="off"))
    reports = [chat.say(said(chance, 40))["memory"]["context_report"] for _ in range(35)]
    late = reports[20:]

    assert sum(one["prefix"] for one in late) > 0.85 * sum(one["total"] for one in late)


def test_a_large_turn_does_not_wipe_the_rest(tmp_path: Path) -> None:
    """After a turn as large as the budget, what was said before it is there again."""
    chat = talk(tmp_path, ["Yes."] * 9, settings=Settings(context_budget=BUDGET, compression="off"))
    chat.say_all(f"Remember {number}. " + "word " * 300 for number in range(6))
    chat.say("long " * 20_000)
    chat.say("What do you remember?")

    assert "Remember 5." in chat.model.sent[-1].text
    assert 'read_log(turns="7", offset=' in chat.model.sent[-1].text
