"""A session as Markdown, and its manifest as YAML: all can be read, and stays what was said."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from markdown_it import MarkdownIt

from ebbtide.memory.archive.export import export_markdown, fenced, inline, manifest
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.errors import ArchiveError, SessionNotFoundError
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.memory.archive.whole_sessions import SAID, SESSIONS, commit_session
from tests.memory.turns import SESSION, answer, commit_all, concluded, human, opened, turn

HOSTILE = st.text(max_size=30) | st.text("`~ \n\r#<>|-\x1b\ud800", max_size=30)


def page(archive: SqlArchive, session: Session, folder: Path) -> str:
    """Return a session's newest branch as Markdown."""
    tip = archive.load(session).tip or Tip()
    export_markdown(archive, session, tip, folder / "page.md")
    return (folder / "page.md").read_text("utf-8")


def test_a_conversation_can_be_read(disk: SqlArchive, tmp_path: Path) -> None:
    """Turns with their dates, efforts, calls and results stand in order."""
    call = {"name": "look", "args": {"at": "port"}, "id": "c1", "type": "tool_call"}
    found = ToolMessage("8443", name="look", tool_call_id="c1")
    asked = replace(
        turn(1, "", ["auth-bug"], [opened("auth-bug")]),
        messages=(human("Which port?"), answer("", tool_calls=[call]), found, answer("8443.")),
        status="aborted",
    )
    tip = commit_all(
        disk, [asked, turn(2, "", ["auth-bug"], [concluded("auth-bug", "It is 8443.")])]
    )

    text = page(disk, SESSION, tmp_path)

    assert text.splitlines()[:8] == [
        *("# Session `t1`", "", f"User `ann`. Up to turn 2 (`{tip.id[:12]}`).", ""),
        *("- `auth-bug`: concluded", "", "## Turn 1", ""),
    ]
    assert "`2026-01-01 00:00 UTC`. Efforts: `auth-bug`.\n\n**`user`**\n\n```text\nWhich" in text
    assert '**`assistant` calls `look`**\n\n```text\n{\n "at": "port"\n}\n```' in text
    assert "**`tool look`**\n\n```text\n8443\n```" in text
    assert "**Effort `auth-bug`: open**\n\n```text\ndo auth-bug\n```" in text
    assert "*This turn was not finished.*\n\n## Turn 2" in text
    assert text.endswith("**Effort `auth-bug`: concluded**\n\n```text\nIt is 8443.\n```\n")


@pytest.mark.thorough
@pytest.mark.parametrize("session", SESSIONS)
def test_any_session_is_a_page(archive: SqlArchive, tmp_path: Path, session: Session) -> None:
    """Of any names, and on every database, each turn has its heading, erased ones say so."""
    commit_session(archive, session)

    text = page(archive, session, tmp_path)

    assert re.findall(r"^## Turn (\d)$", text, re.MULTILINE) == list("12345678")
    assert ("*This turn was erased.*" in text, SAID in text) == (True, False)
    assert [char for char in text if ord(char) < 32 and char != "\n"] == []


def test_many_turns_are_all_there(disk: SqlArchive, tmp_path: Path) -> None:
    """A conversation that is read in several pieces is complete."""
    commit_all(disk, [turn(number) for number in range(1, 252)])

    text = page(disk, SESSION, tmp_path)

    assert text.count("## Turn ") == 251


def test_what_the_memory_wrote_for_itself_is_left_out(disk: SqlArchive, tmp_path: Path) -> None:
    """State blocks, which no user saw, and texts that were recalled do not stand there."""
    artifact = {"recalled": [{"turn": 1, "offset": 0, "end": 40}]}
    body = '{"turns": [{"text": "recalled text"}]}'
    read = ToolMessage(body, tool_call_id="1", name="read_log", artifact=artifact)
    said = answer("Kept.\n---STATE---\nGoal: a\n---END STATE---")
    messages = (human("Again?"), read, said)
    commit_all(disk, [turn(1), replace(turn(2), messages=messages)])

    text = page(disk, SESSION, tmp_path)

    assert "**`assistant`**\n\n```text\nKept.\n```" in text
    assert "**`tool read_log`**\n\n```text\nrecalled turn 1, characters 0-40\n```" in text
    assert ("Goal: a" in text, "recalled text" in text) == (False, False)


