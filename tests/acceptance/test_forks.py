"""Going back through LangGraph's own API, and resuming in the middle of a turn.

Page 01, "Fork-safety", "State follows the messages" and "What must be shown".
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import EbbtideError, delete_session
from tests.acceptance.stage import AUTH, Stage, ambient, stage
from tests.acceptance.test_state import NODES
from tests.agents import THREAD
from tests.doubles import call

pytestmark = pytest.mark.forks

COPY: RunnableConfig = {"configurable": {"thread_id": "copy"}}


def talked(root: Path, turns: int) -> Stage:
    """Talk for some turns."""
    here = stage(root)
    here.chat(turns)
    return here


def inside(here: Stage, turn: int) -> RunnableConfig:
    """Return the checkpoint in which the model is about to be called in a turn."""
    return next(
        state.config
        for state in here.talk.agent.get_state_history(THREAD)
        if state.values.get("memory", {}).get("turn") == turn and "call_model" in state.next
    )


def test_fork(tmp_path: Path) -> None:
    """01: resuming from an older checkpoint starts a branch; both go on."""
    here = talked(tmp_path, 3)
    old = here.talk.agent.get_state(THREAD).config

    here.say("Other.", config=here.after(1))
    forked = here.asked()
    here.say("Four.", config=old)

    assert forked == [ambient(1), "Other."]
    assert here.asked() == [*map(ambient, (1, 2, 3)), "Four."]


def test_fork_of_a_fork(tmp_path: Path) -> None:
    """01: forks of forks."""
    here = talked(tmp_path, 2)
    here.say("Other.", config=here.after(1))
    middle = here.talk.agent.get_state(THREAD).config
    here.say("Other three.")

    here.say("Third.", config=middle)

    assert here.asked() == [ambient(1), "Other.", "Third."]


def test_fork_at_the_first_turn(tmp_path: Path) -> None:
    """01: a fork at the first turn sees nothing."""
    here = talked(tmp_path, 2)
    first = [*here.talk.agent.get_state_history(THREAD)][-1].config

    here.say("Another.", config=first)

    assert here.asked() == ["Another."]


def test_sibling_is_out_of_sight(tmp_path: Path) -> None:
    """01: in context, search and status; the same name may be used on both."""
    here = talked(tmp_path, 1)
    here.work(AUTH)

    forked = here.say("Go.", call("open_effort", name="auth-bug"), "Opened.", config=here.after(1))

    assert forked.results[0]["status"] == "opened"
    assert AUTH.log not in forked.sent.text
    assert forked.memory["summaries"] == {}


def test_counters_go_back(tmp_path: Path) -> None:
    """Invariant 4: a mention on one branch changes nothing on the other."""
    here = talked(tmp_path, 1)
    here.work(AUTH)
    here.use("expand_effort", effort_id="auth-bug")
    here.say("What was the auth bug?")

    left = here.say("Hm.", config=here.after(5))

    assert left.silent_for == {"auth-bug": 1}


def test_old_turn_is_answered_again(tmp_path: Path) -> None:
    """Invariant 3: an old turn that is run again stands once, with its new answer."""
    here = talked(tmp_path, 2)
    here.talk.model.answers = [*["…"] * 2, "Anew."]

    state = here.talk.agent.invoke(None, inside(here, 1))

    assert state["messages"][-1].text == "Anew."
    assert here.asked() == [ambient(1)]
    assert [m.text for m in here.read()][-1] == "Anew."


@pytest.mark.parametrize("same_id", [True, False])
def test_edited_question(tmp_path: Path, *, same_id: bool) -> None:
    """01: `update_state` with the same and with new ids; the question is answered as edited."""
    here = talked(tmp_path, 2)
    config = inside(here, 2)
    asked = here.talk.agent.get_state(config).values["messages"][-1]
    edited = HumanMessage("Two!", id=asked.id if same_id else None)
    here.talk.model.answers = [*["…"] * 2, "Edited."]

    changed = here.talk.agent.update_state(config, {"messages": [edited]})
    here.talk.agent.invoke(None, changed)

    assert "Two!" in here.talk.model.sent[-1].text
    assert here.asked()[0] == ambient(1)
    assert here.asked()[-1] == "Two!"


def test_edited_past(tmp_path: Path) -> None:
    """00, `begin_turn`: an old message that differs is an edit, committed beside the old one."""
    here = talked(tmp_path, 2)
    asked = here.values["messages"][-2]
    here.talk.agent.update_state(THREAD, {"messages": [HumanMessage("Two!", id=asked.id)]})

    here.say("Three.")

    assert here.asked() == [ambient(1), "Two!", "Three."]


def test_removed_answer(tmp_path: Path) -> None:
    """01: an answer that was taken away does not ask its question twice."""
    here = talked(tmp_path, 2)
    last = here.values["messages"][-1]
    here.talk.agent.update_state(THREAD, {"messages": [RemoveMessage(str(last.id))]})

    here.say("Three.")

    assert here.asked() == [ambient(1), ambient(2), "Three."]


def test_copied_thread(tmp_path: Path) -> None:
    """01, The archive: a copied thread goes on; the original does not see it."""
    here = talked(tmp_path, 2)
    here.talk.agent.update_state(COPY, here.values, as_node="compress")
    here.chat(1, first=3)

    here.say("In the copy.", config=COPY)

    assert here.asked(COPY) == [ambient(1), ambient(2), "In the copy."]
    assert here.asked() == [*map(ambient, (1, 2, 3))]


def test_copied_thread_is_a_session_of_its_own(tmp_path: Path) -> None:
    """01, The archive: deleting the original keeps the turns that the copy can reach."""
    here = talked(tmp_path, 2)
    here.talk.agent.update_state(COPY, here.values, as_node="compress")
    here.say("In the copy.", config=COPY)
    delete_session(here.talk.agent, THREAD)

    with suppress(EbbtideError):
        here.say("Still here.", config=COPY)

    assert here.talk.model.sent[-1].messages[-1].text == "Still here."
    assert here.asked(COPY) == [ambient(1), ambient(2), "In the copy.", "Still here."]


def test_checkpoints_that_are_lost(tmp_path: Path) -> None:
    """01, State follows the messages: the state is found by the messages."""
    here = talked(tmp_path, 2)
    messages = here.values["messages"]
    lost = stage(tmp_path, archive=here.talk.archive, checkpointer=InMemorySaver())
    lost.talk.model.answers = ["Three it is."]

    state = lost.talk.agent.invoke({"messages": [*messages, HumanMessage("Three.")]}, THREAD)

    assert state["memory"]["turn"] == 3
    assert lost.asked() == [ambient(1), ambient(2), "Three."]


def test_two_turns_at_once(tmp_path: Path) -> None:
    """01: both are kept, and the later one's banner names both; a fork of old has none."""
    saver = InMemorySaver()
    here, there = (stage(tmp_path, checkpointer=saver) for _ in range(2))
    here.chat(1)
    start = here.talk.agent.get_state(THREAD).config
    there.talk.model.answers = ["Theirs."]

    def answer(_: Any) -> str:
        if len(there.talk.model.sent) == 0:
            there.talk.agent.invoke({"messages": "Two."}, start)
        return "Ours."

    here.talk.model.answers = answer
    state = here.talk.agent.invoke({"messages": "Zwei."}, THREAD)
    forked = here.talk.agent.invoke({"messages": "Later."}, start)

    (session,) = here.talk.archive.sessions("")
    theirs, ours, _ = here.talk.archive.tips(session)
    (banner,) = state["memory"]["banners"]
    assert theirs.id[:12] in banner
    assert ours.id[:12] in banner
    assert forked["memory"]["banners"] == []


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("then", ["resume", "say"])
def test_every_node_boundary(tmp_path: Path, node: str, then: str) -> None:
    """01: resume from every node boundary, by `None` or by a new message."""
    here = stage(tmp_path)
    agent: Any = here.talk.agent
    here.talk.model.answers = lambda _: "Noted."
    asked = {"resume": None, "say": {"messages": "Next."}}[then]

    assert node in agent.get_graph().nodes
    agent.invoke({"messages": "One."}, THREAD, interrupt_before=[node])
    agent.invoke(asked, THREAD)
    agent.invoke({"messages": "Last."}, THREAD)

    assert here.asked() == ["One.", *["Next."] * (then == "say"), "Last."]


