"""Attention through the graph: what one session concludes is there when the next one begins."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import CommandError, commands, erase, restore
from ebbtide.memory.archive.memories import SqlAttention
from ebbtide.memory.archive.sql import DiskArchive
from ebbtide.memory.attention.law import Kept, Memory
from ebbtide.memory.dates import day_of
from ebbtide.memory.errors import AttentionError
from ebbtide.memory.record import Owner
from tests.agents import Talk, referenced, talk, tip_in
from tests.doubles import call
from tests.graph.journeys import After, after, quoted
from tests.zipped import revealed

SAID = "The key of the north gate hangs behind the clock."
FOUND: dict[str, Any] = {
    "summary": "The gate key hangs behind the clock.",
    "keywords": ["gate", "clock"],
}
ENOUGH = "That was all that there is to say about it, and it was said at length."
MEMORY = "monday/keys"


def session(thread: str, user: str | None = "ann") -> RunnableConfig:
    """Return the config of a session of a user."""
    return {"configurable": {"thread_id": thread, **({"user_id": user} if user else {})}}


def concluding(name: str = "keys") -> list[Any]:
    """Return the answers of two turns that open an effort and conclude it."""
    return [call("open_effort", name=name), "Noted.", call("close_effort"), "Concluded."]


def monday(
    root: Path,
    *answers: Any,
    user: str | None = "ann",
    importance: int = 80,
    then: Mapping[str, Any] = FOUND,
    **options: Any,
) -> Talk:
    """Return an agent that concluded an effort on monday; `answers` and `then` come next."""
    found = [{**FOUND, "importance": importance}, *[{"importance": importance, **then}] * 9]
    chat = talk(root, [*concluding(), *answers], found, **options)
    chat.say(SAID, session("monday", user))
    chat.say(ENOUGH, session("monday", user))
    return chat


def surfaced(turn: After) -> str:
    """Return the note on earlier sessions that a turn was sent, empty if there is none."""
    notes = [message for message in turn.sent if "From earlier sessions" in message.text]
    assert all(message.type == "human" for message in notes)
    return "\n".join(message.text for message in notes)


def test_the_next_session_begins_with_it(tmp_path: Path) -> None:
    """What ann concluded on monday stands in the first context of tuesday, and in its state."""
    chat = monday(tmp_path, "Good morning.")

    turn = after(chat, "Hello.", session("tuesday"))

    monday_ended = chat.records(chat.agent.get_state(session("monday")).values)[-1].at
    assert f"- {MEMORY} ({day_of(monday_ended)}): {FOUND['summary']}\n" in surfaced(turn)
    assert referenced(turn.state) == {MEMORY: 1}
    assert turn.state["memory"]["banners"] == [f"--- From earlier sessions: {MEMORY} ---"]


def test_it_can_be_expanded_there(tmp_path: Path) -> None:
    """Expanding by the qualified id quotes the log of the earlier session, and is an access."""
    chat = monday(tmp_path, call("expand_effort", effort_id=MEMORY), "Behind the clock.")

    turn = after(chat, "Where is the key?", session("tuesday"))

    log = quoted(turn.sent, MEMORY)
    assert log is not None
    assert SAID in log
    assert [one.accesses for one in commands.attention(chat.agent, session("x"))] == [1]


def test_another_user_does_not_and_cannot(tmp_path: Path) -> None:
    """Bob sees nothing of ann's: not surfaced, not expanded, not read, not found."""
    asked = (
        call("expand_effort", effort_id=MEMORY),
        call("read_log", turns=1, session="monday"),
        call("search_efforts", query="gate key clock"),
    )
    chat = monday(tmp_path, *asked, "I do not know.")

    turn = after(chat, "Where is the key?", session("tuesday", "bob"))

    assert not surfaced(turn)
    assert [[*one] for one in turn.results[:2]] == [["error"], ["error"]]
    assert turn.results[2]["results"] == []
    assert SAID not in turn.text
    assert FOUND["summary"] not in turn.text
    assert commands.attention(chat.agent, session("x", "bob")) == ()


