"""Large files in a conversation: stored once, sent and shown whole, small in checkpoints."""

import base64
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState

from ebbtide import EbbtideMiddleware, commands, delete_session, erase, restore
from ebbtide.memory.turn import Session
from tests.agents import THREAD, archive_in, inside, talk
from tests.doubles import ScriptedModel, call
from tests.files import png

pytestmark = pytest.mark.usefixtures("entry")

DATA = "iVBORw0KGgoA" * 20_000
IMAGE = {"type": "image", "base64": DATA, "mime_type": "image/png"}
URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}
AGAIN: RunnableConfig = {"configurable": {"thread_id": "again"}}


def asking(*blocks: Any, **data: Any) -> HumanMessage:
    """Return a question with files."""
    return HumanMessage([{"type": "text", "text": "What is this?"}, *blocks], **data)


def draw() -> list[Any]:
    """Draw a picture."""
    return [IMAGE]


def content_of(sent: Any) -> Any:
    """Return the content of the last question of a request."""
    return next(message for message in reversed(sent.messages) if message.type == "human").content


@pytest.mark.parametrize("block", [IMAGE, URL])
def test_picture_is_sent_and_shown_whole(tmp_path: Path, block: Any) -> None:
    """The state has a reference from the beginning of the turn on."""
    chat = talk(tmp_path, [call("effort_status"), "A cat.", "Yes."])
    asked = asking(block)

    state = chat.agent.invoke({"messages": [asked]}, THREAD)
    after = chat.say("Really?")

    assert [content_of(sent) for sent in chat.model.sent[:2]] == [asked.content] * 2
    assert DATA not in str(state)
    assert DATA not in str(after)
    assert commands.transcript(chat.agent, THREAD)[0][0].content == asked.content
    assert [found for found in chat.archive.verify(Session("", "t")) if found.fatal] == []


def test_checkpoints_stay_small(tmp_path: Path) -> None:
    """After the checkpoints of the input no other has the picture, and the archive has one."""
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
        chat = talk(tmp_path / "archive", ["A cat.", *["Yes."] * 4], checkpointer=saver)
        chat.agent.invoke({"messages": [asking(IMAGE)]}, THREAD)
        [chat.say(words) for words in ("Really?", "And now?", "Well?")]
        rows = saver.conn.execute("SELECT checkpoint FROM checkpoints ORDER BY checkpoint_id")
        having = [DATA.encode() in row[0] for row in rows]
        writes = saver.conn.execute("SELECT value FROM writes")
        written = sum(DATA.encode() in row[0] for row in writes)
        chat.agent.invoke({"messages": [asking(IMAGE)]}, AGAIN)
        chat.archive.close()

    size = (tmp_path / "archive" / "ebbtide.sqlite").stat().st_size
    assert sum(having) <= 2
    assert written <= 1
    assert not any(having[2:])
    assert size < 2 * len(DATA)


def test_same_picture_sent_again_is_no_edit(tmp_path: Path) -> None:
    """A client that sends its history again, with the data, goes on with the same turn."""
    chat = talk(tmp_path, ["A cat.", "Yes.", "On."])
    asked = asking(IMAGE, id="q1")
    chat.agent.invoke({"messages": [asked]}, THREAD)

    state = chat.agent.invoke({"messages": [asked, HumanMessage("Really?", id="q2")]}, THREAD)

    assert (state["memory"]["turn"], chat.branches) == (2, 1)
    assert [turn.number for turn in chat.turns(state)] == [1, 2]
    assert DATA not in str(state)


FORGED = {"ebbtide_attachment": "0" * 64, "size": 9}
NONSENSE = {"pixels": [-1, 1e400], "pages": "many", "seconds": None, "bytes": "q", "text": 5}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "base64": {**FORGED, "facts": NONSENSE}},
        {"type": "image", "base64": {**FORGED, "facts": {"pixels": [1]}}, "mime_type": "image/png"},
    ],
)
def test_block_that_nobody_writes_blocks_no_thread(tmp_path: Path, block: Any) -> None:
    """A client may send anything in the place of a block, also what looks like a reference."""
    chat = talk(tmp_path, ["What?", call("read_log", turns="1"), "Nothing."])

    chat.agent.invoke({"messages": [asking(block)]}, THREAD)
    state = chat.say("What did I send?")

    assert state["messages"][-1].text == "Nothing."
    assert len(chat.turns(state)) == 2


