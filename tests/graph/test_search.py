"""Searching in the real graph: what the model finds, and what that does to the memory."""

from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage

from ebbtide import Settings
from ebbtide.prompts.loader import render
from tests.agents import referenced
from tests.doubles import call, together
from tests.graph.journeys import (
    PAGES,
    Turn,
    effort,
    first_found,
    play,
    quoted,
    trains,
    using,
)

FORGETFUL = Settings(summary_eviction_threshold=1, rebuild="every-turn")
QUERY = "gateway certificate 401"


def asking(query: str) -> Turn:
    """Return a turn in which the model searches, and uses nothing of what it found."""
    return Turn("Go on.", using("search_efforts", query=query))


def test_a_search_that_led_nowhere_is_no_reference(tmp_path: Path) -> None:
    """An evicted effort that is found and not used stays evicted, and no counter changes."""
    turns = [*effort("auth-bug", PAGES[0]), *effort("css", PAGES[1]), asking(QUERY)]

    *_, before, last = play(
        tmp_path, turns, settings=Settings(summary_eviction_threshold=2, rebuild="every-turn")
    )

    assert [one["id"] for one in last.results[0]["results"]] == ["auth-bug"]
    assert referenced(before.state) == referenced(last.state) == {"css": 4}
    assert last.state["memory"]["banners"] == []


def test_a_search_and_an_expansion_in_one_message(tmp_path: Path) -> None:
    """Both calls are answered in their order, and the evicted effort is back with its log."""
    both = together(
        call("search_efforts", query=QUERY), call("expand_effort", effort_id="auth-bug")
    )
    turns = [*effort("auth-bug", PAGES[0]), *trains(2), Turn("Show me.", (both, "Done."))]

    *_, before, last = play(tmp_path, turns, settings=FORGETFUL)

    assert before.state["memory"]["summaries"] == {}
    assert last.results[0]["results"][0]["id"] == "auth-bug"
    assert last.results[1]["effort_id"] == "auth-bug"
    assert [*last.state["memory"]["summaries"]] == ["auth-bug"]
    assert PAGES[0] in (quoted(last.sent, "auth-bug") or "")


def test_exactly_the_turn_that_was_found_is_expanded(tmp_path: Path) -> None:
    """The turn beside an excerpt can be expanded alone, and the rest of the log is not sent."""
    name, said = "auth-bug", "The pager rang at midnight because of a timeout."
    opening, closing = effort(name, PAGES[0])
    turns = [opening, Turn(said), *[Turn("And further?")] * 3, closing, *trains(2)]

    def expanding(messages: list[BaseMessage]) -> AIMessage:
        return call(
            "expand_effort", effort_id=name, turns=str(first_found(messages)["passages"][0]["turn"])
        )

    search = call("search_efforts", query="pager timeout")
    *_, last = play(
        tmp_path, [*turns, Turn("Why?", (search, expanding, "Done."))], settings=FORGETFUL
    )

    assert last.results[0]["results"][0]["passages"][0]["turn"] == 2
    assert last.state["memory"]["expanded"][name]["turns"] == [2]
    assert quoted(last.sent, name) == f"[turn 2]\nuser: {said}\nassistant: Done."


def test_where_nothing_is_stored_nothing_is_found(tmp_path: Path) -> None:
    """In the first turn of a session a search answers, with an empty list, and so does a list."""
    (first,) = play(
        tmp_path,
        [
            Turn(
                "Where is it?",
                (
                    together(
                        call("search_efforts", query=QUERY),
                        call("search_efforts", query="go on"),
                        call("effort_status"),
                    ),
                    "Nowhere.",
                ),
            )
        ],
    )

    found, senseless, listed = first.results
    assert (found["results"], found["why"]) == ([], render("nothing_found"))
    assert (senseless["results"], "why" in senseless) == ([], True)
    assert listed["efforts"] == []
