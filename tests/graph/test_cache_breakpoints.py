"""Anthropic caches a prompt on request: where the breakpoints stand in what it is sent."""

import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, EbbtideMiddleware, Settings, create_memory_agent
from tests.agents import THREAD
from tests.openai_server import Say
from tests.provider_server import ProviderServer, provided

MARK = {"type": "ephemeral"}
SUMMARY: Any = {"summary": "The parcel is in Lyon.", "keywords": ["parcel"], "importance": 50}
QUESTIONS = [
    "Work on the parcel.",
    "Where is it?",
    "It is done.",
    "Thanks.",
    "Small talk.",
    "More.",
]


class Answers:
    """Opens and closes an effort, and summarises it."""

    def __init__(self) -> None:
        """Begin with the first answer."""
        self.main: list[dict[str, Any]] = []
        self._script = [
            Say(calls=[("open_effort", {"name": "parcel"})]),
            Say("Open."),
            Say("In Lyon."),
            Say(calls=[("close_effort", {})]),
        ]

    def __call__(self, body: dict[str, Any]) -> Say:
        """Answer a request."""
        if body.get("output_config"):
            return Say(json.dumps(SUMMARY))
        self.main.append(body)
        return self._script.pop(0) if self._script else Say("Well.")


def built(form: str, root: Path, model: Any, prompt: Any = "Be brief.") -> Any:
    """Return an agent in one of the two forms."""
    archive, saver = DiskArchive(root, durable=False), InMemorySaver()
    settings = Settings(rebuild="every-turn")
    if form == "graph":
        return create_memory_agent(model, archive=archive, settings=settings, checkpointer=saver)
    memory = EbbtideMiddleware(archive=archive, settings=settings)
    return create_agent(model, system_prompt=prompt, middleware=[memory], checkpointer=saver)


def asked(agent: Any) -> None:
    """Ask the agent all questions."""
    for words in QUESTIONS:
        agent.invoke({"messages": words}, THREAD)


def blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a request, with whom each is of."""
    for role, content in (
        ("system", body["system"]),
        *((message["role"], message["content"]) for message in body["messages"]),
    ):
        texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield from ({**block, "role": role} for block in texts)


def place(body: dict[str, Any]) -> int:
    """Return the place of the only block with a breakpoint."""
    (at,) = (at for at, block in enumerate(blocks(body)) if "cache_control" in block)
    return at


def plain(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks without breakpoints."""
    return [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks(body)]


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["graph", "middleware"])
def test_breakpoints_stand_where_the_prefix_stays(tmp_path: Path, form: str) -> None:
    """The end is cached, and a block up to which the next prompt, or a rebuilt one, is the same."""
    answers = Answers()
    with provided(by=answers) as server:
        asked(built(form, tmp_path, server.model("anthropic")))

    sent, rebuilt = [*map(plain, answers.main)], list[int]()
    assert [body["cache_control"] for body in answers.main] == [MARK] * 8
    for number, body in enumerate(answers.main[1:], 1):
        before, now, at = sent[number - 1], sent[number], place(body)
        same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))])
        assert at < same
        if same < len(before):  # only an answer, which can have none, stands between
            rebuilt.append(at)
            assert {block["role"] for block in now[at + 1 : same]} <= {"assistant"}
    assert rebuilt == [0, 0, 1, 1]  # after the instructions, after the memory


@pytest.mark.parametrize("provider", ["openai", "google"])
def test_others_are_sent_no_breakpoints(tmp_path: Path, provider: str) -> None:
    """Their adapters do not take them."""
    with provided(Say("Well.")) as server:
        asked(built("graph", tmp_path, server.model(provider)))

    assert "cache_control" not in json.dumps(server.bodies)


def _bound(server: ProviderServer) -> tuple[Any, Any]:
    return server.model("anthropic").bind(cache_control={**MARK, "ttl": "1h"}), "Be brief."


def _in_prompt(server: ProviderServer) -> tuple[Any, Any]:
    prompt = SystemMessage([{"type": "text", "text": "Be brief.", "cache_control": MARK}])
    return server.model("anthropic"), prompt


@pytest.mark.thorough
@pytest.mark.parametrize("given", [_bound, _in_prompt])
def test_breakpoints_of_the_application_are_enough(tmp_path: Path, given: Any) -> None:
    """Where it sets its own, the memory adds none."""
    with provided(Say("Well.")) as server:
        model, prompt = given(server)
        asked(built("middleware", tmp_path, model, prompt))

    assert {json.dumps(body).count('"cache_control"') for body in server.bodies} == {1}