def test_facts_that_a_client_sends_do_not_count(tmp_path: Path) -> None:
    """A picture that a client sends again by its reference costs what it cost, and is sent."""
    chat = talk(tmp_path, lambda _: "Seen.")
    data = base64.b64decode(png(2_000, 2_000)) + bytes(70_000)
    picture = {**IMAGE, "base64": base64.b64encode(data).decode()}
    first = chat.agent.invoke({"messages": [asking(picture)]}, THREAD)
    (reference,) = [one["base64"] for one in first["messages"][0].content if "base64" in one]
    cheap = {**picture, "base64": {**reference, "facts": {"pixels": [1, 1]}}}

    again = chat.agent.invoke({"messages": [asking(cheap)]}, THREAD)

    assert content_of(chat.model.sent[-1]) == asking(picture).content
    costs = [one["memory"]["context_report"]["tokens"]["turn"] for one in (first, again)]
    assert costs[0] > 1_600
    assert costs[1] in range(costs[0] - 40, costs[0] + 40)


def test_picture_of_a_tool_is_stored_once(tmp_path: Path) -> None:
    """It is sent whole in its turn, and a reference in the state from the next turn on."""
    chat = talk(tmp_path, [call("draw"), "A cat.", "Yes."], tools=[draw])
    chat.say("Draw it.")

    state = chat.say("Really?")

    (drawn,) = [m for m in chat.model.sent[1].messages if m.type == "tool"]
    assert drawn.content == [IMAGE]
    assert DATA not in str(state)
    (shown,) = [m for m in commands.transcript(chat.agent, THREAD)[0] if m.type == "tool"]
    assert shown.content == [IMAGE]


def test_restored_thread_sends_it(tmp_path: Path) -> None:
    """An agent with new checkpoints goes on with the picture, whose turn is shown."""
    chat = talk(tmp_path, ["A cat.", "Yes.", "On."])
    chat.agent.invoke({"messages": [asking(IMAGE)]}, THREAD)
    again = talk(tmp_path, ["Yes."], archive=chat.archive)

    restore(again.agent, THREAD)
    again.say("Really?")

    assert DATA not in str(again.agent.get_state(THREAD).values)
    assert commands.transcript(again.agent, THREAD)[0][0].content == asking(IMAGE).content


def test_graph_around_keeps_the_data(tmp_path: Path) -> None:
    """Its other nodes may send the messages; the archive has the picture once."""
    chat = talk(tmp_path, ["A cat.", "Yes."], checkpointer=None)
    outer = inside(chat, MessagesState)
    outer.invoke({"messages": [asking(IMAGE)]}, THREAD)

    state = outer.invoke({"messages": "Really?"}, THREAD)

    assert state["messages"][0].content == asking(IMAGE).content
    (turn, _) = chat.archive.load(
        Session("", "t", "agent"), chat.archive.tips(Session("", "t", "agent"))[0]
    ).turns([1, 2])
    assert DATA not in str(turn)


def test_nothing_of_it_is_left(tmp_path: Path) -> None:
    """It goes with the last turn that refers to it, and with its session."""
    chat = talk(tmp_path, ["A cat.", "A cat.", "A cat."])
    for config in (THREAD, THREAD, AGAIN):
        chat.agent.invoke({"messages": [asking(IMAGE)]}, config)
    counts = [len(pictures(chat))]

    erase(chat.agent, THREAD, 1)
    erase(chat.agent, THREAD, 2)
    counts.append(len(pictures(chat)))
    delete_session(chat.agent, AGAIN)

    assert [*counts, len(pictures(chat))] == [1, 1, 0]


def pictures(chat: Any) -> list[Any]:
    """Return the rows of the attachments."""
    with chat.archive.database.reading() as connection:
        return [*connection.exec_driver_sql("SELECT digest FROM ebbtide_attachments")]


class Watching(AgentMiddleware[Any, Any]):
    """Records the requests that it sees."""

    def __init__(self) -> None:
        """See nothing yet."""
        super().__init__()
        self.seen: list[Any] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Record a request."""
        self.seen.append(request.messages)
        return handler(request)


def test_other_middleware_sees_it_whole(tmp_path: Path) -> None:
    """A middleware after the memory sees what the model is sent."""
    watching = Watching()
    agent: Any = create_agent(
        ScriptedModel(answers=["A cat."]),
        middleware=[EbbtideMiddleware(archive=archive_in(tmp_path)), watching],
        checkpointer=InMemorySaver(),
    )

    agent.invoke({"messages": [asking(IMAGE)]}, THREAD)

    assert asking(IMAGE).content in [message.content for message in watching.seen[-1]]
