"""The memory in a state: what may stand there, and what happens to anything else."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Overwrite

from ebbtide import commands, delete_session, delete_user, erase, restore
from ebbtide.graph.commands.threads import place_of
from ebbtide.nodes.turn.state import merged
from tests.acceptance.stage import AUTH, PERF, log_in, stage
from tests.agents import THREAD, Talk, lasting, talk

SHOWN = {"expanded_turn": 1, "last_referenced_turn": 1}
OPENED = {"opened_turn": 1, "last_active_turn": 1, "last_referenced_turn": 1}
MALFORMED: list[Any] = [
    *(5, None, {"turn": "two"}, {"turn": -7}, {"turn": 1 << 40}, {"banners": 5}, {"mine": 1}),
    *({"summaries": {"a": "b"}}, {"anchor": {"Goal": AIMessage("x")}}),
    *({"open_efforts": {"a": {}}}, {"expanded": {"a": {**SHOWN, "turns": 1}}}),
    *({"context_report": {"total": "x"}}, {"context_report": {"total": AIMessage("x")}}),
]
FORGED: list[tuple[Any, str]] = [
    ({"open_efforts": {"nobody": OPENED}}, "open_efforts"),
    ({"active_effort": "nobody"}, "active_effort"),
    ({"expanded": {"nobody": {**SHOWN, "turns": [1]}}}, "expanded"),
    ({"summaries": {"nobody": 1}}, "summaries"),
    ({"turn": 99}, "turn"),
    ({"turn": 0}, "turn"),
]
WRONG_BOOKKEEPING: list[Any] = [
    *(5, None, {"tip": "no id"}, {"tip": "ab" * 16}, {"tip": ""}, {"persisted": 9}, {"nonce": 3}),
    *({"persisted": -5}, {"events": [{}]}, {"archive": 5}, {"window": -3}, {"archived": "x"}),
    *(
        {"asked": {"x": 9}},
        {"plan": {"turns": "1"}},
        {"plan": {"after_turn": 99}},
        {"compressed": 1},
    ),
    *({"plan": {"after_turn": 1, "short": {"a": [1, 2]}}}, {"plan": {"after_turn": 1, "why": "x"}}),
    *({"events": [{"type": "opened"}]}, {"events": [{"type": "concluded", "effort": "a"}]}),
    *({"plan": {"after_turn": 2, "summaries": ["x"], "logs": {"x": 1}, "quotes": {"x": 1}}},),
    *({"compressed": {"x": 9}}, {"due": True}, {"nonce": "ab" * 16}),
]


def spoken(root: Path) -> Talk:
    """Return an agent after two turns."""
    chat = talk(root, lambda _: "yes")
    chat.say_all(["one", "two"])
    return chat


def written(chat: Talk, channel: str, value: Any) -> None:
    """Force a value into a channel of the thread's state."""
    update = {channel: Overwrite(value) if isinstance(value, int | None) else value}
    chat.agent.update_state(THREAD, update, as_node=place_of(chat.agent).last_node)


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("memory", MALFORMED)
def test_malformed_memory_blocks_nothing(tmp_path: Path, memory: Any) -> None:
    """What has another form is left out; the thread goes on with all that it said."""
    chat = spoken(tmp_path)
    written(chat, "memory", memory)

    commands.stats(chat.agent, THREAD)
    state = chat.say("three")

    assert chat.said(state) == ["one", "two", "three"]
    assert state["memory"]["turn"] == 3


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("bookkeeping", WRONG_BOOKKEEPING)
def test_wrong_bookkeeping_blocks_nothing(tmp_path: Path, bookkeeping: Any) -> None:
    """Whatever is written there, the thread goes on from its turns and none is lost."""
    chat = spoken(tmp_path)
    written(chat, "bookkeeping", bookkeeping)

    state = chat.say("three")

    assert chat.said(state) == ["one", "two", "three"]
    assert state["bookkeeping"]["persisted"] == state["memory"]["turn"] == 3


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize(("memory", "key"), FORGED)
def test_memory_that_the_archive_contradicts_is_put_right(
    tmp_path: Path, memory: Any, key: str
) -> None:
    """An effort that does not exist is taken out, and a banner names the key."""
    chat = spoken(tmp_path)
    written(chat, "memory", memory)

    state = chat.say("three")

    assert "nobody" not in str(state["memory"][key])
    assert (state["memory"]["turn"], chat.said(state)) == (3, ["one", "two", "three"])
    assert state["memory"]["banners"] == [
        f"--- Corrected the memory: the archive contradicts {key} ---"
    ]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("open_efforts.css-grid.goal", "Knit a scarf."),
        ("open_efforts.css-grid.constraints", ["red wool"]),
        ("summaries.auth-bug.summary", "Tokens never expire."),
    ],
)
def test_edited_text_is_named(tmp_path: Path, key: str, text: Any) -> None:
    """A goal, constraints or a summary are the archive's: an edit is undone, and a banner says."""
    here = stage(tmp_path)
    here.works(AUTH)
    here.use("open_effort", name="css-grid", goal="Lay out the page.")
    memory, (kind, name, field) = here.values["memory"], key.split(".")
    edited = {**memory[kind], name: {**memory[kind][name], field: text}}
    here.talk.agent.update_state(THREAD, {"memory": {kind: edited}})

    said = here.say("Go on.")

    assert said.banners == [f"--- Corrected the memory: the archive contradicts {key} ---"]
    assert said.memory[kind][name][field] == memory[kind][name][field]


