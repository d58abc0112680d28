"""Erasing a turn of a thread: nothing of it is left, and the thread goes on."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from ebbtide import (
    SettingsError,
    TurnArrivedError,
    TurnNotFoundError,
    TurnRunningError,
    aerase,
    commands,
    create_memory_agent,
    erase,
    restore,
)
from ebbtide.commands import open_effort
from ebbtide.memory.turn import Session
from ebbtide.nodes.turn.state import MemoryState
from tests.agents import THREAD, Talk, inside, lasting, talk
from tests.doubles import Keeping, ScriptedModel, call, together
from tests.faults.places import Place
from tests.graph.erase.scene import ANN, opened, say
from tests.zipped import revealed

pytestmark = pytest.mark.usefixtures("entry")

ASKED = 'The key of the "north" gate is kept with Marion, tell nobody.'
ASKED_CHINESE = "北门的钥匙在玛丽昂那里，不要告诉任何人。"
FOUND = "Marion lives at 12 Harbour Street, second floor."
ANSWERED = "I shall not mention Marion's key to anybody at all."
NOTED = "harbour keys of the north gate"
SECRETS = (ASKED, ASKED_CHINESE, FOUND, ANSWERED, NOTED)
TELLING = {"summary": f"{ANSWERED} It was kept.", "keywords": ["harbour"], "importance": 5}


def look_up(what: str) -> str:
    """Look something up."""
    return f"{FOUND} ({len(what)})"


def ask(what: str) -> str:
    """Ask the user."""
    return str(interrupt(what))


SCRIPT = (
    *("Hello.", call("open_effort", name="keys", goal=NOTED)),
    together(call("look_up", what=NOTED), call("look_up", what=ASKED_CHINESE)),
    *(ANSWERED, "Noted.", call("close_effort"), "It is done.", "Anything else?"),
)
THANKS = "Thank you. The garden gate is open to all of us, day and night, as it ever was."
WORDS = ("Hello there.", f"{ASKED}\n{ASKED_CHINESE}", THANKS, "Close it.", "Good.")


def forms(text: str) -> list[bytes]:
    """Return text as files may hold it: as it is, or escaped in JSON."""
    plain, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    return [form.encode() for form in (text, plain, ascii_only)]


def traces(folder: Path, texts: Iterable[str] = SECRETS) -> list[str]:
    """Return which texts stand in which files below a folder."""
    return [
        f"{path.relative_to(folder)}: {text}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for data in [revealed(path.read_bytes())]
        for text in texts
        if any(form in data for form in forms(text))
    ]


@contextmanager
def begun(folder: Path, words: Iterable[str] = WORDS, **options: Any) -> Iterator[Talk]:
    """Have the conversation on files below a folder, checkpoints in a WAL, and keep it open."""
    connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)
    chat = talk(
        folder / "archive",
        list(SCRIPT) + ["And so on."] * 9,
        [TELLING, {"summary": "Something was kept.", "keywords": []}],
        tools=[look_up],
        **{"checkpointer": SqliteSaver(connection), **options},
    )
    try:
        [chat.say(said) for said in words]
        yield chat
    finally:
        connection.close()
        chat.archive.close()


def test_state_is_kept_but_for_the_text(tmp_path: Path) -> None:
    """Efforts, counters and other messages are as before, in one checkpoint; other threads too."""
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    with begun(tmp_path, WORDS[:3]) as chat:
        chat.say("Another matter.", other)
        before = chat.agent.get_state(THREAD).values
        others = [one.config for one in chat.agent.get_state_history(other)]

        erase(chat.agent, THREAD, 2)

        (after,) = chat.agent.get_state_history(THREAD)
        assert [one.config for one in chat.agent.get_state_history(other)] == others
    before["memory"]["open_efforts"]["keys"]["goal"] = ""  # which the turn said
    assert lasting(after.values) == lasting(before)
    said = [message.text for message in after.values["messages"]]
    assert said == ["Hello there.", "Hello.", THANKS, "Noted."]
    assert after.next == ()


def test_summary_made_from_a_summary_goes_too(tmp_path: Path) -> None:
    """A log that tells how another effort ended is summarised without it, up to the last one."""
    said = ["Marion has the key.", "Marion is known.", "All about Marion.", "The garden is open."]
    then = ["A key is known.", "Hedges are cut.", "It is tidy."]
    summaries = [{"summary": one, "keywords": []} for one in (*said, *then)]
    with begun(tmp_path, ()) as chat:
        chat.model.structured = summaries
        chat.model.answers = [
            *(call("open_effort", name="keys"), "Yes.", ANSWERED),
            *(together(call("close_effort"), call("open_effort", name="hedge")), "Yes."),
            *(together(call("close_effort"), call("open_effort", name="shed")), "Yes."),
            *(call("close_effort"), "Yes.", call("open_effort", name="garden"), THANKS),
            *(call("close_effort"), "Yes."),
        ]
        talked = ("Keys.", ASKED, *(f"{number}: {THANKS}" for number in range(5)))
        [chat.say(words) for words in talked]

        report = erase(chat.agent, THREAD, 2)

        known = commands.efforts(chat.agent, THREAD).efforts
    assert report.resummarised == ("shed", "hedge", "keys")
    assert sorted(one.summary for one in known) == sorted([*then, said[-1]])
    assert traces(tmp_path, said[:3]) == []


def test_summary_stays_redacted_until_a_model_answers(tmp_path: Path) -> None:
    """If the call fails, the line says that it was redacted, and erasing again tries again."""
    with begun(tmp_path) as chat:
        chat.model.structured = [TELLING, RuntimeError("boom"), {"summary": "Cables."}]
        report = erase(chat.agent, THREAD, 2)
        chat.say("And now?")
        shown = "".join(message.text for message in chat.last)

        again = erase(chat.agent, THREAD, 2)

    assert (report.resummarised, report.stale) == ((), ("keys",))
    assert "keys: (redacted: a turn of this effort was erased)" in shown
    assert (again.turn, again.resummarised) == (2, ("keys",))


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["invoke", "ainvoke"])
async def test_turn_that_comes_while_one_is_erased_stays(tmp_path: Path, path: str) -> None:
    """The thread keeps the turn, the error says what to do, and erasing again finishes it."""
    with begun(tmp_path, checkpointer=InMemorySaver()) as chat:

        def summarise(_messages: Any) -> dict[str, Any]:
            chat.model.structured = [{"summary": "Cables.", "keywords": []}] * 9
            chat.say("Something came up meanwhile.")
            return {"summary": "Cables.", "keywords": []}

        chat.model.structured = summarise
        with pytest.raises(TurnArrivedError, match="ran while turn 2 was being erased"):
            await aerase(chat.agent, THREAD, 2) if path == "ainvoke" else erase(
                chat.agent, THREAD, 2
            )
        kept = chat.agent.get_state(THREAD).values

        report = erase(chat.agent, THREAD, 2)

        state = chat.say("Go on.")
        said = "".join(message.text for message in state["messages"])
        turns = chat.turns(state)
    assert (
        kept["memory"]["turn"],
        state["memory"]["turn"],
    ) == (6, 7)
    assert "Something came up meanwhile." in said
    assert not any(secret in said for secret in SECRETS)
    assert (report.turn, turns[1].status) == (2, "erased")


def test_checkpointer_that_cannot_delete_is_named(tmp_path: Path) -> None:
    """The newest state has no text, and the report names the older ones."""
    with begun(tmp_path, WORDS[:3], checkpointer=Keeping()) as chat:
        report = erase(chat.agent, THREAD, 2)

        said = chat.agent.get_state(THREAD).values["messages"]
    assert "Keeping cannot delete them" in report.not_erased[-1]
    assert ASKED not in "".join(message.text for message in said)


def test_reader_of_the_database_is_named(tmp_path: Path) -> None:
    """If another connection keeps SQLite from reclaiming pages, the report says so."""
    with begun(tmp_path, WORDS[:3]) as chat:
        chat.agent.checkpointer.conn.execute("PRAGMA busy_timeout=50")  # type: ignore[union-attr]  # there is one
        reader = sqlite3.connect(tmp_path / "checkpoints.sqlite")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM checkpoints").fetchone()

        report = erase(chat.agent, THREAD, 2)

        reader.close()
    assert "the WAL of the checkpoints' file" in report.not_erased[-1]


def test_branch_can_be_named(tmp_path: Path) -> None:
    """A turn that only another branch has is erased by naming the branch."""
    with begun(tmp_path, WORDS[:1]) as chat:
        first = chat.agent.get_state(THREAD).config
        chat.say("One way it went, as nobody knows.")
        (left,) = chat.archive.tips(Session("", "t"))
        chat.say("Another way it went, as all know.", first)

        report = erase(chat.agent, THREAD, 2, branch=left.id[:8])

        assert chat.branches == 2
        assert report.turn == 2
        assert traces(tmp_path, ["One way it went, as nobody knows."]) == []
        assert chat.said(chat.say("And now?"))[1] == "Another way it went, as all know."
        with pytest.raises(SettingsError, match="no branch 'west': use one of"):
            erase(chat.agent, THREAD, 2, branch="west")


@pytest.mark.parametrize("turn", [1, 2])
def test_unfinished_turn_is_refused(tmp_path: Path, turn: int) -> None:
    """While a turn waits for the user nothing is erased, and it can be finished."""
    chat = talk(tmp_path, ["Hello.", call("ask", what="Which?"), "Fine."], tools=[ask])
    [chat.say(words) for words in (ASKED, "go on")]

    with pytest.raises(TurnRunningError, match="turn 2 of thread 't' is not finished"):
        erase(chat.agent, THREAD, turn)

    assert traces(tmp_path, [ASKED]) != []
    state = chat.agent.invoke(None, THREAD)
    assert state["memory"]["turn"] == 2


def test_agent_inside_a_larger_graph_is_refused(tmp_path: Path) -> None:
    """The agent has no thread of its own, and the error says what to pass."""
    chat = talk(tmp_path, ["Well."], checkpointer=None)
    inside(chat, MemoryState).invoke({"messages": ASKED}, THREAD)

    with pytest.raises(SettingsError, match="pass the graph around the agent"):
        erase(chat.agent, THREAD, 1)

    assert traces(tmp_path, [ASKED]) != []


@pytest.mark.parametrize(("gone", "left"), [([2], ["Hello there.", "Hello."]), ([2, 1], [])])
def test_without_checkpoints_the_archive_is_erased(
    tmp_path: Path, gone: list[int], left: list[str]
) -> None:
    """If the checkpoints are lost, the archive is erased, and the thread is restored without it."""
    with begun(tmp_path, WORDS[:2]) as chat:
        model = ScriptedModel(answers=["Yes."])
        agent = create_memory_agent(model, archive=chat.archive, checkpointer=InMemorySaver())

        [erase(agent, THREAD, number) for number in gone]
        restore(agent, THREAD)

        state = agent.invoke({"messages": "Are you there?"}, THREAD)
    assert [message.text for message in state["messages"]][:-2] == left
    assert (state["memory"]["turn"], chat.branches) == (3, 1)


def test_edit_of_a_turn_that_only_the_archive_erased(tmp_path: Path) -> None:
    """Even edited messages of an erased turn do not come back."""
    with begun(tmp_path, WORDS[:2]) as chat:
        values = chat.agent.get_state(THREAD).values
        chat.archive.erase(Session("", "t"), chat.turns(values)[-1].tip, 2)
        question = values["messages"][2].model_copy(update={"content": "Something else."})
        chat.agent.update_state(THREAD, {"messages": [question]})

        state = chat.say(WORDS[2])

    assert chat.branches == 1
    assert [turn.status for turn in chat.turns(state)] == ["done", "erased", "done"]


def test_pages_of_rows_deleted_before_are_reclaimed(tmp_path: Path) -> None:
    """What deleted threads left in the free pages of the database is gone as well."""
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    with begun(tmp_path, WORDS[:3]) as chat:
        chat.say(ASKED * 200, other)
        chat.agent.checkpointer.delete_thread("other")  # type: ignore[union-attr]  # there is one
        assert traces(tmp_path, [ASKED * 2]) != []
        chat.archive.delete_session(Session("", "other"))

        erase(chat.agent, THREAD, 2)

        assert traces(tmp_path) == []


class Noting(MemoryState, total=False):
    """A state with a key of the application."""

    note: str


class Dying(InMemorySaver):
    """A checkpointer in which the thread's deletion is the last thing done, as if killed."""

    dies = True

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, and the first time end there."""
        super().delete_thread(thread_id)
        if self.dies and thread_id == "t":
            self.dies = False
            raise KeyboardInterrupt


@pytest.mark.parametrize("path", ["invoke", "ainvoke", "command"])
async def test_keys_of_the_application_survive_a_crash(tmp_path: Path, path: str) -> None:
    """Whoever comes first, a run or a command, finds them in what the erasure had set aside."""
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=Dying(), state_schema=Noting, entry="graph")
    for words in WORDS[:3]:
        chat.agent.invoke({"messages": words, "note": "mine"}, THREAD)
    with pytest.raises(KeyboardInterrupt):
        erase(chat.agent, THREAD, 2)

    if path == "ainvoke":
        await chat.agent.ainvoke({"messages": "And now?"}, THREAD)
    elif path == "invoke":
        chat.say("And now?")
    else:
        open_effort(chat.agent, THREAD, "cables")

    values = chat.agent.get_state(THREAD).values
    assert values["note"] == "mine"
    assert not any(ASKED in message.text for message in values["messages"])


def test_other_graphs_keep_their_newest_state(tmp_path: Path) -> None:
    """A tool's graph keeps it, and is named; writes for a checkpoint that was never saved go."""
    inner: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": "tool"}}
    never = {"checkpoint_ns": "", "checkpoint_id": "1f000000-0000-6000-8000-000000000000"}
    lost: RunnableConfig = {"configurable": {"thread_id": "t", **never}}
    with begun(tmp_path) as chat:
        saver: Any = chat.agent.checkpointer
        saver.put_writes(lost, [("messages", [ASKED])], "task")
        saver.put(inner, empty_checkpoint() | {"channel_values": {"a": [ASKED]}}, {}, {"a": "1"})
        newer = {"channel_values": {"a": ["tidy"]}, "channel_versions": {"a": "2"}}
        saver.put(inner, empty_checkpoint() | newer, {}, {"a": "2"})

        report = erase(chat.agent, THREAD, 2)

        (kept,) = saver.list(inner)
        assert traces(tmp_path) == []
    assert kept.checkpoint["channel_values"] == {"a": ["tidy"]}
    assert any("other graphs in the thread: 'tool'" in left for left in report.not_erased)


