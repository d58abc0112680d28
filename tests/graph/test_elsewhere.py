"""Efforts of other sessions through the graph: found, read and expanded by the same user alone."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, SqlArchive, create_memory_agent
from ebbtide.graph.erase.erase import erase
from ebbtide.prompts.loader import render
from ebbtide.testing import ScriptedModel
from tests.agents import SUMMARY, Talk, talk
from tests.databases import Database
from tests.doubles import call, together
from tests.graph.journeys import quoted, using
from tests.memory.conversations import LONG_ENOUGH
from tests.zipped import revealed

AUTH = "a/auth-bug"
WORK = (call("open_effort", name="auth bug"), "Begun.", *using("close_effort"))
LOOK = together(
    call("search_efforts", query="when do tokens expire"),
    call("read_log", turns=1, session="a"),
    call("expand_effort", effort_id=AUTH),
)
ASKED = "When do they expire?"


def thread(name: str, user: str | None = "ada") -> RunnableConfig:
    """Return the configuration of a thread, of a user if one is named."""
    named = {"user_id": user} if user else {}
    return {"configurable": {"thread_id": name, **named}}


def worked(root: Path, user: str | None = "ada", *then: Any) -> Talk:
    """Return an agent whose user concluded an effort in thread `a`."""
    chat = talk(root, [*WORK, *then])
    chat.say(LONG_ENOUGH, thread("a", user))
    chat.say("That was all.", thread("a", user))
    return chat


def answers(chat: Talk) -> list[str]:
    """Return what the tools answered in what was sent last."""
    return [message.text for message in chat.last if message.type == "tool"]


def test_the_same_user_finds_reads_and_expands_it(tmp_path: Path) -> None:
    """In another thread the summary is found, the turn read, and the log stands in the context."""
    chat = worked(tmp_path, "ada", LOOK, "After an hour.")
    state = chat.say(ASKED, thread("b"))
    found, read, expanded = answers(chat)

    assert f'"id":"{AUTH}"' in found
    assert SUMMARY["summary"] in found
    assert LONG_ENOUGH in read
    assert '"status":"expanded"' in expanded
    assert LONG_ENOUGH in str(quoted(chat.last, AUTH))
    assert list(state["memory"]["expanded"]) == [AUTH]
    assert f"--- Expanded effort: {AUTH} (" in "\n".join(state["memory"]["banners"])


@pytest.mark.parametrize(
    ("first", "second"),
    [("ada", "bob"), ("ada", None), (None, "ada"), (None, None), (None, "default")],
)
def test_nobody_else_does(tmp_path: Path, first: str | None, second: str | None) -> None:
    """Another user, and who names none, is told of nothing, not even that it is there."""
    chat = worked(tmp_path, first, LOOK, "I do not know.")
    state = chat.say(ASKED, thread("b", second))
    found, read, expanded = answers(chat)

    assert '"results":[]' in found
    assert "no earlier session 'a'" in read
    assert f"no effort '{AUTH}'" in expanded
    assert (state["memory"]["expanded"], state["memory"]["summaries"]) == ({}, {})
    assert SUMMARY["summary"] not in str(chat.last)


def test_one_connection_is_enough(
    tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """No turn holds a connection while it waits for another: many would wait for each other."""
    with SqlArchive(database.url, pool_size=1, lock_timeout=0.5) as archive:
        chat = talk(tmp_path, [*WORK, LOOK, "After an hour.", "Hello."], archive=archive)
        chat.say(LONG_ENOUGH, thread("a"))
        chat.say("That was all.", thread("a"))
        surfacing = chat.say(ASKED, thread("b"))
        found, read, _ = answers(chat)
        fading = chat.say("Hello", thread("c"), context={"attention_threshold": 90.0})

    assert surfacing["memory"]["banners"][0] == f"--- From earlier sessions: {AUTH} ---"
    assert (AUTH in found, LONG_ENOUGH in read) == (True, True)
    assert fading["memory"]["banners"] == []
    assert caplog.messages == []


def test_a_user_called_default_is_one_like_any_other(tmp_path: Path) -> None:
    """The id stands for nobody but its user, who has a memory across sessions."""
    chat = worked(tmp_path, "default", LOOK, "After an hour.")
    chat.say(ASKED, thread("b", "default"))

    assert AUTH in answers(chat)[0]


def test_erasing_reaches_what_was_read_elsewhere(tmp_path: Path) -> None:
    """Erased in the one session, the text is in no file of the other, and in no later context."""
    chat = worked(tmp_path, "ada", LOOK, "After an hour.", "Nothing.")
    chat.say(ASKED, thread("b"))
    erase(chat.agent, thread("a"), 1)
    chat.say("And now?", thread("b"))
    chat.archive.close()
    kept = b"".join(revealed(path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())

    gone = (LONG_ENOUGH, SUMMARY["summary"])

    assert [piece for piece in gone if piece.encode() in kept] == []
    assert [piece for piece in gone if piece in str(chat.last)] == []
    assert render("canned_summary") in answers(chat)[0]


def test_the_turn_that_looked_is_shown_again_as_it_was(tmp_path: Path) -> None:
    """The next context has the same results, of which the archive of the thread holds none."""
    chat = worked(tmp_path, "ada", LOOK, "After an hour.", "Fine.")
    chat.say(ASKED, thread("b"))
    before = answers(chat)
    state = chat.say("Thank you.", thread("b"))

    assert answers(chat) == before
    assert LONG_ENOUGH not in str(chat.records(state))
    assert SUMMARY["summary"] not in str(chat.records(state))


def test_the_scripted_model_finds_and_expands_it(tmp_path: Path) -> None:
    """A request in plain words for what another session concluded is answered from there."""
    agent = create_memory_agent(
        ScriptedModel(), archive=DiskArchive(tmp_path), checkpointer=InMemorySaver()
    )

    def say(words: str, name: str) -> Any:
        return agent.invoke({"messages": [("user", words)]}, thread(name))

    say("Let's work on the auth bug. The refresh token expires after 3600 seconds.", "a")
    say("That's done.", "a")
    found = say("Search for refresh token", "b")["messages"][-1].text
    state = say("Expand a/auth-bug", "b")

    assert found.startswith(f"Found {AUTH}: ")
    assert list(state["memory"]["expanded"]) == [AUTH]
    assert AUTH in say("When does the refresh token expire?", "b")["messages"][-1].text
