"""A provider that reports more than was counted: the thread's contexts get smaller."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, create_memory_agent, restore
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_message, count_tools
from ebbtide.memory.tools.toolbox import schemas
from ebbtide.nodes.turn.langchain_messages import to_dicts
from ebbtide.testing import ScriptedModel
from tests.agents import THREAD, Talk, talk
from tests.doubles import call

LONG = "The refresh token expires after 3600 seconds, and nobody renews it."


def reporting(share: float, text: str = "Fine.") -> Callable[[Any], AIMessage]:
    """Return an answer whose usage is this share of what was counted for its request."""

    def answer(messages: Any) -> AIMessage:
        size = REPLY_OVERHEAD + count_tools(schemas())
        read = round(share * (size + sum(map(count_message, to_dicts(messages)))))
        usage: Any = {"input_tokens": read, "output_tokens": 1, "total_tokens": read + 1}
        return AIMessage(text, usage_metadata=usage, response_metadata={"model_name": "greedy-1"})

    return answer


def factors(chat: Talk, *turns: str) -> list[float]:
    """Go through turns and return the factor that the report shows after each."""
    return [chat.say(words)["memory"]["context_report"]["safety_factor"] for words in turns]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about tokens."""
    return [
        entry.getMessage()
        for entry in caplog.records
        if (entry.name, entry.levelno) == ("ebbtide.tokens", logging.WARNING)
    ]


def test_a_provider_that_reports_what_was_counted_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a difference the factor is 1 and no key of the state."""
    chat = talk(tmp_path, [reporting(1.0), reporting(0.5), "no usage"])

    seen = factors(chat, "one", "two", "three")

    assert seen == [1.0, 1.0, 1.0]
    assert "safety_factor" not in chat.agent.get_state(THREAD).values
    assert warnings(caplog) == []


def test_a_provider_that_reports_more_makes_a_factor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """30 % more is a factor of 1.3, in the state and the report, and logged once."""
    chat = talk(tmp_path, [reporting(1.3), reporting(1.3), reporting(1.2)])

    seen = factors(chat, "one", "two", "three")

    assert seen == pytest.approx([1.3] * 3, abs=0.011)
    assert chat.agent.get_state(THREAD).values["memory"]["position"]["safety_factor"] == seen[-1]
    first, *_ = warnings(caplog)
    assert first.startswith("greedy-1 read ")
    assert len(warnings(caplog)) == len({1.0, *seen}) - 1


def test_a_provider_that_reports_three_times_as_much_is_capped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The factor stops at 1.5, and the two figures are in the log once."""
    chat = talk(tmp_path, [reporting(3.0), reporting(3.0)])

    seen = factors(chat, "one", "two")

    (line,) = warnings(caplog)
    read, counted = (int(word) for word in line.split() if word.isdigit())
    assert seen == [1.5, 1.5]
    assert read == 3 * counted
    assert "factor is 1.5 from now on, it was 1.0" in line


async def test_the_asynchronous_path_makes_a_factor_too(tmp_path: Path) -> None:
    """`ainvoke` heeds the usage as `invoke` does."""
    chat = talk(tmp_path, [reporting(1.4)])

    state = await chat.agent.ainvoke({"messages": [("user", "one")]}, THREAD)

    assert state["memory"]["position"]["safety_factor"] == pytest.approx(1.4, abs=0.011)


def test_a_resumed_call_makes_a_factor_too(tmp_path: Path) -> None:
    """A call whose context was assembled again after a crash is held against that context."""
    chat = talk(tmp_path, [RuntimeError("down"), reporting(1.4)])
    with pytest.raises(RuntimeError, match="down"):
        chat.say("one")

    state = chat.agent.invoke(None, THREAD)

    assert state["memory"]["position"]["safety_factor"] == pytest.approx(1.4, abs=0.011)
    assert (
        state["memory"]["context_report"]["safety_factor"]
        == state["memory"]["position"]["safety_factor"]
    )


