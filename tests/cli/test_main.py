"""The commands around the chat, and how mistakes end: one line and an exit code."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from ebbtide import DiskArchive
from ebbtide.cli.main import app
from ebbtide.memory.record import Owner, Tip
from tests.graph.journeys import PAGES, Turn, effort, play, using
from tests.memory.turns import turn

LOG = Path("sessions/default/default/raw.jsonl")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, said: str | None = None) -> Result:
    """Run `ebbtide` with these arguments."""
    return CliRunner().invoke(app, arguments, input=said)


def talked(*lines: str, thread: str = "default") -> None:
    """Have a chat on a thread."""
    said = "".join(f"{line}\n" for line in lines)
    result = run("chat", "--model", "offline", "--thread", thread, said=said)
    assert result.exit_code == 0, result.output


def cells(result: Result) -> list[list[str]]:
    """Return the rows of the tables that a command printed."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]


def committed(owner: Owner) -> None:
    """Store a turn of a session."""
    with DiskArchive("sessions") as archive:
        archive.commit(owner, Tip(), turn(1))


def test_without_a_command_the_help_is_shown() -> None:
    """The bare command names all others."""
    result = run()

    names = ("chat", "sessions", "archive", "settings", "demo")
    assert [name for name in names if name not in result.output] == []


def test_sessions_lists_threads_turns_and_efforts() -> None:
    """Each thread has a row with its turns, its efforts and when it was last used."""
    talked("Hello!", "Let's work on the auth bug.", "That's done.", thread="[b]one")
    talked("Hello!", thread="two")

    rows = [line.split("│")[1:4] for line in run("sessions").stdout.splitlines() if "UTC" in line]

    assert [[cell.strip() for cell in row] for row in rows] == [
        ["[b]one", "3", "1"],
        ["two", "1", "0"],
    ]


def test_sessions_says_that_there_are_none() -> None:
    """An empty archive and a user without sessions are no error."""
    result = run("sessions", "--root", "nowhere", "--user", "ann")

    assert (result.exit_code, result.stdout) == (0, "No sessions of ann in nowhere.\n")


def test_stats_of_a_session() -> None:
    """There is a row for each metric and for each turn; a ratio of nothing is a dash."""
    talked("Let's work on the auth bug.", "The token expires.", "That's done.", "Hello!")

    result = run("stats", "default")

    rows = cells(result)
    assert ["auto collapses", "0"] in rows
    assert ["false decay rate", "-"] in rows
    assert [row[0] for row in rows if len(row) == 6] == ["1", "2", "3", "4"]


def test_stats_count_searches() -> None:
    """Each search of the model counts, and so does one that led to an expansion."""
    turns = [
        *effort("auth-bug", PAGES[0]),
        Turn("Why 401?", using("search_efforts", query="certificate")),
        Turn("Show me.", using("expand_effort", effort_id="auth-bug")),
        Turn("And Rome?", using("search_efforts", query="Rome")),
    ]
    play(Path("sessions"), turns)

    rows = cells(run("stats", "t"))

    assert ["searches", "2"] in rows
    assert ["searches expanded", "1"] in rows


def test_stats_of_all_sessions() -> None:
    """Without a name every session of the user has its tables."""
    talked("Hello!")
    talked("Hello!", thread="two")

    result = run("stats")

    assert [name in result.stdout for name in ("default", "two")] == [True, True]


def test_stats_of_an_unknown_session() -> None:
    """A session that is not there ends with one line and exit code 1."""
    result = run("stats", "nobody")

    assert result.exit_code == 1
    assert "'nobody' not found" in result.output


def test_verify_of_an_intact_archive_says_so() -> None:
    """Every session is named with its turns, and the exit code is 0."""
    talked("Hello!", "It rains.")
    talked("Hello!", thread="two")

    result = run("archive", "verify")

    assert result.stdout == "default: 2 turns, intact\ntwo: 1 turn, intact\n"
    assert result.exit_code == 0


