"""The agent on ChatOpenAI over real HTTP, with all that can go wrong on the way."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, create_memory_agent
from ebbtide.memory.messages import calls
from ebbtide.memory.turn import Session
from ebbtide.nodes.ask import ATTEMPTS
from tests.agents import SUMMARY, THREAD, tip_in
from tests.openai_server import Answer, Drop, Fail, OpenAIServer, Say, Structured, serving

LONG = "The refresh token expires after 3600 seconds, and nobody renews it."
OPEN = Say(calls=[("open_effort", {"name": "auth bug", "goal": "sign-in works again"})])
CLOSE = Say(calls=[("close_effort", {})])
EXPAND = Say(calls=[("expand_effort", {"effort_id": "auth-bug"})])
NAMES = {
    "functions.open_effort": "functions_open_effort",
    "multi_tool_use.parallel": "multi_tool_use_parallel",
    "open effort": "open_effort",
    "a" * 200: "a" * 64,
    "": "unnamed",
}
"""Names of tools as models make them up, and as they are sent back."""


@contextmanager
def agent_on(
    root: Path, answers: Sequence[Answer], **options: Any
) -> Iterator[tuple[Any, OpenAIServer]]:
    """Run an agent on a scripted server."""
    with serving(*answers) as server:
        options = {"timeout": 5, "max_retries": 2, **options}
        model = init_chat_model("openai:gpt-5-mini", base_url=server.url, api_key="x", **options)
        archive = DiskArchive(root, durable=False)
        yield create_memory_agent(model, archive=archive, checkpointer=InMemorySaver()), server


def ask(agent: Any, words: str) -> dict[str, Any]:
    """Send a user message and return the state."""
    found: dict[str, Any] = agent.invoke({"messages": [("user", words)]}, THREAD)
    return found


def streamed(agent: Any, words: str) -> list[Any]:
    """Send a user message and return the streamed chunks of the assistant."""
    events = agent.stream({"messages": [("user", words)]}, THREAD, stream_mode="messages")
    return [chunk for chunk, _ in events if isinstance(chunk, AIMessageChunk)]


def roles(server: OpenAIServer, request: int) -> list[str]:
    """Return the roles of the messages of a request."""
    return [message["role"] for message in server.requests[request].body["messages"]]


def called(server: OpenAIServer, request: int) -> list[str]:
    """Return the names of the calls in the messages of a request."""
    messages = server.requests[request].body["messages"]
    asked = (call for message in messages for call in message.get("tool_calls") or ())
    return [call["function"]["name"] for call in asked]


def kept(root: Path, state: dict[str, Any], turn: int) -> tuple[BaseMessage, ...]:
    """Return the messages of a turn as the archive has them."""
    (stored,) = DiskArchive(root).load(Session("", "t"), tip_in(state)).turns([turn])
    return stored.messages


@pytest.mark.thorough
@pytest.mark.parametrize("streaming", [False, True])
def test_effort_opens_and_concludes(tmp_path: Path, *, streaming: bool) -> None:
    """Tool calls, split over chunks or whole, and a structured summary work over HTTP."""
    script: list[Answer] = [OPEN, Say("Opened."), CLOSE, Structured(SUMMARY), Say("Concluded.")]
    with agent_on(tmp_path, script, streaming=streaming) as (agent, server):
        opened = ask(agent, LONG)
        closed = ask(agent, "that's done")

    assert opened["memory"]["active_effort"] == "auth-bug"
    assert (closed["memory"]["active_effort"], [*closed["memory"]["summaries"]]) == (
        None,
        ["auth-bug"],
    )
    assert "response_format" in server.requests[3].body
    assert SUMMARY["summary"] in json.dumps(server.requests[4].body)


@pytest.mark.thorough
def test_user_sees_only_the_answer_streamed(tmp_path: Path) -> None:
    """Over HTTP too no word of the summary is in the user's stream."""
    script: list[Answer] = [
        OPEN,
        Say("Opened."),
        CLOSE,
        Structured(SUMMARY),
        Say("All of it is concluded."),
    ]
    with agent_on(tmp_path, script) as (agent, _):
        ask(agent, LONG)
        chunks = streamed(agent, "that's done")

    assert "".join(chunk.text for chunk in chunks) == "All of it is concluded."
    assert len([chunk for chunk in chunks if chunk.text]) > 3


def test_request_is_wellformed(tmp_path: Path) -> None:
    """One leading system message, each call followed by its result, the user's words last."""
    looks = Say(calls=[("effort_status", {}), ("read_log", {"turns": "1"})])
    script = [looks, Say("Seen."), Say("Yes.")]
    with agent_on(tmp_path, script) as (agent, server):
        ask(agent, "look around")
        ask(agent, "and now?")

    day = "user"  # the note that says what day it is
    assert roles(server, 1) == ["system", day, "user", "assistant", "tool", "tool"]
    assert roles(server, 2) == [
        *("system", day, "user", "assistant", "tool", "tool", "assistant", "user"),
    ]


