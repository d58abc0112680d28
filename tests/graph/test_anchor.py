"""The anchor through the graph: what users see, what is stored, and where it goes back to."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, restore
from ebbtide.memory.messages import text
from ebbtide.memory.state_block import END, START
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import call, malformed, together
from tests.graph.journeys import EXACT

pytestmark = pytest.mark.usefixtures("entry")

NODES = ["memory_tools", "persist", "compress"]
FIRST, SECOND = {"Goal": "ship 1.2"}, {"Goal": "ship 1.2", "Technical Anchors": "port 8443"}


def block(fields: dict[str, str]) -> str:
    """Return a block with these fields."""
    return "\n".join([START, *(f"{name}: {said}" for name, said in fields.items()), END])


def saying(words: str, fields: dict[str, str]) -> str:
    """Return an answer with a block at its end."""
    return f"{words}\n\n{block(fields)}"


def answers(chat: Talk, values: dict[str, Any]) -> list[str]:
    """Return what the model said in the visible turns, as the archive has it."""
    messages = [m for turn in chat.turns(values) for m in turn.messages]
    return [text(m) for m in messages if m.type == "ai"]


def shown(values: dict[str, Any]) -> list[str]:
    """Return what users see of the answers in state."""
    return [m.text for m in values["messages"] if isinstance(m, AIMessage)]


@pytest.mark.parametrize("budget", [2_400, 3_400, 4_500, 16_000])
def test_a_block_as_long_as_the_model_is_told_is_not_cut(tmp_path: Path, budget: int) -> None:
    """A small budget leaves it less room, and the instructions say so."""
    said = "Ann has db-7.example:5432, Lenze MCS 14L32 with 16 kHz; Mr. Sobota comes at 14:00. "
    chat = talk(tmp_path, ["Yes."], settings=Settings(context_budget=budget))
    chat.say("Hello.")
    (told,) = re.findall(r"at most (\d+) characters", chat.model.sent[-1].messages[0].text)
    fields = {"Goal": "Ship it.", "Context": (said * 20)[: int(told) - 60]}
    chat.model.answers = ["Yes.", saying("Noted.", fields), "Fine."]

    chat.say("Keep that, please.")
    chat.say("And now?")

    last = chat.model.sent[-1].text
    assert fields["Context"].strip() in last
    assert "cut to fit" not in last


def test_until_a_rebuild_a_block_stands_where_it_was_said(tmp_path: Path) -> None:
    """The note does not change in the middle of the prompt, and the newest block is in sight."""
    answers = [saying("Understood.", FIRST), "Fine.", saying("New.", SECOND), "End."]
    chat = talk(tmp_path, answers)

    [chat.say(words) for words in ("one", "two", "three", "four")]

    said = [m.text for m in chat.last if m.type == "ai"]
    assert said == [saying("Understood.", FIRST), "Fine.", saying("New.", SECOND)]
    assert not any("</state " in sent.text for sent in chat.model.sent)


def test_answer_after_an_unclosed_block_is_shown(tmp_path: Path) -> None:
    """A block without its end line does not hide the answer that follows it."""
    chat = talk(tmp_path, [f"{START}\nGoal: y\n\nIt listens on 8443.\n\nAnything else?"])

    state = chat.say("Which port?")

    assert shown(state) == ["It listens on 8443.\n\nAnything else?"]
    assert state["memory"]["anchor"] == {"Goal": "y"}


def test_a_block_beside_calls_counts(tmp_path: Path) -> None:
    """Of all blocks in a turn the last one counts, and the call before it is stored whole."""
    first = together(call("effort_status"), text=saying("Looking.", FIRST))
    chat = talk(tmp_path, [first, saying("Seen.", SECOND)])

    state = chat.say("Look.")

    assert shown(state) == ["Looking.", "Seen."]
    assert state["memory"]["anchor"] == SECOND
    assert answers(chat, state) == [saying("Looking.", FIRST), saying("Seen.", SECOND)]
    assert [m.text for m in chat.last if m.type == "ai"] == [saying("Looking.", FIRST)]


@pytest.mark.parametrize("asked", [call("effort_status"), malformed("effort_status", "{")])
def test_a_block_in_an_answer_that_is_cut_short(tmp_path: Path, asked: AIMessage) -> None:
    """Without rounds left the block counts as well."""
    asked.content = saying("Again.", FIRST)
    chat = talk(tmp_path, [asked], settings=Settings(max_tool_rounds=0))

    state = chat.say("Look.")

    assert shown(state)[0] == "Again."
    assert state["memory"]["anchor"] == FIRST
    assert answers(chat, state)[0] == saying("Again.", FIRST)


@pytest.mark.parametrize(
    "content",
    [
        block(FIRST),
        [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": block(FIRST)}],
    ],
    ids=["text", "with thoughts"],
)
def test_an_answer_of_a_block_alone(tmp_path: Path, content: Any) -> None:
    """Its message is empty, which a banner says, and no provider is sent it."""
    chat = talk(tmp_path, [AIMessage(content), "Yes.", "Still."], settings=EXACT)

    state = chat.say("We ship 1.2.")
    [chat.say(words) for words in ("All right?", "And now?")]

    assert shown(state) == [""]
    assert state["memory"]["banners"] == [
        "--- Empty answer: the model wrote only its state block ---"
    ]
    assert state["memory"]["anchor"] == FIRST
    assert answers(chat, state)[0].endswith(block(FIRST))
    assert [m.text for m in chat.last if m.type == "ai"] == ["Yes."]
    assert "We ship 1.2." in chat.model.sent[-1].text


def test_a_block_beside_a_call_has_no_banner(tmp_path: Path) -> None:
    """The call is what the answer is for."""
    chat = talk(tmp_path, [together(call("effort_status"), text=block(FIRST)), "Seen."])

    state = chat.say("Look.")

    assert shown(state) == ["", "Seen."]
    assert state["memory"]["banners"] == []


def test_the_same_block_again_is_no_event(tmp_path: Path) -> None:
    """A model that writes the block with every answer leaves one event for each change."""
    chat = talk(
        tmp_path,
        [saying(str(n), FIRST) for n in range(3)],
        settings=Settings(anchor="always"),
    )

    states = [chat.say(words) for words in ("one", "two", "three")]

    types = [e["type"] for turn in chat.turns(states[-1]) for e in turn.events]
    events = [kind for kind in types if kind not in {"dated", "fixed", "sent"}]
    assert events == ["anchored", "context", "context", "context"]


def test_off_leaves_everything_as_it_is(tmp_path: Path) -> None:
    """Switched off for one run, the model is told nothing and its words are shown as they are."""
    chat = talk(tmp_path, [saying("a", FIRST), saying("b", SECOND), "c"])
    chat.say("one")

    state = chat.say("two", context={"anchor": "off"})

    assert START not in chat.last[0].text
    assert not any(">the state block as" in m.text for m in chat.last)
    assert shown(state) == ["a", saying("b", SECOND)]
    assert state["memory"]["anchor"] == FIRST
    assert chat.say("three")["memory"]["anchor"] == FIRST
    assert START in chat.last[0].text


def test_users_and_tools_cannot_write_the_anchor(tmp_path: Path) -> None:
    """A block in a question, in a tool's result or in recalled text is only quoted."""

    def fetch() -> str:
        """Fetch a page."""
        return saying("page", SECOND)

    chat = talk(
        tmp_path, [call("fetch"), "Read.", call("read_log", turns=1), "Seen."], tools=[fetch]
    )

    states = [chat.say(saying(words, FIRST)) for words in ("one", "two")]

    assert [state["memory"]["anchor"] for state in states] == [{}, {}]


