"""The prompt of a past call as the inspector shows it is what the model was sent."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from ebbtide import EbbtideMiddleware, Settings, commands, create_memory_agent, erase
from ebbtide.inspector import payload, prompts
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.errors import TurnNotFoundError
from ebbtide.memory.turn import ANONYMOUS, Session
from ebbtide.testing import ScriptedModel

SESSION = Session(ANONYMOUS, "t")
THREAD: Any = {"configurable": {"thread_id": "t"}}
TALK = (
    "Let's work on the auth bug",
    "The token expires after 3600 s, on port 8080.",
    "An axios interceptor asks for a new one. " * 20,
    "That's done",
    "What is new?",
    "Show me the log of the auth bug",
    "And the token?",
    "Let's work on the late parcel",
    "Parcel 4711 is late. " * 15,
    "That's done",
    *(f"Small talk number {number}, about a blue sky. " * 6 for number in range(12)),
    "What did we decide about the auth bug?",
    "Show me the log of the auth bug",
    "Thanks",
)


class Recording(ScriptedModel):
    """A scripted model that keeps what it is sent, but for questions of the memory."""

    sent: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("tools") and not kwargs.get("tool_choice"):
            self.sent.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


@tool
def look_up(name: str) -> str:
    """Look something up."""
    return name


def agent_of(kind: str, archive: SqlArchive, model: Recording) -> Any:
    """Return an agent that is the graph, or that has the middleware."""
    settings = Settings(context_budget=3_000, summary_eviction_threshold=8)
    if kind == "graph":
        return create_memory_agent(
            model,
            tools=[look_up],
            archive=archive,
            checkpointer=InMemorySaver(),
            settings=settings,
            system_prompt="You help.",
        )
    middleware = EbbtideMiddleware(archive=archive, settings=settings)
    return create_agent(
        model,
        tools=[look_up],
        system_prompt="You help.",
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )


def shown(archive: SqlArchive) -> list[dict[str, Any]]:
    """Return the prompts of all calls, as the page shows them."""
    tip = archive.load(SESSION).tip
    assert tip is not None
    return [
        prompts.prompt(archive, SESSION, tip, turn["turn"], call)
        for turn in payload.overview(archive, SESSION)["turns"]
        for call in range(len(turn["calls"]))
    ]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the text of each message."""
    return [str(message.text) for message in messages]


@pytest.mark.thorough
@pytest.mark.parametrize("entry", ["graph", "middleware"])
def test_every_prompt_is_what_was_sent(archive: SqlArchive, entry: str) -> None:
    """Byte for byte, of every call, with expansions, evictions, cuts and commands by hand."""
    model = Recording()
    agent = agent_of(entry, archive, model)
    for place, words in enumerate(TALK):
        agent.invoke({"messages": words}, THREAD)
        if place == 15:
            commands.expand_effort(agent, THREAD, "auth-bug")

    found = shown(archive)

    assert [prompt["exact"] for prompt in found] == [True] * len(model.sent)
    for prompt, sent in zip(found, model.sent, strict=True):
        kept = [
            line["text"]
            for line in prompt["messages"]
            if line["change"] != "left" and line["part"] != "tools"
        ]
        assert kept == texts(sent)


def test_what_came_and_left(archive: SqlArchive) -> None:
    """Beside the call before a prompt only grew, until an effort was concluded."""
    agent = agent_of("graph", archive, Recording())
    for words in TALK[:5]:
        agent.invoke({"messages": words}, THREAD)

    found = shown(archive)

    changes = [{line["change"] for line in prompt["messages"]} for prompt in found]
    assert changes[0] == {"came"}
    assert changes[1] == {"same", "came"}
    assert changes[-1] == {"same", "came", "left"}


def test_an_erased_turn_is_in_no_prompt(archive: SqlArchive) -> None:
    """After an erasure no prompt is made again that had the turn."""
    agent = agent_of("graph", archive, Recording())
    for words in TALK[:4]:
        agent.invoke({"messages": words}, THREAD)
    erase(agent, THREAD, 2)
    tip = archive.load(SESSION).tip
    assert tip is not None

    kept = prompts.prompt(archive, SESSION, tip, 1, 0)

    assert kept["exact"]
    with pytest.raises(prompts.NoCallError, match="does not have the plan"):
        prompts.prompt(archive, SESSION, tip, 3, 0)


def test_no_such_call(archive: SqlArchive) -> None:
    """Unknown turns and calls are named."""
    agent = agent_of("graph", archive, Recording())
    agent.invoke({"messages": "Hi"}, THREAD)
    tip = archive.load(SESSION).tip
    assert tip is not None

    with pytest.raises(prompts.NoCallError, match="turn 1 has 1 calls"):
        prompts.prompt(archive, SESSION, tip, 1, 1)
    with pytest.raises(TurnNotFoundError):
        prompts.prompt(archive, SESSION, tip, 2, 0)
