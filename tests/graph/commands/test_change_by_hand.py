"""The memory tools by hand: turns like any other, archived once, restored, forked, resumed."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ebbtide import (
    CommandError,
    DiskArchive,
    Settings,
    TurnRunningError,
    commands,
    restore,
)
from ebbtide.memory.embeddings import Embedder
from ebbtide.memory.record import Group, Owner, Record, Tip
from tests.agents import THREAD, Talk, lasting, talk
from tests.doubles import call
from tests.faults.disks import FullDisk

pytestmark = pytest.mark.usefixtures("entry")

OWNER = Owner("", "t")
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


def test_every_tool_works_by_hand(tmp_path: Path) -> None:
    """Each command does what its tool does, says so, and is a turn; no model answers."""
    chat = begun(tmp_path)

    done = [
        commands.open_effort(chat.agent, THREAD, "css"),
        commands.switch_effort(chat.agent, THREAD, "auth-bug"),
        commands.close_effort(chat.agent, THREAD),
        commands.expand_effort(chat.agent, THREAD, "auth-bug", "3"),
        commands.collapse_effort(chat.agent, THREAD, "auth-bug"),
        commands.reopen_effort(chat.agent, THREAD, "auth-bug"),
        commands.close_effort(chat.agent, THREAD, "css"),
    ]

    assert [one.result["status"] for one in done] == [
        *("opened", "switched", "concluded", "expanded", "collapsed", "reopened", "concluded"),
    ]
    assert [one.turn for one in done] == [4, 5, 6, 7, 8, 9, 10]
    assert done[3].result["turns"] == "3"
    assert done[1].banners == ("--- Switched to effort: auth-bug ---",)
    assert len(chat.model.sent) == 2
    assert state_of(chat)["memory"]["active_effort"] == "auth-bug"


def test_a_command_is_a_turn_of_the_conversation(tmp_path: Path) -> None:
    """Its record has the command, the call, the result and an answer, and its events."""
    chat = begun(tmp_path)

    record = chat.records(state_of(chat))[1]

    assert [message["type"] for message in record.messages] == ["human", "ai", "tool", "ai"]
    assert record.messages[0]["data"]["content"] == "/open auth bug: sign-in works"
    assert record.messages[-1]["data"]["content"] == ("auth-bug: opened.")
    assert [event["type"] for event in record.events] == ["opened"]
    assert (record.efforts, record.status) == (("auth-bug",), "done")


def test_the_model_sees_what_the_user_did(tmp_path: Path) -> None:
    """In the next call the command stands where it was said, well formed."""
    chat = begun(tmp_path)

    types = [message.type for message in chat.last]

    assert types[-5:] == ["human", "ai", "tool", "ai", "human"]
    assert "/open auth bug: sign-in works" in [m.content for m in chat.last]


def test_turns_without_a_call_of_the_model_cost_nothing(tmp_path: Path) -> None:
    """The metrics have a row for each turn in which the model was called, and no other."""
    chat = begun(tmp_path)

    found = commands.stats(chat.agent, THREAD)

    assert [turn.turn for turn in found.turns] == [1, 3]


def test_switching_to_no_effort_pauses(tmp_path: Path) -> None:
    """The turn that pauses is ambient, and a thread that is restored is as paused as before."""
    chat = begun(tmp_path)

    done = [commands.switch_effort(chat.agent, THREAD) for _ in range(2)]
    again = talk(tmp_path, [], checkpointer=InMemorySaver())
    restore(again.agent, THREAD)

    paused = {"status": "paused", "effort_id": "auth-bug"}
    assert [one.result for one in done] == [paused, {"status": "paused"}]
    assert done[0].banners == ("--- Paused effort: auth-bug ---",)
    assert chat.said(state_of(chat))[-2:] == ["/switch", "/switch"]
    assert chat.records(state_of(chat))[-1].efforts == ()
    memory = state_of(again)["memory"]
    assert (memory["active_effort"], [*memory["open_efforts"]]) == (None, ["auth-bug"])


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (partial(commands.close_effort, effort_id="nope"), "no effort 'nope'"),
        (partial(commands.switch_effort, effort_id="nope"), "no effort 'nope'"),
        (partial(commands.reopen_effort, effort_id="auth-bug"), "is open already"),
        (partial(commands.expand_effort, effort_id="auth-bug"), "is open: its turns"),
        (partial(commands.collapse_effort, effort_id="auth-bug"), "is not expanded"),
        (partial(commands.open_effort, name="auth bug"), "exists already"),
    ],
)
def test_a_command_that_fails_changes_nothing(
    tmp_path: Path, command: Callable[..., Any], why: str
) -> None:
    """The tool's error is raised, and neither state nor archive knows of it."""
    chat = begun(tmp_path)
    before = chat.agent.get_state(THREAD)

    with pytest.raises(CommandError, match=why):
        command(chat.agent, THREAD)

    assert chat.agent.get_state(THREAD) == before
    assert chat.archive.newest(OWNER) == Tip(3, before.values["bookkeeping"]["tip"])


@pytest.mark.usefixtures("impatient")
def test_a_failed_summary_leaves_the_effort_open(tmp_path: Path) -> None:
    """Closing by hand fails as closing does, and nothing is changed."""
    chat = begun(tmp_path, structured=[ConnectionError("gone")] * 3)

    with pytest.raises(CommandError, match="stays open and nothing changed"):
        commands.close_effort(chat.agent, THREAD)

    assert state_of(chat)["memory"]["active_effort"] == "auth-bug"
    assert state_of(chat)["memory"]["turn"] == 3


