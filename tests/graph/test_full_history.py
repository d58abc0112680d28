"""The full history that the metrics speak of is what LangChain's agent sends."""

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import message_to_dict
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide.memory.metrics import report
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_message, count_tools
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
    said = sum(count_message(message_to_dict(message)) for message in request.messages)
    return REPLY_OVERHEAD + said + count_tools(request.tools)


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

    found = report(ours.records(state))
    assert [turn.full_history for turn in found.turns] == last
    assert found.full_history == sum(map(sent, plain.sent))
