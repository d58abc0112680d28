"""The results in a folder: complete after a kill, and of one setup."""

from pathlib import Path

import pytest

from ebbtide.evaluation.results import ResultsError, Setup, Store, append, hold_folder, read_lines
from tests.evaluation.outcomes import SETUP, point, result


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    """Trials come back as they were kept; of two of one trial the later one counts."""
    store = Store(tmp_path, SETUP)
    store.append(result())
    store.append(result(trial=2))
    store.append(result(point(drift=0.25)))

    assert store.trials == (result(trial=2), result(point(drift=0.25)))
    assert set(Store(tmp_path, SETUP).trials) == set(store.trials)


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    """Half a line at the end, as a kill leaves it, goes; the lines before it stay."""
    Store(tmp_path, SETUP).append(result())
    path = tmp_path / "trials.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-9])

    assert Store(tmp_path, SETUP).trials == (result(),)
    assert path.read_bytes() == whole


def test_a_file_of_half_a_line_is_empty(tmp_path: Path) -> None:
    """If nothing but half a line is there, nothing is left; a file that is not there is none."""
    path = tmp_path / "one"
    path.write_bytes(b"half")

    assert read_lines(path) == read_lines(tmp_path / "two") == []
    assert path.read_bytes() == b""
    assert not (tmp_path / "two").exists()


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    """A whole line that is no result is an error with its number, and is not dropped."""
    store = Store(tmp_path, SETUP)
    store.append(result())
    append(tmp_path / "trials.jsonl", '{"strategy": "window"}\n')

    with pytest.raises(ResultsError, match=r"trials\.jsonl', line 2: no result"):
        Store(tmp_path, SETUP)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "n"}, "model 'm', this run has 'n'"),
        ({"judge": None}, "judge 'j', this run has None"),
        ({"likeness": "x"}, "likeness"),
        ({"prices": (1.0, 2.0)}, "prices"),
        ({"note": "replayed"}, "note"),
        ({"settings": {"context_budget": 9_000}}, "this run has {'context_budget': 9000}"),
        ({"version": "2"}, "version '1', this run has '2'"),
    ],
)
def test_another_setup_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    """Results of another model, judge, note or settings do not come into the same table."""
    Store(tmp_path, SETUP)

    with pytest.raises(ResultsError, match=said):
        Store(tmp_path, Setup(**{**SETUP.model_dump(), **changed}))


@pytest.mark.parametrize("text", ["", "{}", "nonsense"])
def test_a_setup_that_is_none(tmp_path: Path, text: str) -> None:
    """A folder whose setup cannot be read is refused."""
    (tmp_path / "setup.json").write_text(text, encoding="utf-8")

    with pytest.raises(ResultsError, match="is no setup"):
        Store(tmp_path, SETUP)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """A second run on the same folder is refused, and one after the first is not."""
    folder = tmp_path / "new" / "folder"
    with (
        hold_folder(folder),
        pytest.raises(ResultsError, match="another run is writing"),
        hold_folder(folder),
    ):
        pass
    with hold_folder(folder):
        assert folder.is_dir()
