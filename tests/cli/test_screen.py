"""What a turn shows: the answer once, banners on lines of their own."""

import io
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from rich.console import Console
from rich.table import Column, Table

from ebbtide.cli.screen import Screen, fitted

MODEL = {"langgraph_node": "call_model"}
SIZES = {"tokens": {"system": 5, "active": 0, "turn": 7}, "total": 12}
REPORT = {"memory": {"context_report": SIZES}}


def shown(*events: tuple[str, Any]) -> str:
    """Return what a turn of these events prints."""
    page = io.StringIO()
    screen = Screen(Console(file=page, highlight=False, width=80), budget=100)
    for mode, event in events:
        screen.show(mode, event)
    screen.end()
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def test_tokens_are_printed_as_they_come() -> None:
    """Pieces of one message stand one after the other, and the report ends the turn."""
    page = shown(
        ("messages", (AIMessageChunk(content="Hel", id="1"), MODEL)),
        ("messages", (AIMessageChunk(content="lo.", id="1"), MODEL)),
        ("values", REPORT),
    )

    assert page == "Hello.\ncontext 12 of 100 tokens: system 5 · turn 7\n"


def test_text_of_others_is_shown_and_not_obeyed() -> None:
    """Neither a control character nor its entity works, tags are text, a link says where to."""
    said = "a\x1b[2J &#8238; <b>c</b> [d](http://e.f)\n\n<p>g</p>"
    page = shown(
        ("messages", (AIMessage(said, id="1"), MODEL)), ("custom", {"banner": "txt\u202egpj"})
    )

    lines = [*filter(None, map(str.strip, page.splitlines()))]
    assert lines == [r"a␛[2J \u202e <b>c</b> d (http://e.f)", "<p>g</p>", r"txt\u202egpj"]


def test_blocks_that_come_in_pieces_are_shown_as_markdown() -> None:
    """Emphasis, lists and code are drawn, lines stay lines, and nothing is shown twice."""
    pieces = ("**Bo", "ld**\nline\n", "\n- one\n- two\n\n``", "`\nx = 1\n\ny\n```\n", "End.")
    page = shown(*(("messages", (AIMessageChunk(content=one, id="1"), MODEL)) for one in pieces))

    lines = [*filter(None, map(str.strip, page.splitlines()))]
    assert lines == ["Bold", "line", "• one", "• two", "x = 1", "y", "End."]


def test_each_message_of_a_turn_is_printed_once() -> None:
    """The whole message after its pieces is left out; the banner has a line of its own."""
    page = shown(
        ("messages", (AIMessageChunk(content="One moment.", id="1"), MODEL)),
        ("messages", (AIMessage("One moment.", id="2"), MODEL)),
        ("custom", {"banner": "--- Started effort: [b] ---"}),
        ("messages", (AIMessage("Done.", id="3"), MODEL)),
    )

    assert page == "One moment.\n--- Started effort: [b] ---\nDone.\n"


def test_tool_results_and_inner_calls_are_not_shown() -> None:
    """Only what the model says to the user is printed."""
    page = shown(
        ("messages", (ToolMessage("{}", tool_call_id="1"), {"langgraph_node": "memory_tools"})),
        ("messages", (AIMessageChunk(content="a summary"), {"langgraph_node": "memory_tools"})),
        ("messages", (AIMessageChunk(content=""), MODEL)),
        ("custom", {"progress": 1}),
    )

    assert page == ""


def test_a_table_that_is_too_wide_is_lines() -> None:
    """Each row is a line that names its columns, so that no figure is cut."""
    console = Console(width=20, file=io.StringIO())
    table = Table(Column("Turn", no_wrap=True), Column("Full\nhistory", no_wrap=True), title="t1")
    table.add_row("1,234", "123,456,789")

    console.print(fitted(table, console))

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "t1\n1,234 – Full history\n123,456,789\n"
