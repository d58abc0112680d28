"""`ebbtide bench` in a checkout, and elsewhere."""

import json
from pathlib import Path

import pytest

from tests.cli.commands_run import run
from tests.processes import ROOT


@pytest.mark.thorough
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
    assert plain["changes of file"] < ours["changes of file"] < 630
    assert plain["functions"] < ours["functions"] < 520


@pytest.mark.thorough
def test_names_are_listed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """For an unknown name those that there are are shown."""
    monkeypatch.chdir(ROOT)

    assert run("bench", "hops", "hop").exit_code == 2
    assert "hops, turn_cost, " in " ".join("".join(capfd.readouterr()).split())


def test_elsewhere_the_error_says_what_to_do(tmp_path: Path) -> None:
    """No checkout is found, nor is the `benchmarks/run.py` of another project run."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n', encoding="utf-8")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "run.py").write_text("raise SystemExit(3)", encoding="utf-8")

    result = run("bench", "hops")

    assert f"{tmp_path} is not in a checkout of Ebbtide" in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
