"""Arguments of the wrong kind: each time an error that has the value and says what to pass."""

import re
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import SystemMessage

from ebbtide import (
    CommandError,
    DiskArchive,
    EbbtideMiddleware,
    SettingsError,
    SqlArchive,
    commands,
    create_memory_agent,
    delete_session,
    erase,
    memories,
    restore,
    transcript,
)
from ebbtide.memory.errors import ArchiveError
from ebbtide.testing import InMemoryArchive, ScriptedModel
from tests.agents import THREAD, talk

WRONG: list[tuple[str, Any]] = [
    ("archive", "sessions"),
    ("attention", "redis://localhost"),
    ("settings", {"context_budget": 4_000}),
    ("system_prompt", SystemMessage("Be kind.")),
    ("token_counter", 4),
    ("summary_model", ""),
    ("tools", "add"),
    ("tools", [None]),
    ("model", None),
    ("model", ScriptedModel),
]

NAMED = {"name": "open_effort", "description": "Open it.", "parameters": {}}


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_agent_of_something_else(name: str, value: Any) -> None:
    """An agent is not built of what would fail in its first run."""
    with pytest.raises(SettingsError, match=rf"^{name} must be .* got .*"):
        create_memory_agent(**{"model": ScriptedModel(), name: value})


@pytest.mark.parametrize(("name", "value"), WRONG[:3])
def test_a_middleware_of_something_else(name: str, value: Any) -> None:
    """Nor is a middleware."""
    with pytest.raises(SettingsError, match=rf"^{name} must be .* got .*"):
        EbbtideMiddleware(**{name: value})


@pytest.mark.parametrize("tool", [NAMED, {"type": "function", "function": NAMED}])
def test_a_schema_with_the_name_of_a_memory_tool(tool: Any) -> None:
    """Calls of one name would go to the memory alone, and providers refuse two tools of it."""
    with pytest.raises(SettingsError, match=r"^tools \['open_effort'\] have names of memory tools"):
        create_memory_agent(ScriptedModel(), tools=[tool])


def test_an_archive_of_something_else() -> None:
    """The error has the value, but no password."""
    with pytest.raises(ArchiveError, match=r"^DiskArchive takes a folder") as refused:
        DiskArchive("postgresql+psycopg://ann:secret@host/name")
    wrong: Any = 4
    for made in (DiskArchive, SqlArchive):
        with pytest.raises(ArchiveError, match=r"got 4: pass its path|^4 names no place"):
            made(wrong)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("config", [None, {"configurable": {}}])
@pytest.mark.parametrize(
    "command", [transcript, restore, delete_session, commands.efforts, commands.undo]
)
def test_a_config_without_a_thread(tmp_path: Path, command: Any, config: Any) -> None:
    """Who names no thread is told how to."""
    chat = talk(tmp_path, ["yes"])
    chat.say("Hello")
    with pytest.raises(SettingsError, match="names no thread: pass"):
        command(chat.agent, config)


@pytest.mark.parametrize(
    ("command", "args", "named", "said"),
    [
        (transcript, [], {"limit": "1"}, "'1'"),
        (commands.messages, ["1"], {}, "'1'"),
        (commands.search, ["port"], {"also": ["port", None]}, r"also must be .*, got \['port', N"),
        (commands.search, ["port"], {"limit": None}, "limit must be .*, got None"),
        (commands.search, ["port"], {"limit": -1}, "limit must be .*, got -1"),
        (commands.search, ["port"], {"since": date(2026, 3, 22)}, "since must be .*, got datetime"),
        (commands.search, [4], {}, "must be a text, got 4"),
        (commands.open_effort, [4], {}, "must be a text, got 4"),
        (commands.expand_effort, [4], {}, "must be a text, got 4"),
    ],
)
def test_an_argument_of_a_command_that_is_none(
    tmp_path: Path, command: Any, args: list[Any], named: dict[str, Any], said: str
) -> None:
    """The error has the value, and nothing is erased and no turn made for it."""
    chat = talk(tmp_path, ["yes"])
    chat.say("Hello")
    number: Any = "1"
    with pytest.raises(SettingsError, match="got '1'"):
        erase(chat.agent, THREAD, number)
    with pytest.raises(CommandError, match=said):
        command(chat.agent, THREAD, *args, **named)

    assert [message.text for message in transcript(chat.agent, THREAD)[0]] == ["Hello", "yes"]
    assert commands.messages(chat.agent, THREAD).lines[0].turn == 1


@pytest.mark.parametrize("value", [None, 4, ["a/gate"]])
def test_a_memory_that_is_no_text(value: Any) -> None:
    """The error says where ids are listed, and how to delete instead."""
    of_ann = memories(InMemoryArchive(), "ann")
    got = re.escape(f"must be a text, got {value!r}: ")
    for command in (of_ann.explain, of_ann.suppress, of_ann.unsuppress, of_ann.delete):
        with pytest.raises(CommandError, match=f"^memory_id {got}`list`"):
            command(value)
    with pytest.raises(CommandError, match=f"^text {got}.*`delete`"):
        of_ann.edit("a/turn-1/fact-1", value)
    with pytest.raises(CommandError, match=f"^user {got}pass the user_id"):
        memories(InMemoryArchive(), value)


class Prompted(TypedDict):
    """An application's state with a key of the agent's own."""

    context: str


def test_a_state_with_a_key_of_the_agents_own() -> None:
    """It is refused by name: what the application wrote there would be lost."""
    with pytest.raises(SettingsError, match="'context' is a key of the agent's own"):
        create_memory_agent(ScriptedModel(), state_schema=Prompted)
