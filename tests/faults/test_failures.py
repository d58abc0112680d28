"""Failures change nothing: of the model, of the archive, of a second process."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session
from tests.agents import THREAD, talk
from tests.doubles import Broken
from tests.faults.disks import FullDisk, NoRoomToCompress
from tests.faults.places import Place
from tests.graph.long_effort import compressing, quoted, quoting, talked
from tests.processes import forks

SESSION = Session("", "t")


def test_archive_that_recovers_is_retried(tmp_path: Path) -> None:
    """Two failures are retried, and the turn ends as if nothing had happened."""
    archive = FullDisk(tmp_path, durable=False)
    chat = talk(tmp_path, ["a"], archive=archive)
    archive.failures = 2

    state = chat.say("one")

    assert chat.said(state) == ["one"]


def test_new_message_after_a_failing_model(tmp_path: Path) -> None:
    """A new message after a failure keeps the old one, in a turn marked as aborted."""
    chat = talk(tmp_path, [ConnectionError("gone"), "answer"])
    with pytest.raises(ConnectionError):
        chat.say("lost?")

    state = chat.say("next")

    assert chat.said(state) == ["lost?", "next"]
    assert [turn.status for turn in chat.turns(state)] == ["aborted", "done"]
    *_, lost, note, asked = [message.text for message in chat.last]
    assert (lost, asked) == ("lost?", "next")
    assert "turn 1 ended here without an answer" in note


def test_stream_that_breaks_off_is_no_answer(tmp_path: Path) -> None:
    """Half an answer is not kept as one; the turn resumes."""
    chat = talk(tmp_path, [Broken("half an", ConnectionError("gone")), "whole"])
    with pytest.raises(ConnectionError):
        [*chat.agent.stream({"messages": "question"}, THREAD, stream_mode="messages")]

    state = chat.agent.invoke(None, THREAD)

    assert [m.text for m in state["messages"]] == ["question", "whole"]


def test_same_message_again_after_a_crash(tmp_path: Path) -> None:
    """A client that sends its unanswered message again, id and all, gets its answer."""
    chat = talk(tmp_path, [ConnectionError("gone"), "answer"])
    question = HumanMessage("question", id="q")
    with pytest.raises(ConnectionError):
        chat.agent.invoke({"messages": [question]}, THREAD)

    state = chat.agent.invoke({"messages": [question]}, THREAD)

    assert state["messages"][-1].text == "answer"
    assert [turn.status for turn in chat.turns(state)] == ["aborted", "done"]


def _one_turn(place: Place, words: str, barrier: Any) -> None:
    def answer(_: Any) -> str:
        barrier.wait(60)
        return words

    with place.saver() as saver, place.archive() as archive:
        talk(place.root, answer, archive=archive, checkpointer=saver).say(words)


@pytest.mark.thorough
def test_two_processes_on_one_thread(place: Place) -> None:
    """Two processes that answer one thread at once leave both turns, on two branches."""
    with place.saver() as saver, place.archive() as archive:
        talk(place.root, ["first"], archive=archive, checkpointer=saver).say("start")
    start = forks()
    barrier, there = start.Barrier(2), Place(place.root, place.uri)
    both = [start.Process(target=_one_turn, args=(there, w, barrier)) for w in ("x", "y")]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
        process.kill()  # else the end of the tests waits for it

    with place.archive() as archive:
        tips = archive.tips(SESSION)
        lines = [archive.load(SESSION, tip).turns(range(1, 9)) for tip in tips]
        findings = archive.verify(SESSION)
    # Who begins while the other's question has just come in takes it along, unanswered.
    said = [[text(m) for r in line for m in r.messages if m.type == "human"] for line in lines]
    assert all(len({*one}) == len(one) and one[0] == "start" for one in said), said
    assert sorted(text(line[-1].messages[-1]) for line in lines) == ["x", "y"]
    assert len(tips) == 2
    assert [process.exitcode for process in both] == [0, 0]
    assert ["leaf of a branch" in one.what for one in findings] == [True]


def test_an_archive_that_fails_in_a_pass_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn is answered, and the next one tries again."""
    archive = NoRoomToCompress(tmp_path, durable=False)
    chat = compressing(tmp_path, archive=archive, extraction=quoting("It is 8443."))
    archive.full = True
    states = talked(chat, 9, {2: "It is 8443."})
    archive.full = False

    state = chat.say("And now?")

    assert quoted(states[-1]) == {}
    assert "OSError: [Errno 28] No space left" in caplog.text
    assert quoted(state) == {"shop": 9}
    assert chat.archive.verify(SESSION) == ()