def test_edited_countdown_is_counted_anew(tmp_path: Path) -> None:
    """`collapses_in` and `leaves_in` follow from the last reference, whatever is written there."""
    here = stage(tmp_path)
    here.works(AUTH, PERF)
    here.use("expand_effort", effort_id="auth-bug")
    agent, config = here.talk.agent, THREAD
    here.talk.model.answers = lambda _: "Noted."
    agent.invoke({"messages": "Go on."}, config, interrupt_before=["decay"])
    memory = agent.get_state(config).values["memory"]
    edited = {
        "expanded": {"auth-bug": {**memory["expanded"]["auth-bug"], "collapses_in": 0}},
        "summaries": {
            name: {**entry, "leaves_in": 0} for name, entry in memory["summaries"].items()
        },
    }
    agent.update_state(config, {"memory": edited})

    after = agent.invoke(None, config)["memory"]

    assert [after[key] for key in edited] == [memory[key] for key in edited]


@pytest.mark.parametrize("stop", ["begin_turn", "decay"])
def test_messages_written_back_as_json(tmp_path: Path, stop: str) -> None:
    """A client that sends the messages back as it read them changes nothing of the archived turns.

    LangChain converts the JSON of an answer with its calls and usage in other places.
    """
    here = stage(tmp_path)
    here.works(AUTH)
    agent, asked = here.talk.agent, {"messages": "Go on."}
    here.talk.model.answers = lambda _: "Noted."
    agent.invoke(asked, THREAD, interrupt_before=[stop])
    messages = [one.model_dump() for one in agent.get_state(THREAD).values["messages"]]
    agent.update_state(THREAD, {"messages": messages})

    agent.invoke(None, THREAD)
    state = here.talk.say("And?")

    assert here.talk.branches == 1
    assert [record.turn for record in here.talk.records(state)] == [1, 2, 3, 4]
    assert not any("usage_metadata" in one.additional_kwargs for one in state["messages"])


def test_update_of_a_node_written_back_as_json(tmp_path: Path) -> None:
    """What a stream shows of `begin_turn` can be sent as its update; the run goes on from it."""
    chat = spoken(tmp_path)
    asked: Any = {"messages": "three"}
    chat.agent.invoke(asked, THREAD, interrupt_before=["assemble_context"])
    messages = [one.model_dump() for one in chat.agent.get_state(THREAD).values["messages"]]
    update = {"messages": {"value": messages, "type": "__overwrite__"}}
    chat.agent.update_state(THREAD, update, as_node="begin_turn")

    chat.agent.invoke(None, THREAD)

    state = chat.say("four")
    assert chat.said(state) == ["one", "two", "three", "four"]
    assert chat.branches == 1


