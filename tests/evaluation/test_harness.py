"""The harness from the command to the files, with a scripted model over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
from typer.testing import Result

from ebbtide.evaluation.results import REPLAYED, TrialResult
from ebbtide.evaluation.strategies import STRATEGIES
from ebbtide.evaluation.strategy_protocol import Context, Strategy
from ebbtide.evaluation.template import SHIPPED, TemplateTurn, read_template
from tests.evaluation.answering import answer, pointed_at
from tests.evaluation.commands import MODEL, evaluated, rows, trials
from tests.openai_server import Fail, OpenAIServer, Say

POINTS = {name: len(read_template(name).points) for name in SHIPPED}
SHORT = ["test-simple", "test-edge-cases", "coding-session"]
SIMPLE = ("--template", "test-simple", *MODEL)


def options(name: str, values: Sequence[str]) -> list[str]:
    """Return an option that is repeated for each value."""
    return [word for value in values for word in (name, value)]


def scores(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the scores of each trial that a folder holds, seconds aside."""
    unlike: Any = {"seconds": True, "calls": {"__all__": {"seconds"}}}
    return {
        one.name: [point.model_dump(exclude=unlike) for point in one.points]
        for one in trials(folder)
    }


@dataclass(frozen=True)
class Recorded:
    """A run that was recorded: its folder, the file of its answers, what it printed."""

    folder: Path
    answers: Path
    done: Result


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, served: OpenAIServer) -> Recorded:
    """Run each strategy on each of the short templates and one long one, and record it."""
    folder = tmp_path_factory.mktemp("recorded")
    answers = folder / "answers.jsonl"
    chosen = (*options("--strategy", [*STRATEGIES]), *options("--template", SHORT))
    with pytest.MonkeyPatch.context() as patch:
        pointed_at(served, patch)
        done = evaluated(folder / "first", *chosen, *MODEL, "--record", str(answers))
    assert served.requests
    return Recorded(folder / "first", answers, done)


def check_scores(found: Sequence[TrialResult], templates: Sequence[str]) -> None:
    """Check the trials of a strategy: one on each template, without an error, all points scored."""
    points = [point for one in found for point in one.points]

    assert {one.template: len(one.points) for one in found} == {
        one: POINTS[one] for one in templates
    }
    assert {one.errors for one in found} == {()}
    assert {point.goal_coherence for point in points} == {0.75}
    assert {point.drift for point in points} == {0.0}
    assert {point.verbatim_rate for point in points} <= {None, 1.0}


@pytest.mark.thorough
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_on_every_template(recorded: Recorded, name: str) -> None:
    """Each strategy goes through each template without an error, and is scored at each point."""
    # The long ones of one kind are left to the soak.
    assert recorded.done.exit_code == 0, recorded.done.output
    check_scores([one for one in trials(recorded.folder) if one.strategy == name], SHORT)


@pytest.mark.soak
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_on_the_long_templates(tmp_path: Path, name: str) -> None:
    """So it is on all templates."""
    done = evaluated(tmp_path, "--strategy", name, *options("--template", [*POINTS]), *MODEL)

    assert done.exit_code == 0, done.output
    check_scores(trials(tmp_path), [*POINTS])


def test_the_files_and_what_is_printed(tmp_path: Path, server: OpenAIServer) -> None:
    """The command writes its files and prints a table for each template, with the targets."""
    done = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history", "--prices", "1,10")
    (row,) = rows(tmp_path)

    assert done.exit_code == 0
    assert server.requests
    assert "goal coherence" in done.output
    assert "> 0.90" in done.output
    assert "full-history/test-simple/1" in done.stderr
    assert "1/1" in done.stderr
    assert f"to {tmp_path}." in done.output.replace("\n", "")
    assert row["metrics"]["cost"]["mean"] == 0
    assert row["metrics"]["constraint_recall"]["mean"] == 0