def test_nothing_is_overwritten(disk: SqlArchive, tmp_path: Path) -> None:
    """A file that is there is an error, and so is a session or a turn that is not."""
    tip = commit_all(disk, [turn(1)])
    (tmp_path / "page.md").write_text("mine", "utf-8")

    with pytest.raises(ArchiveError, match="already exists"):
        export_markdown(disk, SESSION, tip, tmp_path / "page.md")
    with pytest.raises(SessionNotFoundError):
        export_markdown(disk, SESSION, Tip(2, "ab" * 16), tmp_path / "other.md")
    assert [path.name for path in tmp_path.glob("*.md")] == ["page.md"]
    assert (tmp_path / "page.md").read_text("utf-8") == "mine"


@given(said=HOSTILE)
def test_nothing_breaks_out_of_a_fence(said: str) -> None:
    """Whatever stands in a fence, Markdown reads one block of code between two paragraphs."""
    tokens = MarkdownIt().parse(f"before\n\n{fenced(said)}\n\nafter")

    blocks = [token.type for token in tokens if token.nesting >= 0]
    assert blocks == ["paragraph_open", "inline", "fence", "paragraph_open", "inline"]


@given(said=HOSTILE)
def test_nothing_breaks_out_of_a_line(said: str) -> None:
    """Whatever a name is, Markdown reads it as one piece of code in its line."""
    tokens = MarkdownIt().parse(f"# Session {inline(said)} of ann")

    assert [token.type for token in tokens] == ["heading_open", "inline", "heading_close"]
    assert [token.type for token in tokens[1].children or ()] == ["text", "code_inline", "text"]


def test_no_name_turns_what_follows() -> None:
    """What turns the direction of writing does not stand in a name."""
    assert inline("ann\u202e\u2066bob") == "`ann\ufffd\ufffdbob`"


NASTY = (
    "🌊 \x85 \u2028\u2029 \x00\x07 \x7f\x9f \ufeff\ufffe\uffff 'q' \"d\" \\ - # : {} [] \t\r\n é"
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(NASTY)) | st.just(NASTY)


@given(drawn=st.lists(st.tuples(TEXT, TEXT, st.lists(TEXT, max_size=2)), max_size=3))
def test_what_is_written_is_read_back(drawn: list[tuple[str, str, list[str]]]) -> None:
    """The readable form holds names, texts and lists as they were."""
    events = [concluded(name, text, keywords=words) for name, text, words in drawn]

    entries = yaml.safe_load(manifest([StoredTurn(3, (), turn(3).at, events=(*events,), id="b1")]))

    last = {name: (name, text, words) for name, text, words in drawn}
    found = [(entry["id"], entry["summary"], entry["keywords"]) for entry in entries]
    assert found == [*last.values()]


def test_effort_has_one_entry() -> None:
    """However often it changed, it stands there once, with its turns, as it is now."""
    at = turn(3).at
    turns = [
        StoredTurn(1, (), at, ("a",), (opened("a", goal="🌊"),), id="a1"),
        StoredTurn(2, (), at, ("a",), (opened("b"),), id="a2", parent="a1"),
        StoredTurn(
            2, (), at, events=(concluded("a", "Over."),), status="command", id="a3", parent="a2"
        ),
    ]

    text = manifest(turns)

    assert "🌊" in manifest(turns[:1])
    first, second = yaml.safe_load(text)

    known = [first[key] for key in ("id", "status", "summary", "turns", "commit")]
    assert known == ["a", "concluded", "Over.", "1-2", "a3"]
    assert (second["id"], second["status"], second["turns"]) == ("b", "open", "")


def test_effort_stands_as_the_newest_branch_left_it() -> None:
    """What another branch did later to an effort of the same name does not count."""
    at = turn(3).at
    turns = [
        StoredTurn(1, (), at, ("a",), (opened("a"),), id="a1"),
        StoredTurn(2, (), at, ("a",), (concluded("a", "Left."), opened("b")), id="b2", parent="a1"),
        StoredTurn(2, (), at, ("a",), id="a2", parent="a1"),
    ]

    entries = yaml.safe_load(manifest(turns))

    assert [(one["id"], one["status"], one["turns"]) for one in entries] == [
        ("a", "open", "1-2"),
        ("b", "open", ""),
    ]
