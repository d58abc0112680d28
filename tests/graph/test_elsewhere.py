"""Efforts of other sessions through the graph: found, read and expanded by the same user alone."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from ebbtide import SqlArchive
from ebbtide.graph.erase.erase import erase
from tests.agents import SUMMARY, Talk, talk
from tests.databases import Database
from tests.doubles import call, together
from tests.graph.journeys import using
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
    assert '"text":""' in answers(chat)[0]


def test_the_turn_that_looked_is_shown_again_as_it_was(tmp_path: Path) -> None:
    """The next context has the same results, of which the archive of the thread holds none."""
    chat = worked(tmp_path, "ada", LOOK, "After an hour.", "Fine.")
    chat.say(ASKED, thread("b"))
    before = answers(chat)
    state = chat.say("Thank you.", thread("b"))

    assert answers(chat) == before
    assert LONG_ENOUGH not in str(chat.turns(state))
    assert SUMMARY["summary"] not in str(chat.turns(state))
