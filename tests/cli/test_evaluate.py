"""`ebbtide eval`: every kind of bad input ends in one line."""

import logging
import sys
from pathlib import Path

import pytest

from ebbtide.cli.evaluate import warned_once
from tests.evaluation.commands import evaluated
from tests.evaluation.conversations import plain, written


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--strategy", "full-histroy"),
            "'full-histroy': did you mean 'full-history'? Use one of full-history, ",
        ),
        (("--template", "mine"), "template 'mine': no such file; shipped are coding-session"),
        (("--model", "nobody:nothing"), "model 'nobody:nothing' cannot be used"),
        (("--judge", "nobody:nothing"), "model 'nobody:nothing' cannot be used"),
        (("--embeddings", "mine"), "embeddings 'mine' is not known"),
        (("--replay", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--config", "nowhere.yaml"), "nowhere.yaml"),
        (("--prices", "nan,2"), "prices: pass two or three numbers"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """An unknown name or a file that is not there ends in one line and exit code 1."""
    done = evaluated(
        tmp_path, *(("--model", "scripted") if options[0] == "--judge" else ()), *options
    )

    assert done.exit_code == 1
    assert said in done.output
    assert done.output.count("\n") == 1
    assert not (tmp_path / "trials.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--trials", "0"), "--trials"),
        (("--replay", "x", "--record", "y"), "leave one"),
    ],
)
def test_options_that_are_wrong(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """An option that cannot be is refused with exit code 2, before anything is done."""
    done = evaluated(tmp_path, "--model", "scripted", *options)

    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "trials.jsonl").exists()


def test_results_of_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with results of another setup is left as it is."""
    simple = ("--template", "test-simple", "--strategy", "full-history")
    evaluated(tmp_path, "--model", "scripted", *simple)
    before = (tmp_path / "results.json").read_bytes()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")
    done = evaluated(tmp_path, *simple)

    assert done.exit_code == 1
    assert "holds results with model 'scripted', this run has 'openai:gpt-5-mini'" in done.output
    assert (tmp_path / "results.json").read_bytes() == before


def test_a_template_that_has_changed(tmp_path: Path) -> None:
    """Results of an older template end in one line, before the progress bar begins."""
    options = ("--model", "scripted", "--strategy", "full-history", "--template")
    first = evaluated(tmp_path / "out", *options, written(tmp_path, plain()))
    done = evaluated(tmp_path / "out", *options, written(tmp_path, plain(probing_tasks={})))

    assert (first.exit_code, done.exit_code) == (0, 1)
    assert done.stderr.startswith("ebbtide: template 'shed' has changed since its trials")
    assert done.stderr.count("\n") == 1


def test_a_record_of_something_else(tmp_path: Path) -> None:
    """A file that holds something else is not appended to."""
    path = tmp_path / "answers.jsonl"
    path.write_text("two\nlines", encoding="utf-8")
    before = path.read_bytes()
    simple = ("--template", "test-simple", "--record", str(path))
    done = evaluated(tmp_path / "out", "--model", "scripted", *simple)

    assert done.exit_code == 1
    assert "answers.jsonl" in done.output
    assert path.read_bytes() == before


def test_without_matplotlib_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the table is written, and a line says how to get the plot."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = evaluated(tmp_path, "--model", "scripted", "--template", "test-simple")

    assert done.exit_code == 0
    assert "For a plot, install the extra `plots`: pip install 'ebbtide[plots]'" in done.output
    assert (tmp_path / "results.md").exists()
    assert not (tmp_path / "results.png").exists()


def test_a_warning_of_every_trial_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The same warning is shown once during a run, another one too, and all of them after it."""
    logger = logging.getLogger("tests.warned_once")
    logger.propagate = False
    with warned_once():
        logger.warning("a")
        logger.warning("b")
        logger.warning("a")
        logger.warning("a")
    logger.warning("a")

    assert capsys.readouterr().err.split() == ["a", "b", "a"]
