"""The memory in a state: what may stand there, and what happens to anything else."""

from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.types import Overwrite

from ebbtide import commands, delete_session, delete_user, erase, restore
from ebbtide.graph.commands.threads import place_of
from ebbtide.nodes.turn.state import merged
from tests.acceptance.stage import AUTH, PERF, log_in, stage
from tests.agents import THREAD, Talk, lasting, talk
from tests.doubles import call
from tests.draws import SOAK, examples

OPENED = {"opened_turn": 1, "last_active_turn": 1, "last_referenced_turn": 1}
SHOWN = {"expanded_turn": 1, "last_referenced_turn": 1, "turns": [1]}
ODD: list[Any] = [None, True, -7, 1 << 40, 0.5, "x", [1, "x"], AIMessage("x")]
"""What no place of a memory can have."""
FORGED: list[tuple[tuple[str, ...], Any]] = [
    *((("open_efforts", name), OPENED) for name in ("nobody", "auth-bug")),
    *((("expanded", name), SHOWN) for name in ("nobody", "css-grid")),
    *((("summaries", name), {"last_referenced_turn": 1}) for name in ("nobody", "css-grid")),
    *((("turn",), turn) for turn in (0, 99)),
    (("expanded", "auth-bug", "turns"), [1, 3, 99]),
]
"""What the archive contradicts."""
GONE = object()
"""What takes a key, an entry or a field out."""
WRONG_BOOKKEEPING: list[Any] = [
    *(5, None, {"tip": "no id"}, {"tip": "ab" * 16}, {"tip": ""}, {"number": 9}, {"nonce": 3}),
    *({"number": -5}, {"events": [{}]}, {"archive": 5}, {"window": -3}, {"known": [["x"]]}),
    *({"known": [["x", "y", 9]]}, {"plan": {"turns": "1"}}, {"plan": {"after_turn": 99}}),
    {"plan": {"after_turn": 1, "why": "x"}},
    *({"events": [{"type": "opened"}]}, {"events": [{"type": "concluded", "effort": "a"}]}),
    *({"plan": {"after_turn": 2, "summaries": ["x"], "logs": {"x": 1}, "quotes": {"x": 1}}},),
    *({"due": True}, {"nonce": "ab" * 16}, {"sent": None}),
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
@pytest.mark.parametrize("bookkeeping", WRONG_BOOKKEEPING)
def test_wrong_bookkeeping_blocks_nothing(tmp_path: Path, bookkeeping: Any) -> None:
    """Whatever is written there, the thread goes on from its turns and none is lost."""
    chat = spoken(tmp_path)
    written(chat, "bookkeeping", bookkeeping)

    state = chat.say("three")

    assert chat.said(state) == ["one", "two", "three"]
    assert state["bookkeeping"]["number"] == state["memory"]["turn"] == 3


def places(memory: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return where something stands in a memory of which the archive knows what it must be."""
    found: list[tuple[str, ...]] = [("turn",), ("active_effort",), ("anchor", "Goal")]
    for key in ("open_efforts", "expanded", "summaries"):
        found += [(key,), *((key, name) for name in memory[key])]
        found += [(key, name, field) for name, entry in memory[key].items() for field in entry]
    return found


def kept(memory: dict[str, Any]) -> dict[str, Any]:
    """Return what is the same in a memory after a turn, whoever edited it before."""
    keys = ("turn", "active_effort", "open_efforts", "expanded", "summaries", "anchor")
    found = deepcopy({key: memory[key] for key in keys})
    for field in ("note", "last_active_turn"):  # the archive has that of the last turn
        found["open_efforts"]["css-grid"].pop(field, None)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [False, True])
def test_edited_memory(tmp_path: Path, entry: str, stop: bool) -> None:
    """A wrong value is put right and named, the others and what is not ours stay as they are."""
    here = stage(tmp_path)
    here.works(AUTH, PERF)
    here.use("open_effort", name="css-grid", goal="Lay out the page.")
    here.use("expand_effort", effort_id="auth-bug")
    agent, model, asked = here.talk.agent, here.talk.model, cast("Any", {"messages": "Go on."})
    agent.update_state(THREAD, {"memory": {"anchor": {"Goal": "tea"}}})
    here.say("Hm.")
    model.answers = lambda _: "Noted."
    if stop:
        node = {"graph": "call_model", "middleware": "model"}[entry]
        agent.invoke(asked, THREAD, interrupt_before=[node])
        asked = None
    before = agent.get_state(THREAD)
    memory = before.values["memory"]
    untouched = agent.invoke(asked, before.config)["memory"]
    odd = st.tuples(st.sampled_from(places(memory)), st.sampled_from(ODD))
    taken = [("active_effort", None), ("Goal", "x")]  # a text is compared when a turn begins
    taken += [(field, "x") for field in ("goal", "summary", "status")] if stop else []
    odd = odd.filter(lambda edit: (edit[0][-1], edit[1]) not in taken)
    edits = odd if stop else odd | st.sampled_from(FORGED)
    # Logs and summaries that are taken out stay out.
    noticed = {("open_efforts", name) for name in memory["open_efforts"]}
    gone = [at for at in places(memory) if len(at) == 1 or at in noticed or "turn" in at[-1]]
    edits |= st.tuples(st.sampled_from(gone), st.just(GONE))

    @settings(max_examples=examples(20), deadline=None, derandomize=not SOAK)
    @given(st.lists(edits, min_size=1, max_size=3, unique_by=lambda edit: edit[0][0]))
    def check(edits: list[tuple[tuple[str, ...], Any]]) -> None:
        given = deepcopy(memory)
        given["open_efforts"]["css-grid"]["note"] = "ask Ann"
        has_note = not {("open_efforts",), ("open_efforts", "css-grid")} & {at for at, _ in edits}
        for (*parents, last), value in edits:
            reduce(getitem, parents, given)[last] = value
            if value is GONE:
                del reduce(getitem, parents, given)[last]
        config = agent.update_state(before.config, {"memory": Overwrite({**given, "mine": 1})})

        commands.stats(agent, config)
        after = agent.invoke(asked, config)["memory"]

        assert kept(after) == kept(untouched)
        assert after["mine"] == 1
        assert after["open_efforts"]["css-grid"].get("note") == ("ask Ann" if has_note else None)
        (line,) = (line for line in after["banners"] if line not in untouched["banners"])
        assert all(".".join(at) in line for at, _ in edits)

    check()


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
    assert [turn.number for turn in here.talk.turns(state)] == [1, 2, 3, 4]
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
    *({"memory": {key: {name: value}}} for (key, name), value in FORGED[::2][:3]),
    *(
        {"bookkeeping": {"number": 9}},
        {"bookkeeping": {"events": [{"type": "opened"}]}},
        {"bookkeeping": {"plan": None}},
    ),
    *({"bookkeeping": {"known": []}}, {"bookkeeping": {"known": "x"}}, {"references": 5}),
    {"memory": {"context_report": {"tokens": {"system": 10**6, "tools": 1}, "budget": 9}}},
    {"memory": {"context_report": {"tokens": {"system": 1}, "changed": "x", "left_out": 5}}},
]


@pytest.mark.thorough
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
    assert [turn.number for turn in chat.turns(state)] == [1, 2, 3, 4]
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


@pytest.mark.thorough
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


@pytest.mark.parametrize("update", [{"memory": {"note": {1, 2}}}, {"bookkeeping": {"window": 7}}])
def test_edit_beside_them_takes_no_event(tmp_path: Path, update: Any) -> None:
    """What the turn opened before the edit is stored with it, whatever no digest can be made of."""
    chat = talk(tmp_path, ["Hi.", call("open_effort", name="tide"), "Opened.", "And so on."])
    chat.say("one")
    asked: Any = {"messages": "two"}
    chat.agent.invoke(asked, THREAD, interrupt_after=["memory_tools"])
    chat.agent.update_state(THREAD, update)
    chat.agent.invoke(None, THREAD)

    state = chat.say("three")

    assert [*state["memory"]["open_efforts"]] == ["tide"]
    assert [turn.efforts for turn in chat.turns(state)][1:] == [("tide",)] * 2
