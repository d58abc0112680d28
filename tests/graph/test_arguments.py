"""Arguments of the wrong kind: each time an error that has the value and says what to pass."""

import re
from datetime import date
from pathlib import Path
from typing import Any

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
    ("archive", DiskArchive),
    ("attention", "redis://localhost"),
    ("settings", {"context_budget": 4_000}),
    ("system_prompt", SystemMessage("Be kind.")),
    ("token_counter", 4),
    ("summary_model", 4),
    ("summary_model", ""),
]

NAMED = {"name": "open_effort", "description": "Open it.", "parameters": {}}


@pytest.mark.parametrize(("name", "value"), [*WRONG, ("tools", "add"), ("tools", [None])])
def test_an_agent_of_something_else(name: str, value: Any) -> None:
    """An agent is not built of what would fail in its first run."""
    with pytest.raises(SettingsError, match=rf"^{name} must be .* got .*"):
        create_memory_agent(ScriptedModel(), **{name: value})


@pytest.mark.parametrize("tool", [NAMED, {"type": "function", "function": NAMED}])
def test_a_schema_with_the_name_of_a_memory_tool(tool: Any) -> None:
    """Calls of one name would go to the memory alone, and providers refuse two tools of it."""
    with pytest.raises(SettingsError, match=r"^tools \['open_effort'\] have names of memory tools"):
        create_memory_agent(ScriptedModel(), tools=[tool])


@pytest.mark.parametrize(("name", "value"), WRONG[1:4])
def test_a_middleware_of_something_else(name: str, value: Any) -> None:
    """Nor is a middleware."""
    with pytest.raises(SettingsError, match=rf"^{name} must be .* got .*"):
        EbbtideMiddleware(**{name: value})


@pytest.mark.parametrize("model", [None, ScriptedModel, ""])
def test_an_agent_without_a_model(model: Any) -> None:
    """What is no model is told before anything is said."""
    with pytest.raises(SettingsError, match=r"^model must be a chat model"):
        create_memory_agent(model)


@pytest.mark.parametrize("root", ["postgresql+psycopg://ann:secret@host/name", ""])
def test_an_archive_on_disk_of_a_url(tmp_path: Path, root: str) -> None:
    """A URL is refused as the folder of an archive on disk."""
    with pytest.raises(ArchiveError, match=r"^DiskArchive takes a folder") as refused:
        DiskArchive(root)

    assert "secret" not in str(refused.value)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("place", [None, 4, b"sessions"])
def test_an_archive_of_something_else(place: Any) -> None:
    """The error has the value."""
    with pytest.raises(ArchiveError, match=rf"^DiskArchive takes a folder, got {place!r}"):
        DiskArchive(place)
    with pytest.raises(ArchiveError, match=rf"^{place!r} names no place"):
        SqlArchive(place)


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


@pytest.mark.parametrize("number", ["1", 1.5])
def test_a_number_that_is_none(tmp_path: Path, number: Any) -> None:
    """Text in the place of a number is told, and nothing is erased for it."""
    chat = talk(tmp_path, ["yes"])
    chat.say("Hello")
    with pytest.raises(SettingsError, match=f"got {number!r}"):
        erase(chat.agent, THREAD, number)
    with pytest.raises(CommandError, match=f"{number!r}"):
        transcript(chat.agent, THREAD, limit=number)
    with pytest.raises(CommandError, match=f"{number!r}"):
        commands.messages(chat.agent, THREAD, number)

    assert [message.text for message in transcript(chat.agent, THREAD)[0]] == ["Hello", "yes"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("also", None),
        ("also", 3),
        ("also", ["port", None]),
        ("limit", "2"),
        ("limit", None),
        ("limit", -1),
        ("limit", True),
        ("since", date(2026, 3, 22)),
        ("until", None),
    ],
)
def test_an_argument_of_search_that_is_none(tmp_path: Path, name: str, value: Any) -> None:
    """The error names the argument and its value."""
    chat = talk(tmp_path, ["yes"])
    chat.say("Hello")
    with pytest.raises(CommandError, match=f"{name} must be .*, got {re.escape(repr(value))}"):
        commands.search(chat.agent, THREAD, "port", **{name: value})


@pytest.mark.parametrize("command", [commands.search, commands.open_effort, commands.expand_effort])
def test_a_text_that_is_none(tmp_path: Path, command: Any) -> None:
    """A number in the place of a text is told, and no turn is made of it."""
    chat = talk(tmp_path, ["yes"])
    chat.say("Hello")
    with pytest.raises(CommandError, match="must be a text, got 4"):
        command(chat.agent, THREAD, 4)

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