def test_other_archive(tmp_path: Path) -> None:
    """00, One turn: checkpoints whose archive is another one are an error, and nothing is sent."""
    saver = InMemorySaver()
    here = stage(tmp_path / "one", checkpointer=saver)
    here.chat(1)
    there = stage(tmp_path / "other", checkpointer=saver)

    with pytest.raises(EbbtideError):
        there.say("Hello.")

    assert there.talk.model.sent == []
    assert here.say("Hello.").memory["turn"] == 2


def test_state_of_somebody_else(tmp_path: Path) -> None:
    """00, One turn: a state that is somebody else's shows nothing, and blocks no thread."""
    bobs: RunnableConfig = {"configurable": {"thread_id": "bobs", "user_id": "bob"}}
    anns: RunnableConfig = {"configurable": {"thread_id": "anns", "user_id": "ann"}}
    here = stage(tmp_path, anns)
    here.work(AUTH)
    here.talk.agent.update_state(bobs, {"memory": here.values["memory"]}, as_node="compress")
    here.talk.model.answers = [*["…"] * len(here.talk.model.sent), "Hello."]

    with suppress(EbbtideError):
        here.talk.agent.invoke({"messages": "I am Bob."}, bobs)

    assert here.talk.model.sent[-1].messages[-1].text == "I am Bob."
    assert AUTH.log not in here.talk.model.sent[-1].text
    assert AUTH.summary not in here.talk.model.sent[-1].text


class Dead(BaseException):
    """What ends a process."""


class Dying(InMemorySaver):
    """A checkpointer whose process ends once it has stored an input."""

    armed = False

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> RunnableConfig:
        """Store it."""
        stored = super().put(config, checkpoint, metadata, new_versions)
        if self.armed and metadata.get("source") == "input":
            self.armed = False
            raise Dead
        return stored


def test_input_that_no_run_applied(tmp_path: Path) -> None:
    """00, `begin_turn`: an input that the checkpointer stored and no run applied is taken along."""
    saver = Dying()
    here = stage(tmp_path, checkpointer=saver)
    here.say("One.", durability="sync")
    saver.armed = True
    with suppress(Dead):
        here.say("Two.", durability="sync")

    here.say("Three.", durability="sync")

    assert here.asked() == ["One.", "Two.", "Three."]
