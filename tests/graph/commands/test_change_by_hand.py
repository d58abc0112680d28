"""The memory tools by hand: commands, archived once, restored, forked, resumed, and no turns."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide import (
    DiskArchive,
    commands,
    restore,
)
from ebbtide.memory.archive.export import export_folder, export_markdown
from ebbtide.memory.errors import SessionNotFoundError
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.agents import THREAD, Talk, lasting, talk, tip_in, unreported
from tests.doubles import call
from tests.faults.disks import FullDisk

pytestmark = pytest.mark.usefixtures("entry")

SESSION = Session("", "t")
LONG = "The refresh token expires after 3600 seconds, and nobody renews it."


def begun(root: Path, *answers: Any, **options: Any) -> Talk:
    """Return an agent after a turn, then an effort that was opened by hand and talked in."""
    chat = talk(root, ["hello", "noted", *answers], **options)
    chat.say("hi")
    commands.open_effort(chat.agent, THREAD, "auth bug", "sign-in works")
    chat.say(LONG)
    return chat


def state_of(chat: Talk) -> dict[str, Any]:
    """Return the state of the thread."""
    found: dict[str, Any] = chat.agent.get_state(THREAD).values
    return found


def done_by_hand(chat: Talk) -> list[StoredTurn]:
    """Return the commands that the thread's state can see."""
    tip = tip_in(state_of(chat))
    commits = chat.archive.load(SESSION, tip).commits(range(tip.turn + 1))
    return [turn for turn in commits if turn.status == "command"]


def test_a_command_is_a_commit_of_events(tmp_path: Path) -> None:
    """It stands between the turns, has no messages, and is no turn for any command."""
    chat = begun(tmp_path)

    (stored,) = done_by_hand(chat)

    assert [event["type"] for event in stored.events] == ["opened"]
    assert (stored.number, stored.messages, stored.efforts) == (1, (), ())
    assert [line.turn for line in commands.messages(chat.agent, THREAD).lines] == [2, 1]
    said = [message.text for message in commands.transcript(chat.agent, THREAD)[0]]
    assert said == ["hi", "hello", LONG, "noted"]
    assert [turn.turn for turn in commands.stats(chat.agent, THREAD).turns] == [1, 2]


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    """A name that no checkpointer could store is taken without what breaks it."""
    chat = talk(tmp_path, [])

    commands.open_effort(chat.agent, THREAD, "a\ud800b", "goal \udfff")

    (turn,) = done_by_hand(chat)
    assert (turn.events[0]["effort"], turn.events[0]["goal"]) == ("a-b", "goal \ufffd")


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda agent: commands.open_effort(agent, THREAD, "css", "narrow"), id="open"),
        pytest.param(lambda _agent: None, id="close"),
        pytest.param(lambda agent: commands.expand_effort(agent, THREAD, "auth-bug"), id="expand"),
    ],
)
def test_commands_are_replayed_from_the_archive(tmp_path: Path, then: Any) -> None:
    """A thread that is restored right after a command is where it was."""
    chat = begun(tmp_path)
    commands.close_effort(chat.agent, THREAD)
    then(chat.agent)
    before = state_of(chat)
    again = talk(tmp_path, ["on"], checkpointer=InMemorySaver())

    restore(again.agent, THREAD)

    after = state_of(again)
    assert lasting(after) == lasting(before)
    assert unreported(after) == unreported(before)
    again.say("on we go")
    assert again.branches == 1


def test_a_fork_after_a_command_knows_it_and_one_before_does_not(tmp_path: Path) -> None:
    """Each branch sees the commands of its own past."""
    chat = begun(tmp_path, "on one", "on the other")
    commands.close_effort(chat.agent, THREAD)
    history = [one for one in chat.agent.get_state_history(THREAD) if not one.next]
    after = history[0]
    before = next(one for one in history if one.values["memory"]["active_effort"])

    one, other = chat.say("one", after.config), chat.say("other", before.config)

    assert (one["memory"]["active_effort"], other["memory"]["active_effort"]) == (None, "auth-bug")
    assert chat.said(one) == ["hi", LONG, "one"]
    assert chat.said(other) == ["hi", LONG, "other"]


def test_a_command_stands_after_an_edit_of_the_turn_before_it(tmp_path: Path) -> None:
    """The edited turn is committed beside the old one, and what was done by hand follows it."""
    chat = begun(tmp_path, "on")
    commands.close_effort(chat.agent, THREAD)
    *_, answer = state_of(chat)["messages"]
    edited = answer.model_copy(update={"content": "Noted, and filed."})
    chat.agent.update_state(THREAD, {"messages": [edited]})

    state = chat.say("on")

    assert chat.turns(state)[1].messages[-1].content == "Noted, and filed."
    assert [*state["memory"]["summaries"]] == ["auth-bug"]
    assert [one.events[0]["type"] for one in done_by_hand(chat)] == ["opened", "concluded"]
    assert chat.branches == 2


def test_the_metrics_know_what_was_done_by_hand(tmp_path: Path) -> None:
    """A log that was expanded and collapsed by hand counts as such."""
    chat = begun(tmp_path)
    commands.close_effort(chat.agent, THREAD)
    commands.expand_effort(chat.agent, THREAD, "auth-bug")
    commands.collapse_effort(chat.agent, THREAD, "auth-bug")

    found = commands.stats(chat.agent, THREAD)

    assert (found.manual_collapses, found.auto_collapses) == (1, 0)


