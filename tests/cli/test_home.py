"""Where the sessions of a user are, and which model answers there."""

import json
from pathlib import Path

import pytest

from tests.cli.commands_run import run, talked


def test_the_settings_file_gives_root_and_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named by --config says where the archive is and how large the context may be."""
    monkeypatch.delenv("EBBTIDE_ROOT")
    Path("my.yaml").write_text("root: kept\nmodel: scripted\ncontext_budget: 5000\n", "utf-8")

    result = run("chat", "--config", "my.yaml", "--json", "Hello!")

    assert json.loads(result.stdout)["context_report"]["budget"] == 5_000
    assert Path("kept/ebbtide.sqlite").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--model", "nonsense"), "model 'nonsense' cannot be used: write provider:name, such as"),
        (("--model", "openai:gpt-5-mini"), "cannot be used: set OPENAI_API_KEY"),
        (("--embeddings", "nonsense"), "embeddings 'nonsense'"),
        (("--root", "taken"), "'taken/.ebbtide/%' cannot be created (Not a directory)"),
        (("--thread", ""), "--thread takes a name"),
        (("--user", "\udcff"), "--user takes a name"),
    ],
)
def test_an_option_that_cannot_be_is_one_line(options: tuple[str, str], why: str) -> None:
    """What is wrong is said, with what to do, before anything is written."""
    Path("taken").write_text("", "utf-8")
    model = () if "--model" in options else ("--model", "scripted")

    result = run("chat", *model, *options, said="Hello!\n")

    assert why in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert not Path("sessions/ebbtide.sqlite").exists()


def test_checkpoints_that_are_damaged_are_named_with_a_remedy() -> None:
    """The file can be moved away, since the thread is restored from the archive."""
    talked("Hello!")
    damaged = Path("sessions/.ebbtide/%/checkpoints.sqlite")
    damaged.write_text("no database" * 1_000, "utf-8")

    failed = run("chat", "--model", "scripted")
    damaged.unlink()
    mended = run("chat", "--model", "scripted")

    assert str(damaged) in failed.stderr
    assert "move it away: threads are then restored from the archive" in failed.stderr
    assert (failed.exit_code, failed.stderr.count("\n")) == (1, 1)
    assert "restored from the archive" in mended.stderr


def test_sessions_are_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever one stands the sessions are the same ones."""
    monkeypatch.delenv("EBBTIDE_ROOT")
    (tmp_path / "elsewhere").mkdir()
    run("chat", "--model", "scripted", "Hello!")

    monkeypatch.chdir(tmp_path / "elsewhere")

    assert "default" in run("sessions").stdout
