"""Two users of one thread: what one of them said is in no turn of the other, however a run ended.

They share the thread's checkpoints, in which LangGraph stores what is said before any node runs.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import SessionNotFoundError, commands, restore, transcript
from ebbtide.memory.messages import text
from ebbtide.memory.record import Owner
from tests.agents import THREAD, Talk, archive_in, talk
from tests.databases import Server
from tests.faults.places import Place
from tests.nodes.turn.test_checkpoints import Died, DyingSaver, died

pytestmark = pytest.mark.usefixtures("entry")

INPUT, APPLIED = "input", "loop"
"""Where a process dies: when an input is stored, or when it is applied and no turn has begun."""


class Step(NamedTuple):
    """What a user says, None to resume what may be another's; and where the process dies."""

    user: str
    words: str | None
    dies: str = ""


def ann(words: str | None, dies: str = "") -> Step:
    """Return a step of ann's."""
    return Step("ann", words, dies)


def bob(words: str | None, dies: str = "") -> Step:
    """Return a step of bob's."""
    return Step("bob", words, dies)


def of(user: str) -> RunnableConfig:
    """Return the config of a user's runs in the one thread."""
    return {"configurable": {"thread_id": "t", "user_id": user}}


@contextmanager
def opened(place: Place) -> Iterator[Talk]:
    """Open the agent in its place."""
    archive = place.archive() if place.uri else archive_in(place.root / "archive")
    with place.saver() as saver, archive:
        yield talk(place.root, lambda _: "yes", archive=archive, checkpointer=saver)


def die(place: Place, step: Step) -> None:
    """Let a child process run a step, and kill it when a checkpoint of that kind is stored."""
    child = os.fork()
    if child == 0:
        try:
            with opened(place) as chat:
                saver: Any = chat.agent.checkpointer
                put = saver.put

                def killed(config: Any, checkpoint: Any, metadata: Any, *more: Any) -> Any:
                    stored = put(config, checkpoint, metadata, *more)
                    if metadata["source"] == step.dies:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return stored

                saver.put = killed
                run(chat, step)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def run(chat: Talk, step: Step) -> None:
    """Run a step, and check that nothing in it is of the other user.

    What a user resumes is refused if it is not theirs.
    """
    given: Any = None if step.words is None else {"messages": step.words}
    before = len(chat.model.sent)
    try:
        state = chat.agent.invoke(given, of(step.user), durability="sync")
    except SessionNotFoundError:
        assert given is None
        return
    sent = [message.text for one in chat.model.sent[before:] for message in one.messages]
    shown = [message.text for message in state["messages"]]
    # If nothing was sent no node ran: LangGraph returns what is there.
    assert foreign([*sent, *(shown if sent else ())], step.user) == []
    assert "Continued from the archive" not in "".join(state["memory"]["banners"])


def go(place: Place, *steps: Step) -> None:
    """Run steps, each in a process or at least with an agent of its own."""
    for step in steps:
        if step.dies:
            die(place, step)
            continue
        with opened(place) as chat:
            run(chat, step)


def foreign(texts: Sequence[str], user: str) -> list[str]:
    """Return the texts that another user said: each begins with the name of its user."""
    others = {"ann", "bob"} - {user}
    return [one for one in texts if one.partition(" ")[0] in others]


def session(chat: Talk, user: str) -> list[str]:
    """Return what a user said in the turns of the newest branch of their session."""
    owner = Owner(user, "t")
    tip = chat.archive.newest(owner)
    records = chat.archive.at(owner, tip).turns(range(1, tip.turn + 1)) if tip else ()
    return [text(m) for record in records for m in record.messages if m["type"] == "human"]


def sessions(place: Place) -> tuple[list[str], list[str]]:
    """Return what ann and bob said, as the archive has it."""
    with opened(place) as chat:
        return session(chat, "ann"), session(chat, "bob")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return an empty place in SQLite's files."""
    return Place(tmp_path / "place").begun()


