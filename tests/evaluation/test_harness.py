"""The harness from the command to the files, with a scripted model over HTTP."""

import time
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from ebbtide.evaluation.results import REPLAYED
from ebbtide.evaluation.strategies import OURS, STRATEGIES
from ebbtide.evaluation.template import read_template, shipped
from tests.evaluation.answering import answer, text
from tests.evaluation.commands import MODEL, evaluated, rows, trials
from tests.evaluation.conversations import plain, written
from tests.openai_server import Answer, Body, Fail, OpenAIServer, Say

PEERS = {"langmem": "langmem", "deepagents": "deepagents"}
ASKING = ("selective-salience", "ebbtide", "summarization-middleware", *PEERS)
POINTS = {name: len(read_template(name).points) for name in shipped()}
SHORT = ["test-simple", "test-edge-cases", "coding-session", "research-synthesis-001"]
SIMPLE = ("--template", "test-simple", *MODEL)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what peers import


def strategy(name: str, *more: Any) -> object:
    """Return a strategy as a parameter that is skipped if it is not installed.

    What follows it are marks, and other parameters.
    """
    missing = name in PEERS and find_spec(PEERS[name]) is None
    mark = pytest.mark.skipif(missing, reason="pip install 'ebbtide[bench]'")
    marks = [one for one in more if isinstance(one, pytest.MarkDecorator)]
    return pytest.param(name, *(one for one in more if one not in marks), marks=[mark, *marks])


@pytest.mark.parametrize(
    ("name", "templates"),
    [
        ("ebbtide", [*POINTS]),
        *(strategy(name, SHORT) for name in STRATEGIES if name != "ebbtide"),
        *(strategy(name, [*POINTS], pytest.mark.soak) for name in STRATEGIES if name != "ebbtide"),
    ],
)
def test_every_strategy_on_every_template(
    tmp_path: Path, server: OpenAIServer, name: str, templates: list[str]
) -> None:
    """Each strategy goes through each template without an error, and is scored at each point.

    All but the memory's own go through the long ones in the soak alone.
    """
    chosen = [option for one in templates for option in ("--template", one)]
    done = evaluated(tmp_path, "--strategy", name, *chosen, *MODEL)
    found = trials(tmp_path)

    assert done.exit_code == 0, done.output
    assert {one.template: len(one.points) for one in found} == {
        one: POINTS[one] for one in templates
    }
    assert {one.errors for one in found} == {()}
    assert {point.goal_coherence for one in found for point in one.points} == {0.75}
    assert {point.drift for one in found for point in one.points} == {0.0}
    assert {point.verbatim_rate for one in found for point in one.points} <= {None, 1.0}
    assert server.requests


def test_the_files_and_what_is_printed(tmp_path: Path, server: OpenAIServer) -> None:
    """The command writes its files and prints a table for each template, with the targets."""
    done = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history", "--prices", "1,10")
    (row,) = rows(tmp_path)

    assert done.exit_code == 0
    assert server.requests
    assert "goal coherence" in done.output
    assert "> 0.90" in done.output
    assert "0.75 missed" in done.output
    assert "full-history/test-simple/1" in done.stderr
    assert "1/1" in done.stderr
    assert f"to {tmp_path}." in done.output.replace("\n", "")
    assert row["metrics"]["cost"]["mean"] == 0
    assert row["targets"] == {"goal_coherence": False, "constraint_recall": False}
    assert row["metrics"]["constraint_recall"]["mean"] == 0


def test_the_cost_of_a_summary(tmp_path: Path, server: OpenAIServer) -> None:
    """One summary of 1,000 and 100 tokens at each of two points: 2 x (1,000 x 1 + 100 x 10)."""
    options = ("--strategy", "summarization-middleware", "--prices", "1,10", *MODEL)
    done = evaluated(tmp_path, *options, "--template", "research-synthesis-001")
    (row,) = rows(tmp_path)

    assert done.exit_code == 0
    assert server.requests
    assert row["metrics"]["model_read"]["mean"] == 2_000
    assert row["metrics"]["cost"]["mean"] == pytest.approx(0.004)


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


