"""Messages in, turns out: whatever a client hands over, each turn is archived once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ebbtide import (
    DiskArchive,
    InputError,
    MemoryState,
    Settings,
    build_memory_graph,
    erase,
    restore,
)
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.agents import THREAD, Talk, talk
from tests.doubles import call
from tests.draws import examples

TALK = ["One.", "1", "Two.", "2", "Three.", "3"]
PARENTS: dict[str, Any] = {"parent": MessagesState, "mixed parent": MemoryState}
PLACES = ("graph", "middleware", *PARENTS)
NOTE = "The refresh token expires after 3600 seconds."
CUT = ConnectionError("gone")
ALL = RemoveMessage(REMOVE_ALL_MESSAGES)


def parent(root: Path, answers: Any, schema: Any = MessagesState, **options: Any) -> Talk:
    """Return a graph with the agent inside it, which keeps messages alone or the memory too."""
    options.setdefault("checkpointer", InMemorySaver())
    inner = talk(root, answers, checkpointer=None)
    graph = StateGraph(schema)
    graph.add_node("talk", build_memory_graph(inner.model, archive=inner.archive).compile())
    graph.add_edge(START, "talk")
    return Talk(graph.compile(**options), inner.model, inner.archive)


def begun(root: Path, where: str, *answers: Any, monkeypatch: pytest.MonkeyPatch) -> Talk:
    """Return a conversation of three turns in one of the `PLACES`."""
    if where in PARENTS:
        chat = parent(root, ["1", "2", "3", *answers], PARENTS[where])
    else:
        monkeypatch.setattr("tests.agents.entry", where)
        chat = talk(root, ["1", "2", "3", *answers], checkpointer=InMemorySaver())
    chat.say_all(TALK[::2])
    return chat


def branches(chat: Talk) -> list[list[list[str]]]:
    """Return what each turn says on each branch of the one session, the newest branch first."""
    (session,) = chat.archive.sessions("")
    tips = [tip for tip in chat.archive.tips(session) if tip.id]
    found = [chat.archive.load(session, tip).turns(range(1, tip.turn + 1)) for tip in tips[::-1]]
    return [
        [[text(m) for m in turn.messages if m.type != "tool" and text(m)] for turn in turns]
        for turns in found
    ]


def pairs(texts: Sequence[str]) -> list[list[str]]:
    """Return texts by two."""
    return [[*texts[at : at + 2]] for at in range(0, len(texts), 2)]


def changed(messages: Sequence[BaseMessage], at: int, **fields: Any) -> list[BaseMessage]:
    """Return messages of which one has another text, or other fields."""
    new = messages[at].model_copy(update={"content": "Edited.", **fields})
    return [*messages[:at], new, *messages[at + 1 :]]


def copies(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return messages without ids, as a client sends them."""
    return [(m.type, m.text) for m in messages]


def edited(at: int) -> list[list[str]]:
    """Return the turns of which one message is edited."""
    return pairs([*TALK[:at], "Edited.", *TALK[at + 1 :]])


Change = Callable[[list[BaseMessage]], tuple[list[Any], list[Any]]]
"""From the messages of the thread, what is written into its state, and what is sent then."""