MIDDLE: list[Any] = [
    *({"memory": {"turn": 99}}, {"memory": {"turn": 0}}, {"bookkeeping": {"persisted": 9}}),
    *({"memory": {"open_efforts": {"nobody": OPENED}, "active_effort": "nobody"}},),
    *({"memory": {"expanded": {"nobody": {**SHOWN, "turns": [1]}}, "summaries": {"nobody": 1}}},),
    *({"bookkeeping": {"events": [{"type": "opened"}]}}, {"bookkeeping": {"plan": None}}),
    *({"bookkeeping": {"asked": {}}}, {"bookkeeping": {"archived": "x"}}, {"references": 5}),
]


@pytest.mark.parametrize("update", MIDDLE)
def test_edit_in_the_middle_of_a_turn(tmp_path: Path, entry: str, update: Any) -> None:
    """Whatever is written there, the turn ends, is stored once, and the next one goes on."""
    node = {"graph": "call_model", "middleware": "model"}[entry]
    chat = spoken(tmp_path)
    asked: Any = {"messages": "three"}
    chat.agent.invoke(asked, THREAD, interrupt_before=[node])
    chat.agent.update_state(THREAD, update)

    chat.agent.invoke(None, THREAD)

    state = chat.say("four")
    assert [record.turn for record in chat.records(state)] == [1, 2, 3, 4]
    assert chat.said(state) == ["one", "two", "three", "four"]
    assert (state["memory"]["turn"], state["memory"]["summaries"]) == (4, {})


@pytest.mark.usefixtures("entry")
def test_edited_anchor_is_taken(tmp_path: Path) -> None:
    """What makes sense is taken as it is."""
    chat = spoken(tmp_path)
    written(chat, "memory", {"anchor": {"Goal": "tea"}})

    state = chat.say("three")

    assert state["memory"]["anchor"] == {"Goal": "tea"}
    assert "tea" in "".join(message.text for message in chat.last)


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("how", ["restore", "erase", "delete_session", "delete_user"])
def test_forged_state_blocks_no_command(tmp_path: Path, how: str) -> None:
    """A state that names a turn that nobody has is mended, erased from and deleted like any."""
    chat = spoken(tmp_path)
    before = chat.agent.get_state(THREAD).values
    written(chat, "bookkeeping", {"tip": "ab" * 16})

    if how == "restore":
        restore(chat.agent, THREAD)
        assert lasting(chat.agent.get_state(THREAD).values) == lasting(before)
    elif how == "erase":
        assert erase(chat.agent, THREAD, 1).turn == 1
    elif how == "delete_session":
        assert len(delete_session(chat.agent, THREAD).sessions) == 1
    else:
        assert delete_user(chat.agent, "nobody").sessions == ()


def test_people_read_what_changes_in_one_order() -> None:
    """Whatever was written last, the keys stand in one order."""
    memory = merged({"banners": [], "anchor": {}}, {"turn": 1})

    assert [*memory] == ["turn", "anchor", "banners"]


@pytest.mark.parametrize("stop", [[], ["call_model"]])
def test_edited_efforts_are_what_is_sent(tmp_path: Path, stop: list[str]) -> None:
    """A log that is taken out or put in by hand, between turns or in one, is sent accordingly."""
    here = stage(tmp_path)
    here.works(AUTH, PERF)
    here.chat(3)
    shown = here.use("expand_effort", effort_id="auth-bug").memory["expanded"]["auth-bug"]
    here.chat(1, 4)
    model, agent = here.talk.model, here.talk.agent
    model.answers = lambda _: "Noted."

    for expanded, logs in (({}, [0, 0]), ({"perf-fix": {**shown, "turns": [2]}}, [0, 1])):
        if stop:
            agent.invoke({"messages": "Go on."}, THREAD, interrupt_before=stop)
        agent.update_state(THREAD, {"memory": {"expanded": expanded}})
        agent.invoke(None if stop else {"messages": "Go on."}, THREAD)
        assert [log_in(model.sent[-1], work) for work in (AUTH, PERF)] == logs
