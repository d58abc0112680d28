"""`ebbtide sessions` and `ebbtide stats`: what is stored, and what it cost."""

import json
import re
from pathlib import Path

import pytest

from ebbtide.cli.reports import stats_page
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.metrics import report
from ebbtide.memory.turn import Session, Tip
from tests.cli.commands_run import run, talked
from tests.graph.journeys import PAGES, Turn, effort, play, using
from tests.memory.turns import turn


def cells(*words: str) -> list[list[str]]:
    """Return the rows of the tables that a command prints."""
    lines = run(*words).stdout.splitlines()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]


def test_sessions_lists_threads_turns_and_efforts() -> None:
    """Each thread has a row with its turns, efforts, when it was last used, and last message."""
    talked("Hello!", "Let's work on the auth bug.", "That's done.", thread="[b]one")
    talked("Hello!", thread="two")

    assert [[*row[:3], row[4]] for row in cells("sessions")] == [
        ["[b]one", "3", "1", "That's done."],
        ["two", "1", "0", "Hello!"],
    ]


def test_stats_of_a_session() -> None:
    """After a sentence there is a row for each turn, and for each metric that is not 0."""
    turns = [
        *effort("auth-bug", PAGES[0]),
        Turn("Why 401?", using("search_efforts", query="certificate")),
        Turn("Show me.", using("expand_effort", effort_id="auth-bug")),
        Turn("And Rome?", using("search_efforts", query="Rome")),
    ]
    play(Path("sessions"), turns)

    rows = cells("stats", "t")

    metrics = [row[:2] for row in rows]
    assert [*map(metrics.count, (["searches", "2"], ["searches used", "1"]))] == [1, 1]
    assert not {"evictions", "false decay rate", "sent", "full history"} & {
        name for name, _ in metrics
    }
    first = run("stats", "t").stdout.splitlines()[0]
    assert re.fullmatch(r"t: [\d,]+ tokens sent in \d+ calls\.", first)
    numbers = [row[0] for row in rows if len(row) == 6 and row[0].isdecimal()]
    assert numbers == [*map(str, range(1, len(turns) + 1))]


@pytest.mark.parametrize(("full", "saved"), [(1_000, "25% less"), (600, "25% more")])
def test_stats_begin_with_what_was_saved(full: int, saved: str) -> None:
    """Once a conversation is longer than the instructions, it is compared with full history."""
    usage = {"input_tokens": 750, "input_token_details": {"cache_read": 640}}
    sent = {"type": "sent", "tokens": {"system": 100, "turns": 650}, "usage": usage}
    before = full - 100
    cost = {"type": "context", "alone": 100, "said": before, "answer": 0, "before": [before]}

    first, *_ = stats_page("t", report([turn(1, events=[sent, cost])]))

    than = f"{saved} than the {full:,} of full history"
    assert (
        str(first)
        == f"t: 750 tokens sent in 1 call, {than}; 85% of what the provider read was cached."
    )


def test_stats_of_a_session_that_sent_nothing() -> None:
    """It is told so, instead of tokens and calls of 0."""
    assert [*map(str, stats_page("t", report([])))] == ["t: nothing was sent yet."]


def test_stats_with_prices() -> None:
    """Calls and tokens are told by purpose, with their money."""
    talked("Let's work on the auth bug.", "The token expires after 3600 s.", "That's done.")

    (summary,) = (row for row in cells("stats", "--prices", "1000000,0") if row[0] == "summary")

    calls, tokens, *_, money = (cell.replace(",", "") for cell in summary[1:])
    assert (calls, float(money)) == ("1", int(tokens))


@pytest.mark.parametrize("prices", ["1", "a,b", "1,2,3,4", "nan,1"])
def test_bad_prices_are_an_error(prices: str) -> None:
    """They are quoted, with what is right."""
    result = run("stats", "--prices", prices)

    assert result.exit_code == 1
    assert "0.25,2.00" in result.output


def test_reports_as_data() -> None:
    """--json prints what the tables show, and names what they name."""
    talked("Let's work on the auth bug.", "That's done.", thread="one", user="ann")

    (listed,), (stats,), memories = (
        json.loads(run(*words, "--user", "ann", "--json").stdout)
        for words in (("sessions",), ("stats", "--prices", "1,2"), ("attention", "list"))
    )
    verified = json.loads(run("archive", "verify", "--user", "ann", "--json").stdout)

    assert (listed["session"], listed["turns"], listed["efforts"]) == ("one", 2, 1)
    assert (stats["session"], stats["money"]["answer"] > 0) == ("one", True)
    assert [memory["id"] for memory in memories] == ["one/auth-bug"]
    assert verified["sessions"] == [{"session": "one", "turns": 2, "damage": 0, "findings": []}]


def test_stats_of_a_session_with_a_namespace() -> None:
    """The name that `sessions` prints is taken, and stands above the figures."""
    with SqlArchive("sessions") as archive:
        archive.commit(Session("ann", "trip", namespace="home"), Tip(), turn(1))

    assert "trip (home)" in run("stats", "trip (home)", "--user", "ann").stdout