NEW = ("user", "New.")
OLD, SAID = pairs(TALK), [*pairs(TALK), ["New.", "4"]]
CASES: dict[str, tuple[Change, list[list[str]], int]] = {
    "appended": (lambda _: ([], [NEW]), SAID, 1),
    "asked again": (lambda _: ([], [("user", "Three.")]), [*OLD, ["Three.", "4"]], 1),
    "two questions": (lambda _: ([], [("user", "And?"), NEW]), [*OLD, ["And?", "New.", "4"]], 1),
    "instructions": (
        lambda _: ([], [("system", "Be kind."), NEW]),
        [*OLD, ["Be kind.", "New.", "4"]],
        1,
    ),
    "edited first": (lambda m: (changed(m, 0), [NEW]), [*edited(0), ["New.", "4"]], 2),
    "edited middle": (lambda m: (changed(m, 2), [NEW]), [*edited(2), ["New.", "4"]], 2),
    "edited answer": (lambda m: (changed(m, 5), [NEW]), [*edited(5), ["New.", "4"]], 2),
    "edited, new id": (
        lambda m: ([ALL, *changed(m, 3, id="n")], [NEW]),
        [*edited(3), ["New.", "4"]],
        2,
    ),
    "edited, sent": (lambda m: ([], [changed(m, 2)[2], NEW]), [*edited(2), ["New.", "4"]], 2),
    "other metadata": (
        lambda m: (changed(m, 4, content="Three.", additional_kwargs={"a": 1}), [NEW]),
        SAID,
        1,
    ),
    "cut off": (lambda m: ([RemoveMessage(str(one.id)) for one in m[:2]], [NEW]), SAID, 1),
    "cut in a turn": (lambda m: ([RemoveMessage(str(one.id)) for one in m[:3]], [NEW]), SAID, 1),
    "answer removed": (lambda m: ([RemoveMessage(str(m[3].id))], [NEW]), SAID, 1),
    "summary in front": (
        lambda m: ([ALL, HumanMessage("So far."), *m[2:]], [NEW]),
        [*OLD, ["So far.", "New.", "4"]],
        1,
    ),
    "others in between": (
        lambda m: ([ALL, *m[:2], HumanMessage("To B."), AIMessage("Of B."), *m[2:]], [NEW]),
        [*OLD, ["To B.", "Of B.", "New.", "4"]],
        1,
    ),
    "sent again with ids": (lambda m: ([], [*m, NEW]), SAID, 1),
}
AT_ROOT: dict[str, tuple[Change, list[list[str]], int]] = {
    "sent again": (lambda m: ([], [*copies(m), NEW]), SAID, 1),
    "sent again, edited": (
        lambda m: ([], [*copies(changed(m, 2)), NEW]),
        [*edited(2), ["New.", "4"]],
        2,
    ),
    "sent again, a turn left out": (lambda m: ([], [*copies(m[2:]), NEW]), SAID, 1),
    "sent again after a summary": (
        lambda m: ([], [("user", "So far."), *copies(m[2:]), NEW]),
        [*OLD, ["So far.", "New.", "4"]],
        1,
    ),
    "examples": (
        lambda _: ([], [("user", "One."), ("ai", "Example."), NEW]),
        [*OLD, ["One.", "Example.", "New.", "4"]],
        1,
    ),
    "an id that is repeated": (
        lambda m: ([], [changed(m, 2)[2]]),
        [*OLD, ["Edited.", "4"]],
        1,
    ),
    "an id that is repeated behind others": (
        lambda m: ([], [*m[:2], changed(m, 4)[4]]),
        [*OLD, ["Edited.", "4"]],
        1,
    ),
    "an id that is repeated behind a summary": (
        lambda m: ([ALL, HumanMessage("So far."), *m[2:]], [changed(m, 4)[4]]),
        [*OLD, ["So far.", "Edited.", "4"]],
        1,
    ),
    "all removed": (lambda _: ([ALL], [NEW]), SAID, 1),
    "last turn removed": (
        lambda m: ([RemoveMessage(str(one.id)) for one in m[4:]], [NEW]),
        SAID,
        1,
    ),
    "nothing matched": (
        lambda _: ([ALL, HumanMessage("To B."), AIMessage("Of B.")], [NEW]),
        [*OLD, ["To B.", "Of B."], ["New.", "4"]],
        1,
    ),
}
ROWS = [
    pytest.param(where, case, id=f"{where}: {name}")
    for places, cases in (
        (PLACES, CASES),
        (PLACES[:2], AT_ROOT),
    )
    for name, case in cases.items()
    for where in places
]