def test_verify_names_file_and_line_of_what_is_damaged() -> None:
    """A changed byte is found with file and line, and the exit code is 1."""
    talked("Hello!", "It rains.", "It pours.")
    LOG.write_text(LOG.read_text("utf-8").replace("It rains", "It shone"), "utf-8")

    result = run("archive", "verify", "default")

    assert "raw.jsonl:2: " in result.stdout
    assert "damaged" in result.stdout
    assert result.exit_code == 1


def test_verify_notes_what_is_harmless() -> None:
    """A torn last line is noted, and the exit code stays 0."""
    talked("Hello!")
    LOG.write_bytes(LOG.read_bytes() + b'{"v":1')

    result = run("archive", "verify", "default")

    assert result.stdout.startswith("default: 1 turn, intact\n  raw.jsonl:2: note: torn")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("named", "last"), [(("default",), " there\n"), ((), "two: 1 turn, intact\n")]
)
def test_verify_of_a_session_that_cannot_be_opened_fails(named: tuple[str, ...], last: str) -> None:
    """A session whose description is damaged is not passed over, and the others follow."""
    talked("Hello!")
    talked("Hello!", thread="two")
    LOG.with_name("session.json").write_text("{", "utf-8")

    result = run("archive", "verify", *named)

    assert result.stdout.startswith("default: damaged in 1 place\n  session.json: ")
    assert result.stdout.endswith(last)
    assert result.exit_code == 1


def test_sessions_lists_one_that_cannot_be_opened() -> None:
    """A session whose description is damaged has a row that says what to do."""
    talked("Hello!")
    LOG.with_name("session.json").write_text("{", "utf-8")

    result = run("sessions")

    assert "see ebbtide archive verify" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize("wrong", [("--root", "nowhere"), ("--user", "ann")])
def test_verify_says_that_there_are_no_sessions(wrong: tuple[str, str]) -> None:
    """Nothing to verify is said, and the exit code is 1: the root or the user is wrong."""
    talked("Hello!")
    asked = {"--root": "sessions", "--user": "default"} | dict([wrong])

    result = run("archive", "verify", *(word for pair in asked.items() for word in pair))

    assert result.stdout == f"No sessions of {asked['--user']} in {asked['--root']}\n"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "command", [("archive", "verify", "nobody"), ("archive", "export", "nobody", "x")]
)
def test_an_unknown_session_is_named(command: tuple[str, ...]) -> None:
    """A session that is not there ends in one line that names it, and exit code 1."""
    talked("Hello!")

    result = run(*command)

    assert result.stderr == (
        "ebbtide: session 'nobody' not found: check the thread id and the user id\n"
    )
    assert (result.exit_code, result.stdout) == (1, "")


def test_another_users_session_is_not_found() -> None:
    """A session exists only for its own user."""
    talked("Hello!")

    result = run("archive", "verify", "default", "--user", "ann")

    assert result.exit_code == 1
    assert "session 'default' not found" in result.stderr


def test_export_writes_a_folder_for_people() -> None:
    """The manifest is readable YAML, the logs are those of the session."""
    talked("Let's work on the auth bug: tokens live 3600 s.", "That's done.", "Bye.")

    result = run("archive", "export", "default", "out")

    manifest = yaml.safe_load(Path("out/manifest.yaml").read_text("utf-8"))
    assert result.exit_code == 0, result.output
    assert [entry["status"] for entry in manifest] == ["open", "concluded"]
    assert Path("out/raw.jsonl").read_bytes() == LOG.read_bytes()
    assert json.loads(LOG.read_text("utf-8"))["turn"] == 3


def test_a_session_with_a_namespace_is_verified_and_exported_by_its_thread() -> None:
    """The agent inside another graph has a namespace; its thread's name reaches it."""
    committed(Owner("default", "t", "agent"))

    verified, exported = run("archive", "verify", "t"), run("archive", "export", "t", "out")

    assert verified.stdout == "t (agent): 1 turn, intact\n"
    assert exported.stdout == "Wrote t (agent) to out\n"
    assert Path("out/raw.jsonl").exists()