def test_the_next_contexts_are_smaller(tmp_path: Path) -> None:
    """An expanded log is given its share of the budget divided by the factor."""
    sizes = [expanded_tokens(tmp_path / str(share), share) for share in (1.0, 1.3, 3.0)]

    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_a_factor_that_the_floor_takes_no_room_for_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both numbers are in the report, and in the log once for each change of them."""
    answers = [reporting(1.2), "two", "three", reporting(3.0), "five", "six"]
    chat = talk(tmp_path, answers, settings=Settings(context_budget=2_300))

    reports = [chat.say(words)["memory"]["context_report"] for words in "123456"]

    told = [report.get("below_floor") for report in reports]
    tokens = reports[0]["tokens"]
    floor = tokens["system"] + tokens["tools"] + 1_000
    factor = round(100 * reports[1]["safety_factor"])
    middle, last = ({"effective": 230_000 // n, "floor": floor} for n in (factor, 150))
    assert told == [None, middle, middle, middle, last, last]
    lines = [line for line in warnings(caplog) if "below the floor" in line]
    assert [line.split(":")[0] for line in lines] == [
        f"context_budget 2300 divided by the safety factor {n / 100} is {230_000 // n} tokens, "
        f"below the floor of {floor}"
        for n in (factor, 150)
    ]


def expanded_tokens(root: Path, share: float) -> int:
    """Return the size of an expanded log that has to be cut, with a provider that reports so."""
    rounds = [call("open_effort", name="a"), *(reporting(share) for _ in range(9))]
    closing = [call("close_effort"), "Done.", call("expand_effort", effort_id="a"), "Shown."]
    limits = Settings(context_budget=4_000)
    chat = talk(root, [*rounds, *closing], settings=limits)
    *_, state = [chat.say(words) for words in [LONG * 3] * 9 + ["a is done", "Show it."]]
    return int(state["memory"]["context_report"]["tokens"]["expanded"])


def test_the_factor_goes_back_with_time_travel(tmp_path: Path) -> None:
    """Going on from before the report, the factor is what it was then."""
    chat = talk(tmp_path, ["plain", reporting(1.4), "plain again"])
    chat.say("one")
    before = chat.agent.get_state(THREAD).config
    changed = chat.say("two")

    back = chat.say("two, differently", before)

    assert changed["memory"]["position"]["safety_factor"] > 1
    assert back["memory"]["context_report"]["safety_factor"] == 1.0


def test_a_restored_thread_keeps_its_factor(tmp_path: Path) -> None:
    """What a provider reported is saved with the turn, and holds when checkpoints are lost."""
    chat = talk(tmp_path, [reporting(1.4), "go on"])
    reported = factors(chat, "one")

    restore(chat.agent, THREAD)

    assert factors(chat, "two") == reported == [1.4]


@pytest.mark.parametrize("usage", [0, -7], ids=["zero", "negative"])
def test_usage_without_a_figure_changes_nothing(tmp_path: Path, usage: int) -> None:
    """A provider that reports cached tokens only, or nonsense, makes no factor."""
    told: Any = {"input_tokens": usage, "output_tokens": 1, "total_tokens": 1}
    told["input_token_details"] = {"cache_read": 90_000}
    chat = talk(tmp_path, [AIMessage("Fine.", usage_metadata=told)])

    seen = factors(chat, "one")

    assert seen == [1.0]


def test_the_scripted_model_reports_what_was_counted(tmp_path: Path) -> None:
    """Its usage is the total of the report, so that its threads have no factor."""
    agent = create_memory_agent(
        ScriptedModel(),
        archive=DiskArchive(tmp_path, durable=False),
        checkpointer=InMemorySaver(),
    )

    state = agent.invoke({"messages": [("user", "Let's work on the auth bug")]}, THREAD)

    last = state["messages"][-1]
    assert last.usage_metadata["input_tokens"] == state["memory"]["context_report"]["total"]
    assert state["memory"]["context_report"]["safety_factor"] == 1.0
