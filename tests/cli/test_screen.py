"""What a turn shows: the answer once, banners on lines of their own."""

import io
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from rich.console import Console

from ebbtide.cli.screen import Screen

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
        ("messages", (ToolMessage("{}", tool_call_id="1"), {"langgraph_node": "run_tools"})),
        ("messages", (AIMessageChunk(content="a summary"), {"langgraph_node": "run_tools"})),
        ("messages", (AIMessageChunk(content=""), MODEL)),
        ("custom", {"progress": 1}),
    )

    assert page == ""