CASES: dict[str, list[Step]] = {
    "another speaks, then the first": [ann("ann 1"), bob("bob 1"), ann("ann 2")],
    "another speaks several times": [
        *(ann("ann 1"), bob("bob 1"), bob("bob 2"), ann("ann 2"), bob("bob 3"))
    ],
    "another speaks, and the first resumes": [
        *(ann("ann 1"), bob("bob 1"), ann(None), ann("ann 2"))
    ],
    "the first speaks again": [ann("ann 1"), ann("ann 2"), bob("bob 1")],
    "the first resumes": [ann("ann 1"), ann(None), bob("bob 1"), ann("ann 2")],
    "another resumes": [ann("ann 1"), bob(None), ann(None), bob("bob 1")],
    "another resumes, then speaks": [ann("ann 1"), bob(None), bob("bob 1"), ann("ann 2")],
}
"""What happens after the first step, in which the run of ann dies."""


def expected(steps: Sequence[Step]) -> tuple[list[str], list[str]]:
    """Return what each user's session has of steps.

    What was said in a run that died waits for its user, until somebody speaks in the thread.
    """
    said: dict[str, list[str]] = {"ann": [], "bob": []}
    waiting: Step | None = None
    for step in steps:
        if waiting and waiting.user == step.user and waiting.words:
            said[step.user].append(waiting.words)
            waiting = None
        if step.dies:
            waiting = step
        elif step.words:
            said[step.user].append(step.words)
            waiting = None
    return said["ann"], said["bob"]


@pytest.mark.parametrize(("dies", "before"), [(INPUT, []), (APPLIED, [ann("ann 0")])])
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_died(place: Place, case: str, dies: str, before: list[Step]) -> None:
    """What was said then is in no turn of the other user, and once in a turn of its own."""
    first, *rest = CASES[case]
    steps = [*before, first._replace(dies=dies), *rest]

    go(place, *steps)

    assert sessions(place) == expected(steps)


@pytest.mark.parametrize("dies", [INPUT, APPLIED])
def test_runs_of_both_died(place: Place, dies: str) -> None:
    """Neither has what the other said."""
    go(place, ann("ann 1", dies), bob("bob 1", dies), ann("ann 2"), bob("bob 2"))

    anns, bobs = sessions(place)
    assert (anns[-1], foreign(anns, "ann")) == ("ann 2", [])
    assert (bobs[-1], foreign(bobs, "bob")) == ("bob 2", [])


@pytest.mark.parametrize("dies", [INPUT, APPLIED])
def test_the_second_user_died_in_the_thread_of_the_first(place: Place, dies: str) -> None:
    """The state is the first user's, what waits there the second's."""
    go(place, ann("ann 1"), bob("bob 1", dies), ann(None), bob("bob 2"), ann("ann 2"))

    assert sessions(place) == (["ann 1", "ann 2"], ["bob 1", "bob 2"])


def test_on_postgresql(postgres: Server, tmp_path: Path, entry: str) -> None:
    """So it is where several machines share all."""
    place = Place(tmp_path, postgres.database().uri).begun()

    go(place, ann("ann 1", APPLIED), bob("bob 1", INPUT), bob("bob 2"), ann("ann 2", APPLIED))
    go(place, ann(None), bob("bob 3"))

    # The middleware does not resume a message after another user's turn.
    assert sessions(place) == (["ann 2"] * (entry == "graph"), ["bob 1", "bob 2", "bob 3"])


class Meanwhile(InMemorySaver):
    """A checkpointer that does something once, when an input was applied."""

    does: Callable[[], Any] | None = None

    def put(self, config: RunnableConfig, checkpoint: Any, metadata: Any, *more: Any) -> Any:
        """Store a checkpoint, and do it in another thread."""
        stored = super().put(config, checkpoint, metadata, *more)
        does = self.does
        if does is not None and metadata["source"] == APPLIED:
            self.does = None
            with ThreadPoolExecutor(1) as other:
                other.submit(does).result()
        return stored


