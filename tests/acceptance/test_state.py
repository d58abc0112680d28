"""The state that applications and people read, and what an agent is given.

Page 00, "Public API", "State" and "One turn".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from pydantic import BaseModel

from ebbtide import (
    DiskArchive,
    EbbtideMiddleware,
    MemoryState,
    SessionNotFoundError,
    Settings,
    SettingsError,
    SqlArchive,
    build_memory_graph,
    create_memory_agent,
)
from tests.acceptance.stage import AUTH, PERF, ambient, stage, users
from tests.agents import THREAD, inside, talk
from tests.doubles import ScriptedModel, call
from tests.processes import ended

NODES = (
    *("begin_turn", "assemble_context", "call_model", "memory_tools", "application_tools"),
    *("detect_references", "decay", "persist", "compress"),
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the memory after a turn with an open, an expanded and a concluded effort."""
    here = stage(tmp_path_factory.mktemp("memory"))
    here.work(PERF)
    here.work(AUTH)
    here.use("expand_effort", effort_id="auth-bug")
    opening = call("open_effort", name="late parcel", goal="Find it", constraints=["Be polite"])
    return here.say("My parcel is late.", opening, "Opened.").memory


def test_keys(memory: dict[str, Any]) -> None:
    """00, State: what people read stands under these names."""
    assert {"turn", "active_effort", "open_efforts", "expanded", "summaries"} <= {*memory}
    assert {"anchor", "banners", "context_report"} <= {*memory}
    assert (memory["turn"], memory["active_effort"]) == (8, "late-parcel")


def test_open_efforts(memory: dict[str, Any]) -> None:
    """00, State: when it was opened, referenced and active."""
    effort = memory["open_efforts"]["late-parcel"]

    turns = ("opened_turn", "last_referenced_turn", "last_active_turn")
    assert [effort[name] for name in turns] == [8, 8, 8]


def test_expanded(memory: dict[str, Any]) -> None:
    """00, State; slice 3, `expanded.json`: since when, and when it was referenced."""
    expanded = memory["expanded"]["auth-bug"]

    assert (expanded["expanded_turn"], expanded["last_referenced_turn"]) == (7, 7)
    assert "turns" in expanded


def test_state_is_plain_data(memory: dict[str, Any]) -> None:
    """00, State: plain JSON-like data."""
    assert json.loads(json.dumps(memory)) == memory


def test_open_efforts_as_people_read_them(memory: dict[str, Any]) -> None:
    """00, State: goal and constraints of an open effort."""
    effort = memory["open_efforts"]["late-parcel"]

    assert effort.get("goal") == "Find it"
    assert effort["constraints"] == ["Be polite"]


def test_summaries_as_people_read_them(memory: dict[str, Any]) -> None:
    """00, State: status, goal and text of a summary, and the turns that it has left."""
    summary = memory["summaries"]["auth-bug"]

    assert isinstance(summary, dict)
    assert summary["summary"] == AUTH.summary[:80]
    assert (summary["status"], summary["goal"], summary.get("due")) == ("concluded", "", None)
    assert (summary["last_referenced_turn"], summary["leaves_in"]) == (7, 19)


def test_expanded_says_how_long_it_has(memory: dict[str, Any]) -> None:
    """00, State: `collapses_in`."""
    assert memory["expanded"]["auth-bug"].get("collapses_in") == 2


def test_memory_has_nothing_that_only_nodes_want(memory: dict[str, Any]) -> None:
    """00, State: bookkeeping is a channel of its own; nothing else is in the memory."""
    known = {"turn", "active_effort", "open_efforts", "expanded", "summaries", "references"}

    assert {*memory} <= known | {"anchor", "banners", "context_report", "window"}


def test_bookkeeping_is_small(tmp_path: Path) -> None:
    """00, State: the second channel has less than 600 bytes in a plain turn."""
    here = stage(tmp_path)
    here.chat(3)

    assert 0 < len(json.dumps(here.values.get("bookkeeping", ""))) - 2 < 600


@pytest.mark.parametrize(("window", "kept"), [(0, 1), (2, 3), (5, 6), (None, 8)])
def test_messages_window(tmp_path: Path, window: int | None, kept: int) -> None:
    """00, State: `messages` has this turn and the last `messages_window`."""
    here = stage(tmp_path, settings=Settings(messages_window=window))

    messages = here.chat(8)[-1].state["messages"]

    assert [m.type for m in messages] == ["human", "ai"] * kept
    assert messages[-2].text == ambient(8)