def test_sessions_of_one_thread_are_told_apart_by_their_namespaces() -> None:
    """A name as `sessions` shows it means one session, a thread means all that verify can."""
    committed(Owner("default", "t", "one"))
    committed(Owner("default", "t", "two"))

    assert run("archive", "verify", "t (two)").stdout == "t (two): 1 turn, intact\n"
    assert run("archive", "verify", "t").stdout.count("intact") == 2
    assert run("archive", "export", "t (one)", "out").stdout == "Wrote t (one) to out\n"
    assert run("archive", "export", "t", "more").stderr == (
        "ebbtide: 't' is the thread of several sessions: name one of 't (one)', 't (two)'\n"
    )


def test_a_thread_without_namespace_is_meant_before_those_with_one() -> None:
    """The bare name of a thread exports the session that is called just so."""
    committed(Owner("default", "t"))
    committed(Owner("default", "t", "agent"))

    result = run("archive", "export", "t", "out")

    assert result.stdout == "Wrote t to out\n"


def test_settings_shows_what_is_in_force_and_who_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has the value, where it was given, the range and the meaning."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EBBTIDE_WINDOW_STEP", "7")
    Path("ebbtide.yaml").write_text("# mine\ncontext_budget: 3000\nwindow_step: 3\n", "utf-8")

    result = run("settings")

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]
    shown = {row[0]: row[1:4] for row in rows if row}
    assert result.exit_code == 0
    assert shown["context_budget"] == ["3_000", "ebbtide.yaml:2", "≥ 2_000, ≤ 2_000_000"]
    assert shown["window_step"] == ["7", "EBBTIDE_WINDOW_STEP", "≥ 1, ≤ 1_000"]
    assert shown["ambient_window"] == ["10", "default", "≥ 0, ≤ 10_000"]
    assert shown["model"] == ["none", "default", "any"]
    assert "user_id" not in shown


def test_settings_are_read_from_the_file_that_is_named() -> None:
    """A file named by --config is shown as the source."""
    Path("my.yaml").write_text("root: kept\n", "utf-8")

    result = run("settings", "--config", "my.yaml")

    assert "my.yaml:1" in result.stdout


def test_a_mistake_in_the_settings_file_is_named_with_its_line() -> None:
    """A wrong key in `ebbtide.yaml` ends any command in one line with file and line."""
    Path("ebbtide.yaml").write_text("# mine\ncontxt_budget: 3000\n", "utf-8")

    result = run("sessions")

    assert result.exit_code == 1
    assert result.stderr == (
        "ebbtide: ebbtide.yaml:2: unknown key 'contxt_budget': did you mean 'context_budget'?\n"
    )


def test_the_settings_file_gives_root_and_budget() -> None:
    """A file named by --config says where the archive is and how large the context may be."""
    Path("my.yaml").write_text("root: kept\nmodel: offline\ncontext_budget: 5000\n", "utf-8")

    result = run("chat", "--config", "my.yaml", said="Hello!\n")

    assert " of 5,000 tokens" in result.stdout
    assert Path("kept/default/default/raw.jsonl").exists()


@pytest.mark.parametrize(
    ("model", "why"),
    [("nonsense", "model 'nonsense' cannot be used: "), ("openai:gpt-5-mini", "OPENAI_API_KEY")],
)
def test_a_model_that_cannot_be_is_one_line(model: str, why: str) -> None:
    """An unknown model, or one without its key, ends in one line."""
    result = run("chat", "--model", model)

    assert why in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_a_folder_that_cannot_be_written_is_one_line() -> None:
    """A root that is a file ends in one line that names it."""
    Path("taken").write_text("", "utf-8")

    result = run("chat", "--model", "offline", "--root", "taken", said="Hello!\n")

    assert "taken" in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_an_unknown_option_is_a_usage_error() -> None:
    """A mistyped option exits with 2."""
    result = run("chat", "--modle", "offline")

    assert result.exit_code == 2