@pytest.mark.parametrize("before", [[], ["ann 0"]], ids=["first turn", "later"])
def test_both_speak_at_once(tmp_path: Path, before: list[str]) -> None:
    """Bob's whole turn comes between the moment in which ann's message is stored and her turn."""
    chat = talk(tmp_path, ["yes"] * 20, checkpointer=Meanwhile())
    saver: Any = chat.agent.checkpointer
    for words in before:
        chat.say(words, of("ann"))
    saver.does = lambda: run(chat, bob("bob 1"))

    chat.agent.invoke({"messages": "ann 1"}, of("ann"), durability="sync")

    assert session(chat, "ann") == [*before, "ann 1"]
    assert session(chat, "bob") == ["bob 1"]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_context_names_the_user(tmp_path: Path, way: str, entry: str) -> None:
    """The graph tells users apart wherever a run names them, and from one that names nobody."""
    saver = DyingSaver()
    chat = talk(tmp_path, ["yes"] * 20, checkpointer=saver)
    died(chat, "of nobody", source=APPLIED)
    context: Any = {"user_id": "ann"}

    if way == "sync":
        state = chat.agent.invoke({"messages": "ann 1"}, THREAD, context=context)
    else:
        state = await chat.agent.ainvoke({"messages": "ann 1"}, THREAD, context=context)

    # LangGraph stores no context, so the middleware cannot know who said the first message.
    assert chat.said(state) == (["ann 1"] if entry == "graph" else ["of nobody", "ann 1"])
    assert "ebbtide_author" not in str(state["messages"])


@pytest.mark.parametrize("dies", [INPUT, APPLIED])
def test_restore_archives_nothing_of_another_user(place: Place, dies: str) -> None:
    """What bob said in a run that died is not ann's unfinished turn."""
    go(place, ann("ann 1"), bob("bob 1", dies))

    with opened(place) as chat:
        restore(chat.agent, of("ann"))

    go(place, ann("ann 2"), bob("bob 2"))
    assert sessions(place) == (["ann 1", "ann 2"], ["bob 2"])


def test_undo_takes_back_the_users_own_turn(place: Place) -> None:
    """And not the message of another user that waits in the thread."""
    go(place, ann("ann 1"), ann("ann 2"), bob("bob 1", APPLIED))

    with opened(place) as chat:
        assert commands.undo(chat.agent, of("ann")) == 1

    go(place, ann("ann 3"), bob("bob 2"))
    assert sessions(place) == (["ann 1", "ann 3"], ["bob 2"])


@pytest.mark.parametrize("dies", [INPUT, APPLIED])
def test_commands_where_only_another_user_spoke(place: Place, dies: str) -> None:
    """What bob said before the thread's first turn is not ann's."""
    go(place, bob("bob 1", dies))

    with opened(place) as chat:
        with pytest.raises(SessionNotFoundError):
            restore(chat.agent, of("ann"))
        assert transcript(chat.agent, of("ann"))[0] == []

    assert sessions(place) == ([], [])


def dying(root: Path) -> Talk:
    """Return an agent on a checkpointer that can die."""
    return talk(root, lambda _: "yes", checkpointer=DyingSaver())


def died_as(chat: Talk, user: str, *said: HumanMessage) -> None:
    """Let the process die when these messages of a user are applied."""
    saver: Any = chat.agent.checkpointer
    saver.dies_after = APPLIED
    with pytest.raises(Died):
        chat.agent.invoke({"messages": [*said]}, of(user), durability="sync")


@pytest.mark.parametrize("before", [False, True])
def test_a_history_that_is_sent_again_in_vain(tmp_path: Path, before: bool) -> None:
    """Its messages have ids, so LangGraph has each once, however often it was sent."""
    chat, one = dying(tmp_path), HumanMessage("ann 1", id="1")
    history = chat.say("ann 0", of("ann"))["messages"] if before else []
    died_as(chat, "ann", *history, one)
    died_as(chat, "ann", *history, one, HumanMessage("ann 2", id="2"))

    run(chat, bob("bob 1"))
    chat.say("ann 3", of("ann"))

    assert session(chat, "ann") == [*["ann 0"] * before, "ann 3"]
    assert session(chat, "bob") == ["bob 1"]


def test_a_message_takes_the_id_of_another_users(tmp_path: Path) -> None:
    """LangGraph replaces the waiting message by it, and it is its own user's."""
    chat = dying(tmp_path)
    died_as(chat, "ann", HumanMessage("ann 1", id="1"))

    chat.agent.invoke({"messages": [HumanMessage("bob 1", id="1")]}, of("bob"))

    assert (session(chat, "ann"), session(chat, "bob")) == ([], ["bob 1"])


