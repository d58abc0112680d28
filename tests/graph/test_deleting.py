"""Deleting a session or a user: nothing of it is left anywhere, and nothing of it comes back."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState, StateGraph

from ebbtide import (
    ArchiveLockedError,
    DiskArchive,
    SessionNotFoundError,
    SqlArchive,
    delete_session,
    delete_user,
)
from ebbtide.memory.archive.memories import SqlAttention
from ebbtide.memory.turn import Session
from tests.agents import Talk, talk
from tests.doubles import Keeping, call
from tests.zipped import revealed

pytestmark = pytest.mark.usefixtures("entry")

SAID = "The vault of the shop opens with the blue lever and nothing else."
GOAL = "Find out how the vault is opened"
SUMMARY = "It opens with a lever that is blue, as was found out."
SECRETS = (SAID, GOAL, SUMMARY)
SCRIPT = (call("open_effort", name="vault", goal=GOAL), "Noted.", call("close_effort"), "Done.")
ANN, BOB = Session("ann", "one"), Session("bob", "one")


def of(user: str, thread: str) -> RunnableConfig:
    """Return the config of a user's thread."""
    return {"configurable": {"thread_id": thread, "user_id": user}}


def traces(folder: Path) -> list[str]:
    """Return which files below a folder hold what was said."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        p.name for p in files if any(one.encode() in revealed(p.read_bytes()) for one in SECRETS)
    ]


def lived(folder: Path, saver: Any, archive: SqlArchive | None = None) -> Talk:
    """Return an agent after a session of Ann's that concluded something."""
    chat = talk(
        folder / "archive",
        [*SCRIPT, *["And so on."] * 9],
        [{"summary": SUMMARY, "keywords": ["lever"], "importance": 90}],
        checkpointer=saver,
        archive=archive,
    )
    [chat.say(words, of("ann", "one")) for words in (SAID, "Done.")]
    return chat


@contextmanager
def on_files(folder: Path) -> Iterator[Talk]:
    """Keep archive and checkpoints in SQLite files."""
    connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)
    chat = lived(folder, SqliteSaver(connection))
    yield chat
    connection.close()
    chat.archive.close()


async def session(agent: Any) -> Any:
    """Delete Ann's session."""
    return delete_session(agent, of("ann", "one"))


async def user(agent: Any) -> Any:
    """Delete all of Ann."""
    return delete_user(agent, "ann")


@pytest.mark.parametrize(
    "config",
    [of("bob", "one"), {"configurable": {"thread_id": "one"}}, of("ann", "missing")],
    ids=["bob", "nobody", "missing"],
)
def test_a_foreign_or_missing_session_is_not_found(tmp_path: Path, config: RunnableConfig) -> None:
    """Neither Bob nor nobody deletes Ann's thread, and nothing changes."""
    with on_files(tmp_path) as chat:
        with pytest.raises(SessionNotFoundError):
            delete_session(chat.agent, config)

        assert chat.archive.sessions("ann") == (ANN,)
        assert delete_user(chat.agent, "nobody at all").sessions == ()
        assert traces(tmp_path) != []


def test_a_copy_of_a_deleted_thread_does_not_come_back(tmp_path: Path) -> None:
    """Who goes on from checkpoints that somebody kept is told, and has what their messages have."""
    saver = InMemorySaver()
    chat = lived(tmp_path, saver)
    kept = saver.get_tuple(of("ann", "one"))
    assert kept is not None
    delete_session(chat.agent, of("ann", "one"))
    versions = kept.checkpoint["channel_versions"]
    config: RunnableConfig = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
    saver.put(config, kept.checkpoint, kept.metadata, versions)

    state = chat.say("Where were we?", of("ann", "one"))

    assert state["memory"]["banners"] == ["--- Adopted 2 earlier turns ---"]
    assert state["memory"]["open_efforts"] == {}


def test_a_new_thread_of_the_same_id_begins_afresh(tmp_path: Path) -> None:
    """It counts from 1, knows nothing, and goes on; processes that knew the old one see it."""
    with on_files(tmp_path) as chat, DiskArchive(tmp_path / "archive", durable=False) as other:
        tip = other.load(ANN).tip
        assert tip is not None
        assert len(other.load(ANN, tip).turns([1, 2])) == 2
        delete_session(chat.agent, of("ann", "one"))

        states = [chat.say(words, of("ann", "one")) for words in ("A new one.", "And on.")]

        assert states[-1]["memory"]["turn"] == 2
        assert chat.said(states[-1]) == ["A new one.", "And on."]
        new = other.load(ANN).tip
        assert new is not None
        assert other.load(ANN, new).tip == new
        assert [r.messages[0].content for r in other.load(ANN, new).turns([1, 2])] == [
            *("A new one.", "And on.")
        ]
        assert traces(tmp_path) == []


