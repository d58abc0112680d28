"""Attention through the graph: what one session concludes is there when the next one begins."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import commands, erase, restore
from ebbtide.memory.archive.memories import SqlAttention
from ebbtide.memory.archive.sql import DiskArchive
from ebbtide.memory.attention.law import Kept, Memory
from ebbtide.memory.errors import AttentionError
from ebbtide.memory.turn import Session
from tests.agents import Talk, talk, tip_in
from tests.doubles import call
from tests.graph.journeys import After, after
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
    assert "session 'tuesday' is shown no memories" in caplog.text
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
    chat.archive.erase(Session("ann", "monday"), tip, 1)

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
