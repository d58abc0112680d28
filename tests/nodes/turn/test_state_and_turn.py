"""The state of a run as values, and back: whose it is, where it stands, what is running."""

from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.runtime import ExecutionInfo, Runtime, ServerInfo
from langgraph_sdk.auth.types import BaseUser, StudioUser

from ebbtide import build_memory_graph
from ebbtide.memory.errors import InputError
from ebbtide.memory.history import id_digest
from ebbtide.memory.settings import Settings
from ebbtide.memory.turn import ANONYMOUS, Session
from ebbtide.nodes.turn.session import session_of
from ebbtide.nodes.turn.state import TurnState, efforts_of, repacked, unpacked
from ebbtide.nodes.turn.turn import running, turn_to_store
from ebbtide.nodes.turn.updates import efforts_update
from ebbtide.testing import InMemoryArchive, ScriptedModel
from tests.doubles import call

PARTS = build_memory_graph(ScriptedModel(), archive=InMemoryArchive()).parts
ANN = Settings(user_id="ann")
MESSAGES: list[Any] = [
    HumanMessage("one", id="1"),
    AIMessage("a", id="2"),
    HumanMessage("two", id="3"),
]


def runtime(namespace: str = "begin_turn:7", thread: str | None = "t") -> Runtime[Settings]:
    """Return the runtime of a node in this checkpoint namespace."""
    info = ExecutionInfo(checkpoint_id="c", checkpoint_ns=namespace, task_id="x", thread_id=thread)
    return Runtime(execution_info=info)


def session_with(configurable: dict[str, Any], here: Runtime[Settings]) -> Session:
    """Return a new session in a run with this configuration."""
    config: RunnableConfig = {"configurable": configurable}
    asked: RunnableLambda[TurnState, Session] = RunnableLambda(
        lambda state: session_of(state, here, Settings())
    )
    return asked.invoke({}, config)


@pytest.mark.parametrize(
    ("namespace", "path"),
    [("begin_turn:7", ""), ("agent:1|begin_turn:7", "agent"), ("a:1|b:2|c:3", "a|b")],
)
def test_a_new_session_is_named_by_thread_and_place(namespace: str, path: str) -> None:
    """The namespace of a session is that of its graph, without the ids of tasks."""
    session = session_of({}, runtime(namespace), ANN)

    assert session == Session("ann", "t", path)


def test_a_run_without_a_thread_has_a_session_of_its_own() -> None:
    """Two runs without checkpoints share nothing."""
    first, second = (session_of({"nonce": it}, runtime(thread=None), ANN) for it in ("aa", "bb"))

    assert first.thread.startswith("run-")
    assert first != second


def test_the_configuration_may_name_the_user() -> None:
    """`configurable.user_id` is whose session it is, else it is nobody's in particular."""
    sessions = [session_with(said, runtime()) for said in ({"user_id": "cid"}, {})]

    assert [session.user for session in sessions] == ["cid", ANONYMOUS]


def test_the_user_of_a_server_cannot_be_chosen() -> None:
    """Whom the server has authenticated beats what a run says."""
    server = ServerInfo("assistant", "graph", user=cast("BaseUser", StudioUser("dan")))
    here: Runtime[Settings] = Runtime(server_info=server, execution_info=runtime().execution_info)

    assert session_of({}, here, ANN).user == "dan"


@pytest.mark.parametrize(
    ("marks", "texts"),
    [
        ({"1": 1, "2": 1, "3": 2}, ["two"]),
        ({"1": 2}, ["one", "a", "two"]),
        ({"1": 1, "2": 1, "gone": 2}, ["two"]),
        ({"gone": 2}, ["two"]),
    ],
)
def test_the_running_turn_begins_where_it_began(marks: dict[str, int], texts: list[str]) -> None:
    """Its first message, else the end of the archived turn, else the last question."""
    known = [[id_digest(own), "", turn] for own, turn in marks.items()]
    state: Any = {"messages": MESSAGES, "turn": 2, "known": known}

    assert [message.text for message in running(state)] == texts


def test_a_turn_that_was_removed_is_an_error() -> None:
    """If an edit removed the running turn there is nothing to answer."""
    known = [[id_digest("3"), "", 1], [id_digest("gone"), "", 2]]
    state: Any = {"messages": MESSAGES, "turn": 2, "known": known}

    with pytest.raises(InputError):
        running(state)


@pytest.mark.parametrize(
    ("last", "status"), [(AIMessage("a"), "done"), (call("x"), "aborted"), (MESSAGES[0], "aborted")]
)
def test_a_turn_is_done_if_it_ends_in_an_answer(last: BaseMessage, status: str) -> None:
    """A stored turn knows its turn, its efforts, and whether it has been answered."""
    state: Any = {"turn": 3, **efforts_update(efforts_of({"turn": 3}).activated("a"))}

    found = turn_to_store(state, [MESSAGES[0], last])

    assert (found.number, found.efforts, found.status) == (3, ("a",), status)


def test_a_state_is_packed_as_it_was() -> None:
    """Unpacking and packing again gives the same memory, with nothing to say of no change.

    What the nodes wrote is known by its digest, in the same archive, until somebody edits it.
    """
    memory: Any = {"turn": 2, "anchor": {"a": "b"}}
    values = {"messages": [], "memory": memory, "bookkeeping": {"due": True, "window": None}}
    packed = repacked(unpacked(values), PARTS)
    state = unpacked(packed, PARTS.secret)
    edited = {**packed, "memory": {**memory, "turn": 3}}

    assert packed.pop("bookkeeping") == {"due": True, "window": None, "memory": state["memory"]}
    assert packed == {"messages": [], "memory": memory}
    assert repacked(state, PARTS, state) == {"messages": []}
    assert "memory" not in unpacked(edited, PARTS.secret)
    assert "memory" not in unpacked(packed, b"another key")


def test_another_order_is_a_change() -> None:
    """The fields of the anchor are shown in their order."""
    state = {"anchor": {"a": "1", "b": "2"}}

    update = repacked({"anchor": {"b": "2", "a": "1"}}, PARTS, state)

    assert [*update["memory"]["anchor"]] == ["b", "a"]
