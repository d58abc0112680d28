"""A run that is killed goes on where it was."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evaluation.answering import KEY, answer
from tests.evaluation.commands import MODEL, evaluated, rows, trials
from tests.openai_server import Answer, Body, OpenAIServer, serving
from tests.processes import begun

OPTIONS = (*MODEL, "--strategy", "full-history", "--template", "test-simple", "--trials", "12")
PATIENCE = 60


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Serve the scripted model, so slowly that a run can be killed in the middle."""

    def slowly(body: Body) -> Answer:
        time.sleep(0.02)
        return answer(body)

    with serving(by=slowly) as running:
        for name, value in {**KEY, "OPENAI_BASE_URL": running.url}.items():
            monkeypatch.setenv(name, value)
        yield running


def killed(folder: Path, after: int) -> bytes:
    """Start a run in a child, kill it once so many trials are kept; return what it kept."""
    command = ["-m", "ebbtide.cli.main", "eval", "--out", str(folder), *OPTIONS]
    path, until = folder / "trials.jsonl", time.monotonic() + PATIENCE
    child = begun(command, folder, None, [os.devnull] * 3)
    while kept(path).count(b"\n") < after and time.monotonic() < until:
        time.sleep(0.005)
    child.kill()
    child.join()
    return kept(path)


def kept(path: Path) -> bytes:
    """Return what a file holds, nothing if it is not there."""
    return path.read_bytes() if path.exists() else b""


def test_a_killed_run_goes_on(tmp_path: Path, slow: OpenAIServer) -> None:
    """After SIGKILL the trials that were kept are neither lost nor repeated."""
    before = killed(tmp_path, after=3)
    there = before.count(b"\n")
    asked = len(slow.requests)
    done = evaluated(tmp_path, *OPTIONS)
    whole = before[: before.rfind(b"\n") + 1]

    assert 3 <= there < 12
    assert done.exit_code == 0, done.output
    assert (tmp_path / "trials.jsonl").read_bytes().startswith(whole)
    assert sorted(one.trial for one in trials(tmp_path)) == [*range(1, 13)]
    assert [(row["trials"], row["errors"]) for row in rows(tmp_path)] == [(12, 0)]
    assert len(slow.requests) - asked <= (12 - there) * 7