def test_a_run_goes_on_where_it_was(tmp_path: Path, server: OpenAIServer) -> None:
    """What is done is not done again; more trials and other strategies come to it."""
    evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")
    before = len(server.requests)
    again = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")
    repeated = len(server.requests) - before
    more = evaluated(
        tmp_path,
        *SIMPLE,
        "--strategy",
        "rolling-window",
        "--strategy",
        "full-history",
        "--trials",
        "2",
    )

    assert (again.exit_code, more.exit_code, repeated) == (0, 0, 0)
    assert sorted((one.strategy, one.trial) for one in trials(tmp_path)) == [
        *(("full-history", 1), ("full-history", 2)),
        *(("rolling-window", 1), ("rolling-window", 2)),
    ]
    assert [row["trials"] for row in rows(tmp_path)] == [2, 2]


def test_trials_with_errors_are_repeated(tmp_path: Path, server: OpenAIServer) -> None:
    """A judge that answers nonsense makes errors and exit code 1; the next run mends them."""
    server.answers = lambda _: Say("Well, well.")
    first = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")
    server.answers = answer
    second = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")

    assert (first.exit_code, second.exit_code) == (1, 0)
    assert "4 errors" in first.output
    assert "EvaluationError: the judge was asked for a score" in first.output.replace("\n", "")
    assert [len(one.errors) for one in trials(tmp_path)] == [4, 0]
    assert [row["errors"] for row in rows(tmp_path)] == [0]


def test_a_key_that_a_provider_repeats_is_in_no_result(
    tmp_path: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that quotes the key of the environment is printed and kept without it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")
    server.answers = lambda _: Fail(401, message="no such key: sk-secret-1")
    done = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")
    written_files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = b"".join(path.read_bytes() for path in written_files)

    assert "no such key: ***" in done.output.replace("\n", "")
    assert "sk-secret-1" not in done.output
    assert b"no such key: ***" in kept
    assert b"sk-secret-1" not in kept


class Meeting(Strategy):
    """Waits in each trial until as many run at once as may, and a moment for one too many."""

    name = "meeting"
    limit = running = most = 0
    changed = Condition()

    def _compressed(self, _turns: Sequence[TemplateTurn]) -> Context:
        with self.changed:
            Meeting.running += 1
            Meeting.most = max(self.most, self.running)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.limit, timeout=60)
            self.changed.wait_for(lambda: self.most > self.limit, timeout=0.1)
            Meeting.running -= 1
        return Context()


@pytest.mark.parametrize("limit", [3])
def test_so_many_trials_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """No more trials run at once than are allowed, and as many as that do."""
    monkeypatch.setattr("ebbtide.evaluation.strategies.STRATEGIES", {"meeting": Meeting})
    monkeypatch.setattr(Meeting, "limit", limit)
    monkeypatch.setattr(Meeting, "running", 0)
    monkeypatch.setattr(Meeting, "most", 0)
    options = ("--model", "scripted", "--strategy", "meeting", "--template", "test-simple")
    limits = ("--trials", str(limit + 1), "--concurrency", str(limit))
    done = evaluated(tmp_path, *options, *limits)

    assert done.exit_code == 0, done.output
    assert Meeting.most == limit


@pytest.mark.thorough
def test_recorded_answers_are_replayed(
    tmp_path: Path, recorded: Recorded, server: OpenAIServer
) -> None:
    """A replay asks nobody, comes to the same scores, and says in each file what it is."""
    asking = options("--strategy", ["full-history", "selective-salience", "ebbtide"])
    short = options("--template", ["test-edge-cases", "coding-session"])
    replay, folder = ("--replay", str(recorded.answers)), tmp_path / "replayed"
    done = evaluated(folder, *replay, *MODEL, *asking, *short, plots=True)
    first, second = scores(recorded.folder), scores(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]

    assert done.exit_code == 0, done.output
    assert server.requests == []
    assert len(second) == len(asking)
    assert [name for name in second if second[name] != first[name]] == []
    assert [path for path in files if REPLAYED.encode() not in path.read_bytes()] == []
    assert REPLAYED in done.output
