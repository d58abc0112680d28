"""The commands around the chat, and how mistakes end: one line and an exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands_run import run, talked

HIDING, HERS = "a\u202e\u200b", "b\u202e\u200b"
"""Names that turn what follows, and look like others: a user's and a thread's, and her thread's."""


NAMING = (
    ("sessions",),
    ("stats",),
    ("stats", "no\n\u202e\u200b"),
    ("archive", "verify"),
    ("archive", "export", HIDING, "to \n\u202e\u200b"),
    ("sessions", "--user", "no\n\u202e\u200b"),
    ("attention", "forget", f"{HERS}/gate", "--user", HIDING),
    ("chat", "--model", "scripted", "--thread", HIDING),
)
"""Commands that print the names of users, threads, efforts and files."""


@pytest.mark.thorough
def test_no_name_hides_anything_or_leaves_its_line() -> None:
    """Characters that turn the text, or are not seen, stand as escapes wherever names do."""
    lines = ("Let's work on the gate \u202e.", "The key hangs behind the clock.", "That's done.")
    talked(*lines, thread=HIDING)
    talked(*lines, thread=HERS, user=HIDING)

    said = "/messages\n/efforts\n/context show\n/search key\n/stats\n"
    outputs = {arguments: run(*arguments, said=said).output for arguments in NAMING}

    assert [one for one in NAMING if r"\u202e\u200b" not in outputs[one]] == []
    assert [one for one in NAMING if "\n\\u202e" in outputs[one]] == []
    assert [one for one in NAMING if set(outputs[one]) & {"\u202e", "\u200b"}] == []


def test_settings_shows_what_is_in_force_and_who_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has the value and where it was given."""
    monkeypatch.setenv("EBBTIDE_DECAY_THRESHOLD", "7")
    Path("ebbtide.yaml").write_text("# mine\ncontext_budget: 3000\ndecay_threshold: 3\n", "utf-8")

    result = run("settings")

    lines = result.stdout.splitlines()
    assert lines[0] == "context_budget: 3_000 (ebbtide.yaml:2)"
    assert "decay_threshold: 7 (EBBTIDE_DECAY_THRESHOLD)" in lines
    assert "model: none (default)" in lines
    data = json.loads(run("settings", "--json").stdout)
    assert data["context_budget"] == {"value": 3_000, "source": "ebbtide.yaml:2"}


def test_a_mistake_in_the_settings_file_is_named_with_its_line() -> None:
    """A wrong key in `ebbtide.yaml` ends any command in one line with file and line."""
    Path("ebbtide.yaml").write_text("# mine\ncontxt_budget: 3000\n", "utf-8")

    result = run("sessions")

    assert result.exit_code == 1
    start = "ebbtide: ebbtide.yaml:2: unknown key 'contxt_budget': did you mean 'context_budget'? "
    assert result.stderr.startswith(start)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("stat",), "Did you mean 'stats'?"),
        (("archive", "verfy"), "Did you mean 'verify'?"),
        (("chat", "--thred", "x"), "--thread"),
    ],
)
def test_a_misspelt_command_or_option_is_told(words: tuple[str, ...], meant: str) -> None:
    """The error names what is meant."""
    result = run(*words)

    assert (result.exit_code, meant in result.stderr) == (2, True)


@pytest.mark.parametrize("statement", ["import ebbtide", "import ebbtide.cli.main"])
def test_help_imports_nothing_heavy(statement: str) -> None:
    """Neither the package nor the list of commands imports what only some commands need."""
    heavy = {"langchain_core", "langgraph", "prompt_toolkit", "rich", "sqlalchemy"}
    code = f"import sys; {statement}; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert heavy & {*ran.stdout.split()} == set()
