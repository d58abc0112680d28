"""Erasing a turn of a thread: nothing of it is left, and the thread goes on."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import interrupt

from ebbtide import (
    SettingsError,
    TurnArrivedError,
    TurnRunningError,
    aerase,
    commands,
    create_memory_agent,
    erase,
    restore,
)
from ebbtide.commands import open_effort, set_window
from ebbtide.memory.state_block import END, START
from ebbtide.memory.turn import Session
from ebbtide.nodes.turn.state import MemoryState
from tests.agents import THREAD, Talk, inside, lasting, talk
from tests.doubles import Keeping, ScriptedModel, call, together
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


def words_in(folder: Path, word: bytes) -> list[str]:
    """Return which files of the archive have a word, as an index has it."""
    return [
        path.name for path in (folder / "archive").iterdir() if word in revealed(path.read_bytes())
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


def test_nothing_of_the_text_is_left(tmp_path: Path) -> None:
    """Row 23: afterwards no byte of it stands in the session or the checkpoints, WAL included."""
    with begun(tmp_path) as chat:
        before = traces(tmp_path)

        report = erase(chat.agent, THREAD, 2)

        left = traces(tmp_path)
        kept = chat.turns(chat.agent.get_state(THREAD).values)
    assert {line.rpartition(": ")[2] for line in before} >= {FOUND, NOTED}
    assert left == []
    assert (report.turn, report.quoted) == (2, ())
    assert [turn.status for turn in kept] == ["done", "erased", "done", "done", "done"]


def test_no_word_is_left_for_other_sessions(tmp_path: Path) -> None:
    """What other sessions search knows the words before, and none of them afterwards."""
    ann: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ann"}}
    asking = Session("ann", "u")
    with begun(tmp_path, ()) as chat:
        [chat.say(said, ann) for said in WORDS]
        before = chat.archive.elsewhere(asking, "Marion", 5)
        assert words_in(tmp_path, b"marion") != []

        erase(chat.agent, ann, 2)

        after = chat.archive.elsewhere(asking, "Marion harbour kept", 5)
        left = words_in(tmp_path, b"marion")
    assert [one.effort and one.effort.id for one in before] == ["keys"]
    assert left == []
    assert [sorted(one.said) for one in after] == [["kept"]]


@pytest.mark.parametrize(("turn", "gone"), [(3, [3]), (2, [2, 3]), (1, [1, 3])])
def test_after_the_last_turn_another_is_erased(tmp_path: Path, turn: int, gone: list[int]) -> None:
    """If the last turn was erased before, every other stands once, on the same branch."""
    with begun(tmp_path, WORDS[:3]) as chat:
        [erase(chat.agent, THREAD, number) for number in (3, turn)]

        state = chat.say("Go on.")

        turns = chat.turns(state)
    assert (state["memory"]["turn"], chat.branches) == (4, 1)
    assert [stored.number for stored in turns if stored.status == "erased"] == gone
    assert [stored.number for stored in turns] == [1, 2, 3, 4]


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


def test_summary_is_written_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erasing again writes the summaries that an erasure emptied before it was killed."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with begun(tmp_path) as chat:
        chat.model.structured = [TELLING, *[{"summary": "Cables.", "keywords": []}] * 2]
        with monkeypatch.context() as dying:
            dying.setattr(type(chat.archive), "resummarised", killed)
            with pytest.raises(KeyboardInterrupt):
                erase(chat.agent, THREAD, 2)

        report = erase(chat.agent, THREAD, 2)

    assert (report.resummarised, report.stale) == (("keys",), ())
    assert traces(tmp_path) == []


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


@pytest.mark.thorough
@pytest.mark.parametrize("looks", ["effort_status", "search_efforts", "expand_effort"])
def test_goal_of_an_erased_turn_is_gone_everywhere(tmp_path: Path, looks: str) -> None:
    """No result that told it later, no summary, no context and no state has the goal it set."""
    goal = "Hand the harbour keys to Marion tonight"
    args = {"search_efforts": {"query": "harbour"}, "expand_effort": {"effort_id": "keys"}}
    told = f"They were to {goal.lower()}."
    script = [
        *("Hello.", call("open_effort", name="keys", goal=goal), "Opened.", "Noted."),
        *(call("close_effort"), "Closed.", call(looks, **args.get(looks, {})), "Looked."),
    ]
    with begun(tmp_path, ()) as chat:
        chat.model.answers = [*script, call("effort_status"), "Looked again.", "And so on."]
        summaries = [told, "It was talked about."]
        chat.model.structured = [{"summary": one, "keywords": ["x"]} for one in summaries]
        [chat.say(words) for words in ("Hello.", "Open it.", THANKS, "Close it.", "What is there?")]
        assert traces(tmp_path, [goal]) != []

        report = erase(chat.agent, THREAD, 2)

        asked = chat.model.asked[-1].text
        left = traces(tmp_path, [goal, told])
        state = chat.say("And what now?")
        chat.say("Well?")
        shown = "".join(message.text for sent in chat.model.sent[-3:] for message in sent.messages)
        values = repr(chat.agent.get_state(THREAD).values)
    assert (left, report.resummarised) == ([], ("keys",))
    assert not any(goal.lower() in text.lower() for text in (asked, shown, values))
    assert chat.said(state)[0] == "Hello."


def test_recalled_text_leaves_the_checkpoints(tmp_path: Path) -> None:
    """What a later turn had read of it is gone from the state as well; the later turn stays."""
    script = ["Well.", call("read_log", turns=1), "Read.", "And on."]
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        chat = talk(tmp_path / "archive", script, checkpointer=saver)
        [chat.say(words) for words in (ASKED, "read it")]

        report = erase(chat.agent, THREAD, 1)

        assert traces(tmp_path, [ASKED]) == []
        chat.say("And now?")
    assert report.quoted == ()


def test_expanded_log_says_that_a_turn_was_erased(tmp_path: Path) -> None:
    """An expanded effort shows the place of the turn, and that it was erased."""
    with begun(tmp_path) as chat:
        chat.model.answers = [*SCRIPT, call("expand_effort", effort_id="keys"), "Shown."]
        erase(chat.agent, THREAD, 2)

        chat.say("Show it.")

    quoted = next(m.text for m in chat.last if "[turn 2]" in m.text)
    assert f"[turn 2]\n(erased)\n\n[turn 3]\nuser: {THANKS}" in quoted


def test_memory_checkpoints(tmp_path: Path) -> None:
    """Checkpoints in memory are replaced by one without the text."""
    saver = InMemorySaver()
    with begun(tmp_path, WORDS[:3], checkpointer=saver) as chat:
        erase(chat.agent, THREAD, 2)

    held = repr((saver.storage, saver.blobs, saver.writes))
    assert not any(text in held for text in (ANSWERED, FOUND, NOTED))
    assert len([*saver.list(THREAD)]) == 1


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


@pytest.mark.thorough
@pytest.mark.parametrize("edited", ["Hi.", "PIN 4711."])
@pytest.mark.parametrize("is_history", [False, True])
def test_version_before_an_edit_is_erased(tmp_path: Path, edited: str, *, is_history: bool) -> None:
    """However short it is: the turn or an older one was edited, and the old branch had its text."""
    chat = talk(tmp_path, lambda _: "OK.")
    said = [("user", "Hi."), ("ai", "OK."), ("user", "PIN 4711."), ("ai", "OK."), ("user", "Bye.")]
    for messages in [said] if is_history else [said[:1], said[2:3], said[4:]]:
        chat.agent.invoke({"messages": messages}, THREAD)
    found = next(m for m in chat.agent.get_state(THREAD).values["messages"] if m.text == edited)
    changed = found.model_copy(update={"content": "Redacted."})
    chat.agent.update_state(THREAD, {"messages": [changed]})
    chat.say("New.")

    report = erase(chat.agent, THREAD, 2)

    assert report.quoted == ()
    assert traces(tmp_path, ["PIN 4711"]) == []
    assert chat.said(chat.say("And now?"))[-2:] == ["New.", "And now?"]


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


def test_anchor_loses_what_the_turn_wrote(tmp_path: Path) -> None:
    """However short a field is, it goes with the turn that wrote it first, restored or not."""
    block = "---STATE---\nGoal: {}\nPassword: swordfish\n---END STATE---"
    with begun(tmp_path, ()) as chat:
        chat.model.answers = [
            "Fine.\n---STATE---\nGoal: tidy up\n---END STATE---",
            f"Noted.\n{block.format('tidy up')}",
            f"Well.\n{block.format('go on')}",
        ]
        [chat.say(said) for said in ("Tidy up.", "swordfish", "And on.")]

        erase(chat.agent, THREAD, 2)

        anchor = chat.agent.get_state(THREAD).values["memory"]["anchor"]
        restore(chat.agent, THREAD)
        restored = chat.agent.get_state(THREAD).values["memory"]["anchor"]
        erase(chat.agent, THREAD, 3)
        last = chat.agent.get_state(THREAD).values["memory"]["anchor"]
    assert anchor == restored == {"Goal": "go on"}
    assert last == {}
    assert traces(tmp_path, ["swordfish"]) == []


AGAIN = f"Yes.\n{START}\nGoal: go on\nContext: swordfish\n{END}"


@pytest.mark.parametrize(
    ("again", "kept"), [("Yes.", {}), (AGAIN, {"Goal": "go on", "Context": "swordfish"})]
)
def test_anchor_that_came_back_is_erased_again(
    tmp_path: Path, again: str, kept: dict[str, str]
) -> None:
    """What a turn carried on, before the checkpoints were replaced, leaves all anchors."""
    block = f"{START}\nGoal: tidy up\nContext: swordfish\n{END}"
    with begun(tmp_path, ()) as chat:
        chat.model.answers = ["Hi.", f"Noted.\n{block}", "Well.", "So.", again]
        states = [chat.say(said) for said in ("Hello.", "It is swordfish.", "And on.")]
        chat.archive.erase(Session("", "t"), chat.turns(states[-1])[-1].tip, 2)
        [chat.say(said) for said in ("Meanwhile.", "More.")]

        report = erase(chat.agent, THREAD, 2)

        anchor = chat.agent.get_state(THREAD).values["memory"]["anchor"]
        restore(chat.agent, THREAD)
        restored = chat.agent.get_state(THREAD).values["memory"]["anchor"]
        left = traces(tmp_path, ["swordfish"])
    assert anchor == restored == kept
    assert (left == []) == (again == "Yes.")  # what the later turn said itself stays
    assert report.turn == 2


async def test_asynchronous_checkpoints(tmp_path: Path) -> None:
    """With an asynchronous checkpointer nothing is left either, from a loop or a thread."""
    path = str(tmp_path / "checkpoints.sqlite")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        chat = talk(tmp_path / "archive", list(SCRIPT), checkpointer=saver, tools=[look_up])
        for words in WORDS[:3]:
            await chat.agent.ainvoke({"messages": words}, THREAD)

        report = await aerase(chat.agent, THREAD, 2)

        assert report.turn == 2
        assert traces(tmp_path) == []
        assert len([one async for one in chat.agent.aget_state_history(THREAD)]) == 1
    chat.archive.close()


def test_crash_before_the_checkpoints(tmp_path: Path) -> None:
    """While only the archive has erased the last turn, the thread goes on, and can be erased."""
    with begun(tmp_path, WORDS[:2]) as chat:
        values = chat.agent.get_state(THREAD).values
        chat.archive.erase(Session("", "t"), chat.turns(values)[-1].tip, 2)

        state = chat.say(WORDS[2])
        erase(chat.agent, THREAD, 2)

        assert traces(tmp_path) == []
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


class Dying(InMemorySaver):
    """A checkpointer in which the thread's deletion is the last thing done, as if killed."""

    dies = True

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, and the first time end there."""
        super().delete_thread(thread_id)
        if self.dies and thread_id == "t":
            self.dies = False
            raise KeyboardInterrupt


@contextmanager
def killed(folder: Path) -> Iterator[Talk]:
    """Erase turn 2 until the thread has no state."""
    with begun(folder, WORDS[:3], checkpointer=Dying()) as chat:
        chat.model.answers = lambda _: "And so on."
        set_window(chat.agent, THREAD, 5)
        with pytest.raises(KeyboardInterrupt):
            erase(chat.agent, THREAD, 2)
        assert chat.agent.get_state(THREAD).values == {}
        yield chat


def open_cables(agent: Any, config: RunnableConfig) -> None:
    """Open an effort by hand."""
    open_effort(agent, config, "cables")


def erase_again(agent: Any, config: RunnableConfig) -> None:
    """Erase the turn once more."""
    assert erase(agent, config, 2).stale == ()


def talk_on(agent: Any, config: RunnableConfig) -> None:
    """Say something: the answer has what the archive saved of the state."""
    state = agent.invoke({"messages": "And now?"}, config)
    said = [message.text for message in state["messages"]]
    assert said[:5] == ["Hello there.", "Hello.", THANKS, "Noted.", "And now?"]


@pytest.mark.thorough
@pytest.mark.parametrize("doing", [restore, open_cables, erase_again, talk_on])
def test_thread_left_without_state_goes_on(tmp_path: Path, doing: Any) -> None:
    """From what the archive saved, whatever comes first, and it forgets then that it had to."""
    with killed(tmp_path) as chat:
        noted = chat.archive.load(Session("", "t")).reseed

        doing(chat.agent, THREAD)

        states = [chat.say(words) for words in ("And so?", "And then?")]
        assert chat.archive.load(Session("", "t")).reseed is None
        turns = chat.turns(states[-1])
        assert traces(tmp_path) == []
    assert noted is not None
    assert {"keys"} <= states[-1]["memory"]["open_efforts"].keys()
    assert [stored.status == "erased" for stored in turns] == [n == 1 for n in range(len(turns))]
    assert (len(turns), chat.branches) == (states[-1]["memory"]["turn"], 1)


def test_another_turn_is_erased_of_a_thread_without_state(tmp_path: Path) -> None:
    """Any other turn can be erased then, and the thread goes on without either."""
    with killed(tmp_path) as chat:
        report = erase(chat.agent, THREAD, 3)

        assert traces(tmp_path, [THANKS]) == []
        assert chat.say("And now?")["memory"]["turn"] == 4
    assert report.not_erased == ()


def test_thread_is_erased_without_its_checkpointer(tmp_path: Path) -> None:
    """An agent without checkpoints erases a turn of a thread that lost them."""
    with killed(tmp_path) as chat:
        other = create_memory_agent(chat.model, archive=chat.archive)

        erase(other, THREAD, 3)

        assert traces(tmp_path, [THANKS]) == []
        state = chat.say("And now?")
    assert (state["memory"]["turn"], chat.branches) == (4, 1)
