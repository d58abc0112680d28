"""Every way to run the agent: sync, async, all stream modes."""

import asyncio
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool

from ebbtide.memory.messages import text
from ebbtide.nodes.turn.state import unpacked
from tests.agents import SUMMARY, THREAD, Talk, talk
from tests.doubles import call, together
from tests.test_complaints import orphans

pytestmark = pytest.mark.usefixtures("entry")

SCRIPT = [call("open_effort", name="a"), "opened", call("close_effort"), "closed it now"]
LONG = "The refresh token expires after 3600 seconds, and nobody renews it."
MODES = ["values", "updates", "custom", "messages"]


@pytest.fixture
def chat(tmp_path: Path) -> Talk:
    """Return an agent that opens an effort, then closes it."""
    return talk(tmp_path, [*SCRIPT])


def events(chat: Talk, words: str, mode: Any) -> list[Any]:
    """Return what a run streams."""
    return [*chat.agent.stream({"messages": [("user", words)]}, THREAD, stream_mode=mode)]


async def aevents(chat: Talk, words: str, mode: Any) -> list[Any]:
    """Return what an asynchronous run streams."""
    stream = chat.agent.astream({"messages": [("user", words)]}, THREAD, stream_mode=mode)
    return [event async for event in stream]


@pytest.mark.parametrize("mode", MODES)
async def test_async_stream(chat: Talk, mode: str) -> None:
    """Each stream mode gives events asynchronously, and the turn is committed."""
    found = await aevents(chat, LONG, mode)

    assert found
    assert chat.agent.get_state(THREAD).values["bookkeeping"]["number"] == 1


async def test_async_conversation_is_the_same(tmp_path: Path) -> None:
    """The asynchronous path leaves the same state as the synchronous one."""
    sync, async_ = talk(tmp_path / "a", [*SCRIPT]), talk(tmp_path / "b", [*SCRIPT])
    sync.say(LONG)
    closed = sync.say("done")
    await async_.agent.ainvoke({"messages": [("user", LONG)]}, THREAD)

    aclosed = await async_.agent.ainvoke({"messages": [("user", "done")]}, THREAD)

    shared = ["turn", "summaries", "open_efforts", "banners", "number", "context_report"]
    assert [unpacked(closed).get(key) for key in shared] == [
        unpacked(aclosed).get(key) for key in shared
    ]


def test_no_summary_token_in_the_users_stream(chat: Talk) -> None:
    """What the summarising model says is no part of the stream of messages (complaint 10)."""
    events(chat, LONG, "messages")

    chunks = [chunk for chunk, _ in events(chat, "done", "messages")]

    spoken = [str(chunk.text) for chunk in chunks if isinstance(chunk, AIMessageChunk)]
    assert "".join(spoken) == "closed it now"
    assert not any(SUMMARY["summary"] in words for words in spoken)
    assert {chunk.type for chunk in chunks} == {"AIMessageChunk", "tool"}


def test_streamed_calls_of_the_memory_are_marked(chat: Talk) -> None:
    """A chat UI that draws calls while they are streamed can leave them out."""
    chunks = [chunk for chunk, _ in events(chat, LONG, "messages")]

    drawn = [c for c in chunks if isinstance(c, AIMessageChunk) and c.tool_call_chunks]
    ids = [one["id"] for chunk in drawn for one in chunk.tool_call_chunks if one["name"]]
    assert ids
    assert [c.response_metadata.get("ebbtide_calls") for c in drawn[:1]] == [ids]


def prompts(streamed: list[Any]) -> list[int]:
    """Return how long the prompts are that updates show, as each kind of stream has them."""
    steps = [one["data"] if isinstance(one, dict) else one[-1] for one in streamed]
    return [
        len(step["assemble_context"]["context"]["messages"])
        for step in steps
        if "assemble_context" in step
    ]


def values_of(streamed: list[Any]) -> list[list[str]]:
    """Return the keys of the values in a stream, as each kind of stream has them."""
    pairs = [(one["type"], one["data"]) if isinstance(one, dict) else one[-2:] for one in streamed]
    return [[*values] for mode, values in pairs if mode == "values"]


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
@pytest.mark.parametrize("more", [{}, {"subgraphs": True}, {"version": "v2"}])
async def test_prompt_shows_in_updates_beside_values(chat: Talk, more: dict[str, Any]) -> None:
    """Updates show the prompt when values are asked for as well, which never do."""
    asked: Any = {"stream_mode": ["updates", "values"], **more}

    found = [*chat.agent.stream({"messages": LONG}, THREAD, **asked)]
    later = [one async for one in chat.agent.astream({"messages": "ok"}, THREAD, **asked)]

    assert len(prompts(found)) == 2
    assert len(prompts(later)) == 2
    assert {*chain(*values_of(found))} == {"messages", "memory", "bookkeeping"}
    assert {*chain(*values_of(later))} == {"messages", "memory", "bookkeeping"}


def test_banners_stream_as_they_happen(chat: Talk) -> None:
    """Banners come in the custom stream and stand in the state of their turn."""
    streamed = events(chat, LONG, "custom")

    assert streamed == [{"banner": "--- Started effort: a ---"}]
    assert chat.agent.get_state(THREAD).values["memory"]["banners"] == ["--- Started effort: a ---"]
    assert chat.say("done")["memory"]["banners"] != ["--- Started effort: a ---"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, [("wait", "done")]), ({"messages": "So?"}, [("wait", "aborted"), ("So?", "done")])],
)
async def test_a_run_that_is_cancelled_can_be_gone_on_with(
    tmp_path: Path, given: Any, kept: list[tuple[str, str]]
) -> None:
    """In the middle of a turn nothing is lost: it is resumed, or settled by the next message."""
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for what does not come, the first time."""
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return "waited"

    both = together(call("wait"), call("open_effort", name="a"))
    chat = talk(tmp_path, [both, "here I am"], tools=[wait])
    run = asyncio.create_task(chat.agent.ainvoke({"messages": "wait"}, THREAD))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    state = await chat.agent.ainvoke(given, THREAD)

    found = [(text(turn.messages[0]), turn.status) for turn in chat.turns(state)]
    assert (found, state["messages"][-1].text, orphans(chat.last)) == (kept, "here I am", 0)
