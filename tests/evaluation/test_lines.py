"""Files of lines: complete after a kill, and of several writers."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ebbtide.evaluation.lines import LinesError, append, read_lines
from ebbtide.evaluation.results import TrialResult
from tests.evaluation.outcomes import result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file in a folder that is made with the first line."""
    return tmp_path / "new" / "trials.jsonl"


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

    with pytest.raises(LinesError, match=r"trials\.jsonl', line 2: no TrialResult"):
        read(path)