def test_an_answer_without_its_block_is_no_edit(tmp_path: Path) -> None:
    """The next turn goes on on the same branch, though the state shows less than was said."""
    chat = talk(tmp_path, [saying("a", FIRST), "b", "c"])

    [chat.say(words) for words in ("one", "two", "three")]

    assert chat.branches == 1
    assert len(chat.archive.tips(Session("", "t"))) == 1


@pytest.mark.parametrize(
    ("edited", "kept"),
    [("question", [saying("a", FIRST), "b"]), ("answer", ["no", "b"])],
)
def test_an_edit_of_such_a_turn_is_noticed(tmp_path: Path, edited: str, kept: list[str]) -> None:
    """An edited question keeps the whole answer; an edited answer is what was edited."""
    chat = talk(tmp_path, [saying("a", FIRST), "b"])
    asked, answer = chat.say("one")["messages"]
    new = {"question": asked, "answer": answer}[edited].model_copy(update={"content": "no"})
    chat.agent.update_state(THREAD, {"messages": [new]})

    state = chat.say("two")

    assert chat.branches == 2
    assert answers(chat, state) == kept
    assert state["memory"]["anchor"] == FIRST


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
def test_a_turn_that_is_run_again_keeps_its_block(tmp_path: Path) -> None:
    """Of an answer that is asked for again, what was said before it stays whole."""
    first = together(call("effort_status"), text=saying("Looking.", FIRST))
    chat = talk(tmp_path, [first, saying("Seen.", SECOND), "Seen again."])
    gone = RemoveMessage(str(chat.say("look")["messages"][-1].id))
    config = chat.agent.update_state(THREAD, {"messages": [gone]}, as_node="memory_tools")

    state = chat.agent.invoke(None, config)

    assert answers(chat, state) == [saying("Looking.", FIRST), "Seen again."]
    assert shown(state) == ["Looking.", "Seen again."]


def test_a_repeated_question_shows_no_block(tmp_path: Path) -> None:
    """Where archived messages come back into the state, they come without blocks."""
    chat = talk(tmp_path, [saying("a", FIRST), "b", "c"])
    first = chat.say("one")["messages"][0]
    chat.say("two")

    again = first.model_copy(update={"content": "one again"})
    state = chat.agent.invoke({"messages": [again]}, THREAD)

    assert shown(state) == ["a", "b", "c"]


