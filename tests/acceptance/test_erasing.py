"""Erasing a turn, a session or a user for good.

Page 03, "Erasing"; the source is std_slop, `/message remove`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from ebbtide import (
    SessionNotFoundError,
    TurnNotFoundError,
    commands,
    delete_session,
    delete_user,
    erase,
)
from ebbtide.memory.turn import Session
from tests.acceptance.stage import AUTH, EXACT, Stage, recalled, stage
from tests.doubles import call
from tests.zipped import revealed

TOLD = "The zirconium gate opens with the code of the harbour master."
ANSWER = "I shall keep what the harbour master told you to myself."
QUICKSILVER = "Keep the quicksilver out of it"


def thread(name: str, user: str = "ann") -> RunnableConfig:
    """Return the configuration of a user's thread."""
    return {"configurable": {"thread_id": name, "user_id": user}}


@contextmanager
def told(root: Path, **options: Any) -> Iterator[Stage]:
    """Tell a secret in the second turn of four, with checkpoints on disk."""
    with SqliteSaver.from_conn_string(str(root / "checkpoints.sqlite")) as saver:
        here = stage(root, thread("told"), checkpointer=saver, settings=EXACT, **options)
        here.chat(1)
        here.say(TOLD, ANSWER)
        here.chat(2, first=2)
        yield here
        here.talk.archive.close()


def holding(root: Path, *texts: str) -> list[str]:
    """Return which texts stand in which files."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [
        f"{path.name}: {text}"
        for path in files
        for text in texts
        if text.encode() in revealed(path.read_bytes())
    ]


def test_search_by_bytes_finds_what_is_kept(tmp_path: Path) -> None:
    """03: before an erasure, the byte search finds the text in archive and checkpoints."""
    with told(tmp_path):
        assert holding(tmp_path, TOLD) != []


def test_nothing_is_left_of_a_turn(tmp_path: Path) -> None:
    """03: a byte search for the turn's text over archive and checkpoints finds nothing."""
    with told(tmp_path) as here:
        report = erase(here.talk.agent, here.config, 2)

        assert holding(tmp_path, TOLD, ANSWER, "zirconium") == []
        assert (report.turn, report.stale) == (2, ())


def test_thread_goes_on(tmp_path: Path) -> None:
    """03: the other turns stay, the numbers too, and the conversation goes on."""
    with told(tmp_path) as here:
        erase(here.talk.agent, here.config, 2)

        following = here.chat(1, first=5)[0]

        assert following.memory["turn"] == 5
        assert TOLD not in following.sent.text
        assert [text for text in here.asked() if "train" in text] == here.asked()


def test_erased_turn_is_named_as_such(tmp_path: Path) -> None:
    """01, The archive: a reference to an erased turn reads "erased"."""
    with told(tmp_path) as here:
        erase(here.talk.agent, here.config, 2)

        (answer,) = here.use("read_log", turns="2").results

        assert "erased" in str(answer)


def test_erased_turn_is_not_found(tmp_path: Path) -> None:
    """03: index rows go with the turn."""
    with told(tmp_path) as here:
        before = commands.search(here.talk.agent, here.config, "zirconium harbour").results
        erase(here.talk.agent, here.config, 2)
        after = commands.search(here.talk.agent, here.config, "zirconium harbour").results

        assert (len(before), after) == (1, ())


def test_what_was_made_from_it_goes_too(tmp_path: Path) -> None:
    """03: the summary of a log that has it is written again from what remains, its goal goes."""
    structured = [
        {"summary": f"It was said: {TOLD}", "keywords": ["zirconium"], "importance": 50},
        {"summary": "It is about a garden.", "keywords": ["garden"], "importance": 50},
    ]
    with told(tmp_path, structured=structured) as here:
        opening = call("open_effort", name="gate", goal=QUICKSILVER)
        here.say(f"{TOLD} Mind it.", opening, ANSWER)
        here.say("There is a garden behind the gate, with a pond and a shed in it.")
        here.use("close_effort")
        here.chat(2)

        erase(here.talk.agent, here.config, 2)
        report = erase(here.talk.agent, here.config, 5)

        assert report.resummarised == ("gate",)
        assert holding(tmp_path, TOLD, QUICKSILVER, ANSWER) == []
        assert "It is about a garden." in recalled(here.chat(1)[0].sent)


