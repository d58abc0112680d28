"""Expanded efforts that nobody mentions collapse by themselves.

Page 02, "Decay of expanded efforts" and "Proof runs"; the source is slice 3.
"""

from pathlib import Path

import pytest

from ebbtide import Settings, commands
from tests.acceptance.stage import (
    AUTH,
    EXACT,
    PERF,
    Said,
    log_in,
    stage,
    summaries_in,
)
from tests.doubles import call, together

COLLAPSED = "--- Auto-collapsed effort: auth-bug (inactive for 3 turns) ---"
EXPAND = call("expand_effort", effort_id="auth-bug")


def proof(root: Path, settings: Settings) -> list[Said]:
    """Go through the proof run; row 1 is at position 1, the last turn of the set-up at 0."""
    here = stage(root, settings=settings)
    here.work(AUTH)
    here.work(PERF)
    return [
        here.chat(2)[-1],
        here.say("Show me everything, please.", EXPAND, "Here it is."),
        here.say("What did the auth bug come from?", "From a cookie."),
        *here.chat(3, first=10),
        here.say("Go on.", "Where to?"),
        here.say("The auth bug once more.", EXPAND, "Here it is."),
        here.say("Thank you.", "You're welcome."),
    ]


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """Go through the proof run with default settings."""
    return proof(tmp_path_factory.mktemp("default"), Settings())


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """Go through the proof run with a context that is rebuilt in every turn."""
    return proof(tmp_path_factory.mktemp("exact"), EXACT)


@pytest.mark.parametrize(
    ("row", "silent"),
    [
        (1, {"auth-bug": 0}),
        (2, {"auth-bug": 0}),
        (3, {"auth-bug": 1}),
        (4, {"auth-bug": 2}),
        (5, {}),
        (6, {}),
        (7, {"auth-bug": 0}),
    ],
)
def test_proof_run_in_state(by_default: list[Said], row: int, silent: dict[str, int]) -> None:
    """02, the decay table: what is expanded after a turn, and the turns without reference."""
    assert by_default[row].silent_for == silent


@pytest.mark.parametrize(
    ("row", "logs"),
    [
        (0, 0),
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
        (5, 0),
        (6, 0),
        (7, 1),
    ],
)
def test_proof_run_as_sent(by_default: list[Said], row: int, logs: int) -> None:
    """02, the decay table: the next call is sent the expanded log once, a collapsed one never."""
    assert log_in(by_default[row + 1].first, AUTH) == logs


@pytest.mark.parametrize(("row", "logs"), [(0, 0), (1, 1), (4, 1), (5, 0), (6, 0), (7, 1)])
def test_proof_run_as_sent_every_turn(exact: list[Said], row: int, logs: int) -> None:
    """02, the decay table, with `rebuild="every-turn"`."""
    assert log_in(exact[row + 1].first, AUTH) == logs


@pytest.mark.parametrize(("row", "banners"), [(4, []), (5, [COLLAPSED]), (6, [])])
def test_collapse_is_told_once(by_default: list[Said], row: int, banners: list[str]) -> None:
    """01, Banners; slice 3, "Decay banner": in the turn of the collapse and in no other."""
    assert by_default[row].banners == banners


def test_context_falls_by_the_log(exact: list[Said]) -> None:
    """02, below the table: the context falls at the collapse and rises again by the same log."""
    totals = [one.memory["context_report"]["total"] for one in exact]

    assert totals[6] < totals[5]
    assert totals[7] > totals[6]
    assert log_in(exact[7].sent, AUTH) == log_in(exact[5].sent, AUTH) == 1


def test_collapsed_effort_keeps_its_summary(exact: list[Said]) -> None:
    """02, Decay: a collapse goes back to the summary, in state and in what is sent."""
    assert "auth-bug" in exact[6].memory["summaries"]
    assert summaries_in(exact[6].sent) == {"auth-bug", "perf-fix"}


