"""The trials of a folder: with their quotes, and of one setup."""

from pathlib import Path

import pytest

from ebbtide.evaluation.lines import append
from ebbtide.evaluation.results import ResultsError, Setup, read_trials
from ebbtide.evaluation.strategy_protocol import Quoted
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

    with pytest.raises(ResultsError, match=said):
        read_trials(path, Setup(**{**SETUP.model_dump(), **changed}))