@pytest.mark.parametrize("user", [None, ""])
def test_without_a_name_sessions_stay_apart(tmp_path: Path, user: str | None) -> None:
    """Who names no user has no memory across sessions, and nothing is kept for it."""
    chat = monday(tmp_path, call("search_efforts", query="gate key"), "Hello.", user=user)

    turn = after(chat, "Hello.", session("tuesday", user))

    assert not surfaced(turn)
    assert turn.results[0]["results"] == []
    assert chat.archive.attention().explain("", MEMORY, now=datetime.now(UTC)) is None
    with pytest.raises(CommandError, match="the run has no user"):
        commands.attention(chat.agent, session("x", user))


def test_what_is_not_worth_it_is_not_surfaced(tmp_path: Path) -> None:
    """A memory below the threshold stays out of the first context; search finds it."""
    chat = monday(tmp_path, call("search_efforts", query="gate key"), "There.", importance=10)

    turn = after(chat, "Hello.", session("tuesday"))

    assert not surfaced(turn)
    assert [one["id"] for one in turn.results[0]["results"]] == [MEMORY]


def test_what_was_found_and_used_is_accessed(tmp_path: Path) -> None:
    """An effort that a search found and the answer names has one access more."""
    search = call("search_efforts", query="gate key")
    chat = monday(tmp_path, search, f"See {MEMORY}.", importance=10)

    chat.say("Where is the key?", session("tuesday"))

    assert commands.explain(chat.agent, session("x"), MEMORY).accesses == 1


def test_only_listed_is_not_accessed(tmp_path: Path) -> None:
    """An effort that a search found and nobody used has no access."""
    chat = monday(tmp_path, call("search_efforts", query="gate key"), "Hm.", importance=10)

    chat.say("Anything new?", session("tuesday"))

    assert commands.explain(chat.agent, session("x"), MEMORY).accesses == 0


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (10, 2)])
def test_the_limit_is_a_setting_of_the_run(tmp_path: Path, limit: int, count: int) -> None:
    """At most `attention_limit` memories are surfaced, those that hold most; 0 is none."""
    lamps = {"summary": "All lamps.", "keywords": ["lamps"], "importance": 65}
    chat = monday(tmp_path, *concluding("lamps"), "Hello.", then=lamps)
    chat.say(f"Lamps. {ENOUGH}", session("lamps"))
    chat.say("Done.", session("lamps"))

    given = {"attention_limit": limit, "user_id": "ann"}
    state = chat.say("Hello.", session("tuesday"), context=given)

    assert [*state["memory"]["summaries"]] == [MEMORY, "lamps/lamps"][:count]


@pytest.mark.parametrize(
    ("days", "words", "there"),
    [
        (49, "Hello.", True),
        (51, "Hello.", False),
        (51, "Where is the gate clock?", True),
        (100, "Where is the gate clock?", False),
    ],
)
def test_it_fades_and_is_there_when_it_matters(
    tmp_path: Path, days: int, words: str, *, there: bool
) -> None:
    """A memory of 80 is surfaced for 50 days, and longer where the first message is about it."""
    chat = monday(tmp_path, "Hi.")
    concluded = datetime.now(UTC) - timedelta(days=days)
    older = Memory(MEMORY, 80, concluded, ("gate", "clock"))
    chat.archive.attention().add("ann", older, now=concluded)

    turn = after(chat, words, session("tuesday"))

    assert (MEMORY in surfaced(turn)) is there


def test_what_faded_leaves_when_a_session_begins(tmp_path: Path) -> None:
    """Nothing is left to prune after the first turn."""
    chat, now = monday(tmp_path, "Hi."), datetime.now(UTC)
    kept, long_ago = chat.archive.attention(), now - timedelta(days=365)
    kept.add("ann", Memory("t/old", 90, long_ago), now=long_ago)

    chat.say("Hello.", session("tuesday"))

    assert kept.prune("ann", now=now) == 0


def test_the_second_turn_surfaces_nothing_more(tmp_path: Path) -> None:
    """What is concluded elsewhere while a session runs does not come into it."""
    chat = monday(tmp_path, "Hello.", *concluding("lamps"), "Yes.")
    chat.say("Hello.", session("tuesday"))
    chat.say("Lamps.", session("wednesday"))
    chat.say("Done.", session("wednesday"))

    state = chat.say("Go on.", session("tuesday"))

    assert [*state["memory"]["summaries"]] == [MEMORY]


