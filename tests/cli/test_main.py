"""The commands around the chat, and how mistakes end: one line and an exit code."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.main import COMMANDS, app
from tests.graph.journeys import PAGES, Turn, effort, play, using

HIDING = "a\n\u202e\u200b"
"""A name that leaves its line, turns what follows, and looks like another."""


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

    assert (result.exit_code, result.stdout) == (
        0,
        f"No sessions of ann in {Path('nowhere').absolute()}.\n",
    )


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

    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[:2] == [
        "context_budget: 3_000 (ebbtide.yaml:2)",
        "  Tokens of the working context at most; ≥ 2_000, ≤ 2_000_000",
    ]
    assert "decay_threshold: 7 (EBBTIDE_DECAY_THRESHOLD)" in lines
    assert "ambient_window: 10 (default)" in lines
    assert "model: none (default)" in lines
    assert "user_id" not in result.stdout


def test_settings_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns they are two pages, and no line is longer than the terminal at 40."""
    lengths = []
    for columns in (80, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = run("settings").stdout.splitlines()
        assert max(map(len, lines)) <= columns
        lengths.append(len(lines))

    assert lengths[0] <= 50


def test_settings_are_read_from_the_file_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file named by --config is shown as the source."""
    monkeypatch.delenv("EBBTIDE_ROOT")
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


def test_the_settings_file_gives_root_and_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file named by --config says where the archive is and how large the context may be."""
    monkeypatch.delenv("EBBTIDE_ROOT")
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


def test_a_misspelt_variable_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is almost a setting's ends any command, and the setting is named."""
    monkeypatch.setenv("EBBTIDE_CONTXT_BUDGET", "3000")

    result = run("sessions")

    assert result.exit_code == 1
    assert result.stderr == (
        "ebbtide: EBBTIDE_CONTXT_BUDGET: unknown variable: did you mean EBBTIDE_CONTEXT_BUDGET?\n"
    )


def test_the_version_is_told() -> None:
    """The installed version stands on a line of its own."""
    result = run("--version")

    assert (result.exit_code, result.stdout) == (0, f"ebbtide {version('ebbtide')}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_begins_as_the_list_says(command: str) -> None:
    """The list tells of a command without importing it, in words that its own help has too."""
    listed, shown = run("--help"), run(command, "--help")

    assert f"  {COMMANDS[command][1]}\n" in listed.stdout
    assert shown.exit_code == 0
    assert COMMANDS[command][1].split()[0] in shown.stdout


@pytest.mark.parametrize("statement", ["import ebbtide", "import ebbtide.cli.main"])
def test_help_imports_nothing_heavy(statement: str) -> None:
    """Neither the package nor the list of commands imports what only some commands need."""
    heavy = {
        "langchain_core",
        "langchain_openai",
        "langgraph",
        "prompt_toolkit",
        "rich",
        "sqlalchemy",
    }
    code = f"import sys; {statement}; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert heavy & {*ran.stdout.split()} == set()


def test_the_package_needs_nothing_of_the_command_line() -> None:
    """All that an application imports comes without what the extras bring."""
    extras = {"typer", "prompt_toolkit", "langchain_openai"}
    code = "import sys; from ebbtide import *; from ebbtide.commands import *; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert extras & {*ran.stdout.split()} == set()


@pytest.mark.parametrize("columns", ["40", "80"])
def test_figures_are_whole_on_narrow_terminals(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a table would cut its figures, its rows are lines."""
    talked("Let's work on the auth bug.", "The token expires.", "That's done.", "Hello!")
    wide = run("stats").stdout
    monkeypatch.setenv("COLUMNS", columns)

    for command in (["stats"], ["sessions"]):
        shown = run(*command).stdout
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= int(columns)
    figures = set(re.findall(r"\d,\d{3}", wide))
    assert figures
    assert figures <= set(re.findall(r"\d,\d{3}", run("stats").stdout))


def test_sessions_are_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever one stands the sessions are the same ones, and the chat says where they are."""
    monkeypatch.delenv("EBBTIDE_ROOT")
    (tmp_path / "elsewhere").mkdir()
    said = run("chat", "--model", "offline", said="Hello!\n").stdout

    monkeypatch.chdir(tmp_path / "elsewhere")
    listed = run("sessions")

    assert str(tmp_path / ".ebbtide") in said
    assert "default" in listed.stdout


def test_the_chat_searches_by_meaning_if_told_to() -> None:
    """An unknown model of embeddings ends in one line: the option reaches the agent."""
    result = run("chat", "--model", "offline", "--embeddings", "nonsense", said="Hello!\n")

    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "embeddings 'nonsense'" in result.stderr


def test_an_unknown_option_is_a_usage_error() -> None:
    """A mistyped option exits with 2."""
    result = run("chat", "--modle", "offline")

    assert result.exit_code == 2