def test_decay_counts_commands_as_turns(tmp_path: Path) -> None:
    """A log that nobody mentions collapses during commands as it does during talk."""
    chat = begun(tmp_path, settings=Settings(decay_threshold=2))
    commands.close_effort(chat.agent, THREAD)
    commands.expand_effort(chat.agent, THREAD, "auth-bug")

    done = [commands.open_effort(chat.agent, THREAD, name) for name in ("one", "two")]

    assert done[0].banners == ("--- Started effort: one ---",)
    assert done[1].banners[1:] == (
        "--- Auto-collapsed effort: auth-bug (inactive for 2 turns) ---",
    )


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    """A name that no checkpointer could store is taken without what breaks it."""
    chat = talk(tmp_path, [])

    commands.open_effort(chat.agent, THREAD, "a\ud800b", "goal \udfff")

    (record,) = chat.records(state_of(chat))
    assert record.messages[1]["data"]["tool_calls"][0]["args"] == {
        "name": "a\ufffdb",
        "goal": "goal \ufffd",
    }


def test_the_first_turn_may_be_a_command(tmp_path: Path) -> None:
    """An effort can be opened before anything was said."""
    chat = talk(tmp_path, ["well"])

    commands.open_effort(chat.agent, THREAD, "a")

    assert chat.said(chat.say("go on")) == ["/open a", "go on"]


def test_an_unfinished_turn_is_in_the_way(tmp_path: Path) -> None:
    """A command settles no turn that may yet be resumed."""
    chat = talk(tmp_path, [ConnectionError("gone"), "here"])
    with pytest.raises(ConnectionError):
        chat.say("question")

    with pytest.raises(TurnRunningError, match="turn 1"):
        commands.open_effort(chat.agent, THREAD, "a")

    assert chat.agent.invoke(None, THREAD)["messages"][-1].text == "here"


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
    assert after["messages"] == before["messages"]
    again.say("on we go")
    assert again.branches == 1


def test_a_fork_after_a_command_knows_it_and_one_before_does_not(tmp_path: Path) -> None:
    """Each branch sees the commands of its own past."""
    chat = begun(tmp_path, "on one", "on the other")
    commands.close_effort(chat.agent, THREAD)
    rests = [one for one in chat.agent.get_state_history(THREAD) if not one.next]
    after, before = rests[:2]

    one, other = chat.say("one", after.config), chat.say("other", before.config)

    assert (one["memory"]["active_effort"], other["memory"]["active_effort"]) == (None, "auth-bug")
    assert chat.said(one)[-2:] == ["/close", "one"]
    assert chat.said(other)[-2:] == [LONG, "other"]


def test_a_command_on_an_older_state_is_a_fork(tmp_path: Path) -> None:
    """A config that names a checkpoint is where the command begins its branch."""
    chat = begun(tmp_path)
    first = next(
        one for one in chat.agent.get_state_history(THREAD) if one.values["memory"]["turn"] == 1
    )

    done = commands.open_effort(chat.agent, first.config, "other")

    assert (done.turn, state_of(chat)["memory"]["active_effort"]) == (2, "other")
    assert chat.said(state_of(chat)) == ["hi", "/open other"]


def test_a_full_disk_leaves_a_turn_that_is_ended_once(tmp_path: Path) -> None:
    """The command is done, its turn waits for the archive, and resuming commits it once."""
    chat = begun(tmp_path, "on", archive=FullDisk(tmp_path, durable=False))
    assert isinstance(chat.archive, FullDisk)
    chat.archive.failures = 3

    with pytest.raises(OSError, match="No space left"):
        commands.close_effort(chat.agent, THREAD)
    chat.agent.invoke(None, THREAD)

    assert chat.said(chat.say("on"))[-2:] == ["/close", "on"]
    assert len(chat.archive.tips(OWNER)) == 1
    assert len(chat.model.asked) == 1


class Deadly(DiskArchive):
    """An archive that kills its process at its third commit, before or after it."""

    commits = 0
    before = True

    def commit(
        self, owner: Owner, tip: Tip, group: Group, embedder: Embedder | None = None
    ) -> Record:
        """Commit, or die."""
        self.commits += 1
        if self.commits == 3 and self.before:
            os.kill(os.getpid(), signal.SIGKILL)
        record = super().commit(owner, tip, group, embedder)
        if self.commits == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return record


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
    """Killed around its commit, a command stands once in the lineage that goes on."""
    died = killed(tmp_path, before=before)
    with on_sqlite(tmp_path, DiskArchive(tmp_path / "kept"), "on") as chat:
        begin(chat.agent)
        state = chat.say("on")

    assert died
    assert chat.said(state) == ["work", "more work", "/close", "on"]
    assert [*state["memory"]["summaries"]] == ["a"]
    assert [record.status for record in chat.records(state)] == ["done"] * 4
    assert chat.archive.verify(OWNER) == ()


async def test_commands_work_with_an_asynchronous_checkpointer(tmp_path: Path) -> None:
    """With checkpoints in SQLite, read and written asynchronously, they do the same."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as saver:
        chat = talk(tmp_path / "kept", [], checkpointer=saver)
        agent = chat.agent

        done = [
            await commands.aopen_effort(agent, THREAD, "a", "first"),
            await commands.aopen_effort(agent, THREAD, "b"),
            await commands.aswitch_effort(agent, THREAD, "a"),
            await commands.aclose_effort(agent, THREAD),
            await commands.aexpand_effort(agent, THREAD, "a"),
            await commands.acollapse_effort(agent, THREAD, "a"),
            await commands.areopen_effort(agent, THREAD, "a"),
        ]
        with pytest.raises(CommandError, match="no effort 'c'"):
            await commands.aclose_effort(agent, THREAD, "c")

    assert [one.turn for one in done] == [1, 2, 3, 4, 5, 6, 7]
    assert chat.archive.newest(OWNER) is not None