def test_commands_are_exported_as_events(tmp_path: Path) -> None:
    """In the folder they are lines without messages, in the transcript they say what was done."""
    chat = begun(tmp_path)
    commands.close_effort(chat.agent, THREAD)

    export_folder(chat.archive, SESSION, tmp_path / "folder")
    export_markdown(chat.archive, SESSION, tip_in(state_of(chat)), tmp_path / "page.md")

    log = (tmp_path / "folder" / "efforts" / "auth-bug.jsonl").read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in log]
    assert [line["status"] for line in lines] == ["command", "done", "command"]
    assert [len(line["messages"]) for line in lines] == [0, 2, 0]
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "opened `auth-bug`" in page
    assert page.count("## Turn") == 2


def test_a_command_on_an_older_state_is_a_fork(tmp_path: Path) -> None:
    """A config that names a checkpoint is where the command begins its branch."""
    chat = begun(tmp_path)
    history = [one for one in chat.agent.get_state_history(THREAD) if not one.next]
    first = next(one for one in history if one.values["memory"]["turn"] == 1)

    done = commands.open_effort(chat.agent, first.config, "other")

    assert (done.turn, state_of(chat)["memory"]["active_effort"]) == (1, "other")
    assert chat.said(state_of(chat)) == ["hi"]


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda _agent: None, id="asked"),
        pytest.param(lambda agent: commands.open_effort(agent, THREAD, "more"), id="command"),
        pytest.param(lambda agent: agent.invoke(None, THREAD), id="resumed"),
    ],
)
def test_a_full_disk_leaves_a_command_that_is_committed_once(tmp_path: Path, then: Any) -> None:
    """The command is done and waits for the archive; whatever comes next commits it."""
    chat = begun(tmp_path, "on", archive=FullDisk(tmp_path, durable=False))
    assert isinstance(chat.archive, FullDisk)
    chat.archive.failures = 3

    with pytest.raises(OSError, match="No space left"):
        commands.close_effort(chat.agent, THREAD)
    then(chat.agent)
    chat.say("on")

    assert [one.events[0]["type"] for one in done_by_hand(chat)][:2] == ["opened", "concluded"]
    assert len(chat.archive.tips(SESSION)) == 1
    assert len(chat.model.asked) == 1


def test_a_command_that_waits_is_not_done_for_another_user(tmp_path: Path) -> None:
    """A command makes a new thread its user's, even if it waits: nobody else goes on in it."""
    chat = talk(tmp_path, ["on"], archive=FullDisk(tmp_path, durable=False))
    assert isinstance(chat.archive, FullDisk)
    ann, bob = ({"configurable": {"thread_id": "t", "user_id": name}} for name in ("ann", "bob"))
    chat.archive.failures = 3
    with pytest.raises(OSError, match="No space left"):
        commands.open_effort(chat.agent, cast("RunnableConfig", ann), "secret")

    with pytest.raises(SessionNotFoundError):
        chat.say("one", cast("RunnableConfig", bob))

    assert "bob" not in chat.archive.users()
    state = chat.say("two", cast("RunnableConfig", ann))
    assert "secret" in state["memory"]["open_efforts"]


class Deadly(DiskArchive):
    """An archive that kills its process at its third commit, before or after it."""

    attempts = 0
    before = True

    def commit(
        self, session: Session, tip: Tip, new: StoredTurn, embedder: Embedder | None = None
    ) -> StoredTurn:
        """Commit, or die."""
        self.attempts += 1
        if self.attempts == 3 and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        stored = super().commit(session, tip, new, embedder)
        if self.attempts == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return stored


@contextmanager
def on_sqlite(root: Path, archive: DiskArchive, *answers: Any) -> Iterator[Talk]:
    """Yield an agent with its checkpoints in a file."""
    with SqliteSaver.from_conn_string(str(root / "c.sqlite")) as saver:
        yield talk(root, [*answers], archive=archive, checkpointer=saver)


def killed(root: Path, *, before: bool) -> bool:
    """Tell whether a process was killed that concludes an effort, before or after its commit."""
    child = os.fork()
    if child == 0:
        archive = Deadly(root / "kept")
        archive.before = before
        with on_sqlite(root, archive, call("open_effort", name="a"), "opened", "more") as chat:
            chat.say("work")
            chat.say("more work")
            commands.close_effort(chat.agent, THREAD)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda agent: agent.invoke(None, THREAD), id="resumed"),
        pytest.param(lambda _agent: None, id="asked"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_killed_command_is_there_once(tmp_path: Path, begin: Any, *, before: bool) -> None:
    """Killed around its commit, a command is committed once in the lineage that goes on."""
    died = killed(tmp_path, before=before)
    with on_sqlite(tmp_path, DiskArchive(tmp_path / "kept"), "on") as chat:
        begin(chat.agent)
        state = chat.say("on")

    assert died
    assert chat.said(state) == ["work", "more work", "on"]
    assert [*state["memory"]["summaries"]] == ["a"]
    assert len(chat.archive.load(SESSION, tip_in(state)).commits([1, 2, 3])) == 4
    assert chat.archive.verify(SESSION) == ()
