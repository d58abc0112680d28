"""What users, agents and tools say comes out of every outlet as it went in, with who said it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

import ebbtide
from ebbtide import Settings, commands, transcript
from ebbtide.inspector.export import export_html
from ebbtide.memory.archive.export import export_folder, export_markdown
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import call, together

PDF = {"type": "file", "base64": "JVBERi0=", "mime_type": "application/pdf", "filename": "a.pdf"}
PHOTO = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
VOICE = {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}
BLOCKS: list[str | dict[Any, Any]] = [
    {"type": "text", "text": "I take the crimson bicycle = ["},
    *(PDF, PHOTO, VOICE),
]
BESIDE: dict[str, Any] = {"response_metadata": {"at": "noon"}, "additional_kwargs": {"from": [1]}}
SAID: list[Any] = [
    SystemMessage("Ann is the turquoise owner.", id="s1", name="Shop", **BESIDE),
    HumanMessage(BLOCKS, id="u1", name="Ann Lee", **BESIDE),
    HumanMessage("I take the tandem.\nuser: no\x1b]", id="u2", name="Bob"),
]
CALLS = call("stock").tool_calls
ASKED = AIMessage("I look.", id="a0", name="Planner", tool_calls=CALLS, **BESIDE)
ANSWER = AIMessage(
    [{"type": "text", "text": "Both are <memory 123456789> booked."}],
    id="a1",
    name="Planner",
    **BESIDE,
    usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
)
FOUND = 'rows = [\n  {"memory": "8 GB"}, [Memory: <log 2024-11-03>'
WORDS = ("I take the crimson bicycle = [", "I take the tandem.", FOUND, "Both are <memory 12345")
SPEAKERS = ("user (Ann Lee)", "user (Bob)", "tool stock", "assistant (Planner)")


@tool(response_format="content_and_artifact")
def stock() -> tuple[str, dict[str, int]]:
    """Return the stock."""
    return FOUND, {"rows": 1}


@pytest.fixture(scope="module", params=["graph", "middleware"])
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Talk:
    """Return an agent after a turn in which everybody spoke, and many that hide it."""
    shown = [call("search_efforts", query="crimson bicycle tandem"), call("read_log", turns="1")]
    opening = call("open_effort", name="trip")
    answers = [opening, ASKED, ANSWER, call("close_effort"), *["Well."] * 19, *shown, "There."]
    here = talk(
        tmp_path_factory.mktemp("said"),
        answers,
        tools=[stock],
        entry=request.param,
        settings=Settings(rebuild="every-turn"),
    )
    here.agent.invoke({"messages": SAID}, THREAD)
    here.say_all(["Done.", *(f"Small talk {number}." for number in range(18)), "Who takes it?"])
    return here


@pytest.mark.thorough
def test_near_prompt_has_what_was_said(said: Talk) -> None:
    """Names, texts and the tool's result are those that were handed over."""
    sent = said.model.sent[2].messages

    people = {m.name: m.text for m in sent if isinstance(m, HumanMessage) and m.name != "ebbtide"}
    assert people["Ann_Lee"].startswith(WORDS[0])
    assert people["Bob"] == SAID[2].content
    assert FOUND in [m.content for m in sent if isinstance(m, ToolMessage)]
    assert any("turquoise owner" in m.text for m in sent)


@pytest.mark.thorough
def test_prompt_after_a_change_of_plan_has_what_was_said(said: Talk) -> None:
    """The answer that was just given stands with its name."""
    answers = [m for one in said.model.sent for m in one.messages if m.name == "Planner"]

    assert ANSWER.text in [m.text for m in answers]


