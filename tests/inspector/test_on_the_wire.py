"""The prompt of a past call as the page shows it is what came over HTTP, byte for byte."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, HumanMessage, convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import EbbtideMiddleware, Settings, commands, create_memory_agent
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import ANONYMOUS, Session
from ebbtide.testing import ScriptedModel
from tests.agents import SUMMARY
from tests.doubles import Changing
from tests.inspector.test_prompts import shown
from tests.openai_server import Answer, Body, OpenAIServer, Say, Structured, serving

SESSION = Session(ANONYMOUS, "t")
THREAD: Any = {"configurable": {"thread_id": "t"}}
SETTINGS = Settings(context_budget=3_000, summary_eviction_threshold=8)
ROUND = (
    "Let's work on the NAME bug",
    'The token of NAME expires after 3600 s — "quoted", ünïcode, 日本 and \\ too. ' * 4,
    "An axios interceptor asks for a new one. " * 20,
    "That's done",
    "What is new?",
    "Show me the log of the NAME bug",
    "And the token?",
    *(f"Small talk number {number}, about a blue sky. " * 8 for number in range(9)),
    "What did we decide about the NAME bug?",
)
NAMES = [
    "auth",
    "parcel",
    "invoice",
    "search",
    "login",
    "report",
    "export",
    "import",
    "menu",
    "printer",
    "mail",
    "chart",
]


def answer(body: Body) -> Answer:
    """Answer as the scripted model does, and a question of the memory with a summary."""
    if body.get("response_format") or body.get("tool_choice"):
        return Structured(SUMMARY)
    found = ScriptedModel().bind(tools=body["tools"]).invoke(convert_to_messages(body["messages"]))
    return Say(found.text, calls=[(one["name"], one["args"]) for one in found.tool_calls])


def agent_of(kind: str, server: OpenAIServer, archive: SqlArchive, *around: Any) -> Any:
    """Return an agent on the server: the graph, or the middleware with others `around` it."""
    model = init_chat_model("openai:gpt-5-mini", base_url=server.url, api_key="x", max_retries=0)
    options: Any = {"system_prompt": "You help.", "checkpointer": InMemorySaver()}
    if kind == "graph":
        return create_memory_agent(model, archive=archive, settings=SETTINGS, **options)
    before, after = around or ((), ())
    own = EbbtideMiddleware(archive=archive, settings=SETTINGS)
    return create_agent(model, middleware=[*before, own, *after], **options)


def received(server: OpenAIServer) -> list[list[Any]]:
    """Return the messages of each answer that the agent asked for: role, content, calls."""
    bodies = (request.body for request in server.requests)
    own = (body for body in bodies if not (body.get("response_format") or body.get("tool_choice")))
    return [[_wired(message) for message in body["messages"]] for body in own]


def _wired(message: Mapping[str, Any]) -> tuple[Any, ...]:
    asked = [one["function"] for one in message.get("tool_calls") or ()]
    calls = [(one["name"], json.loads(one["arguments"])) for one in asked]
    return message["role"], message.get("content") or "", calls


def as_shown(prompt: Mapping[str, Any]) -> list[Any]:
    """Return the messages of a prompt in the form of `received`."""
    kept = [
        line for line in prompt["messages"] if line["change"] != "left" and line["part"] != "tools"
    ]
    return [
        (line["role"], line["text"], [(one["name"], one["args"]) for one in line["calls"]])
        for line in kept
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("calls", [30, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.parametrize("entry", ["graph", "middleware"])
def test_every_call_of_a_long_conversation(archive: SqlArchive, entry: str, calls: int) -> None:
    """With efforts that open, conclude, expand, by hand too, collapse and leave, and with cuts."""
    with serving(by=answer) as server:
        agent = agent_of(entry, server, archive)
        said = (words.replace("NAME", name) for name in NAMES for words in ROUND)
        while len(server.requests) < calls:
            agent.invoke({"messages": next(said)}, THREAD)
            if commands.messages(agent, THREAD).lines[0].turn == 16:
                commands.expand_effort(agent, THREAD, "auth-bug")
        sent = received(server)

    found = shown(archive)

    assert [prompt["exact"] for prompt in found] == [True] * len(sent)
    assert [as_shown(prompt) for prompt in found] == sent


def noted(messages: list[Any]) -> list[Any]:
    """Return the messages with one more."""
    return [*messages, HumanMessage("The user has uploaded lease.pdf.")]


def masked(messages: list[Any]) -> list[Any]:
    """Return the messages without a number."""
    return [m.model_copy(update={"content": str(m.content).replace("4711", "*")}) for m in messages]


@pytest.mark.parametrize("change", [noted, masked])
def test_changed_after_the_memory(archive: SqlArchive, change: Any) -> None:
    """A prompt that another middleware changed at last is not called exact."""
    with serving(by=answer) as server:
        agent = agent_of("middleware", server, archive, (), (Changing(change),))
        agent.invoke({"messages": "My number is 4711."}, THREAD)
        (sent,) = received(server)

    (found,) = shown(archive)

    assert not found["exact"]
    assert "another middleware" in found["why"]
    assert as_shown(found) != sent


def test_added_before_the_memory(archive: SqlArchive) -> None:
    """A message that another middleware adds to a request is in no archive: it is told."""
    with serving(by=answer) as server:
        agent = agent_of("middleware", server, archive, (Changing(noted),), ())
        agent.invoke({"messages": "My number is 4711."}, THREAD)

    (found,) = shown(archive)

    assert not found["exact"]


def test_replaced_before_the_memory(archive: SqlArchive) -> None:
    """A message that was replaced is kept as replaced, so that the prompt is exact."""
    with serving(by=answer) as server:
        agent = agent_of("middleware", server, archive, (Changing(masked),), ())
        agent.invoke({"messages": "My number is 4711."}, THREAD)
        (sent,) = received(server)

    (found,) = shown(archive)

    assert found["exact"]
    assert as_shown(found) == sent
    assert "My number is *." in str(sent)


class Answering(AgentMiddleware):
    """Answers every request without the model."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Answer."""
        del request, handler
        return AIMessage("From a cache.")


def test_answered_without_the_model(archive: SqlArchive) -> None:
    """Where another middleware answers itself, nothing was sent, and the page says so."""
    with serving(by=answer) as server:
        agent = agent_of("middleware", server, archive, (), (Answering(),))
        agent.invoke({"messages": "Hi"}, THREAD)
        assert received(server) == []

    (found,) = shown(archive)

    assert not found["exact"]
    (turn,) = archive.load(SESSION).turns([1])
    assert [event["total"] for event in turn.events if event["type"] == "sent"] == [0]
