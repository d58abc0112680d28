"""`ebbtide archive`: checking, exporting and copying."""

import json
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
import yaml
from typer.testing import Result

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import Session, Tip
from tests.cli.commands_run import run, talked
from tests.cli.test_chat_commands import files_with
from tests.databases import Database
from tests.memory.archive.whole_sessions import all_of
from tests.memory.turns import turn
from tests.zipped import changed

FILE = Path("sessions/ebbtide.sqlite")
SECRET = "sw0rd-fish"  # noqa: S105 (no server's)
URL = f"postgresql://ann@127.0.0.1:1/nowhere?password={SECRET}"


def archived(*arguments: str) -> Result:
    """Run `ebbtide archive` with these arguments."""
    return run("archive", *arguments)


def committed(*sessions: Session) -> None:
    """Store a turn of each of these sessions."""
    with SqlArchive("sessions") as archive:
        for session in sessions:
            archive.commit(session, Tip(), turn(1))


def held(place: str) -> dict[Session, object]:
    """Return all that an archive holds."""
    with SqlArchive(place) as archive:
        return {**all_of(archive)}


def test_verify_names_the_turn_that_is_damaged() -> None:
    """A changed text is found with branch and turn, and the exit code is 1."""
    talked("Hello!", "It rains.", "It pours.")
    with closing(connect(FILE)) as connection, connection:
        connection.create_function("changed", 3, changed)
        connection.execute(
            "UPDATE ebbtide_turns SET messages = changed(messages, 'rains', 'shone')"
        )

    result = archived("verify", "default")

    assert result.stdout.startswith("default: damaged in 1 place\n  turn 2 (")
    assert result.exit_code == 1


def test_verify_checks_the_file_once() -> None:
    """Damage of the file's pages is told once before the sessions, and the exit code is 1."""
    committed(Session("", "one"), Session("", "two"))
    with closing(connect(FILE)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master"
            " WHERE name = 'ebbtide_turns_end') WHERE name = 'ebbtide_changes_at'"
        )

    result = archived("verify")

    assert result.stdout.startswith(f"{FILE.absolute()}: ")
    assert result.stdout.endswith("\none: 1 turn, intact\ntwo: 1 turn, intact\n")
    assert (result.stdout.count("2nd reference to page"), result.exit_code) == (1, 1)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("verify", "nobody"), "session 'nobody' not found: check the thread id and the user id"),
        (("export", "nobody", "x"), "session 'nobody' not found: check the thread id"),
        (("verify", "t", "--user", "ann"), "session 't' not found: check the thread id"),
        (("verify", "--root", "nowhere"), "No sessions without a user in "),
        (("delete", "t", "--user", "ann", "--yes"), "'t'"),
        (("export", "t", "taken"), "'taken' "),
        (("export", "t", "taken", "--format", "markdown"), "'taken' "),
        (("copy", "files", "kept"), "'files' holds no session: name the folder or URL of an"),
    ],
)
def test_what_is_not_there_or_in_the_way_is_named(command: tuple[str, ...], said: str) -> None:
    """It ends in one line and exit code 1, and nothing is written or deleted."""
    committed(Session("", "t"))
    Path("taken").write_text("mine", "utf-8")
    Path("files").mkdir()

    result = archived(*command)

    assert said in result.output
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert Path("taken").read_text("utf-8") == "mine"
    assert not Path("kept").exists()
    assert archived("verify").stdout == "t: 1 turn, intact\n"


def test_export_is_for_people() -> None:
    """The manifest is readable YAML, the logs have the turns; Markdown is one readable file."""
    talked("Let's work on the auth bug: tokens live 3600 s.", "That's done.", "Bye.")

    folder = archived("export", "default", "out")
    page = archived("export", "default", "out.md")
    html = archived("export", "default", "page.HTML")
    asked = archived("export", "default", "out.html", "--format", "folder")

    manifest = yaml.safe_load(Path("out/manifest.yaml").read_text("utf-8"))
    text = Path("out.md").read_text("utf-8")
    assert (folder.stdout, page.stdout) == (
        "Wrote default to out\n",
        "Wrote default to out.md\n",
    )
    assert html.exit_code == 0, html.output
    assert Path("page.HTML").read_text("utf-8").startswith("<!doctype html>")
    assert (asked.exit_code, Path("out.html").is_dir()) == (0, True)
    assert [entry["status"] for entry in manifest] == ["concluded"]
    assert json.loads(Path("out/raw.jsonl").read_text("utf-8"))["turn"] == 3
    assert text.startswith("# Session `default`\n")
    assert "tokens live 3600 s." in text


