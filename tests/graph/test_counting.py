"""Our count against what a server that tokenises what it receives would bill for it."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from ebbtide import DiskArchive, Settings, create_memory_agent
from ebbtide.memory.tokens import REPLY_OVERHEAD, count_message, count_tools
from ebbtide.memory.tools.toolbox import schemas
from tests.agents import THREAD
from tests.draws import examples
from tests.openai_bill import billed, billed_messages, billed_tools
from tests.openai_server import OpenAIServer, Say, serving

PIECES = [
    *("The token expires after 3600 seconds. ", "don't", "Über", "a", "", "0x7fff_ffff"),
    *("记忆系统会自动管理上下文。", "今日は", "안녕하세요", "سلام", "👩‍👩‍👧", "🇺🇦🚀", "é" * 9),
    *('{"a": [1, 2, {"b": null}]}', "def f(x):\n\treturn x ** 2\n", "</effort>", "<|endoftext|>"),
    *(" " * 2_000, "\n" * 500, "\t \n" * 99, "aaaa" * 300, "=" * 700, "12345678901234567890"),
]
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=5,
)
CONTENTS = TEXTS | st.lists(TEXTS.map(lambda text: {"type": "text", "text": text}) | TEXTS)
WORDS = st.sampled_from([piece for piece in PIECES if len(piece) < 40])
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
        optional={
            "description": WORDS,
            "enum": st.lists(WORDS, min_size=1, max_size=30),
            "default": WORDS | st.integers() | st.none() | st.booleans(),
            "minimum": st.integers(),
        },
    ),
    lambda inside: (
        inside.map(lambda items: {"type": "array", "items": items})
        | st.lists(inside, min_size=1, max_size=3).map(lambda several: {"anyOf": several})
        | st.dictionaries(NAMES, inside, max_size=4).map(
            lambda properties: {"type": "object", "properties": properties}
        )
    ),
    max_leaves=8,
)


class Stop(BaseModel):
    """A stop on the way."""

    town: str = Field(description="Where it is.")
    nights: int = Field(1, ge=1, le=30, description="How many nights.")
    transport: Literal["train", "bus", "boat"] | None = None


def plan_trip(
    title: str,
    stops: list[Stop],
    labels: dict[str, int],
    budget: Annotated[float | None, Field(description="In euros.")] = None,
) -> str:
    """Plan a trip with several stops."""
    return f"{title}: {len(stops)} stops, {budget}, {len(labels)} labels"


def look_up(word: str) -> str:
    """Look a word up."""
    return word * 50


def counted(messages: list[BaseMessage]) -> int:
    """Return our count of a request without tools."""
    return REPLY_OVERHEAD + sum(map(count_message, messages))


@st.composite
def rounds(draw: st.DrawFn) -> list[BaseMessage]:
    """Draw an assistant's parallel calls and their results."""
    args = draw(st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), min_size=1, max_size=5))
    calls: Any = [
        {"name": draw(NAMES), "args": one, "id": f"call_{n}"} for n, one in enumerate(args)
    ]
    results = [ToolMessage(draw(CONTENTS), tool_call_id=call["id"], name="x") for call in calls]
    return [AIMessage(draw(CONTENTS), tool_calls=calls), *results]


PARTS = st.one_of(
    CONTENTS.map(lambda content: [HumanMessage(content)]),
    st.builds(lambda content, name: [HumanMessage(content, name=name)], CONTENTS, NAMES),
    CONTENTS.map(lambda content: [AIMessage(content)]),
    rounds(),
)


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    """Run a server that bills every request."""
    with serving(by=lambda _: Say("Fine.", usage=billed)) as running:
        yield running


def model(server: OpenAIServer, **options: Any) -> ChatOpenAI:
    """Return the real client of the server."""
    return ChatOpenAI(model="gpt-4o", base_url=server.url, api_key="x", max_retries=0, **options)


def bill(answer: BaseMessage) -> int:
    """Return the prompt tokens that the server reported."""
    assert isinstance(answer, AIMessage)
    assert answer.usage_metadata is not None
    return answer.usage_metadata["input_tokens"]


@pytest.mark.thorough
@given(st.lists(PARTS, max_size=8))
@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=examples(8),
)
def test_a_conversation_counts_what_is_billed(
    server: OpenAIServer, parts: list[list[BaseMessage]]
) -> None:
    """Texts of all scripts, names, parallel calls and results: not one token more or less."""
    messages = [SystemMessage("Help."), *(message for part in parts for message in part)]

    answer = model(server).invoke(messages)

    assert counted(messages) == bill(answer)


