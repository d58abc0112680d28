"""Summaries that nobody mentions leave the context, and are found and brought back.

Page 02, "Eviction of summaries" and "Proof runs"; the source is slice 4.
"""

from pathlib import Path

import pytest

from ebbtide import Settings
from tests.acceptance.stage import (
    AUTH,
    BACKUP,
    BILLING,
    EXACT,
    PERF,
    RECEIPTS,
    WORKS,
    Said,
    Stage,
    ambient,
    ambient_in,
    log_in,
    stage,
    summaries_in,
)
from tests.doubles import call

ALL = {work.name for work in WORKS}
TWO = {AUTH.name, PERF.name}
THREE = {*TWO, RECEIPTS.name}
SEARCH = call("search_efforts", query="blurred receipts")
EVICTED = [f"--- Evicted effort: {work.name}" for work in WORKS[2:]]
CEILING = 3_500
"""Tokens that no context of the run reaches."""


def proof(here: Stage) -> list[Said]:
    """Go through the proof run; row 1 is at position 1, the last turn of the set-up at 0."""
    here.chat(30)
    rows = [here.works(AUTH, PERF, BILLING, RECEIPTS, BACKUP)]
    rows += [here.say(f"{ambient(1)} How are auth-bug and perf-fix?")]
    rows += here.chat(13, first=102)
    rows += [here.say(f"{ambient(15)} Again: auth-bug and perf-fix.")]
    rows += here.chat(6, first=116)
    question = f"{ambient(22)} Why were receipts blurred?"
    rows += [here.say(question, SEARCH, "That was thumbnails: they were too small.")]
    details = call("expand_effort", effort_id=RECEIPTS.name)
    rows += [here.say(f"{ambient(23)} Details, please.", details, "Here they are.")]
    return rows + here.chat(5, first=124)


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """Go through the proof run with a context that is rebuilt in every turn."""
    return proof(stage(tmp_path_factory.mktemp("exact"), settings=EXACT))


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """Go through the proof run with default settings."""
    return proof(stage(tmp_path_factory.mktemp("default")))


@pytest.mark.parametrize(
    ("row", "summaries"),
    [(1, ALL), (15, ALL), (20, ALL), (21, TWO), (22, TWO), (23, THREE), (26, THREE), (27, THREE)],
)
def test_summaries_sent(exact: list[Said], row: int, summaries: set[str]) -> None:
    """02, first table: the summaries that the model is sent in each call of a turn."""
    assert [summaries_in(sent) for sent in exact[row].calls] == [summaries] * len(exact[row].calls)


@pytest.mark.parametrize("row", [1, 15, 22, 23, 27])
def test_ambient_exchanges_sent(exact: list[Said], row: int) -> None:
    """02, first table: ten ambient exchanges, row by row."""
    assert [ambient_in(sent) for sent in exact[row].calls] == [10] * len(exact[row].calls)


@pytest.mark.parametrize(
    ("row", "summaries"), [(19, ALL), (20, TWO), (21, TWO), (22, THREE), (27, THREE)]
)
def test_summaries_in_state(exact: list[Said], row: int, summaries: set[str]) -> None:
    """02, first table: the state after a row has what the next turn is sent."""
    assert {*exact[row].memory["summaries"]} == summaries


@pytest.mark.parametrize(("row", "logs"), [(22, 0), (24, 1), (26, 1), (27, 0)])
def test_log_sent(exact: list[Said], row: int, logs: int) -> None:
    """02, first table: effort 4's log is there from its expansion to its collapse."""
    assert log_in(exact[row].sent, RECEIPTS) == logs


@pytest.mark.parametrize(
    ("row", "banners"),
    [
        (19, []),
        (20, EVICTED),
        (22, ["--- Returned effort: thumbnails"]),
        (26, ["--- Auto-collapsed effort: thumbnails"]),
    ],
)
def test_what_leaves_and_returns_is_told(exact: list[Said], row: int, banners: list[str]) -> None:
    """01, Banners: an eviction, a return and a collapse, each in its turn."""
    told = [one.removesuffix(" ---").partition(" (")[0] for one in exact[row].banners]

    assert told == banners