def test_the_export_of_a_damaged_session_says_so() -> None:
    """The folder is written for people to read; a line on stderr and exit code 1 warn of it."""
    talked("Hello!", "It rains.", "It pours.")
    with closing(connect(FILE)) as connection, connection:
        connection.execute("DELETE FROM ebbtide_turns WHERE turn = 2")

    result = archived("export", "default", "out")

    assert result.stdout == "Wrote default to out\n"
    assert result.stderr == (
        "ebbtide: session 'default' is damaged, and 'out' with it: `ebbtide archive verify` says "
        "where\n"
    )
    assert result.exit_code == 1


def test_sessions_of_one_thread_are_told_apart_by_their_namespaces() -> None:
    """A name as `sessions` shows it means one session, a thread means all that verify can."""
    committed(Session("", "t", "one"), Session("", "t", "two"))

    assert archived("verify", "t (two)").stdout == "t (two): 1 turn, intact\n"
    assert archived("verify", "t").stdout.count("intact") == 2
    assert archived("export", "t (one)", "out").stdout == "Wrote t (one) to out\n"
    assert archived("export", "t", "more").stderr == (
        "ebbtide: 't' is the thread of several sessions: name one of 't (one)', 't (two)'\n"
    )


def test_copy_to_a_database_and_back(database: Database) -> None:
    """All users' sessions go to PostgreSQL and back, once, and no password is printed."""
    committed(Session("ann", "t1"), Session("bob", "t1", "agent"))
    url = database.url.replace("postgres:@", f"postgres:{SECRET}@")

    there, again = archived("copy", "sessions", url), archived("copy", "sessions", url)
    back = archived("copy", url, "sqlite:///back.db")

    told = "ann: t1: 1 turn\nbob: t1 (agent): 1 turn\n"
    assert there.stdout == f"{told}2 sessions with 2 turns copied, 0 there already\n"
    assert again.stdout.endswith("\n0 sessions with 0 turns copied, 2 there already\n")
    assert back.stdout == there.stdout
    assert held("sessions") == held(url) == held("sqlite:///back.db")


def test_a_url_is_a_root_everywhere(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a URL as root a chat is kept in the database, its own files in the usual folder."""
    monkeypatch.setenv("EBBTIDE_ROOT", database.url)

    talked("Hello!")

    assert archived("verify").stdout == "default: 1 turn, intact\n"
    assert "default" in run("sessions").stdout
    assert run("stats", "default").exit_code == 0
    assert archived("export", "default", "out").exit_code == 0
    assert Path(".ebbtide/.ebbtide/%/checkpoints.sqlite").exists()
    assert not FILE.exists()


@pytest.mark.parametrize("url", [URL, f"nonsense://ann:{SECRET}@host/db"])
def test_no_command_prints_a_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that cannot be reached is one line without the password, so are the settings."""
    committed(Session("", "t"))
    commands = [
        ("archive", "verify", "--root", url),
        ("archive", "export", "t", "out", "--root", url),
        ("archive", "copy", url, "sessions"),
        ("archive", "copy", "sessions", url),
        ("sessions", "--root", url),
        ("stats", "--root", url),
        ("chat", "--model", "scripted", "--root", url),
    ]

    failed = [run(*command, said="Hello!\n") for command in commands]
    monkeypatch.setenv("EBBTIDE_ROOT", url)
    output = run("settings")

    assert [SECRET in result.output for result in (*failed, output)] == [False] * 8
    assert [result.exit_code for result in failed] == [1] * 7
    assert {result.stderr.count("\n") for result in failed} == {1}
    assert output.exit_code == 0


def test_a_thread_is_deleted_after_a_question() -> None:
    """No file below the root has its words, nor what was typed; other threads go on."""
    talked("The host is umbrella-17.", thread="one")
    talked("Hello!", thread="two")

    refused = run("archive", "delete", "one", said="n\n")
    kept = files_with(b"umbrella", "sessions")
    deleted = run("archive", "delete", "one", said="y\n")

    assert (refused.exit_code, deleted.exit_code) == (1, 0)
    assert "Delete thread 'one' of 1 turn in " in refused.stderr
    assert kept
    assert files_with(b"umbrella", "sessions") == []
    assert archived("verify").stdout == "two: 1 turn, intact\n"
    assert "page 1 of" not in talked("/messages", thread="one")