def test_reopened_it_is_no_memory(tmp_path: Path) -> None:
    """An effort that goes on is not surfaced; concluded again it is."""
    again = [call("close_effort"), "Concluded."]
    chat = monday(tmp_path, call("reopen_effort", effort_id="keys"), "Go.", "Hi.", *again, "Hi.")
    chat.say("More on the keys.", session("monday"))

    meanwhile = after(chat, "Hello.", session("tuesday"))
    chat.say("That was all.", session("monday"))
    then = after(chat, "Hello.", session("wednesday"))

    assert not surfaced(meanwhile)
    assert MEMORY in surfaced(then)


def test_suppressed_it_is_not_surfaced(tmp_path: Path) -> None:
    """A suppressed memory stays out until it is unsuppressed."""
    chat = monday(tmp_path, "Hi.", "Hi.")

    commands.suppress(chat.agent, session("x"), MEMORY)
    meanwhile = after(chat, "Hello.", session("tuesday"))
    commands.unsuppress(chat.agent, session("x"), MEMORY)
    then = after(chat, "Hello.", session("wednesday"))

    assert not surfaced(meanwhile)
    assert MEMORY in surfaced(then)


def test_the_newest_branch_counts(tmp_path: Path) -> None:
    """What was concluded on a branch that was left is not surfaced."""
    chat = monday(tmp_path, "Something else.", "Hi.")
    old = [
        s
        for s in chat.agent.get_state_history(session("monday"))
        if s.values["memory"].get("turn") == 1
    ]
    fork: RunnableConfig = {"configurable": {**old[0].config["configurable"], "user_id": "ann"}}
    chat.agent.invoke({"messages": [("user", "Another way.")]}, fork)

    turn = after(chat, "Hello.", session("tuesday"))

    assert not surfaced(turn)


def test_undoing_a_reopening_brings_it_back(tmp_path: Path) -> None:
    """What a branch reopened that was left is surfaced again, with the accesses that it had."""
    shown, again = call("expand_effort", effort_id="keys"), call("reopen_effort", effort_id="keys")
    chat = monday(tmp_path, shown, "There.", again, "Go on.", "Something else, then.", "Hi.")
    chat.say("Show me the keys.", session("monday"))
    chat.say("More on the keys.", session("monday"))
    commands.undo(chat.agent, session("monday"))
    chat.say("No.", session("monday"))

    turn = after(chat, "Hello.", session("tuesday"))

    assert MEMORY in surfaced(turn)
    assert commands.explain(chat.agent, session("x"), MEMORY).accesses == 1


def test_erasing_keeps_out_what_the_newest_branch_reopened(tmp_path: Path) -> None:
    """What only a branch that was left has concluded is not in attention after an erasure."""
    again = call("reopen_effort", effort_id="keys")
    chat = monday(tmp_path, "Something else.", again, "Go on.")
    chat.say("Hm.", session("monday"))
    commands.undo(chat.agent, session("monday"))
    chat.say("More on the keys.", session("monday"))

    erase(chat.agent, session("monday"), 1)

    assert not commands.explain(chat.agent, session("x"), MEMORY).attended


def test_the_message_decides_what_comes_first(tmp_path: Path) -> None:
    """Of two memories the one that the first message is about comes before the more important."""
    lamps = {"summary": "All lamps.", "keywords": ["lamps"], "importance": 65}
    chat = monday(tmp_path, *concluding("lamps"), "Hi.", importance=60, then=lamps)
    chat.say(f"Lamps. {ENOUGH}", session("lamps"))
    chat.say("Done.", session("lamps"))

    state = chat.say("Where is the gate clock?", session("tuesday"))

    assert [*state["memory"]["summaries"]] == [MEMORY, "lamps/lamps"]


class Failing(SqlAttention):
    """Attention that cannot be read."""

    def within_reach(self, user_id: str, *, now: datetime) -> tuple[Kept, ...]:
        """Fail."""
        raise AttentionError(f"nothing of {user_id!r} can be read at {now}")