@pytest.mark.parametrize("seed", range(1))
def test_many_tiny_messages_count_what_is_billed(server: OpenAIServer, seed: int) -> None:
    """What is around a message is exact, so that 500 of one word each are too."""
    draw = random.Random(seed)
    words = draw.choices(["ok", "好", "👍", "?", "", "yes"], k=500)
    messages = [HumanMessage(word) if n % 2 else AIMessage(word) for n, word in enumerate(words)]

    answer = model(server).invoke(messages)

    assert counted([*messages]) == bill(answer)


@pytest.mark.thorough
@pytest.mark.parametrize("piece", [piece for piece in PIECES if piece.strip()][::4])
def test_a_huge_message_is_at_most_one_percent_too_high(server: OpenAIServer, piece: str) -> None:
    """Over 200,000 characters a text is counted in slices, which may cost a little."""
    messages: list[BaseMessage] = [HumanMessage(piece * (250_000 // len(piece)))]

    billed = bill(model(server).invoke(messages))

    assert billed <= counted(messages) <= 1.01 * billed


@pytest.mark.thorough
@given(st.dictionaries(NAMES, SCHEMAS, max_size=6), WORDS)
def test_tools_are_never_counted_too_low(properties: dict[str, Any], described: str) -> None:
    """Whatever the parameters, nested and with many values, the count covers the bill."""
    parameters = {"type": "object", "properties": properties}
    function = {"name": "f", "description": described, "parameters": parameters}
    tools = [{"type": "function", "function": function}]

    assert count_tools(tools) >= billed_tools(tools)


def test_the_memory_tools_are_at_most_three_percent_too_high() -> None:
    """The memory's own schemas, which go with every call, are counted closely."""
    tools = schemas()

    assert billed_tools(tools) <= count_tools(tools) <= 1.03 * billed_tools(tools)


def test_nested_application_tools_are_at_most_a_quarter_too_high() -> None:
    """Objects in lists, alternatives, bounds and free keys are counted by a bound."""
    tools = [convert_to_openai_tool(plan_trip)]

    assert billed_tools(tools) <= count_tools(tools) <= 1.25 * billed_tools(tools)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("look_up", {"word": "记忆"}),
    ("plan_trip", {"title": "Rome", "stops": [{"town": "Chur"}], "labels": {"a": 1}}),
    ("read_log", {"turns": "1"}),
    ("effort_status", {}),
]


def answers(body: Any) -> Say:
    """Open an effort at first, then call several tools and answer, turn by turn."""
    asked = len([message for message in body["messages"] if message["role"] == "user"])
    if body["messages"][-1]["role"] == "tool":
        return Say("Seen. 好的。 " * 20, usage=billed)
    opening: list[tuple[str, dict[str, Any]]] = [
        ("open_effort", {"name": "trip", "goal": "See Rome"})
    ]
    return Say(calls=opening if asked == 1 else CALLS, usage=billed)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("streaming", "tools"),
    [(False, (look_up, plan_trip)), (True, ())],
    ids=["application", "memory-streamed"],
)
def test_the_report_is_what_is_billed(tmp_path: Path, *, streaming: bool, tools: Any) -> None:
    """Through the whole graph the total is never below the bill, and at most 3 % above it."""
    words = random.Random(7)
    with serving(by=answers) as server:
        chat = model(server, streaming=streaming, stream_usage=True)
        saver, archive = InMemorySaver(), DiskArchive(tmp_path, durable=False)
        agent = create_memory_agent(
            chat,
            tools=tools,
            archive=archive,
            checkpointer=saver,
            settings=Settings(compression="off"),
        )
        shares = [
            spent(agent, server, "".join(words.choices(PIECES, k=words.randrange(1, 30))))
            for _ in range(6)
        ]

    assert len(server.requests) == 12
    assert min(shares) >= 1
    assert max(shares) <= 1.03


def spent(agent: Any, server: OpenAIServer, words: str) -> float:
    """Go through a turn, and return the total of its report by the bill of its last request."""
    state = agent.invoke({"messages": [("user", words or "?")]}, THREAD)
    body = server.requests[-1].body
    assert bill(state["messages"][-1]) == billed(body)
    return float(state["memory"]["context_report"]["total"] / billed(body))


def test_a_context_without_tool_schemas_is_exact(tmp_path: Path) -> None:
    """All tiers but the one of the tools add up to what is billed for the messages."""
    with serving(by=answers) as server:
        archive = DiskArchive(tmp_path, durable=False)
        agent = create_memory_agent(model(server), archive=archive, checkpointer=InMemorySaver())
        for words in ("Let's plan a trip.", "And then?", "更多"):
            state = agent.invoke({"messages": [("user", words)]}, THREAD)

    report = state["memory"]["context_report"]
    messages = server.requests[-1].body["messages"]
    assert report["total"] - report["tokens"]["tools"] == billed_messages(messages)
