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
    return page.getvalue()


def test_tokens_are_printed_as_they_come() -> None:
    """Pieces of one message stand one after the other, and the report ends the turn."""
    page = shown(
        ("messages", (AIMessageChunk(content="Hel", id="1"), MODEL)),
        ("messages", (AIMessageChunk(content="lo.", id="1"), MODEL)),
        ("values", REPORT),
    )

    assert page == "Hello.\ncontext 12 of 100 tokens: system 5 · turn 7\n"


def test_an_emoji_that_comes_in_pieces_stays_whole() -> None:
    """What is joined to an emoji by the next piece is a part of it; any other joiner is seen."""
    pieces = ("Hi 👩", "\u200d", "🔧", " 1", "\ufe0f\u20e3", "a\u200d", "b", " 👩")
    page = shown(
        *(("messages", (AIMessageChunk(content=one, id="1"), MODEL)) for one in pieces),
        ("messages", (AIMessage("".join(pieces), id="2"), MODEL)),
        ("custom", {"banner": "txt\u202egpj"}),
    )

    assert page == "Hi 👩\u200d🔧 1\ufe0f\u20e3a\\u200db 👩\ntxt\\u202egpj\n"


def test_a_message_that_was_streamed_is_not_printed_again() -> None:
    """The whole message after its pieces, under another id, is left out."""
    page = shown(
        ("messages", (AIMessageChunk(content="Hello.", id="1"), MODEL)),
        ("messages", (AIMessage("Hello.", id="2"), MODEL)),
    )

    assert page == "Hello.\n"


def test_two_messages_of_a_turn_stand_on_lines_of_their_own() -> None:
    """What is said before a tool call, the banner and the answer are three lines."""
    page = shown(
        ("messages", (AIMessageChunk(content="One moment.", id="1"), MODEL)),
        ("custom", {"banner": "--- Started effort: [b] ---"}),
        ("messages", (AIMessage("Done.", id="2"), MODEL)),
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


def at_a_terminal(*pieces: str) -> str:
    """Return what a terminal of 20 columns shows of an answer that comes in pieces."""
    page = io.StringIO()
    console = Console(file=page, highlight=False, width=20, force_terminal=True, color_system=None)
    screen = Screen(console, budget=100)
    for piece in pieces:
        screen.show("messages", (AIMessageChunk(content=piece, id="1"), MODEL))
    screen.end()
    return page.getvalue()


def test_no_word_is_cut_by_the_edge_of_the_terminal() -> None:
    """A word that does not fit goes on the next line, whatever pieces it comes in."""
    page = at_a_terminal("What the conte", "xt of this tu", "rn co", "st is told.\nAnd more.")

    assert page == "What the context of \nthis turn cost is \ntold.\nAnd more.\n"


def test_what_has_no_spaces_fills_its_lines() -> None:
    """Chinese is broken between characters, two columns each; a path that is too long anywhere."""
    page = at_a_terminal("令牌在三千六百秒后过期了吗", " 是的")

    assert max(map(len, page.splitlines())) == 10
    assert page.replace("\n", "") == "令牌在三千六百秒后过期了吗 是的"


def test_a_table_that_is_too_wide_is_lines() -> None:
    """Each row is a line that names its columns, so that no figure is cut."""
    console = Console(width=20, file=io.StringIO())
    table = Table(Column("Turn", no_wrap=True), Column("Full\nhistory", no_wrap=True), title="t1")
    table.add_row("1,234", "123,456,789")

    console.print(fitted(table, console))

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "t1\nTurn 1,234, Full \nhistory 123,456,789\n"