def test_search_finds_what_was_evicted(exact: list[Said]) -> None:
    """Slice 4, "`search_efforts` finds evicted effort": with its id and summary."""
    first, *_ = exact[22].results[0]["results"]

    assert (first["id"], first["summary"]) == (RECEIPTS.name, RECEIPTS.summary)


def test_context_has_a_ceiling(exact: list[Said]) -> None:
    """Slice 4, "Working memory token count has a bounded ceiling"."""
    assert max(one.memory["context_report"]["total"] for one in exact) < CEILING


@pytest.mark.parametrize(
    ("row", "summaries"),
    [
        (1, ALL),
        (15, ALL),
        (21, ALL),
        (22, ALL),
        (24, ALL),
        (25, THREE),
        (26, THREE),
        (27, THREE),
    ],
)
def test_summaries_sent_by_default(by_default: list[Said], row: int, summaries: set[str]) -> None:
    """02, second table: the summaries that the model is sent."""
    assert summaries_in(by_default[row].sent) == summaries


@pytest.mark.parametrize(
    ("row", "exchanges"),
    [(1, 10), (6, 15), (7, 10), (15, 12), (24, 15), (25, 10)],
)
def test_ambient_exchanges_sent_by_default(
    by_default: list[Said], row: int, exchanges: int
) -> None:
    """02, second table: the window leaves in steps, or with another change of the plan."""
    assert ambient_in(by_default[row].sent) == exchanges


def test_state_and_prompt_agree_by_default(by_default: list[Said]) -> None:
    """02, second table: what the state says after a row is what the next call is sent."""
    said = [{*one.memory["summaries"]} for one in by_default]
    sent = [summaries_in(one.first) for one in by_default]

    assert sent[1:] == said[:-1]


@pytest.mark.parametrize(("row", "logs"), [(22, 0), (24, 1), (26, 1), (27, 0)])
def test_log_sent_by_default(by_default: list[Said], row: int, logs: int) -> None:
    """02, second table: effort 4's log."""
    assert log_in(by_default[row].sent, RECEIPTS) == logs


def test_summary_that_is_due_by_default(by_default: list[Said]) -> None:
    """02, Eviction: what is due stays in the state until it leaves, and says so."""
    summaries = by_default[20].memory["summaries"]

    assert BILLING.name in summaries
    assert (summaries[BILLING.name]["leaves_in"], summaries[BILLING.name]["due"]) == (0, True)


@pytest.mark.parametrize(
    ("mention", "gone"), [("Was the auth bug bad?", 30), ("Was it bad at all?", 23)]
)
def test_mention_keeps_a_summary(tmp_path: Path, mention: str, gone: int) -> None:
    """02, Eviction, and the third walk: referenced at 10, sent in turn 30, gone after it."""
    here = stage(tmp_path, settings=EXACT)
    here.work(AUTH)
    here.chat(6)
    here.say(mention)

    rest = {one.memory["turn"]: one for one in here.chat(gone - 9, first=20)}

    assert [*rest[gone - 1].memory["summaries"]] == ["auth-bug"]
    assert summaries_in(rest[gone].sent) == {"auth-bug"}
    assert rest[gone].memory["summaries"] == {}
    assert summaries_in(rest[gone + 1].sent) == set()


@pytest.mark.parametrize("threshold", [1, 3])
def test_eviction_threshold(tmp_path: Path, threshold: int) -> None:
    """02, Eviction: `turn - last_referenced_turn >= summary_eviction_threshold`."""
    settings = Settings(summary_eviction_threshold=threshold, rebuild="every-turn")
    here = stage(tmp_path, settings=settings)
    here.work(AUTH)

    states = [{*one.memory["summaries"]} for one in here.chat(threshold)]

    assert states == [{"auth-bug"}] * (threshold - 1) + [set()]