def test_many_runs_died(tmp_path: Path) -> None:
    """None of what they said is in the other user's turn, however many they are."""
    chat = dying(tmp_path)
    for number in range(33):
        died_as(chat, "ann", HumanMessage(f"ann {number}"))

    run(chat, bob("bob 1"))

    assert session(chat, "bob") == ["bob 1"]


@pytest.mark.parametrize("before", [[], ["bob 0"]], ids=["first turn", "later"])
def test_commands_beside_a_turn_that_broke_off(tmp_path: Path, before: list[str]) -> None:
    """Bob's unfinished turn is in the state; ann is shown none of it, and archives none of it."""

    def answer(messages: Sequence[BaseMessage]) -> str:
        if "bob 1" in [message.text for message in messages]:
            raise Died
        return "yes"

    chat = talk(tmp_path, answer)
    chat.say("ann 1", of("ann"))
    for words in before:
        chat.say(words, of("bob"))
    with pytest.raises(Died):
        chat.say("bob 1", of("bob"))

    assert [message.text for message in transcript(chat.agent, of("ann"))[0]] == ["ann 1", "yes"]
    commands.undo(chat.agent, of("ann"))
    assert session(chat, "ann") == ["ann 1"]


def test_another_goes_on_from_a_checkpoint_with_a_message(tmp_path: Path) -> None:
    """What ann said waits in the thread of bob, who has nothing of it on any branch."""
    chat = dying(tmp_path)
    chat.say("bob 0", of("bob"))
    died_as(chat, "ann", HumanMessage("ann 1"))
    chosen: Any = chat.agent.get_state(of("bob")).config["configurable"]
    fork: RunnableConfig = {"configurable": {**chosen, "user_id": "bob"}}

    with pytest.raises(SessionNotFoundError):
        chat.agent.invoke(None, fork)
    with suppress(SessionNotFoundError):  # as create_memory_agent raises
        chat.agent.invoke({"messages": "bob 1"}, fork)
    died_as(chat, "bob", HumanMessage("bob 2"))
    run(chat, bob("bob 3"))

    branches = chat.archive.tips(Owner("bob", "t"))
    records = [chat.archive.at(Owner("bob", "t"), tip).turns(range(1, 9)) for tip in branches]
    said = [text(m) for turns in records for one in turns for m in one.messages]
    assert (foreign(said, "bob"), session(chat, "bob")[-2:]) == ([], ["bob 2", "bob 3"])


@pytest.mark.parametrize("dies", [INPUT, APPLIED])
def test_another_resumes_a_message_from_its_checkpoint(tmp_path: Path, dies: str) -> None:
    """It is refused, and the message stays out of the turn that follows."""
    chat = dying(tmp_path)
    saver: Any = chat.agent.checkpointer
    chat.say("bob 0", of("bob"))
    saver.dies_after = dies
    with pytest.raises(Died):
        chat.agent.invoke({"messages": "ann 1"}, of("ann"), durability="sync")
    chosen: Any = chat.agent.get_state(of("bob")).config["configurable"]
    with pytest.raises(SessionNotFoundError):
        chat.agent.invoke(None, {"configurable": {**chosen, "user_id": "bob"}}, durability="sync")

    run(chat, bob("bob 1"))

    assert session(chat, "bob") == ["bob 0", "bob 1"]


def test_messages_of_both_wait(tmp_path: Path) -> None:
    """One is in the state, others are not."""
    chat = dying(tmp_path)
    saver: Any = chat.agent.checkpointer
    chat.say("ann 0", of("ann"))
    died_as(chat, "ann", HumanMessage("ann 1"))
    for words in ("bob 1", "bob 2"):
        saver.dies_after = INPUT
        with pytest.raises(Died):
            chat.agent.invoke({"messages": words}, of("bob"), durability="sync")

    run(chat, bob("bob 3"))

    assert session(chat, "bob")[-1] == "bob 3"
