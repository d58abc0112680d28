"""`ebbtide demo`: what it must show, and that what it shows is so."""

import re
from pathlib import Path

import pytest

from ebbtide.cli import demo
from tests.cli.commands_run import run
from tests.examples.running import DEMO, Run, once


@pytest.fixture(scope="module")
def ran(shared: Path) -> Run:
    """Return the demonstration as it ran for all tests."""
    return once(*DEMO, shared)


@pytest.fixture(scope="module")
def folder(ran: Run) -> Path:
    """Return the folder that the demonstration was run in."""
    return ran.folder


@pytest.fixture(scope="module")
def page(ran: Run) -> str:
    """Return all that the demonstration prints."""
    assert ran.code == 0
    return ran.printed


@pytest.fixture(scope="module")
def thread(page: str) -> str:
    """Return the thread that the demonstration kept."""
    match = re.search(r"--thread (\S+)", page)
    assert match is not None
    return match[1]


def number(text: str, pattern: str) -> int:
    """Return the number that a pattern finds."""
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None
    return int(match[1].replace(",", ""))


@pytest.mark.parametrize(
    "shown",
    [
        "--- Concluded effort: gateway ---",
        'From the summary of gateway: "We decided on keepalive 45 s."',
        "--- Started effort: auth-bug ---",
        "--- Switched to effort: auth-bug ---",
        "--- Concluded effort: auth-bug ---",
        "From the summary of auth-bug: ",
        "--- Expanded effort: auth-bug (",
        'From the log of auth-bug, turn 12: "The stack trace ends in',
        "--- Collapsed effort: auth-bug (back to summary) ---",
        "Stopped: the model has called close_effort, and the tool has not run.",
        "A new agent on the same files resumes the turn.",
        "--- Reopened effort: auth-bug ---",
        "--- Auto-collapsed effort: database-migration (inactive for 3 turns) ---",
        "--- Evicted effort: auth-bug (kept in the archive) ---",
        "--- Returned effort: team-trip ---",
        'From the summary of team-trip: "We decided on October because',
        'From the log of gateway, turn 3: "GET /orders/3141 proxy heron-f timed out"',
        "verified: intact",
    ],
)
def test_the_demonstration_shows_each_mechanism(page: str, shown: str) -> None:
    """Opening to concluding, recall, crash and resumption, decay, eviction and search are seen."""
    assert shown in page


def test_less_is_sent_than_the_full_history(page: str) -> None:
    """Everything included, at least a quarter less in all, and half of it in the last turn."""
    sent, full = (number(page, rf"{name} +([\d,]+) tokens") for name in ("Sent", "Full history"))
    last = number(page, r"sent ([\d,]+) tokens, full history")
    all_said = number(page, r"sent [\d,]+ tokens, full history ([\d,]+)")

    assert sent < 0.75 * full
    assert last < 0.5 * all_said


def test_stats_say_the_same(page: str, thread: str, folder: Path) -> None:
    """`ebbtide stats` has the totals of the demonstration, and its last turn."""
    stats = run("stats", thread, "--root", str(folder / "kept")).stdout

    totals = [number(page, rf"{name} +([\d,]+) tokens") for name in ("Sent", "Full history")]
    metrics = [number(stats, rf"│ {name} +│ ([\d,]+) ") for name in ("sent", "full history")]

    assert totals == metrics
    assert number(page, r"sent ([\d,]+) tokens, full") == number(stats, r"│ 49 +│ ([\d,]+) ")


def test_what_the_demonstration_kept_can_be_verified(thread: str, folder: Path) -> None:
    """With --root the session stays, intact, and a chat can go on with it."""
    result = run("archive", "verify", thread, "--root", str(folder / "kept"))

    assert result.stdout.endswith(" turns, intact\n")


def test_without_a_root_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary folder of the demonstration is gone afterwards, and no other is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "SCRIPT", demo.SCRIPT[:8])

    result = run("demo")

    assert result.exit_code == 0, result.output
    assert [*tmp_path.iterdir()] == []