def test_when_attention_fails_the_turn_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A session begins without memories, with a warning; the next one has them."""
    archive = DiskArchive(tmp_path, durable=False)
    failing = Failing(archive.database)
    chat = monday(tmp_path, "Hi.", archive=archive, attention=failing)
    with caplog.at_level(logging.WARNING, "ebbtide.attention"):
        meanwhile = after(chat, "Hello.", session("tuesday"))

    again = talk(tmp_path, ["Hello."], archive=archive)
    assert not surfaced(meanwhile)
    assert "session 'tuesday' begins without memories" in caplog.text
    assert MEMORY in surfaced(after(again, "Hello.", session("wednesday")))


def test_a_restored_session_counts_nothing_twice(tmp_path: Path) -> None:
    """A thread that is rebuilt from the archive tells attention only what is new."""
    saver, shown = InMemorySaver(), call("expand_effort", effort_id="keys")
    chat = monday(tmp_path, shown, "There.", "Yes.", checkpointer=saver)
    chat.say("Show me.", session("monday"))
    saver.delete_thread("monday")
    restore(chat.agent, session("monday"))

    chat.say("Thanks.", session("monday"))

    assert commands.explain(chat.agent, session("x"), MEMORY).accesses == 1


def test_erasing_reaches_attention(tmp_path: Path) -> None:
    """After the turn is erased, no file below the root has a keyword of it."""
    chat = monday(tmp_path, then={"summary": "It was said at length.", "keywords": []})

    report = erase(chat.agent, session("monday"), 1)

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    held = [path.name for path in files if b"clock" in revealed(path.read_bytes())]
    assert held == []
    assert report.not_erased == ("the name of effort 'keys', which the turn opened",)
    assert commands.explain(chat.agent, session("x"), MEMORY).base == 80


def test_erasing_again_reaches_the_banner_of_a_redacted_summary(tmp_path: Path) -> None:
    """The archive was erased, then the process died: nobody knows any more what the summary was."""
    chat = monday(tmp_path, then={"summary": "It was said at length.", "keywords": []})
    kept = chat.agent.get_state(session("monday")).values
    tip = tip_in(kept)
    chat.archive.erase(Owner("ann", "monday"), tip, 1)

    erase(chat.agent, session("monday"), 1)

    assert "clock" in str(kept["memory"]["banners"])
    assert "clock" not in str(chat.agent.get_state(session("monday")).values)


def test_erasing_reaches_a_memory_that_was_reopened(tmp_path: Path) -> None:
    """Of an effort open again no keyword is left, and its accesses count when it is concluded."""
    shown, again = call("expand_effort", effort_id=MEMORY), call("reopen_effort", effort_id="keys")
    answers = (shown, "There.", again, "Go on.", call("close_effort"), "Concluded.")
    then = {"summary": "It was said at length.", "keywords": []}
    chat = monday(tmp_path, *answers, then=then)
    chat.say("Where is it?", session("tuesday"))
    chat.say(ENOUGH, session("monday"))

    erase(chat.agent, session("monday"), 1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    held = [path.name for path in files if b"clock" in revealed(path.read_bytes())]
    chat.say(ENOUGH, session("monday"))

    assert held == []
    found = commands.explain(chat.agent, session("x"), MEMORY)
    assert (found.base, found.accesses, found.attended) == (80, 1, True)


@pytest.mark.parametrize(
    ("goal", "hinted"),
    [("mend the gate and its clock", True), ("mend the gate", True), ("mend the roof", False)],
)
def test_a_new_effort_is_told_what_is_related(tmp_path: Path, goal: str, hinted: bool) -> None:
    """A memory that the goal is about is hinted at in the turn that opens the effort."""
    opening = call("open_effort", name="repair", goal=goal)
    chat = monday(tmp_path, opening, "Begun.", importance=38)

    turn = after(chat, "Let us begin.", session("tuesday"))

    hints = [m.text for m in turn.sent if "possibly related" in m.text]
    assert bool(hints) is hinted
    assert all(MEMORY in one for one in hints)
