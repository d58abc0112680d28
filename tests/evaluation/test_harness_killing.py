"""A run that is killed goes on where it was."""

import os
from pathlib import Path
from threading import Event

import pytest

from tests.evaluation.answering import answer
from tests.evaluation.commands import MODEL, evaluated, rows, trials
from tests.openai_server import Answer, Body, OpenAIServer
from tests.processes import begun

OPTIONS = (*MODEL, "--strategy", "full-history", "--template", "test-simple", "--trials", "5")
PATIENCE = 60
CALLS = 4
"""The questions of a trial; the judge answers three of them, once for all trials."""


def killed(folder: Path, server: OpenAIServer, after: int) -> bytes:
    """Start a run in a child, kill it in the trial after so many, and return what it kept."""
    reached, gone = Event(), Event()

    def until(body: Body) -> Answer:
        if len(server.requests) > after * CALLS + 3:
            reached.set()
            gone.wait(PATIENCE)
        return answer(body)

    server.answers = until
    command = ["-m", "ebbtide.cli.main", "eval", "--out", str(folder), *OPTIONS]
    child = begun([*command, "--concurrency", "1"], folder, None, [os.devnull] * 3)
    reached.wait(PATIENCE)
    child.kill()
    child.join()
    gone.set()
    server.answers = answer
    return (folder / "trials.jsonl").read_bytes()


@pytest.mark.thorough
def test_a_killed_run_goes_on(tmp_path: Path, server: OpenAIServer) -> None:
    """After SIGKILL the trials of a run are neither lost nor repeated."""
    before = killed(tmp_path, server, after=2)
    server.requests.clear()
    done = evaluated(tmp_path, *OPTIONS)

    assert before.count(b"\n") == 2
    assert done.exit_code == 0, done.output
    assert (tmp_path / "trials.jsonl").read_bytes().startswith(before)
    assert sorted(one.trial for one in trials(tmp_path)) == [*range(1, 6)]
    assert [(row["trials"], row["errors"]) for row in rows(tmp_path)] == [(5, 0)]
    assert len(server.requests) == 3 * CALLS