def test_turn_is_counted_before_the_model_is_called(tmp_path: Path) -> None:
    """00, Words: the number goes up before the model is called."""
    here = stage(tmp_path)
    here.talk.model.answers = ["Noted."]

    here.talk.agent.invoke({"messages": "Hello."}, THREAD, interrupt_before=["call_model"])

    assert here.values["memory"]["turn"] == 1
    assert here.talk.model.sent == []


def test_nodes_say_what_they_do(tmp_path: Path) -> None:
    """00, One turn: each node has a one-line description in its metadata."""
    nodes = stage(tmp_path).talk.agent.get_graph().nodes

    told = {name: (nodes[name].metadata or {}) for name in NODES if name in nodes}
    assert {name for name, metadata in told.items() if metadata.get("description")} == {*NODES}


def test_prompt_is_an_update(tmp_path: Path) -> None:
    """00, `assemble_context`: the assembled prompt is what a person looks at."""
    here = stage(tmp_path)
    here.talk.model.answers = ["Noted."]

    updates = [*here.talk.agent.stream({"messages": "Hello."}, THREAD, stream_mode="updates")]

    assert "Hello." in str([one.get("assemble_context") for one in updates])


def test_edited_memory_blocks_nothing(tmp_path: Path) -> None:
    """00, One turn: of an edited `memory` what makes sense is taken, the rest is put right."""
    here = stage(tmp_path)
    here.work(AUTH)
    memory = {**here.values["memory"], "turn": "many", "active_effort": "nope"}

    here.talk.agent.update_state(THREAD, {"memory": memory})
    here.say("Hello.")

    assert here.asked()[-1] == "Hello."
    assert here.values["memory"]["turn"] == 4


@pytest.mark.parametrize("bad", [{"decay_threshold": 0}, {"ambient_windows": 3}, {"anchor": "on"}])
def test_bad_setting(bad: dict[str, Any]) -> None:
    """00, `Settings`: an unknown name or a bad value is an error."""
    with pytest.raises(ValueError, match=next(iter(bad))):
        Settings.model_validate(bad)


def test_defaults() -> None:
    """02, 03 and 05: the defaults that the pages and their sources name."""
    defaults = {
        "context_budget": 16_000,
        "ambient_window": 10,
        "decay_threshold": 3,
        "summary_eviction_threshold": 20,
        "attention_threshold": 40,
        "similarity_threshold": 0.85,
        "messages_window": 2,
        "recall_hints": 3,
        "anchor": "on-change",
    }

    assert {name: getattr(Settings(), name) for name in defaults} == defaults


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("rebuild", "on-change"),
        ("max_tool_rounds", None),
    ],
)
def test_defaults_to_come(name: str, default: Any) -> None:
    """03, The plan, and 01, `max_tool_rounds`: the defaults that the pages name."""
    assert getattr(Settings(), name) == default


def test_settings_of_a_run(tmp_path: Path) -> None:
    """00, `Settings`: a run's fields count, those that it does not set are the agent's own."""
    here = stage(tmp_path, settings=Settings(messages_window=0))

    said = [here.say("Hello.", context={"messages_window": 5}) for _ in range(3)][-1]

    assert len(said.state["messages"]) == 6
    assert len(here.say("Hello.").state["messages"]) == 2


@dataclass(frozen=True)
class Frozen:
    """An application's context as a dataclass."""

    user_id: str


class Plain:
    """An application's context as an object."""

    def __init__(self, user_id: str) -> None:
        """Take whose request it is."""
        self.user_id = user_id


class Model(BaseModel):
    """An application's context as a pydantic model."""

    user_id: str
    tenant: str = "x"


def mapped(user_id: str) -> Mapping[str, str]:
    """Return an application's context as a mapping."""
    return {"user_id": user_id, "tenant": "x"}


def ours(user_id: str) -> Settings:
    """Return settings as a context."""
    return Settings(user_id=user_id)


@pytest.mark.parametrize("context", [Frozen, Plain, Model, mapped, ours])
def test_user_of_a_context(tmp_path: Path, context: Any) -> None:
    """00, Public API: `user_id` is taken from whatever object carries it."""
    here = stage(tmp_path)
    bobs_thread = {"configurable": {"thread_id": "bobs"}}
    here.say("The code is 4711.", context=context(user_id="ann"))

    bobs = here.say("What is the code?", config=bobs_thread, context=context(user_id="bob"))

    with pytest.raises(SessionNotFoundError):
        here.say("What is the code?", context=context(user_id="bob"))
    assert (bobs.memory["turn"], "4711" in bobs.sent.text) == (1, False)
    assert here.say("Hello.", context=context(user_id="ann")).memory["turn"] == 2


