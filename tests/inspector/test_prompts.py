"""The prompt of a past call as the inspector shows it is what the model was sent."""

from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, create_memory_agent, erase
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
)


def begun(archive: SqlArchive, words: Sequence[str]) -> Any:
    """Return an agent to which this was said."""
    settings = Settings(context_budget=3_000)
    saver = InMemorySaver()
    agent = create_memory_agent(
        ScriptedModel(), archive=archive, checkpointer=saver, settings=settings
    )
    for one in words:
        agent.invoke({"messages": one}, THREAD)
    return agent


def shown(archive: SqlArchive) -> list[dict[str, Any]]:
    """Return the prompts of all calls, as the page shows them."""
    tip = archive.load(SESSION).tip
    assert tip is not None
    return [
        prompts.prompt(archive, SESSION, tip, turn["turn"], call)
        for turn in payload.overview(archive, SESSION)["turns"]
        for call in range(len(turn["calls"]))
    ]


def test_what_came_and_left(archive: SqlArchive) -> None:
    """Beside the call before a prompt only grew, until an effort was concluded."""
    begun(archive, TALK)

    found = shown(archive)

    changes = [{line["change"] for line in prompt["messages"]} for prompt in found]
    assert changes[0] == {"came"}
    assert changes[1] == {"same", "came"}
    assert changes[-1] == {"same", "came", "left"}


def test_an_erased_turn_is_in_no_prompt(archive: SqlArchive) -> None:
    """After an erasure no prompt is made again that had the turn."""
    agent = begun(archive, TALK[:4])
    erase(agent, THREAD, 2)
    tip = archive.load(SESSION).tip
    assert tip is not None

    kept = prompts.prompt(archive, SESSION, tip, 1, 0)

    assert kept["exact"]
    with pytest.raises(prompts.NoCallError, match="does not have the plan"):
        prompts.prompt(archive, SESSION, tip, 3, 0)


def test_no_such_call(archive: SqlArchive) -> None:
    """Unknown turns and calls are named."""
    begun(archive, ["Hi"])
    tip = archive.load(SESSION).tip
    assert tip is not None

    with pytest.raises(prompts.NoCallError, match="turn 1 has 1 calls"):
        prompts.prompt(archive, SESSION, tip, 1, 1)
    with pytest.raises(TurnNotFoundError):
        prompts.prompt(archive, SESSION, tip, 2, 0)