@pytest.mark.parametrize(("where", "case"), ROWS)
def test_messages_in_turns_out(
    tmp_path: Path,
    where: str,
    case: tuple[Change, list[list[str]], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest branch has what was handed over, and no turn of an older one is changed."""
    change, wanted, count = case
    chat = begun(tmp_path, where, "4", "5", monkeypatch=monkeypatch)
    update, sent = change(chat.agent.get_state(THREAD).values["messages"])
    if update:
        chat.agent.update_state(THREAD, {"messages": update})

    state = chat.agent.invoke({"messages": sent}, THREAD)

    found = branches(chat)
    assert (found[0], len(found)) == (wanted, count)
    assert count == 1 or OLD in found
    banners = "".join(state.get("memory", {}).get("banners", []))
    is_taken_along = where != "parent" and wanted[-1][0] in {"So far.", "To B."}
    assert ("Stored with this turn" in banners) == is_taken_along
    state = chat.say("Next.")  # an edit and a mask hold, and what was taken along is known now
    found = branches(chat)
    assert (found[0], len(found)) == ([*wanted, ["Next.", "5"]], count)
    if where not in PARENTS and RemoveMessage not in map(type, update[-1:]):
        shown = [words for turn in found[0][-3:] for words in turn]
        assert [m.text for m in state["messages"]] == shown
    (session,) = chat.archive.sessions("")
    assert not [one for one in chat.archive.verify(session) if one.fatal]


class DyingArchive(DiskArchive):
    """An archive whose process ends once a turn is committed."""

    last = 0

    def commit(self, session: Session, parent: Tip, turn: StoredTurn, *more: Any) -> StoredTurn:
        """Commit the turn."""
        committed = super().commit(session, parent, turn, *more)
        if turn.number == self.last:
            raise RuntimeError(turn.number)
        return committed


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize(
    ("case", "last"), [(CASES["edited middle"], 3), (AT_ROOT["nothing matched"], 4)]
)
def test_process_that_ends_behind_the_commits(tmp_path: Path, case: Any, last: int) -> None:
    """A turn that begins again commits the same turns."""
    change, wanted, count = case
    archive, tips = DyingArchive(tmp_path, durable=False), list[Any]()
    chat = talk(tmp_path, ["1", "2", "3", "4"], archive=archive)
    update, sent = change(chat.say_all(TALK[::2])[-1]["messages"])
    chat.agent.update_state(THREAD, {"messages": update})

    archive.last = last
    for asked in ({"messages": sent}, None):
        with pytest.raises(RuntimeError):
            chat.agent.invoke(asked, THREAD)
        tips.append(archive.tips(archive.sessions("")[0]))
    archive.last = 0
    chat.agent.invoke(None, THREAD)

    found = branches(chat)
    assert (found[0], len(found)) == (wanted, count)
    assert tips[0] == tips[1]


LOST: dict[str, tuple[Callable[[list[BaseMessage]], list[Any]], list[list[str]], int]] = {
    "whole": (lambda m: [*m, NEW], SAID, 1),
    "without ids": (lambda m: [*copies(m), NEW], SAID, 1),
    "last turn": (lambda m: [*copies(m[4:]), NEW], SAID, 1),
    "last answer": (lambda m: [*copies(m[5:]), NEW], SAID, 1),
    "a gap": (lambda m: [*copies([*m[:2], *m[4:]]), NEW], SAID, 1),
    "first turn": (lambda m: [*copies(m[:2]), NEW], [*OLD[:1], ["New.", "4"]], 2),
    "edited": (lambda m: [*changed(m, 3), NEW], [*edited(3), ["New.", "4"]], 2),
    "edited without ids": (lambda m: [*copies(changed(m, 3)), NEW], [*edited(3), ["New.", "4"]], 2),
    "summary": (
        lambda m: [("user", "So far."), *copies(m[2:]), NEW],
        [*OLD, ["So far.", "New.", "4"]],
        1,
    ),
    "others behind": (
        lambda m: [*copies(m), ("user", "To B."), ("ai", "Of B."), NEW],
        [*OLD, ["To B.", "Of B.", "New.", "4"]],
        1,
    ),
    "unknown": (
        lambda _: [*[("user", "ok"), ("ai", "Fine.")] * 2, ("user", "ok")],
        [*[["ok", "Fine."]] * 2, ["ok", "4"]],
        2,
    ),
    "nothing": (lambda _: [NEW], [["New.", "4"]], 2),
}


@pytest.mark.thorough
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", LOST)
def test_lost_checkpoints(
    tmp_path: Path, where: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on from the turn that its messages end, and nothing is doubled."""
    handed, wanted, count = LOST[name]
    chat = begun(tmp_path, where, "4", "5", monkeypatch=monkeypatch)
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one

    state = chat.agent.invoke({"messages": handed(messages)}, THREAD)

    found = branches(chat)
    assert (found[0], len(found)) == (wanted, count)
    banners = "".join(state.get("memory", {}).get("banners", []))
    assert ("Adopted 2 earlier turns" in banners) == (name == "unknown" and where != "parent")
    chat.say("Next.")
    assert branches(chat)[0] == [*wanted, ["Next.", "5"]]


@pytest.mark.thorough
@pytest.mark.parametrize(("window", "has_ids"), [(2, False), (2, True), (None, True)])
def test_long_history_that_is_sent_whole_again(
    tmp_path: Path, window: int | None, has_ids: bool
) -> None:
    """Three times: no row but that of the new turn, however many turns stand before."""
    options: Any = {"settings": Settings(messages_window=window)}
    chat = talk(tmp_path, lambda _: "OK.", checkpointer=InMemorySaver(), **options)
    words, history = [f"Question {n}." if n % 3 else "ok" for n in range(120)], list[Any]()
    for question in words:
        history += chat.say(question)["messages"][-2:]

    for again in ("First.", "Second.", "Third."):
        sent = history if has_ids else copies(history)
        state = chat.agent.invoke({"messages": [*sent, ("user", again)]}, THREAD)
        words, history = [*words, again], [*history, *state["messages"][-2:]]
        assert chat.said(state) == words
        assert chat.branches == 1


@pytest.mark.parametrize("where", ["graph", "middleware"])
def test_edit_of_the_question_that_a_turn_broke_off_with(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke off is a turn of its own, as it is when it is settled; a retry asks it again."""
    chat = begun(tmp_path, where, CUT, CUT, "6", monkeypatch=monkeypatch)
    for words in ("Four.", "Five."):
        with pytest.raises(ConnectionError):
            chat.say(words)

    last = chat.agent.get_state(THREAD).values["messages"][-1]
    state = chat.agent.invoke({"messages": [last]}, THREAD)

    assert branches(chat) == [[*OLD, ["Four."], ["Five."], ["Five.", "6"]]]
    assert [turn.status for turn in chat.turns(state)][3:] == ["aborted", "aborted", "done"]


@pytest.mark.parametrize("where", ["graph", "middleware"])
def test_nothing_new_is_an_error(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history that the archive knows, without a question after it, is not answered again."""
    chat = begun(tmp_path, where, monkeypatch=monkeypatch)
    history = chat.agent.get_state(THREAD).values["messages"]

    for sent in (history, copies(history)):
        with pytest.raises(InputError):
            chat.agent.invoke({"messages": sent}, THREAD)
        chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one
        with pytest.raises(InputError):
            chat.agent.invoke({"messages": sent}, THREAD)

    assert branches(chat) == [OLD]


@pytest.mark.parametrize("turns", [[1], [3], [1, 2]])
@pytest.mark.parametrize("has_ids", [False, True])
def test_erased_turn_that_a_client_sends_again(
    tmp_path: Path, turns: list[int], *, has_ids: bool
) -> None:
    """It was said again, in the new turn: nothing else is said twice."""
    chat = talk(tmp_path, ["1", "2", "3", "4"], checkpointer=InMemorySaver())
    history = chat.say_all(TALK[::2])[-1]["messages"]
    for turn in turns:
        erase(chat.agent, THREAD, turn)

    sent = history if has_ids else copies(history)
    chat.agent.invoke({"messages": [*sent, NEW]}, THREAD)

    again = [one for turn in turns for one in OLD[turn - 1]]
    kept = [[] if n in turns else said for n, said in enumerate(OLD, 1)]
    assert branches(chat)[0] == [*kept, [*again, "New.", "4"]]


def test_restored_after_an_erasure(tmp_path: Path) -> None:
    """An edit is seen beside an erased turn, and the tombstone stays where it is."""
    chat = talk(tmp_path, ["1", "2", "3", "4"], checkpointer=InMemorySaver())
    chat.say_all(TALK[::2])
    erase(chat.agent, THREAD, 2)
    restore(chat.agent, THREAD)
    messages = chat.agent.get_state(THREAD).values["messages"]
    chat.agent.update_state(THREAD, {"messages": changed(messages, 0)})

    chat.say("New.")

    assert branches(chat)[0] == [["Edited.", "1"], [], OLD[2], ["New.", "4"]]


def look_up(what: str) -> str:
    """Look something up."""
    return f"{NOTE} ({what})"


def test_history_without_tools_is_known(tmp_path: Path) -> None:
    """Clients that keep questions and answers alone go on with the turns that have more."""
    chat = talk(tmp_path, [call("look_up", what="tokens"), "An hour.", "Fine."], tools=[look_up])
    chat.say("How long?")
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one

    history = [("user", "How long?"), ("ai", "An hour."), ("user", "Thanks.")]
    state = chat.agent.invoke({"messages": history}, THREAD)

    assert [len(turn.messages) for turn in chat.turns(state)] == [4, 2]


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["graph", "middleware"])
@pytest.mark.parametrize("more", [[], [NEW]])
def test_edit_of_the_question_of_a_long_turn(
    tmp_path: Path, where: str, more: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known, however many rounds follow it: it is an edit, or asked again."""
    monkeypatch.setattr("tests.agents.entry", where)
    script = [*(call("look_up", what=str(n)) for n in range(40)), "Done.", "4"]
    chat = talk(tmp_path, script, tools=[look_up], checkpointer=InMemorySaver())
    state = chat.say("Look all of it up.")
    (question,) = changed(state["messages"][:1], 0)

    after = chat.agent.invoke({"messages": [question, *more]}, THREAD)

    assert chat.said(after) == (["Edited.", "New."] if more else ["Look all of it up.", "Edited."])
    assert [len(turn.messages) for turn in chat.turns(after)] == [82, 2]


def test_parent_goes_back_and_on(tmp_path: Path) -> None:
    """An older checkpoint goes on beside what was said, and both tips can be gone on from."""
    chat = parent(tmp_path, lambda _: "OK.")
    chat.say("One.")
    first = chat.agent.get_state(THREAD).config
    chat.say("Left.")
    left = chat.agent.get_state(THREAD).config

    chat.say("Right.", first)
    chat.say("Further left.", left)

    one = ["One.", "OK."]
    assert branches(chat) == [
        [one, ["Left.", "OK."], ["Further left.", "OK."]],
        [one, ["Right.", "OK."]],
    ]


def test_parent_of_a_model_that_repeats_ids(tmp_path: Path) -> None:
    """What LangGraph puts in the place of an old answer in the parent stays in its own turn."""
    said = pairs([words for n in range(8) for words in (f"Question {n}?", f"Answer {n}.")])
    answers = [AIMessage(answer, id="same") for _, answer in said]
    chat = parent(tmp_path, answers, MemoryState)

    chat.say_all(question for question, _ in said)

    assert branches(chat) == [said]


@pytest.mark.parametrize("kept", [2, 3, 5])
def test_parent_that_summarises_keeps_its_memory(tmp_path: Path, kept: int) -> None:
    """Where older messages were replaced by a summary, the turns go on that come after it."""
    chat = parent(tmp_path, lambda _: "OK.")
    chat.say("Question 1.")
    for turn in range(2, 7):
        messages = chat.say(f"Question {turn}.")["messages"]
        last = [m for m in messages if not m.text.startswith("So far")][-kept:]
        update = [ALL, HumanMessage(f"So far: {turn}."), *last]
        chat.agent.update_state(THREAD, {"messages": update})

    said = [["Question 1.", "OK."], ["Question 2.", "OK."]]
    said += [[f"So far: {n - 1}.", f"Question {n}.", "OK."] for n in range(3, 7)]
    assert branches(chat) == [said]


def test_supervisor_that_calls_the_agent_twice(tmp_path: Path) -> None:
    """What another agent said behind the last known message is the question, whatever its role."""
    chat = parent(tmp_path, ["First.", "Second."])
    chat.say("Do it.")
    chat.agent.update_state(THREAD, {"messages": [AIMessage("Once more.")]})

    chat.agent.invoke({"messages": []}, THREAD)

    assert branches(chat) == [[["Do it.", "First."], ["Once more.", "Second."]]]


def test_history_of_another_agent_is_adopted(tmp_path: Path) -> None:
    """Odd messages too, each once, in ambient turns that have their own time, or none."""
    then = {"timestamp": "2021-03-04T05:06:07Z"}
    history: list[Any] = [
        *(SystemMessage("Be brief."), AIMessage("Welcome."), HumanMessage("How long?")),
        *(call("look_up", what="tokens"), HumanMessage("Well?", additional_kwargs=then)),
        AIMessage("An hour.", additional_kwargs=then),
        *(HumanMessage(""), AIMessage("")),
    ]
    chat = talk(tmp_path, ["Fine.", call("read_log", turns="2"), "Read."])

    state = chat.agent.invoke({"messages": [*history, NEW]}, THREAD)
    read = chat.say("Read it.")

    turns = chat.turns(state)
    assert branches(chat)[0][:4] == [
        ["Be brief.", "Welcome.", "How long?"],
        ["Well?", "An hour."],
        [],
        ["New.", "Fine."],
    ]
    assert [turn.status for turn in turns] == ["aborted", "done", "done", "done"]
    assert [turn.at[:4] for turn in turns[:3]] == ["", "2021", ""]
    assert [turn.efforts for turn in turns] == [()] * 4
    assert "Adopted 3 earlier turns" in "".join(state["memory"]["banners"])
    assert "An hour." in next(m.text for m in read["messages"][::-1] if isinstance(m, ToolMessage))
    assert "Well?" in "".join(m.text for m in chat.model.sent[0].messages)


def test_efforts_come_back_with_the_messages(tmp_path: Path) -> None:
    """The state of the turn that the messages end in is there: its efforts are open again."""
    chat = talk(tmp_path, [call("open_effort", name="auth", goal=NOTE), "Opened.", "OK.", "OK."])
    state = chat.say_all(("Open it.", "Go on."))[-1]
    chat.agent.checkpointer.delete_thread("t")  # type: ignore[union-attr]  # there is one

    after = chat.agent.invoke({"messages": [*state["messages"], NEW]}, THREAD)

    assert after["memory"]["active_effort"] == "auth"
    assert [turn.efforts for turn in chat.turns(after)] == [("auth",)] * 3


def test_runs_without_a_checkpointer(tmp_path: Path) -> None:
    """A named thread goes on by what is handed over; without one each run is a session."""
    chat = parent(tmp_path, lambda _: "OK.", checkpointer=None)
    history: list[Any] = []
    for words in ("One.", "Two.", "Three."):
        history.append(HumanMessage(words))
        chat.agent.invoke({"messages": history}, THREAD)
        history.append(AIMessage("OK."))

    assert branches(chat) == [[[words, "OK."] for words in ("One.", "Two.", "Three.")]]


SAID_BY = st.sampled_from(["OK.", "Yes.", "", NOTE])
BY = (SAID_BY.map(HumanMessage), SAID_BY.map(AIMessage), SAID_BY.map(SystemMessage))


@settings(max_examples=examples(10))
@given(
    known=st.lists(SAID_BY.filter(bool), max_size=4),
    cut=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    more=st.lists(st.one_of(BY), max_size=6),
)
def test_whatever_is_handed_over_is_there(
    tmp_path_factory: pytest.TempPathFactory,
    known: list[str],
    cut: tuple[int, int],
    more: list[BaseMessage],
) -> None:
    """Part of what the archive knows, and anything after it: all of it is in the branch."""
    folder = tmp_path_factory.mktemp("adoption")
    first = talk(folder, lambda _: "OK.")
    first.say_all(known)
    begin, end = sorted(cut)
    conversation = [one for words in known for one in (HumanMessage(words), AIMessage("OK."))]
    handed = [*conversation[begin:end], *more, HumanMessage("The last question.")]
    chat = talk(folder, lambda _: "The last answer.")

    state = chat.agent.invoke({"messages": [m.model_copy() for m in handed]}, THREAD)

    there = [(m.type, text(m)) for turn in chat.turns(state) for m in turn.messages]
    assert there[-2:] == [("human", "The last question."), ("ai", "The last answer.")]
    for one in {(m.type, m.text) for m in handed}:
        assert one in there
    first.archive.close()
    chat.archive.close()