@pytest.mark.parametrize("where", ["mixed", "parent"])
def test_what_cannot_be_erased_changes_nothing(tmp_path: Path, where: str) -> None:
    """A turn that is not there, or a graph around the agent that still runs, is refused."""
    with opened(Place(tmp_path).begun(), where) as (chat, outer):
        say(outer, "Hello.")
        before = outer.get_state(ANN)
        with pytest.raises(TurnNotFoundError):
            erase(outer, ANN, 4)
        assert outer.get_state(ANN) == before
        chat.model.answers = [ConnectionError("gone")] * 9
        with pytest.raises(ConnectionError):
            say(outer, "On.")
        with pytest.raises(TurnRunningError):
            erase(outer, ANN, 1)


@pytest.mark.parametrize(
    "later",
    [
        [call("close_effort"), "Closed.", call("reopen_effort", effort_id="gate"), "Open again."],
        [call("update_goal", drop_constraints=["not there"]), "Well.", "And on."],
    ],
)
def test_constraints_leave_later_results(tmp_path: Path, later: list[Any]) -> None:
    """Results that name what lapsed, held formerly, or holds, do not keep what the turn set."""
    opening = call("open_effort", name="gate", constraints=[ASKED])
    chat = talk(tmp_path / "archive", ["Hello.", opening, "Noted.", *later])
    for words in ("Hello there.", "Open it.", "Go on.", "And again."):
        chat.say(words)

    erase(chat.agent, THREAD, 2)

    messages = chat.agent.get_state(THREAD).values["messages"]
    assert [one.text for one in messages if ASKED in one.text] == []
    assert traces(tmp_path, [ASKED]) == []


def test_summary_with_a_fact_of_the_turn_is_written_again(tmp_path: Path) -> None:
    """A search that finds a fact of the erased turn makes the log one that has the turn."""
    fact = "the password is swordfish"
    telling = f"Noted.\n---STATE---\nFacts: {fact}\n---END STATE---"
    looking = [call("open_effort", name="gate"), call("search_efforts", query="password")]
    closing = call("close_effort", summary=f"It is known: {fact}.", keywords=["gate"])
    script = ["Hello.", telling, "Fine.", *looking, "It is found.", closing, "Closed."]
    chat = talk(tmp_path / "archive", script, [TELLING])
    for words in ("Hello there.", "Remember.", "Go on.", "Look it up.", "Close it."):
        chat.say(words, ANN)

    report = erase(chat.agent, ANN, 2)

    assert report.resummarised == ("gate",)
    assert fact not in commands.efforts(chat.agent, ANN).efforts[0].summary
