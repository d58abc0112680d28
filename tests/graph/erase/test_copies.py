"""Copied threads: erasing in one of them, and deleting what they were copied from."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from ebbtide import delete_session, erase, restore
from ebbtide.graph.commands.threads import place_of
from tests.agents import THREAD, Talk
from tests.graph.erase.test_erase import SECRETS, THANKS, WORDS, begun, traces

pytestmark = pytest.mark.usefixtures("entry")

COPY: RunnableConfig = {"configurable": {"thread_id": "copy"}}


def copied(chat: Talk) -> None:
    """Copy the thread, and go on in both."""
    values = chat.agent.get_state(THREAD).values
    chat.agent.update_state(COPY, values, as_node=place_of(chat.agent).last_node)
    chat.say("In the copy.", COPY)
    chat.say("In the original.")


def said_in(chat: Talk, config: RunnableConfig) -> list[str]:
    """Return what the user said in the turns of a thread that are not erased."""
    return chat.said(chat.agent.get_state(config).values)


def test_thread_that_waits_is_named(tmp_path: Path) -> None:
    """A copy in the middle of a turn keeps its checkpoints, and the report says what to do."""
    with begun(tmp_path, WORDS[:3]) as chat:
        copied(chat)
        asked: Any = {"messages": "Once more?"}
        first = next(node for node in chat.agent.builder.nodes if "model" in node)
        chat.agent.invoke(asked, COPY, interrupt_before=[first])

        report = erase(chat.agent, THREAD, 2)

        assert "the checkpoints of thread 'copy'" in report.not_erased[-1]
        chat.agent.invoke(None, COPY)
        assert erase(chat.agent, COPY, 2).not_erased[-1:] != report.not_erased[-1:]
        assert traces(tmp_path) == []


def test_copy_outlives_its_original(tmp_path: Path) -> None:
    """What only the original saw is gone; the copy goes on, is restored, and can be erased from."""
    with begun(tmp_path, WORDS[:3]) as chat:
        copied(chat)

        report = delete_session(chat.agent, THREAD)

        assert "thread 'copy' was copied from it" in report.not_erased[0]
        assert traces(tmp_path, ["In the original."]) == []
        chat.say("On we go.", COPY)
        restore(chat.agent, COPY)
        assert said_in(chat, COPY) == [*WORDS[:3], "In the copy.", "On we go."]
        assert chat.say("Anew.")["memory"]["turn"] == 1
        erase(chat.agent, COPY, 2)
        assert traces(tmp_path) == []
        delete_session(chat.agent, COPY)
        assert traces(tmp_path, [*SECRETS, *WORDS[:3], "In the copy.", "On we go."]) == []
        assert said_in(chat, THREAD) == ["Anew."]


def test_copy_that_never_spoke_adopts_what_it_has(tmp_path: Path) -> None:
    """Nothing tells the archive of such a copy: its messages are its history, and it is told so."""
    with begun(tmp_path, WORDS[:3]) as chat:
        values = chat.agent.get_state(THREAD).values
        chat.agent.update_state(COPY, values, as_node=place_of(chat.agent).last_node)
        delete_session(chat.agent, THREAD)

        state = chat.say("On we go.", COPY)

        assert chat.said(state)[-2:] == [THANKS, "On we go."]
        assert state["memory"]["banners"] == ["--- Adopted 3 earlier turns ---"]
