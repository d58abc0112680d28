"""A conversation of twelve turns, its metrics counted by hand.

Page 02, "Metrics"; the source is slice 3, "Metrics".
"""

import re
from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings, commands
from tests.acceptance.stage import AUTH, EXACT, PERF, stage
from tests.doubles import call


def counted(root: Path, settings: Settings) -> tuple[Any, int]:
    """Return the metrics of twelve turns, and the tokens of the log that was expanded in them.

    1-3 conclude it, 4 expands it, 7 collapses it, 8 is silent, 9 expands it, 10 collapses it by
    hand, 11 searches for it, and 12 expands it.
    """
    here = stage(root, settings=settings)
    here.work(AUTH)
    expanded = here.use("expand_effort", effort_id="auth-bug")
    here.chat(4)
    here.use("expand_effort", effort_id="auth-bug")
    here.use("collapse_effort", effort_id="auth-bug")
    here.say("Where was it?", call("search_efforts", query="cookie gate"), "There.")
    here.use("expand_effort", effort_id="auth-bug")
    (log,) = re.findall(r"\((\d+) tokens\)", expanded.banners[0])
    return commands.stats(here.talk.agent, here.config), int(log)


@pytest.fixture(scope="module", params=[EXACT, Settings()], ids=["every-turn", "default"])
def metrics(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, int]:
    """Go through the conversation."""
    return counted(tmp_path_factory.mktemp("metrics"), request.param)


def test_collapses(metrics: tuple[Any, int]) -> None:
    """02: one collapse of each kind, and the automatic one was too early (2 turns, inclusive)."""
    found, _ = metrics

    assert (found.auto_collapses, found.manual_collapses) == (1, 1)
    assert found.false_decay_rate == 1.0


def test_searches(metrics: tuple[Any, int]) -> None:
    """02: searches are counted, and evictions and returns, of which there are none."""
    found, _ = metrics

    assert (found.searches, found.evictions, found.returns) == (1, 0, 0)


def test_manual_beside_automatic(metrics: tuple[Any, int]) -> None:
    """02, `manual_vs_auto_collapse`: manual over automatic."""
    found, _ = metrics

    assert getattr(found, "manual_vs_auto_collapse", None) == 1.0


def test_duration_of_expansions(metrics: tuple[Any, int]) -> None:
    """02, `avg_expansion_duration`: of those that ended, 4 to 7 and 9 to 10."""
    found, _ = metrics

    assert found.avg_expansion_duration == 2.0


def test_tokens_saved_by_decay(metrics: tuple[Any, int]) -> None:
    """02, `tokens_saved_by_decay`: the log, for the call of turn 8 and the first one of turn 9."""
    found, log = metrics

    assert found.tokens_saved_by_decay == 2 * log


def test_expansion_that_still_runs(metrics: tuple[Any, int]) -> None:
    """02: the one of turn 12 is counted apart."""
    found, _ = metrics

    assert found.running_expansions == 1


def test_always_expanded_baseline(metrics: tuple[Any, int]) -> None:
    """02: what was sent, and the log in the two calls without it; never a text twice."""
    found, log = metrics

    calls = [call for turn in found.turns for call in turn.calls]
    missing = [call.turn for call in calls if call.always_expanded > call.total]
    assert missing == [8, 9]
    assert found.always_expanded == found.sent + 2 * log


def test_every_call_is_counted(metrics: tuple[Any, int]) -> None:
    """02: turns that call a tool have two calls; what was sent is the sum of all."""
    found, _ = metrics

    assert [len(turn.calls) for turn in found.turns] == [2, 1, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2]
    assert found.sent == sum(call.total for turn in found.turns for call in turn.calls)


def test_search_that_was_used(metrics: tuple[Any, int]) -> None:
    """02: what the search of turn 11 found is expanded in turn 12."""
    found, _ = metrics

    assert found.searches_used == 1


def test_nothing_below_the_line(tmp_path: Path) -> None:
    """02: a ratio with nothing below the line is null."""
    here = stage(tmp_path)
    here.chat(1)

    found = commands.stats(here.talk.agent, here.config)

    assert (found.auto_collapses, found.false_decay_rate) == (0, None)
    assert found.avg_expansion_duration is None


def test_savings_of_a_short_conversation(tmp_path: Path) -> None:
    """02, `savings_vs_full_history`: nothing is said before it is longer than the fixed part."""
    here = stage(tmp_path)
    here.chat(1)

    found = commands.stats(here.talk.agent, here.config)

    assert found.savings_vs_full_history is None


def test_evictions_and_returns(tmp_path: Path) -> None:
    """02: evictions and returns are counted."""
    here = stage(tmp_path, settings=Settings(summary_eviction_threshold=1, rebuild="every-turn"))
    here.work(AUTH)
    here.work(PERF)
    here.chat(2)
    here.use("expand_effort", effort_id="auth-bug")

    found = commands.stats(here.talk.agent, here.config)

    assert (found.evictions, found.returns) == (2, 1)