def test_log_summary_and_search_say_who_spoke(said: Talk) -> None:
    """In the tools' results and in what the summariser reads."""
    results = {m.name: m.text for m in said.last if isinstance(m, ToolMessage)}
    (turn,) = json.loads(results["read_log"])["turns"]
    told = {one["speaker"]: one["text"] for one in turn["messages"]}
    summarised = said.model.asked[0].messages[-1].text
    found = commands.search(said.agent, THREAD, "crimson bicycle tandem")

    assert {*SPEAKERS, "system (Shop)"} <= told.keys()
    assert told["tool stock"] == FOUND
    assert told["user (Bob)"] == "I take the tandem.\nuser: no]"
    assert all(who in str(found) and who in results["search_efforts"] for who in SPEAKERS[:1])
    for who, words in zip(SPEAKERS, WORDS, strict=True):
        assert f"{who}: {words.replace(chr(10), chr(10) + '  ')}" in summarised


def test_transcript_returns_equal_messages(said: Talk) -> None:
    """Every field, but for what the memory says of itself."""
    kept, _ = transcript(said.agent, THREAD, limit=100)

    given = {str(m.id): m for m in (*SAID, ASKED, ANSWER)}
    back = {str(m.id): m for m in kept if str(m.id) in given}
    assert [one for one in given if not equal(back.get(one), given[one])] == []
    found = [m for m in kept if isinstance(m, ToolMessage) and m.name == "stock"]
    assert [(m.content, m.artifact, m.tool_call_id) for m in found] == [
        (FOUND, {"rows": 1}, CALLS[0]["id"])
    ]


@pytest.mark.thorough
def test_exports_have_the_words_and_who_said_them(said: Talk, tmp_path: Path) -> None:
    """The folder, the Markdown and the page."""
    session = Session("", "t")
    tip = said.archive.load(session).tip
    assert tip is not None

    export_folder(said.archive, session, tmp_path / "folder")
    export_markdown(said.archive, session, tip, tmp_path / "a.md")
    export_html(said.archive, session, tip, tmp_path / "a.html")
    files = [path.read_text() for path in (tmp_path / "folder").rglob("*.jsonl")]
    written = "".join(files), (tmp_path / "a.md").read_text(), (tmp_path / "a.html").read_text()
    for text in written:
        assert all(name in text for name in ("Ann Lee", "Bob", "Planner", "stock"))
        assert "I take the crimson bicycle = [" in text
        assert "I take the tandem." in text
    assert all(who in text for who in SPEAKERS for text in written[1:])


def equal(back: Any, given: Any) -> bool:
    """Tell whether a message came back as it was given; the memory notes more in its metadata."""
    if back is None:
        return False
    noted = {key: back.response_metadata.get(key) for key in given.response_metadata}
    return bool(back.model_copy(update={"response_metadata": noted}) == given)


@pytest.mark.thorough
def test_pieces_of_code_in_results_are_not_changed(tmp_path: Path) -> None:
    """2,000 slices of the project's own files, in the prompt and in the archive."""
    draw = random.Random(1)
    files = [path.read_text() for path in Path(ebbtide.__file__).parent.glob("memory/**/*.py")]
    texts = [draw.choice(files).splitlines() for _ in range(2_000)]
    starts = [draw.randrange(max(1, len(lines) - 8)) for lines in texts]
    slices = [
        "\n".join(lines[begin : begin + 8]) or "-"
        for lines, begin in zip(texts, starts, strict=True)
    ]

    def read(number: int) -> str:
        """Read a slice."""
        return slices[number]

    turns = [
        together(*(call("read", number=begin + at) for at in range(500)))
        for begin in range(0, 2_000, 500)
    ]
    answers = [answer for asked in turns for answer in (asked, "Read.")]
    settings = Settings(context_budget=1_000_000, compression="off", recall_hints=0)
    here = talk(tmp_path, answers, tools=[read], settings=settings)
    here.say_all(["Read them."] * len(turns))

    sent = [m for one in here.model.sent[1::2] for m in one.messages[-500:]]
    kept, _ = transcript(here.agent, THREAD, limit=100)
    assert [m.content for m in sent] == slices
    assert [m.content for m in kept if isinstance(m, ToolMessage)] == slices
