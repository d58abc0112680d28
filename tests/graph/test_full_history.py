"""The full history that the metrics speak of is what LangChain's agent sends."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import commands
from ebbtide.memory.metrics import report
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_messages, count_tools
from tests.agents import THREAD, talk
from tests.doubles import ScriptedModel, Sent, call

PROMPT = "Be kind."
QUESTIONS = ["Let's look at the gateway.", "What does the log say?", "Thank you."]
BLOCK = "---STATE---\nGoal: mend the gateway\n---END STATE---"


def look_up(topic: str) -> str:
    """Look a topic up."""
    return f"The {topic} answers 401."


def sent(request: Sent) -> int:
    """Return the tokens of a request."""
    return REPLY_OVERHEAD + count_messages(request.messages) + count_tools(request.tools)


def test_full_history_is_what_an_agent_without_a_memory_sends(tmp_path: Path) -> None:
    """Turn by turn the last call has as many tokens; the memory's calls and blocks are ours."""
    looking, looking_again = call("look_up", topic="gateway"), call("look_up", topic="gateway")
    answers = [looking, "It answers 401.", "Nothing else.", "With pleasure."]
    plain = ScriptedModel(answers=[*answers])
    ours = talk(
        tmp_path,
        [
            *(call("open_effort", name="gateway"), looking_again, answers[1]),
            f"{answers[2]}\n{BLOCK}",
            *(call("effort_status"), answers[3]),
        ],
        tools=[look_up],
        system_prompt=PROMPT,
    )
    alone: Any = create_agent(plain, [look_up], system_prompt=PROMPT, checkpointer=InMemorySaver())
    last = []

    for words in QUESTIONS:
        alone.invoke({"messages": [("user", words)]}, THREAD)
        last.append(sent(plain.sent[-1]))
        state = ours.say(words)

    found = report(ours.turns(state))
    assert [turn.last_full_history for turn in found.turns] == last
    assert found.full_history == sum(map(sent, plain.sent))


@pytest.mark.parametrize("prompt", [PROMPT, ""])
def test_turns_that_broke_off_count(tmp_path: Path, prompt: str) -> None:
    """Their calls are listed, and what was said in them is part of the full history."""
    broken = RuntimeError("no answer")
    answers = ["Hello.", call("look_up", topic="gateway"), broken, broken, "With pleasure."]
    plain = ScriptedModel(answers=answers)
    ours = talk(tmp_path, answers, tools=[look_up], system_prompt=prompt)
    alone: Any = create_agent(
        plain, [look_up], system_prompt=prompt or None, checkpointer=InMemorySaver()
    )

    for words in ["Good morning.", QUESTIONS[1], "Are you there?", QUESTIONS[2]]:
        for agent in (alone, ours.agent):
            with suppress(RuntimeError):
                agent.invoke({"messages": [("user", words)]}, THREAD)

    found = commands.stats(ours.agent, THREAD)
    answered = [0, 1, 4]
    listed = [one.total for turn in found.turns for one in turn.calls]
    assert listed == [sent(ours.model.sent[at]) for at in answered]
    assert found.full_history == sum(sent(plain.sent[at]) for at in answered)


def test_an_adopted_history_counts(tmp_path: Path) -> None:
    """An agent without a memory would send it too."""
    answers = [f"Answer {number}." for number in range(6)]
    plain, saver = ScriptedModel(answers=[*answers[:4], *answers]), InMemorySaver()
    alone: Any = create_agent(plain, [look_up], system_prompt=PROMPT, checkpointer=saver)
    options: dict[str, Any] = {"tools": [look_up], "system_prompt": PROMPT, "checkpointer": saver}
    ours = talk(tmp_path, answers[4:], entry="middleware", **options)

    for number in range(6):
        agent = alone if number < len(answers) - 2 else ours.agent
        agent.invoke({"messages": f"Question {number}?"}, THREAD)
    for number in range(6):
        alone.invoke({"messages": f"Question {number}?"}, {"configurable": {"thread_id": "u"}})

    assert commands.stats(ours.agent, THREAD).full_history == sum(map(sent, plain.sent[-2:]))
