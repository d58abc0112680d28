"""`ebbtide bench` in a checkout, and elsewhere."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.commands_run import run
from tests.processes import ROOT, ended


def test_a_benchmark_runs_from_a_folder_of_the_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its results are in the folder that is named, in the small size of `make bench`.

    A plain turn has a bounded way, which is longer than that of an agent without a memory.
    """
    monkeypatch.chdir(ROOT / "docs")

    result = run("bench", "hops", "--out", str(tmp_path / "out"))

    assert result.exit_code == 0
    rows = json.loads((tmp_path / "out" / "hops.json").read_text(encoding="utf-8"))["rows"]
    ours, plain = rows[0], rows[-1]
    assert (ours["turn"], plain["turn"], plain["agent"]) == (*["plain turn"] * 2, "create_agent")
    assert plain["changes of file"] < ours["changes of file"] < 650
    assert plain["functions"] < ours["functions"] < 650
    assert str(tmp_path / "out") in result.stdout


def test_without_a_name_all_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each benchmark has a line that says what it measures."""
    monkeypatch.chdir(ROOT)

    lines = run("bench").stdout.splitlines()

    programs = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert {line.partition(": ")[0] for line in lines} <= programs
    assert len(lines) > 10
    assert all(line.partition(": ")[2] for line in lines)


def test_an_unknown_benchmark_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names those that there are, and nothing is written."""
    monkeypatch.chdir(ROOT)

    result = run("bench", "hops", "hop")

    assert result.exit_code == 2
    assert "no benchmark 'hop': use one of hops, " in " ".join(result.stderr.split())


@pytest.mark.parametrize("other", [None, '[project]\nname = "other"\n'])
def test_elsewhere_the_error_says_what_to_do(tmp_path: Path, other: str | None) -> None:
    """No checkout is found, nor is the `benchmarks/run.py` of another project run."""
    if other:
        (tmp_path / "pyproject.toml").write_text(other, encoding="utf-8")
        (tmp_path / "benchmarks").mkdir()
        (tmp_path / "benchmarks" / "run.py").write_text("raise SystemExit(3)", encoding="utf-8")

    result = run("bench", "hops")

    assert f"{tmp_path} is not in a checkout of Ebbtide" in result.stderr
    assert "pip install '.[dev,bench,plots]'" in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(("folder", "completed"), [(ROOT, ["hops"]), (Path("/"), [])])
def test_the_shell_completes_benchmarks(folder: Path, completed: list[str]) -> None:
    """Tab completes their names, outside of a checkout nothing."""
    asking = {"COMP_WORDS": "ebbtide bench ho", "COMP_CWORD": "2"}
    environment = {**os.environ, **asking, "_EBBTIDE_COMPLETE": "complete_bash"}
    code = "import sys; sys.argv[0] = 'ebbtide'; from ebbtide.cli.entry import main; main()"

    ran = ended(["-c", code], folder, environment)

    assert ran.printed.split() == completed