@pytest.mark.parametrize("deleting", [session, user])
async def test_checkpoints_that_stay_are_named(tmp_path: Path, deleting: Any) -> None:
    """Without `delete_thread` the archive is emptied all the same, and the report names them."""
    chat = lived(tmp_path, Keeping())

    report = await deleting(chat.agent)

    assert report.not_erased == ("the checkpoints of 'one': Keeping cannot delete them",)
    assert chat.say("Where were we?", of("ann", "one"))["memory"]["banners"] != []


class Stuck(InMemorySaver):
    """Checkpoints in memory that cannot be deleted for now."""

    def delete_thread(self, thread_id: str) -> None:
        """Fail."""
        raise ConnectionError(thread_id)


class Told(SqlAttention):
    """Attention that notes whose memories have changed."""

    users: tuple[str, ...] = ()

    def changed(self, user_id: str) -> bool:
        """Note the user."""
        self.users = (*self.users, user_id)
        return True


def test_caches_are_told_before_checkpoints_are_deleted(tmp_path: Path) -> None:
    """Where the checkpointer fails, nothing of the session is surfaced from a cache any more."""
    archive = DiskArchive(tmp_path, durable=False)
    told = Told(archive.database)
    chat = talk(tmp_path, ["Well."], checkpointer=Stuck(), archive=archive, attention=told)
    chat.say(SAID, of("ann", "one"))

    with pytest.raises(ConnectionError):
        delete_session(chat.agent, of("ann", "one"))

    assert told.users == ("ann",)


def test_if_the_archive_fails_the_checkpoints_stay(tmp_path: Path) -> None:
    """A user whose archive is locked is still there, whole, and can be deleted afterwards."""
    chat = lived(tmp_path, InMemorySaver(), DiskArchive(tmp_path / "archive", lock_timeout=0.1))
    writer = sqlite3.connect(tmp_path / "archive" / "ebbtide.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")

    with pytest.raises(ArchiveLockedError):
        delete_user(chat.agent, "ann")

    writer.close()
    assert chat.agent.get_state(of("ann", "one")).values["memory"]["turn"] == 2
    assert delete_user(chat.agent, "ann").sessions == (ANN,)
    assert chat.agent.get_state(of("ann", "one")).values == {}


@pytest.mark.parametrize("deleting", [session, user])
async def test_what_a_larger_graph_keeps_is_said(tmp_path: Path, deleting: Any) -> None:
    """The report names the thread whose checkpoints only the graph around the agent has."""
    chat = talk(tmp_path, ["Well."], checkpointer=None)
    larger = StateGraph(MessagesState).add_node("talk", chat.agent).set_entry_point("talk")
    parent: Any = larger.compile(checkpointer=InMemorySaver())
    parent.invoke({"messages": SAID}, of("ann", "one"))

    report = await deleting(chat.agent)

    assert [session.thread for session in report.sessions] == ["one"]
    (said,) = report.not_erased
    assert "has none of thread 'one' of its own; delete that with the checkpointer of" in said


def test_checkpoints_of_a_turn_that_ran_meanwhile_can_be_deleted(tmp_path: Path) -> None:
    """The turn fails, and deleting again removes what it wrote."""
    with on_files(tmp_path) as chat:

        def answers(_messages: Any) -> str:
            chat.model.answers = lambda _: "And so on."
            delete_session(chat.agent, of("ann", "one"))
            return "Deleted."

        chat.model.answers = answers
        with pytest.raises(SessionNotFoundError, match="session 'one' not found"):
            chat.say("Delete all of this.", of("ann", "one"))
        again = delete_session(chat.agent, of("ann", "one"))

        assert (again.sessions, again.not_erased, traces(tmp_path)) == ((), (), [])
        assert chat.say("Where were we?", of("ann", "one"))["memory"]["turn"] == 1


def test_the_checkpoints_of_another_checkpointer_are_named(tmp_path: Path) -> None:
    """Whoever deletes with an empty checkpointer learns that the thread's own may remain."""
    chat = lived(tmp_path, InMemorySaver())
    other = talk(tmp_path, [], archive=chat.archive, checkpointer=InMemorySaver())

    report = delete_session(other.agent, of("ann", "one"))

    assert report.sessions == (ANN,)
    assert any("the agent's checkpointer has none" in line for line in report.not_erased)


def test_a_reader_of_the_archive_is_named(tmp_path: Path) -> None:
    """If another connection keeps SQLite from reclaiming pages, the report says so."""
    chat = lived(tmp_path, InMemorySaver(), DiskArchive(tmp_path / "archive", lock_timeout=0.1))
    reader = sqlite3.connect(tmp_path / "archive" / "ebbtide.sqlite")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM ebbtide_turns").fetchone()

    report = delete_session(chat.agent, of("ann", "one"))

    reader.close()
    assert ["another connection is reading it" in one for one in report.not_erased] == [True]