@pytest.mark.parametrize("turns", [0, 1])
def test_commands_go_with_the_turn_that_they_follow(tmp_path: Path, turns: int) -> None:
    """03: a goal set by hand goes with the turn before it, or with the first turn."""
    with told(tmp_path) as here:
        config = thread("by hand")
        by_hand = Stage(here.talk, config)
        by_hand.chat(turns)
        commands.open_effort(here.talk.agent, config, "gate", QUICKSILVER)
        commands.switch_effort(here.talk.agent, config)
        by_hand.chat(2, first=2)

        report = erase(here.talk.agent, config, 1)

        assert holding(tmp_path, QUICKSILVER) == []
        assert len(report.not_erased) == 1  # the effort's name
        assert here.talk.archive.verify(Session("ann", "by hand"))[1:] == ()


def test_state_block_of_an_erased_turn_goes(tmp_path: Path) -> None:
    """03: state-block fields written in that turn go."""
    with told(tmp_path) as here:
        here.say("Note it.", "Yes.\n---STATE---\nGoal: open the zirconium door\n---END STATE---")
        erase(here.talk.agent, here.config, 5)
        erase(here.talk.agent, here.config, 2)

        assert here.values["memory"].get("anchor", {}) == {}
        assert holding(tmp_path, "zirconium") == []


def test_turns_that_quote_it_are_named(tmp_path: Path) -> None:
    """03: turns that quote it are named, and not touched."""
    with told(tmp_path) as here:
        here.say(f'You said: "{TOLD}"')

        report = erase(here.talk.agent, here.config, 2)

        assert [tip.turn for tip in report.quoted] == [5]
        assert here.asked()[-1] == f'You said: "{TOLD}"'


def test_erasing_again(tmp_path: Path) -> None:
    """03: it can be repeated."""
    with told(tmp_path) as here:
        erase(here.talk.agent, here.config, 2)

        assert erase(here.talk.agent, here.config, 2).turn == 2


def test_unknown_turn(tmp_path: Path) -> None:
    """03: a turn that is not there is an error, and changes nothing."""
    with told(tmp_path) as here:
        with pytest.raises(TurnNotFoundError, match="99"):
            erase(here.talk.agent, here.config, 99)

        assert len(here.asked()) == 4


def test_session_is_deleted(tmp_path: Path) -> None:
    """03: `delete_session` does it for all of a session; others stay."""
    with told(tmp_path) as here:
        here.say("Hello from elsewhere.", config=thread("other"))

        delete_session(here.talk.agent, here.config)

        assert holding(tmp_path, TOLD, ANSWER) == []
        assert here.asked(thread("other")) == ["Hello from elsewhere."]
        with pytest.raises(SessionNotFoundError):
            commands.messages(here.talk.agent, here.config)


def test_user_is_deleted(tmp_path: Path) -> None:
    """03: `delete_user` does it for all of a user; other users stay."""
    with told(tmp_path) as here:
        here.say(f"{TOLD} Again.", config=thread("second"))
        here.say("Hello from Bob.", config=thread("bobs", "bob"))

        delete_user(here.talk.agent, "ann")

        assert holding(tmp_path, TOLD, ANSWER) == []
        assert here.asked(thread("bobs", "bob")) == ["Hello from Bob."]


def test_deleted_session_is_never_surfaced(tmp_path: Path) -> None:
    """03: what a deleted session knew is never surfaced again."""
    with told(tmp_path) as here:
        here.work(AUTH)
        delete_session(here.talk.agent, here.config)

        following = here.say("What about auth-bug and axios?", config=thread("next"))

        assert AUTH.summary not in following.sent.text


def test_others_cannot_erase(tmp_path: Path) -> None:
    """01, The archive: for another user the session does not exist."""
    with told(tmp_path) as here:
        with pytest.raises(SessionNotFoundError):
            erase(here.talk.agent, thread("told", "bob"), 2)

        assert TOLD in here.asked()