def test_each_effort_decays_on_its_own(tmp_path: Path) -> None:
    """02, Decay; slice 3, "Multiple expanded efforts decay independently"."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.work(PERF)
    here.say("Both.", together(EXPAND, call("expand_effort", effort_id="perf-fix")), "Here.")

    mentioned = here.say("What was the auth bug?", "A cookie.")
    *_, third, fourth = here.chat(3)

    assert mentioned.silent_for == {"auth-bug": 0, "perf-fix": 1}
    assert third.silent_for == {"auth-bug": 2}
    assert fourth.silent_for == {}


def test_open_efforts_do_not_decay(tmp_path: Path) -> None:
    """02, Decay; slice 3, "Decay does not affect open efforts"."""
    here = stage(tmp_path, settings=Settings(decay_threshold=1, summary_eviction_threshold=1))
    here.say(PERF.log, call("open_effort", name="perf-fix"), "Opened.")

    last = here.chat(6)[-1]

    assert [*last.memory["open_efforts"]] == ["perf-fix"]
    assert log_in(last.sent, PERF) == 1


@pytest.mark.parametrize(("threshold", "turns"), [(1, 1), (2, 2), (5, 5)])
def test_decay_threshold(tmp_path: Path, threshold: int, turns: int) -> None:
    """02, Decay: `turn - last_referenced_turn >= decay_threshold` collapses."""
    here = stage(tmp_path, settings=Settings(decay_threshold=threshold))
    here.work(AUTH)
    here.say("Show me.", EXPAND, "Here.")

    states = [bool(one.memory["expanded"]) for one in here.chat(turns)]

    assert states == [True] * (turns - 1) + [False]


def test_log_is_used_before_it_decays(tmp_path: Path) -> None:
    """02, Decay: text expanded in this turn is protected until the next turn could use it."""
    here = stage(tmp_path, settings=Settings(decay_threshold=1, rebuild="every-turn"))
    here.work(AUTH)
    here.chat(3)
    here.say("Show me.", EXPAND, "Here.")

    one, two = here.chat(2)

    assert log_in(one.first, AUTH) == 1
    assert log_in(two.first, AUTH) == 0


def test_expanding_again_renews(tmp_path: Path) -> None:
    """01, `expand_effort`: already expanded is refreshed, and no error."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.say("Show me.", EXPAND, "Here.")
    here.chat(2)

    again = here.say("Hm.", EXPAND, "Here.")

    assert again.results[0]["status"] == "expanded"
    assert again.silent_for == {"auth-bug": 0}


def test_expanding_twice_quotes_once(tmp_path: Path) -> None:
    """03, "Nothing stands in the prompt twice": an expanded log stands there once."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.say("Show me.", EXPAND, "Here.")
    here.say("Hm.", EXPAND, "Here.")

    following = here.chat(1)[0]

    assert log_in(following.first, AUTH) == 1


def test_collapse_by_hand(tmp_path: Path) -> None:
    """01, `collapse_effort`; slice 3: its banner is not that of decay, and the log is gone."""
    here = stage(tmp_path, settings=EXACT)
    here.work(AUTH)
    here.say("Show me.", EXPAND, "Here.")

    collapsed = here.use("collapse_effort", effort_id="auth-bug")
    following = here.chat(1)[0]

    assert collapsed.banners == ["--- Collapsed effort: auth-bug (back to summary) ---"]
    assert log_in(following.first, AUTH) == 0


def test_collapse_by_hand_by_default(tmp_path: Path) -> None:
    """03, The plan: a collapse by hand changes the plan of the next call."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.chat(2)
    here.say("Show me.", EXPAND, "Here.")
    here.use("collapse_effort", effort_id="auth-bug")

    following = here.chat(1)[0]

    assert log_in(following.first, AUTH) == 0


def test_commands_by_hand_age_nothing(tmp_path: Path) -> None:
    """01, What belongs to an effort: commands by hand are no exchanges."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.say("Show me.", EXPAND, "Here.")

    for name in ("one", "two", "three"):
        commands.open_effort(here.talk.agent, here.config, name)

    assert [*here.values["memory"]["expanded"]] == ["auth-bug"]


@pytest.mark.usefixtures("entry")
def test_unanswered_turns_age_nothing(tmp_path: Path) -> None:
    """02: age counts answered turns, however often a question that failed is sent again."""
    here = stage(tmp_path)
    here.works(AUTH, PERF)
    before = here.say("Show me.", EXPAND, "Here.").memory["summaries"]["perf-fix"]["leaves_in"]
    for _ in range(4):
        with pytest.raises(ConnectionError):
            here.say("Tea, please.", ConnectionError("down"))

    said = here.say("Tea, please.")

    assert said.silent_for == {"auth-bug": 1}
    assert said.memory["summaries"]["perf-fix"]["leaves_in"] == before - 1
    assert log_in(said.sent, AUTH) == 1