@pytest.mark.parametrize(
    ("said", "answers", "tier"),
    [
        ("What was the auth bug?", ("A cookie.",), "summaries"),
        ("And?", ("That was auth-bug.",), "summaries"),
        ("Hm.", (call("expand_effort", effort_id="auth-bug"), "Done."), "expanded"),
        ("Hm.", (call("reopen_effort", effort_id="auth-bug"), "Done."), "open_efforts"),
    ],
)
def test_ways_back(tmp_path: Path, said: str, answers: tuple[str, ...], tier: str) -> None:
    """02, Eviction: it comes back expanded, reopened, or mentioned by its id."""
    here = stage(tmp_path, settings=Settings(summary_eviction_threshold=1, rebuild="every-turn"))
    here.work(AUTH)
    evicted = here.chat(1)[0]

    back = here.say(said, *answers)

    assert evicted.memory["summaries"] == {}
    assert [*back.memory[tier]] == ["auth-bug"]


def test_what_was_evicted_stays_in_the_manifest(tmp_path: Path) -> None:
    """Slice 4, "Evicted summaries remain in manifest (not deleted)"."""
    here = stage(tmp_path, settings=Settings(summary_eviction_threshold=1, rebuild="every-turn"))
    here.work(AUTH)
    here.chat(1)

    (entry,) = here.use("effort_status").results[0]["efforts"]

    assert (entry["id"], entry["status"]) == ("auth-bug", "concluded")
    assert entry["summary"] == AUTH.summary


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Said]:
    """Conclude an effort at turn 20, ask about its topic at 81, and for details at 82."""
    here = stage(tmp_path_factory.mktemp("walk"), settings=EXACT)
    said = [*here.chat(17), here.work(AUTH), *here.chat(60, first=30)]
    search = call("search_efforts", query="auth thing fix")
    said += [here.say("What was the fix?", search, f"It is in auth-bug: {AUTH.summary}")]
    said += [here.use("expand_effort", effort_id="auth-bug"), *here.chat(4, first=99)]
    return {one.memory["turn"]: one for one in said}


def test_first_walk_is_evicted(walk: dict[int, Said]) -> None:
    """02, first walk; slice 4, example 1: concluded at turn 20, gone after turn 40."""
    kept = {turn: {*walk[turn].memory["summaries"]} for turn in (20, 39, 40, 80)}

    assert kept == {20: {"auth-bug"}, 39: {"auth-bug"}, 40: set(), 80: set()}


def test_first_walk_is_answered_from_the_summary(walk: dict[int, Said]) -> None:
    """02, first walk: at turn 81 the search finds it, and nothing is expanded."""
    first, *_ = walk[81].results[0]["results"]

    assert (first["id"], first["summary"]) == ("auth-bug", AUTH.summary)
    assert walk[81].memory["expanded"] == {}
    assert {*walk[81].memory["summaries"]} == {"auth-bug"}


def test_first_walk_is_expanded(walk: dict[int, Said]) -> None:
    """02, first walk: at turn 82 the log comes back on demand, and fades again."""
    logs = {turn: log_in(walk[turn].sent, AUTH) for turn in (82, 83, 84, 85, 86)}

    assert logs == {82: 1, 83: 1, 84: 1, 85: 1, 86: 0}


def test_second_walk(tmp_path: Path) -> None:
    """02, second walk; slice 4, example 2: of fifty exchanges the first is still found."""
    here = stage(tmp_path, settings=EXACT)
    here.say("My locker at the station is number 7313.")
    here.chat(49)

    last = here.say("Where is my bag?", call("search_efforts", query="locker station"), "There.")

    assert ambient_in(last.sent) == 10
    assert "7313" not in last.first.text
    assert "7313" in last.sent.messages[-1].text