def test_agents_settings_name_no_user(tmp_path: Path) -> None:
    """00, Public API: `user_id` is a field that only a run may set."""
    with pytest.raises(SettingsError):
        stage(tmp_path, settings=Settings(user_id="ann"))


def test_without_a_checkpointer(tmp_path: Path) -> None:
    """00, Public API: without a checkpointer a run is a session of its own."""
    model = ScriptedModel(answers=lambda _: "Noted.")
    archive = DiskArchive(tmp_path, durable=False)
    agent = create_memory_agent(model, archive=archive)

    first, second = (agent.invoke({"messages": "Hello."}) for _ in range(2))

    assert (first["memory"]["turn"], second["memory"]["turn"]) == (1, 1)


def test_uncompiled_graph(tmp_path: Path) -> None:
    """00, Public API: `build_memory_graph` returns the graph, to be compiled by its user."""
    model = ScriptedModel(answers=["Noted."])
    graph = build_memory_graph(model, archive=DiskArchive(tmp_path, durable=False))

    state = graph.compile(checkpointer=InMemorySaver()).invoke({"messages": "Hello."}, THREAD)

    assert state["messages"][-1].text == "Noted."


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_inside_a_larger_graph(tmp_path: Path, schema: Any) -> None:
    """06, Embedding: as a node of a larger graph it goes on from turn to turn."""
    chat = talk(tmp_path, ["One.", "Two."], checkpointer=None)
    outer = inside(chat, schema)
    outer.invoke({"messages": "First."}, THREAD)

    outer.invoke({"messages": "Second."}, THREAD)

    assert [m.text for m in users(chat.model.sent[-1])] == ["First.", "Second."]


def test_history_is_adopted(tmp_path: Path) -> None:
    """01, State follows the messages: a history that is handed over is taken, and it is told."""
    here = stage(tmp_path)
    here.talk.model.answers = ["Blue."]
    history = [HumanMessage("My boat is blue."), AIMessage("Nice."), HumanMessage("Which colour?")]

    state = here.talk.agent.invoke({"messages": history}, THREAD)

    assert here.asked() == ["My boat is blue.", "Which colour?"]
    assert len(state["memory"]["banners"]) == 1
    assert "My boat is blue." in here.talk.model.sent[-1].text


@pytest.mark.parametrize(
    "message",
    [
        "",
        "x" * 5_000_000,
        "a \x00 b",
        "a \ud800 b",
        "a \x85 \u2028 b",
        [{"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}],
    ],
    ids=["empty", "5 MB", "NUL", "surrogate", "lines", "image"],
)
def test_bad_input(tmp_path: Path, message: Any) -> None:
    """01, What must be shown: whatever is said, the turn is answered and the next one works."""
    here = stage(tmp_path)

    said = here.say(message)

    assert said.answer == "Noted."
    assert here.say("Hello.").memory["turn"] == 2


def test_names_in_a_notebook(tmp_path: Path) -> None:
    """00, Public API: `dir(ebbtide)` shows what is public, in a process that used nothing yet."""
    shown = ended(["-c", "import ebbtide; print(*dir(ebbtide))"], tmp_path).printed.split()

    assert {"Settings", "commands", "EbbtideMiddleware", "create_memory_agent"} <= {*shown}
    assert "__version__" in shown


def test_archive_says_where_it_is(tmp_path: Path) -> None:
    """01, The archive: the repr says where the data is."""
    with DiskArchive(tmp_path) as archive:
        assert str(tmp_path) in repr(archive)


def test_agent_says_where_its_data_is(tmp_path: Path) -> None:
    """00, Public API: so do the agent and the middleware, with the settings that were chosen."""
    options: Any = {"archive": DiskArchive(tmp_path), "settings": Settings(context_budget=4_000)}
    shown = f"archive=DiskArchive({str(tmp_path)!r}), settings=Settings(context_budget=4000))"

    agent = create_memory_agent(ScriptedModel(), **options)

    assert repr(agent) == f"MemoryAgent(model='ScriptedModel', {shown}"
    assert repr(EbbtideMiddleware(**options)) == f"EbbtideMiddleware({shown}"


def test_repr_of_a_database_hides_its_password() -> None:
    """The URL of a database is shown without the password in it."""
    url = "postgresql+psycopg://ann:geheim@localhost/turns"

    assert repr(SqlArchive(url)) == "SqlArchive('postgresql+psycopg://ann:***@localhost/turns')"