def test_a_run_goes_on_with_its_settings(tmp_path: Path) -> None:
    """Trials with other settings do not come into the same table."""
    config = tmp_path / "ebbtide.yaml"
    options = ("--model", "offline", "--template", "test-simple", "--strategy", "ebbtide")
    config.write_text("context_budget: 5000\n", encoding="utf-8")
    first = evaluated(tmp_path, *options, "--config", str(config))
    config.write_text("context_budget: 9000\n", encoding="utf-8")
    other = evaluated(tmp_path, *options, "--config", str(config), "--trials", "2")

    assert (first.exit_code, other.exit_code) == (0, 1)
    assert "settings {'context_budget': 5000}" in other.output
    assert [one.trial for one in trials(tmp_path)] == [1]


def test_the_judge_is_asked_once(tmp_path: Path, server: OpenAIServer) -> None:
    """Three trials with the same answers are judged once: a goal, a list and a behaviour."""
    evaluated(
        tmp_path, *SIMPLE, "--strategy", "full-history", "--trials", "3", "--concurrency", "1"
    )
    judged = [one for one in server.requests if "You judge" in text(one.body)]

    assert len(judged) == 3
    assert len(server.requests) - len(judged) == 3 * 4


def test_trials_with_errors_are_repeated(tmp_path: Path, server: OpenAIServer) -> None:
    """A judge that answers nonsense makes errors and exit code 1; the next run mends them."""
    server.answers = lambda _: Say("Well, well.")
    first = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")
    server.answers = answer
    second = evaluated(tmp_path, *SIMPLE, "--strategy", "full-history")

    assert (first.exit_code, second.exit_code) == (1, 0)
    assert "4 errors" in first.output
    assert "JudgeError: the judge was asked for a score" in first.output.replace("\n", "")
    assert [len(one.errors) for one in trials(tmp_path)] == [4, 0]
    assert [row["errors"] for row in rows(tmp_path)] == [0]


def test_a_provider_that_fails_is_an_error(tmp_path: Path, server: OpenAIServer) -> None:
    """If the model refuses every call, the scores that need none are there, and exit code 1."""
    server.answers = lambda _: Fail(401, message="no such key")
    done = evaluated(tmp_path, *SIMPLE, "--strategy", "rolling-window")
    (row,) = rows(tmp_path)

    assert done.exit_code == 1
    assert "no such key" in done.output
    assert "goal_coherence" not in row["metrics"]
    assert row["metrics"]["compression_ratio"]["mean"] == 1.0


@pytest.mark.parametrize("limit", [1, 3])
def test_so_many_trials_at_once(tmp_path: Path, server: OpenAIServer, limit: int) -> None:
    """No more trials run at once than are allowed, and as many as that do."""
    lock, running, most = Lock(), [0], [0]

    def slowly(body: Body) -> Answer:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return answer(body)

    server.answers = slowly
    options = ("--strategy", "full-history", "--trials", "6", "--concurrency", str(limit))
    done = evaluated(tmp_path, *SIMPLE, *options)

    assert done.exit_code == 0
    assert most == [limit]


def test_recorded_answers_are_replayed(tmp_path: Path, server: OpenAIServer) -> None:
    """A replay asks nobody, comes to the same scores, and says in each file what it is."""
    pytest.importorskip("matplotlib", reason="pip install 'ebbtide[plots]'")
    tape, first, second = tmp_path / "tape.jsonl", tmp_path / "first", tmp_path / "second"
    chosen = ("--strategy", "full-history", "--strategy", "summarization-middleware")
    options = (*chosen, "--template", "research-synthesis-001", "--trials", "2", *MODEL)
    recorded = evaluated(first, *options, "--record", str(tape))
    before = len(server.requests)
    replayed = evaluated(second, "--replay", str(tape))
    timed = {"seconds"}
    scores = [
        sorted(
            (one.name, [point.model_dump(exclude=timed) for point in one.points])
            for one in trials(folder)
        )
        for folder in (first, second)
    ]
    files = [path for path in second.rglob("*") if path.is_file() and path.name != ".lock"]
    unsaid = [path for path in files if REPLAYED.encode() not in path.read_bytes()]

    assert (recorded.exit_code, replayed.exit_code) == (0, 0), replayed.output
    assert len(server.requests) == before
    assert scores[0] == scores[1]
    assert len(scores[0]) == 4
    assert unsaid == []
    assert REPLAYED in replayed.output


