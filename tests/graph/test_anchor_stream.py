"""The `messages` stream shows answers without their blocks, however they come in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun, get_usage_metadata_callback
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START as BEGIN
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field

from ebbtide import DiskArchive, Settings, build_memory_graph, create_memory_agent
from ebbtide.memory.state_block import END, START
from ebbtide.nodes.turn.state import MemoryState
from tests.agents import THREAD
from tests.doubles import Broken, ScriptedModel

pytestmark = pytest.mark.usefixtures("entry")

BLOCK = f"{START}\nGoal: 修复\n{END}"
SAID = f"Yes.\n\n---\n```\n{START}\n```\n{BLOCK}\n\nBye."
SHOWN = f"Yes.\n\n---\n```\n{START}\n```\n\nBye."
USAGE: Any = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
Agent = CompiledStateGraph[Any, Any, Any, Any]


class Streaming(ScriptedModel):
    """A scripted model that streams each answer in these chunks."""

    chunks: list[Any] = Field(default_factory=list)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._next(messages, kwargs)
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk.model_copy(deep=True))


def pieces(*contents: Any, **last: Any) -> list[AIMessageChunk]:
    """Return chunks with these contents, the last of them with what else there is."""
    *others, final = contents
    return [
        *(AIMessageChunk(content=part) for part in others),
        AIMessageChunk(content=final, **last),
    ]


def streaming(root: Path, chunks: Sequence[AIMessageChunk], **options: Any) -> Agent:
    """Return an agent whose model streams these chunks and then has nothing more to say."""
    model = Streaming(answers=["-"] * 9, chunks=[*chunks], tags=options.pop("tags", None))
    archive = DiskArchive(root, durable=False)
    return create_memory_agent(model, archive=archive, checkpointer=InMemorySaver(), **options)


def streamed(agent: Agent, **options: Any) -> list[Any]:
    """Return what the stream of messages shows of a turn."""
    return [*agent.stream({"messages": "hi"}, THREAD, stream_mode="messages", **options)]


def said(found: Sequence[Any]) -> str:
    """Return the text of what was streamed."""
    return "".join(str(chunk.text) for chunk, _ in found)


@dataclass
class Dividing:
    """An agent that is told anew, in a thread of its own, what its model streams."""

    agent: Agent
    model: Streaming
    thread: int = 0

    @property
    def config(self) -> RunnableConfig:
        """The thread of this moment."""
        return {"configurable": {"thread_id": str(self.thread)}}

    @property
    def values(self) -> dict[str, Any]:
        """Its state."""
        found: dict[str, Any] = self.agent.get_state(self.config).values
        return found

    def begin(self, chunks: list[AIMessageChunk]) -> dict[str, Any]:
        """Begin a thread in which the model streams these chunks; return what is asked."""
        self.thread += 1
        self.model.chunks = chunks
        return {"input": {"messages": "hi"}, "config": self.config, "stream_mode": "messages"}

    def streamed(self, chunks: list[AIMessageChunk]) -> list[Any]:
        """Return what the stream of messages shows of these chunks."""
        return [*self.agent.stream(**self.begin(chunks))]

    async def astreamed(self, chunks: list[AIMessageChunk]) -> list[Any]:
        """Return what the asynchronous stream shows of them."""
        return [event async for event in self.agent.astream(**self.begin(chunks))]


def dividing(root: Path) -> Dividing:
    """Return an agent for many divisions of an answer."""
    model, archive = Streaming(answers=lambda _: "-"), DiskArchive(root, durable=False)
    return Dividing(
        create_memory_agent(model, archive=archive, checkpointer=InMemorySaver()), model
    )


def written(event: Any) -> str:
    """Return what an event shows, as text with line breaks; the assembled prompt is left out."""
    if isinstance(event, dict) and "call_model" in event:
        event = {key: v for key, v in event["call_model"].items() if key != "context"}
    return repr(event).replace("\\n", "\n")


@pytest.mark.thorough
def test_every_division(tmp_path: Path) -> None:
    """Wherever the answer is divided, nothing of the block is seen and the rest is."""
    chat = dividing(tmp_path)

    for at in range(0, len(SAID) + 1, 3):
        found = chat.streamed(pieces(SAID[:at], SAID[at:]))

        assert (at, said(found), chat.values["messages"][-1].text) == (at, SHOWN, SHOWN)
        assert chat.values["memory"]["anchor"] == {"Goal": "修复"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (SAID, SHOWN),
        (f"A\n{START}\nGoal: never closed", "A"),
        (f"{START}\nGoal: never closed\n\nB\nC", "B\nC"),
        (BLOCK, ""),
        ("plain\n", "plain\n"),
    ],
)
def test_character_by_character(tmp_path: Path, text: str, shown: str) -> None:
    """What is no block after all is shown in the end, and all pieces are of one message."""
    agent = streaming(tmp_path, pieces(*text))

    found = streamed(agent)

    assert said(found) == shown
    assert len({chunk.id for chunk, _ in found}) == 1


def test_text_is_shown_as_it_comes(tmp_path: Path) -> None:
    """Nothing is held back that cannot begin a block."""
    agent = streaming(tmp_path, pieces("One ", "two.", "\nThree", f"\n\n{BLOCK}"))

    assert [chunk.text for chunk, _ in streamed(agent)][:3] == ["One ", "two.", "\nThree"]


@pytest.mark.thorough
def test_content_blocks(tmp_path: Path) -> None:
    """Providers that stream lists of content blocks are read as those that stream text."""
    chat = dividing(tmp_path)
    thought = [{"type": "thinking", "thinking": "hm", "index": 1}]

    for at in range(0, len(SAID) + 1, 5):
        texts = [[{"type": "text", "text": part, "index": 0}] for part in (SAID[:at], SAID[at:])]
        found = chat.streamed(pieces(texts[0], thought, texts[1], "", chunk_position="last"))

        assert (at, said(found), chat.values["messages"][-1].text) == (at, SHOWN, SHOWN)
        assert chat.values["memory"]["anchor"] == {"Goal": "修复"}
        assert [chunk.content for chunk, _ in found if chunk.content == thought] == [thought]


def test_metadata_survives(tmp_path: Path) -> None:
    """Usage and response metadata are in the stream and in the state, and counted once."""
    told: dict[str, Any] = {"usage_metadata": USAGE, "response_metadata": {"model_name": "m"}}
    agent = streaming(tmp_path, pieces(SAID, "", **told, chunk_position="last"))

    with get_usage_metadata_callback() as counted:
        found = streamed(agent)

    answer = agent.get_state(THREAD).values["messages"][-1]
    assert [chunk.usage_metadata for chunk, _ in found] == [None, USAGE]
    assert found[-1][0].response_metadata == {"model_name": "m"}
    assert answer.usage_metadata == USAGE
    assert {**answer.response_metadata, "ebbtide": {}} == {"model_name": "m", "ebbtide": {}}
    assert counted.usage_metadata == {"m": USAGE}


def test_tool_calls_stream(tmp_path: Path) -> None:
    """The pieces of calls pass, a block before them does not."""
    asked = {"name": "effort_status", "args": "{}", "id": "c1", "index": 0}
    part: Any = {**asked, "type": "tool_call_chunk"}
    agent = streaming(tmp_path, pieces(f"See.\n{BLOCK}\n", "", tool_call_chunks=[part]))

    found = streamed(agent, interrupt_before=["memory_tools"])

    values = agent.get_state(THREAD).values
    assert said(found) == "See."
    assert [one["name"] for chunk, _ in found for one in chunk.tool_call_chunks] == [asked["name"]]
    assert values["messages"][-1].tool_calls[0]["name"] == "effort_status"
    assert values["memory"]["anchor"] == {"Goal": "修复"}


@pytest.mark.parametrize(
    "options", [{"disable_streaming": True}, {"disable_streaming": "tool_calling"}]
)
def test_a_model_that_does_not_stream(tmp_path: Path, options: dict[str, Any]) -> None:
    """Its answer comes whole, without the block."""
    model = ScriptedModel(answers=[SAID], **options)
    agent = create_memory_agent(
        model, archive=DiskArchive(tmp_path, durable=False), checkpointer=InMemorySaver()
    )

    found = streamed(agent)

    assert [chunk.text for chunk, _ in found] == [SHOWN]


def test_off_streams_everything(tmp_path: Path) -> None:
    """Switched off, the model is called as any other, and its words are shown."""
    agent = streaming(tmp_path, pieces(SAID), settings=Settings(anchor="off"))

    found = streamed(agent)

    assert said(found) == SAID
    assert agent.get_state(THREAD).values["messages"][-1].text == SAID


def test_a_piece_says_where_it_comes_from(tmp_path: Path) -> None:
    """Pieces come with the metadata that LangGraph gives them without anchor, tags included."""
    chunks = pieces("Hi ", "there", chunk_position="last")
    whens: list[Any] = ["off", "on-change"]
    agents = [
        streaming(tmp_path / w, chunks, tags=["mine"], settings=Settings(anchor=w)) for w in whens
    ]

    plain, own = (streamed(one)[0][1] for one in agents)

    assert plain["tags"] == ["mine"]
    assert plain.keys() == own.keys()
    assert {key for key in plain if plain[key] != own[key]} <= {
        *("langgraph_checkpoint_ns", "checkpoint_ns", "lc_versions"),
        "ebbtide_user",  # each has an archive of its own, with a key of its own
    }


@pytest.mark.parametrize(("subgraphs", "shown"), [(True, SHOWN), (False, "")])
def test_inside_a_larger_graph(tmp_path: Path, subgraphs: bool, shown: str) -> None:
    """The stream of a parent shows the pieces of an embedded agent if it asks for subgraphs."""
    model = Streaming(answers=["-"], chunks=pieces(*SAID))
    graph = build_memory_graph(model, archive=DiskArchive(tmp_path, durable=False))
    parent = StateGraph(MemoryState)
    parent.add_node("agent", graph.compile())
    parent.add_edge(BEGIN, "agent")
    outer = parent.compile(checkpointer=InMemorySaver())

    found = streamed(outer, subgraphs=subgraphs)

    pushed = [event[1] if subgraphs else event for event in found]
    inner = [event for event in pushed if isinstance(event[0], AIMessageChunk)]
    assert said(inner) == shown
    assert outer.get_state(THREAD).values["messages"][-1].text == SHOWN


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom"])
async def test_no_mode_shows_the_block(tmp_path: Path, mode: Any) -> None:
    """No stream that users see shows the block, the prompt aside (complaint row 10)."""
    agent = streaming(tmp_path, pieces(*SAID))
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    sync = [*agent.stream({"messages": "hi"}, THREAD, stream_mode=mode)]
    stream = agent.astream({"messages": "hi"}, other, stream_mode=mode)

    found = [*sync, *[event async for event in stream]]

    assert BLOCK not in "".join(written(event) for event in found)


def test_a_stream_that_breaks_off(tmp_path: Path) -> None:
    """What was held back when the provider failed is not shown, and the turn can be resumed."""
    broken = Broken(f"Yes.\n{START}\nGoal: x", ConnectionError("gone"))
    agent = create_memory_agent(
        ScriptedModel(answers=[broken, SAID]),
        archive=DiskArchive(tmp_path, durable=False),
        checkpointer=InMemorySaver(),
    )
    before: list[Any] = []
    with pytest.raises(ConnectionError):
        before.extend(agent.stream({"messages": "hi"}, THREAD, stream_mode="messages"))

    after = [*agent.stream(None, THREAD, stream_mode="messages")]

    assert (said(before), said(after)) == ("Yes.", SHOWN)