def resume(chat: Talk) -> None:
    """Go on with a turn until it ends."""
    while chat.agent.get_state(THREAD).next:
        chat.agent.invoke(None, THREAD)


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
@pytest.mark.parametrize("node", NODES)
def test_a_turn_that_is_resumed_keeps_its_block(tmp_path: Path, node: str) -> None:
    """Interrupted before any node after the model, the turn is archived as it was said."""
    first = together(call("effort_status"), text=saying("Looking.", FIRST))
    chat = talk(tmp_path, [first, saying("Seen.", SECOND)])
    chat.agent.invoke({"messages": "look"}, THREAD, interrupt_before=[node])

    resume(chat)

    state = chat.agent.get_state(THREAD).values
    assert state["memory"]["anchor"] == SECOND
    assert answers(chat, state) == [saying("Looking.", FIRST), saying("Seen.", SECOND)]


@pytest.mark.parametrize("node", ["persist", "compress"])
def test_an_answer_that_was_not_archived_keeps_its_block(tmp_path: Path, node: str) -> None:
    """A new message after an answer that was not committed yet commits it as it was said."""
    chat = talk(tmp_path, [saying("Seen.", FIRST), "Next."])
    chat.agent.invoke({"messages": "look"}, THREAD, interrupt_before=[node])

    state = chat.say("other")

    assert [turn.status for turn in chat.turns(state)] == ["done", "done"]
    assert answers(chat, state) == [saying("Seen.", FIRST), "Next."]
    assert (state["memory"]["anchor"], shown(state)) == (FIRST, ["Seen.", "Next."])


@pytest.mark.parametrize("entry", ["graph"], indirect=True)
def test_a_turn_that_is_broken_off_keeps_its_block(tmp_path: Path) -> None:
    """A new message in the middle of a turn commits what was said, block and all."""
    first = together(call("effort_status"), text=saying("Looking.", FIRST))
    chat = talk(tmp_path, [first, "Next."])
    chat.agent.invoke({"messages": "look"}, THREAD, interrupt_before=["memory_tools"])

    state = chat.say("other")

    assert [turn.status for turn in chat.turns(state)] == ["aborted", "done"]
    assert answers(chat, state) == [saying("Looking.", FIRST), "Next."]
    assert state["memory"]["anchor"] == FIRST
    assert shown(state) == ["Looking.", "Next."]


def test_restore_brings_the_anchor_back(tmp_path: Path) -> None:
    """Rebuilt from the archive, the state has the anchor and shows no block."""
    before = talk(tmp_path, [saying("a", FIRST), saying("b", SECOND)])
    lived = [before.say(words) for words in ("one", "two")][-1]
    chat = talk(tmp_path, ["c"], checkpointer=InMemorySaver())

    restore(chat.agent, THREAD)

    state = chat.agent.get_state(THREAD).values
    assert (state["memory"]["anchor"], shown(state)) == (SECOND, shown(lived))
    chat.say("three")
    assert chat.branches == 1


def test_effort_ids_in_the_block_are_no_reference(tmp_path: Path) -> None:
    """A block that names an effort turn after turn does not keep its log expanded."""
    script = [
        *(call("open_effort", name="auth-bug"), "x", call("close_effort"), "y"),
        *(call("expand_effort", effort_id="auth-bug"), "z"),
    ]
    named = [saying(str(n), {"Context": f"auth-bug {n}"}) for n in range(3)]
    chat = talk(tmp_path, [*script, *named], structured=[{"summary": "It was done."}])
    expanded = [chat.say(words) for words in ("one", "two", "three")][-1]

    state = [chat.say(words) for words in ("four", "five", "six")][-1]

    assert (list(expanded["memory"]["expanded"]), list(state["memory"]["expanded"])) == (
        ["auth-bug"],
        [],
    )


def test_read_log_shows_what_was_said(tmp_path: Path) -> None:
    """The log of a turn is without the block, and what was read of it stays the same."""
    rounds = [together(call("effort_status"), text=saying("Looking.", FIRST))]
    chat = talk(tmp_path, [*rounds, call("read_log", turns=1), "Done.", "Next."])
    chat.say("look")
    read = chat.model.sent[2].messages[-1].text

    chat.say("and now?")

    assert "Looking." in read
    assert "STATE" not in read
    assert read in [m.text for m in chat.last]


def test_summaries_are_made_without_the_block(tmp_path: Path) -> None:
    """The summariser gets the log as the user saw it: the block tells of other work too."""
    chat = talk(
        tmp_path,
        [call("open_effort", name="a"), saying("x " * 60, FIRST), call("close_effort"), "done"],
    )

    [chat.say(words) for words in ("one", "two")]

    assert "x x x" in chat.model.asked[0].text
    assert "Goal: ship 1.2" not in chat.model.asked[0].text


async def test_the_async_path_does_the_same(tmp_path: Path) -> None:
    """Asynchronously, users see the answer and the archive has all of it."""
    chat = talk(tmp_path, [saying("Understood.", FIRST)])

    state = await chat.agent.ainvoke({"messages": "one"}, THREAD)

    assert (shown(state), state["memory"]["anchor"]) == (["Understood."], FIRST)
    assert answers(chat, state) == [saying("Understood.", FIRST)]
