"""One application with much of LangChain's middleware beside the memory, in many orders.

What each of them did holds on the wire, in the archive, its index and its summaries, ten turns
later.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ebbtide import DiskArchive, EbbtideMiddleware, commands, transcript
from ebbtide.memory.tool_names import MEMORY_TOOLS
from tests.agents import THREAD
from tests.openai_server import Fail, Say
from tests.provider_server import ProviderServer, provided

ADDRESS = re.compile(r"\w+@example\.org")
OTHERS = ("pii", "selector", "caching", "approval", "fallback", "retry", "summariser")
ORDERS = [
    OTHERS,
    (),
    pytest.param(("pii", "caching", "fallback"), marks=pytest.mark.soak),
    ("selector", "approval", "retry", "summariser"),
    pytest.param(("retry", "selector", "pii"), marks=pytest.mark.soak),
    pytest.param(("summariser", "fallback", "approval", "caching"), marks=pytest.mark.soak),
]
"""Which of the others stand before the memory; the rest stands behind it."""

MODEL, OTHER = "claude-sonnet-5", "claude-haiku-4-5"
SCRIPT: dict[str, Sequence[Say | Fail]] = {
    "Mail": [
        Say(calls=[("open_effort", {"name": "parcel"})]),
        Say("I shall mail bob@example.org."),
    ],
    "Where is": [Say(calls=[("look_up", {"what": "parcel"})]), Say("In the depot.")],
    "Send it": [Say(calls=[("send", {"to": "depot"})]), Say("It is sent.")],
    "It is done": [Say(calls=[("close_effort", {})]), Say("Closed.")],
    "Once more": [Fail(500), Say("Again.")],
    "Without it": [],
    "Small talk": [Say("Well.")],
    "What was": [
        Say(calls=[("expand_effort", {"effort_id": "parcel"})]),
        Say(calls=[("read_log", {"turns": "1-3"})]),
        Say(calls=[("search_efforts", {"query": "parcel depot mail"})]),
        Say("A parcel."),
    ],
}
"""What the model answers, by how the question begins; without an answer it is down."""


@dataclass
class Provider:
    """Answers the agent by the script, the selector of tools, and what asks for summaries."""

    taken: dict[str, int] = field(default_factory=dict)
    main: list[dict[str, Any]] = field(default_factory=list)
    selecting: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Say | Fail:
        """Answer a request."""
        wanted = (body.get("tool_choice") or {}).get("name")
        if wanted and "select the most relevant tools" in json.dumps(body.get("system")):
            self.selecting.append(body)
            return Say(calls=[(wanted, {"tools": ["look_up"]})])
        if wanted:
            found = " ".join(ADDRESS.findall(json.dumps(body)))
            told = {"summary": f"A parcel {found}.", "keywords": ["parcel"], "importance": 50}
            return Say(calls=[(wanted, told)])
        if not body.get("tools"):
            return Say("They talked.")
        self.main.append(body)
        asked = next(
            name for text in reversed(said(body)) for name in SCRIPT if text.startswith(name)
        )
        script = SCRIPT[asked]
        if not script:
            return Fail(500) if body["model"] == MODEL else Say("I am the other.")
        self.taken[asked] = self.taken.get(asked, 0) + 1
        return script[min(self.taken[asked], len(script)) - 1]


def said(body: dict[str, Any]) -> list[str]:
    """Return what the user says in a request."""
    texts: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        if message["role"] == "user":
            texts += [block["text"] for block in blocks if block.get("text")]
    return texts


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"The {what} is with carol@example.org."


@tool
def weather(place: str) -> str:
    """Tell the weather."""
    return f"It rains in {place}."


def middleware(server: ProviderServer) -> dict[str, list[Any]]:
    """Return the other middleware by name."""
    model, other = server.model("anthropic", MODEL), server.model("anthropic", OTHER)
    masking = PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)
    caching = import_module("langchain_anthropic.middleware").AnthropicPromptCachingMiddleware()
    summing = SummarizationMiddleware(model, trigger=("messages", 6), keep=("messages", 2))
    return {
        "pii": [masking],
        "selector": [LLMToolSelectorMiddleware(model=model, always_include=["send"])],
        "caching": [caching],
        "approval": [HumanInTheLoopMiddleware({"send": True})],
        "fallback": [ModelFallbackMiddleware(other)],
        "retry": [ModelRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error")],
        "summariser": [summing],
    }


@pytest.mark.thorough
@pytest.mark.parametrize("before", ORDERS, ids=lambda names: "-".join(names) or "none")
def test_what_each_does_holds(tmp_path: Path, before: tuple[str, ...]) -> None:
    """Complaint row 34: nothing unmasked, one tool selected, one approval, each turn answered."""
    delivered: list[str] = []

    @tool
    def send(to: str) -> str:
        """Send the parcel."""
        delivered.append(to)
        return f"Sent to {to}."

    provider = Provider()
    with provided(by=provider) as server:
        others = middleware(server)
        ours = EbbtideMiddleware(archive=DiskArchive(tmp_path, durable=False))
        first = [one for name in OTHERS if name in before for one in others[name]]
        then = [one for name in OTHERS if name not in before for one in others[name]]
        agent: Any = create_agent(
            server.model("anthropic", MODEL),
            [look_up, weather, send],
            system_prompt="You send parcels.",
            middleware=[*first, ours, *then],
            checkpointer=InMemorySaver(),
        )
        agent.invoke({"messages": "Mail ann@example.org about the parcel."}, THREAD)
        agent.invoke({"messages": "Where is the parcel?"}, THREAD)
        waiting = agent.invoke({"messages": "Send it."}, THREAD)
        before_approval = [*delivered]
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
        for words in ("It is done.", "Once more.", "Without it."):
            agent.invoke({"messages": words}, THREAD)
        for number in range(8):
            agent.invoke({"messages": f"Small talk {number}."}, THREAD)
        agent.invoke({"messages": "What was it?"}, THREAD)

    assert (bool(waiting["__interrupt__"]), before_approval, delivered) == (True, [], ["depot"])
    assert ADDRESS.findall(json.dumps(server.bodies)) == []
    tools = [{one["name"] for one in body["tools"]} for body in provider.main]
    assert all(names == {*MEMORY_TOOLS, "look_up", "send"} for names in tools)
    marks = [json.dumps(body).count('"cache_control"') for body in provider.main]
    assert all(2 <= number <= 4 for number in marks)  # Anthropic takes four at most
    words = " ".join(message.text for message in transcript(agent, THREAD)[0])
    assert "Mail [REDACTED_EMAIL] about the parcel. I shall mail [REDACTED_EMAIL]." in words
    assert ("Again." in words, "I am the other." in words) == (True, True)
    found = str(commands.search(agent, THREAD, "mail about the parcel"))
    assert ("[REDACTED_EMAIL]" in found, "@" in found) == (True, False)
    assert "A parcel ." in str(commands.efforts(agent, THREAD))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(b"@example.org" in path.read_bytes() for path in files)
    log = json.dumps(provider.main[-1])
    assert ("Sent to depot." in log, "Mail [REDACTED_EMAIL] about" in log) == (True, True)