@pytest.mark.parametrize("name", [strategy(name) for name in ASKING])
def test_what_asks_a_model_can_be_replayed(tmp_path: Path, server: OpenAIServer, name: str) -> None:
    """Whatever random ids a strategy puts into its texts, its recorded answers fit it."""
    tape = tmp_path / "tape.jsonl"
    options = ("--strategy", name, "--template", "coding-session", *MODEL)
    evaluated(tmp_path / "first", *options, "--record", str(tape))
    before = len(server.requests)
    done = evaluated(tmp_path / "second", "--replay", str(tape))

    assert done.exit_code == 0, done.output
    assert len(server.requests) == before


def test_a_trial_that_failed_is_not_recorded(tmp_path: Path, server: OpenAIServer) -> None:
    """A trial in which a call failed for good is not on the tape; the run that mends it is."""
    tape = tmp_path / "tape.jsonl"
    options = ("--strategy", "full-history", *SIMPLE, "--record", str(tape))
    server.answers = lambda _: Fail(400)
    evaluated(tmp_path / "first", *options)
    before = tape.read_bytes().count(b"\n")
    server.answers = answer
    evaluated(tmp_path / "first", *options)

    assert before == 1
    assert tape.read_bytes().count(b"\n") == 2


def test_a_recording_goes_on(tmp_path: Path, server: OpenAIServer) -> None:
    """A recording that was killed in a line goes on behind the last whole one."""
    tape = tmp_path / "tape.jsonl"
    options = ("--strategy", "full-history", *SIMPLE, "--record", str(tape))
    evaluated(tmp_path / "first", *options)
    whole = tape.read_bytes()
    tape.write_bytes(whole + b'{"trial": "full-')
    evaluated(tmp_path / "first", *options, "--trials", "2")
    done = evaluated(tmp_path / "second", "--replay", str(tape))

    assert server.requests
    assert tape.read_bytes().startswith(whole + b'{"trial": "full-history/test-simple/2"')
    assert done.exit_code == 0, done.output
    assert sorted(one.trial for one in trials(tmp_path / "second")) == [1, 2]


def test_a_replay_of_what_was_not_recorded(tmp_path: Path, server: OpenAIServer) -> None:
    """A trial that is not on the tape is refused in one line."""
    tape = tmp_path / "tape.jsonl"
    options = ("--strategy", "full-history", *SIMPLE)
    evaluated(tmp_path / "first", *options, "--record", str(tape))
    more = evaluated(tmp_path / "second", "--replay", str(tape), "--trials", "2")

    assert server.requests
    assert more.exit_code == 1
    assert "no recorded answers for 'full-history/test-simple/2'" in more.output


def test_the_offline_model_needs_no_key(tmp_path: Path) -> None:
    """Without a key there are the scores that need no model, of all of Ebbtide's strategies."""
    done = evaluated(tmp_path, "--model", "offline", "--template", "test-simple")

    assert done.exit_code == 0, done.output
    assert [row["strategy"] for row in rows(tmp_path)] == sorted(OURS)
    assert all("goal_coherence" not in row["metrics"] for row in rows(tmp_path))


def test_a_template_of_ones_own(tmp_path: Path, server: OpenAIServer) -> None:
    """A file is a template like the shipped ones; if it changes, its results are refused."""
    path = written(tmp_path, plain())
    options = ("--template", path, "--strategy", "full-history", *MODEL)
    first = evaluated(tmp_path / "out", *options)
    written(tmp_path, plain(probing_tasks={}))
    second = evaluated(tmp_path / "out", *options)

    assert server.requests
    assert (first.exit_code, second.exit_code) == (0, 1)
    assert "template 'shed' has changed since its trials" in second.output
