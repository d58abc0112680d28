"""What users of the alternatives complain about: what is not found, and what is forgotten."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig

from ebbtide import Settings, commands
from tests.agents import THREAD
from tests.agents import talk as agent_of

RULE = "Always answer in Dutch"


def test_days_can_be_asked_for(tmp_path: Path) -> None:
    """Row 37: the prompt says what day it is, results when something was said, and days narrow."""
    talk = agent_of(tmp_path, ["Noted."], settings=Settings(timezone="UTC"))
    today = datetime.now(UTC).date()
    talk.say("The boiler needs a new valve.")

    found = commands.search(talk.agent, THREAD, "what did I say today?").results
    earlier = commands.search(
        talk.agent, THREAD, "boiler valve", until=str(today - timedelta(days=1))
    )

    assert any(str(today) in message.text for message in talk.model.sent[-1].messages)
    assert [one.passages[0].at for one in found] == [str(today)]
    assert earlier.results == ()


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("The printer is 10.20.1.7.", "10.20.1.7"),
        ("It broke with 4f2a9c81d0e7b6a5.", "4f2a9c8"),
        ("Will from next door rang.", "Will"),
        ("Le notaire est à Besançon.", "Besancon"),
        ("数据库的密码在保险箱里。", "数据库"),
        ("दादी को मूंगफली से एलर्जी है।", "मूंगफली"),
    ],
)
def test_words_are_found_as_they_are_typed(tmp_path: Path, said: str, query: str) -> None:
    """Row 38: exact identifiers, names like stop words, accents left out, other scripts."""
    talk = agent_of(tmp_path, ["Noted."] * 4)
    talk.say_all(["Good morning.", said, "It rains.", "Fine."])

    found = commands.search(talk.agent, THREAD, query).results

    assert found[0].passages[0].turn == 2


def test_a_rule_said_in_passing_is_kept(tmp_path: Path) -> None:
    """Row 39: it is in the prompt when its turn has left, and in the user's next session."""
    block = f"Ja.\n---STATE---\nRules: {RULE}\n---END STATE---"
    settings = Settings(ambient_window=1, rebuild="every-turn")
    talk = agent_of(tmp_path, [block, *["Ja."] * 13], settings=settings)
    first, second = (
        RunnableConfig(configurable={"thread_id": name, "user_id": "ann"}) for name in "ab"
    )
    talk.say("By the way, Dutch only from now on.", first)
    for number in range(12):
        talk.say(f"Next field: {number}.", first)
    later = talk.model.sent[-1].text
    talk.say("Good morning.", second)

    assert "from now on" not in later
    assert RULE in later
    assert RULE in talk.model.sent[-1].text
