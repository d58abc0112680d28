"""The commands around the chat, and how mistakes end: one line and an exit code."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.main import app
from tests.graph.journeys import PAGES, Turn, effort, play, using

HIDING = "a\n\u202e\u200b"
"""A name that leaves its line, turns what follows, and looks like another."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, said: str | None = None) -> Result:
    """Run `ebbtide` with these arguments."""
    return CliRunner().invoke(app, arguments, input=said)


def talked(*lines: str, thread: str = "default", user: str = "default") -> None:
    """Have a chat on a thread."""
    said = "".join(f"{line}\n" for line in lines)
    result = run("chat", "--model", "offline", "--thread", thread, "--user", user, said=said)
    assert result.exit_code == 0, result.output


def cells(result: Result) -> list[list[str]]:
    """Return the rows of the tables that a command printed."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]


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


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("stats",),
        ("stats", "no\n\u202e\u200b"),
        ("archive", "verify"),
        ("archive", "verify", "no\n\u202e\u200b"),
        ("archive", "export", HIDING, "to \n\u202e\u200b"),
        ("archive", "export", "no\n\u202e\u200b", "here"),
        ("sessions", "--user", "no\n\u202e\u200b"),
        ("attention", "forget", f"{HIDING}/gate", "--user", HIDING),
        ("chat", "--model", "offline", "--thread", HIDING),
    ],
    ids=" ".join,
)
def test_no_name_hides_anything_or_leaves_its_line(arguments: tuple[str, ...]) -> None:
    """Characters that turn the text, or are not seen, stand as escapes wherever names do."""
    lines = ("Let's work on the gate \u202e.", "The key hangs behind the clock.", "That's done.")
    talked(*lines, thread=HIDING)
    talked(*lines, thread=HIDING, user=HIDING)

    result = run(*arguments, said="/messages\n/efforts\n/context show\n/search key\n/stats\n")

    assert r"\u202e\u200b" in result.output
    assert "\n\\u202e" not in result.output
    assert not set(result.output) & {"\u202e", "\u200b"}


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


def test_settings_shows_what_is_in_force_and_who_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has the value, where it was given, the range and the meaning."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EBBTIDE_DECAY_THRESHOLD", "7")
    Path("ebbtide.yaml").write_text("# mine\ncontext_budget: 3000\ndecay_threshold: 3\n", "utf-8")

    result = run("settings")

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]
    shown = {row[0]: row[1:4] for row in rows if row}
    assert result.exit_code == 0
    assert shown["context_budget"] == ["3_000", "ebbtide.yaml:2", "≥ 2_000, ≤ 2_000_000"]
    assert shown["decay_threshold"] == ["7", "EBBTIDE_DECAY_THRESHOLD", "≥ 1, ≤ 100_000"]
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
    assert Path("kept/ebbtide.sqlite").exists()


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
