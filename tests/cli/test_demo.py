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
def page(ran: Run) -> str:
    """Return all that the demonstration prints."""
    assert ran.code == 0
    return ran.printed


def number(text: str, pattern: str) -> int:
    """Return the number that a pattern finds."""
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None
    return int(match[1].replace(",", ""))


SHOWN = (
    "--- Concluded effort: gateway ---",
    'From the summary of gateway: "We decided on keepalive 45 s."',
    "--- Started effort: auth-bug ---",
    "--- Switched to effort: auth-bug ---",
    "--- Expanded effort: auth-bug (",
    'From the log of auth-bug, turn 12: "The stack trace ends in',
    "--- Collapsed effort: auth-bug (back to summary) ---",
    "A new agent on the same files resumes the turn.",
    "--- Reopened effort: auth-bug ---",
    "--- Auto-collapsed effort: database-migration (inactive for 3 turns) ---",
    "--- Evicted effort: auth-bug (kept in the archive) ---",
    "--- Returned effort: team-trip ---",
    'From the log of gateway, turn 2: "GET /orders/3141 gateway heron-f timed out"',
    "verified: intact",
)


def test_the_demonstration_shows_each_mechanism(page: str) -> None:
    """Opening to concluding, recall, crash and resumption, decay, eviction and search are seen."""
    assert [one for one in SHOWN if one not in page] == []


def test_less_is_sent_than_the_full_history(page: str) -> None:
    """Everything included, at least a quarter less in all, and half of it in the last turn."""
    sent, full = (number(page, rf"{name} +([\d,]+) tokens") for name in ("Sent", "Full history"))
    last = number(page, r"sent ([\d,]+) tokens, full history")
    all_said = number(page, r"sent [\d,]+ tokens, full history ([\d,]+)")

    assert sent < 0.75 * full
    assert last < 0.5 * all_said


def test_what_the_demonstration_kept_can_be_verified(page: str, ran: Run) -> None:
    """With --root the session stays, intact, and `ebbtide stats` has the same totals."""
    thread, root = re.findall(r"--thread (\S+)", page)[0], ("--root", str(ran.folder / "kept"))

    stats = run("stats", thread, *root).stdout
    verified = run("archive", "verify", thread, *root).stdout

    totals = [number(page, rf"{name} +([\d,]+) tokens") for name in ("Sent", "Full history")]
    assert totals == [number(stats, rf"([\d,]+) {it}") for it in ("tokens sent", "of full history")]
    assert verified.endswith(" turns, intact\n")


def test_without_a_root_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary folder of the demonstration is gone afterwards, and no other is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "SCRIPT", demo.SCRIPT[:8])

    result = run("demo")

    assert result.exit_code == 0, result.output
    assert [*tmp_path.iterdir()] == []