@pytest.mark.parametrize("trouble", [Fail(429, retry_after=0.1), Drop()], ids=["429", "drop"])
def test_passing_trouble_is_retried(tmp_path: Path, trouble: Answer) -> None:
    """What passes by itself is retried by the client, and the user gets an answer."""
    with agent_on(tmp_path, [trouble, Say("Here.")]) as (agent, server):
        state = ask(agent, "hello?")

    assert state["messages"][-1].text == "Here."
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "trouble", [Fail(500), Drop(during=Say("half an answer"), after=2)], ids=["500", "mid-stream"]
)
def test_lasting_trouble_leaves_a_turn_that_resumes(tmp_path: Path, trouble: Answer) -> None:
    """What lasts is raised, and the turn goes on where it was."""
    with agent_on(tmp_path, [trouble, Say("Here.")], max_retries=0, streaming=True) as (agent, _):
        with pytest.raises(openai.APIError):
            ask(agent, "hello?")
        state = agent.invoke(None, THREAD)

    assert [message.text for message in state["messages"]] == ["hello?", "Here."]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", [Fail(500), Drop()], ids=["500", "drop"])
def test_failing_summary_leaves_the_effort_open(tmp_path: Path, trouble: Answer) -> None:
    """When the summary cannot be had, often as it is tried, the effort stays open."""
    tried = [trouble] * ATTEMPTS
    script: list[Answer] = [OPEN, Say("Opened."), CLOSE, *tried, Say("I could not conclude it.")]
    with agent_on(tmp_path, script, max_retries=0) as (agent, _):
        ask(agent, LONG)
        state = ask(agent, "that's done")

    assert state["memory"]["active_effort"] == "auth-bug"
    assert "stays open" in state["messages"][-2].text


def test_provider_without_json_schema(tmp_path: Path) -> None:
    """A provider that refuses response_format is asked for JSON in its text."""
    refused = Fail(400, message="response_format is not supported")
    text = Say(f"Here it is: {json.dumps(SUMMARY)}")
    script: list[Answer] = [OPEN, Say("Opened."), CLOSE, refused, refused, text, Say("Concluded.")]
    with agent_on(tmp_path, script) as (agent, _):
        ask(agent, LONG)
        state = ask(agent, "that's done")

    assert [*state["memory"]["summaries"]] == ["auth-bug"]


def test_malformed_arguments_are_answered(tmp_path: Path) -> None:
    """Arguments that are no JSON come back as an error that the next request carries."""
    script = [Say(calls=[("read_log", "turn one")]), Say("Sorry.")]
    with agent_on(tmp_path, script) as (agent, server):
        state = ask(agent, "read it")

    sent = server.requests[1].body["messages"]
    assert state["messages"][-1].text == "Sorry."
    assert json.loads(sent[-2]["tool_calls"][0]["function"]["arguments"]) == {"invalid": "turn one"}
    assert "not a JSON object" in sent[-1]["content"]


def test_answer_comes_back_equal(tmp_path: Path) -> None:
    """Ids, usage and metadata of an answer over HTTP come back equal from the archive."""
    with agent_on(tmp_path, [Say("Hello.", usage=(7, 3))]) as (agent, _):
        state = ask(agent, "hi")

    answer, said = kept(tmp_path, state, 1)[-1], state["messages"][-1]
    assert isinstance(answer, AIMessage)
    assert (answer.id, answer.usage_metadata) == (said.id, said.usage_metadata)


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [{"name": "x"}, "no JSON"], ids=["valid", "invalid"])
@pytest.mark.parametrize("streaming", [False, True])
def test_names_that_no_provider_takes(tmp_path: Path, arguments: Any, *, streaming: bool) -> None:
    """Whatever a model calls gets an error, and every later request is one that is taken."""
    badly = Say(calls=[(name, arguments) for name in NAMES])
    script: list[Answer] = [OPEN, badly, Say("Sorry."), Say("Yes."), CLOSE, Structured(SUMMARY)]
    script += [Say("Concluded."), EXPAND, Say("Shown.")]
    with agent_on(tmp_path, script, streaming=streaming) as (agent, server):
        states = [ask(agent, words) for words in (LONG, "and now?", "that's done", "show it")]

    answers = [state["messages"][-1].text for state in states]
    assert answers == ["Sorry.", "Yes.", "Concluded.", "Shown."]
    assert called(server, 2) == called(server, 3) == ["open_effort", *NAMES.values()]
    assert [call["name"] for call in calls(kept(tmp_path, states[-1], 1)[3])] == [*NAMES]
    assert "calls functions.open_effort" in json.dumps(server.requests[-1].body)
