"""The trials of a folder: with their quotes, of one setup, complete after a kill."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ebbtide.evaluation.lines import append, read_lines
from ebbtide.evaluation.results import Setup, TrialResult, read_trials
from ebbtide.evaluation.strategy_protocol import Quoted
from ebbtide.evaluation.template import EvaluationError
from tests.evaluation.outcomes import SETUP, point, result

QUOTED = point(
    quotes=("It rains.",),
    chosen=(
        Quoted(quote="It rains.", verdict="verbatim"),
        Quoted(quote="It snows.", verdict="fabricated"),
    ),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of trials in a folder that is made by the first of them."""
    return tmp_path / "new" / "trials.jsonl"


def test_what_is_kept_is_read_again(path: Path) -> None:
    """Trials come back with their quotes; of two results of one trial the later one counts."""
    for trial in (result(), result(trial=2), result(QUOTED)):
        append(path, trial)

    assert read_trials(path, SETUP) == {
        "window/shed/1": result(QUOTED),
        "window/shed/2": result(trial=2),
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "n"}, "model 'm', this run has 'n'"),
        ({"settings": {"context_budget": 9_000}}, "this run has {'context_budget': 9000}"),
        ({"version": "2"}, "version '1', this run has '2'"),
    ],
)
def test_another_setup_is_refused(path: Path, changed: dict[str, object], said: str) -> None:
    """Results of another model, judge, note or settings do not come into the same table."""
    append(path, result())

    with pytest.raises(EvaluationError, match=said):
        read_trials(path, Setup(**{**SETUP.model_dump(), **changed}))


def read(path: Path) -> list[TrialResult]:
    """Return the results in a file."""
    return [*read_lines(path, TrialResult)]


def test_a_torn_line_is_ignored(path: Path) -> None:
    """Half a line, as a kill leaves it, is left out; the next one is read behind it."""
    append(path, result())
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-9])
    torn = read(path)
    append(path, result(trial=2))

    assert torn == [result()]
    assert read(path) == [result(), result(trial=2)]


def test_two_runs_lose_no_line_of_each_other(path: Path) -> None:
    """Lines that are appended at once are all there."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append(path, result(trial=number)), range(1, 101)))

    assert len(read(path)) == 100


@pytest.mark.parametrize("line", ['{"strategy": "window"}', "nonsense", "5"])
def test_a_damaged_line_is_named(path: Path, line: str) -> None:
    """A line that is no result is an error with its number, and is not dropped."""
    append(path, result())
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")

    with pytest.raises(EvaluationError, match=r"trials\.jsonl', line 2: no TrialResult"):
        read(path)
