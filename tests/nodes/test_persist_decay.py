"""Expanded efforts and summaries that nobody references leave, in the real graph."""

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, restore
from ebbtide.memory.metrics import report
from tests.agents import THREAD, lasting, referenced, talk
from tests.graph.journeys import (
    EXACT,
    PAGES,
    After,
    Turn,
    begin,
    effort,
    play,
    quoted,
    trains,
    using,
)

pytestmark = pytest.mark.usefixtures("entry")

SETUP = [*effort("auth-bug", PAGES[0]), *effort("css", PAGES[1]), *trains(2)]
RUN = [
    Turn("Show me everything, please.", using("expand_effort", effort_id="auth-bug")),
    Turn("What did the auth bug come from?"),
    *trains(3, first=10),
    Turn("Go on."),
    Turn("The auth bug once more.", using("expand_effort", effort_id="auth-bug")),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> list[After]:
    """Go through the proof run of decay once; row 1 is at position 1."""
    setup = len(SETUP)
    return play(tmp_path_factory.mktemp("decay"), [*SETUP, *RUN], settings=EXACT)[setup - 1 :]


@pytest.mark.parametrize(
    ("row", "counters"),
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
def test_the_proof_run_of_decay(run: list[After], row: int, counters: dict[str, int]) -> None:
    """After each turn the log is expanded or not, with so many turns without a reference."""
    assert run[row].counters == counters


def test_the_context_moves_by_nothing_but_the_log_and_what_is_said(run: list[After]) -> None:
    """Beside the turns the context falls by the log at the collapse, and rises by it again."""
    totals = [after.state["memory"]["context_report"]["total"] for after in run]
    said = [after.tokens["turns"] + after.tokens["turn"] for after in run]
    log, front = run[1].tokens["expanded"], totals[0] - said[0]

    beside = [total - turns - front for total, turns in zip(totals, said, strict=True)]

    assert beside == [0, log, log, log, log, log, 0, log]


def test_the_metrics_of_the_proof_run(tmp_path: Path) -> None:
    """The one automatic collapse was wrong, as the expansion two turns later says."""
    turns = [*SETUP, *RUN]
    chat = begin(tmp_path, turns)
    states = [chat.say(turn.said) for turn in turns]
    records = chat.records(states[-1])
    (first, _) = [e for r in records for e in r.events if e["type"] == "expanded"]

    found = report(records)

    assert (found.auto_collapses, found.false_decay_rate) == (1, 1.0)
    # The call of turn 6 and the first one of turn 7 were sent without it.
    assert found.tokens_saved_by_decay == 2 * first["tokens"]
    assert [turn.total for turn in found.turns] == [
        state["memory"]["context_report"]["total"] for state in states
    ]


def test_open_efforts_do_not_decay(tmp_path: Path) -> None:
    """An open effort that nobody mentions stays open, whatever the thresholds."""
    turns = [Turn(PAGES[2], using("open_effort", name="billing")), *trains(6)]
    settings = Settings(decay_threshold=1, summary_eviction_threshold=1)

    *_, after = play(tmp_path, turns, settings=settings)

    assert [*after.state["memory"]["open_efforts"]] == ["billing"]


@pytest.mark.parametrize(("silent", "left"), [(19, {"auth-bug": 2}), (20, {})])
def test_a_summary_is_evicted_at_its_threshold(
    tmp_path: Path, silent: int, left: dict[str, int]
) -> None:
    """Concluded at turn 2, it is in state after turn 21 and gone after turn 22."""
    *_, after = play(tmp_path, [*effort("auth-bug", PAGES[0]), *trains(silent)], settings=EXACT)

    assert referenced(after.state) == left
    assert after.summaries_sent == ["auth-bug"]


def test_keywords_keep_a_summary_alive(tmp_path: Path) -> None:
    """Two keywords of the summary do the same as its id, in the answer too."""
    turns = [
        *trains(12),
        Turn("And?", ("The gateway has its certificate.",)),
        *trains(10, first=20),
    ]

    *_, after = play(tmp_path, [*effort("auth-bug", PAGES[0]), *turns])

    assert referenced(after.state) == {"auth-bug": 15}


@pytest.mark.parametrize(
    ("turn", "tier"),
    [
        (Turn("What was the auth bug?"), "summaries"),
        (Turn("And?", ("That was auth-bug.",)), "summaries"),
        (Turn("Show me.", using("expand_effort", effort_id="auth-bug")), "expanded"),
        (Turn("Once more.", using("reopen_effort", effort_id="auth-bug")), "open_efforts"),
    ],
)
def test_the_ways_back(tmp_path: Path, turn: Turn, tier: str) -> None:
    """An evicted effort returns by its id in question or answer, by an expansion, reopened."""
    turns = [*effort("auth-bug", PAGES[0]), *trains(1), turn]
    settings = EXACT.model_copy(update={"summary_eviction_threshold": 1})

    *_, before, last = play(tmp_path, turns, settings=settings)

    assert before.state["memory"]["summaries"] == {}
    assert [*last.state["memory"][tier]] == ["auth-bug"]


def test_an_expansion_lasts_until_the_next_turn_has_used_it(tmp_path: Path) -> None:
    """With thresholds of one turn a returned log is sent once more, and leaves after that."""
    turns = [*effort("auth-bug", PAGES[0]), *trains(3), RUN[0], *trains(2, first=10)]
    settings = EXACT.model_copy(update={"decay_threshold": 1, "summary_eviction_threshold": 1})

    *_, before, one, two, three = play(tmp_path, turns, settings=settings)

    assert before.state["memory"]["summaries"] == {}
    assert quoted(one.sent, "auth-bug") == quoted(two.sent, "auth-bug") is not None
    assert [*one.state["memory"]["expanded"]] == [*one.state["memory"]["summaries"]] == ["auth-bug"]
    assert two.state["memory"]["expanded"] == {}
    assert quoted(three.sent, "auth-bug") is None


def test_a_branch_has_counters_of_its_own(tmp_path: Path) -> None:
    """A mention on one branch changes nothing on the other."""
    fork = trains(2, first=50)
    turns = [*SETUP, RUN[0], *trains(1), RUN[1], *fork]
    chat = begin(tmp_path, turns)
    states = [chat.say(turn.said) for turn in turns[:9]]
    history = chat.agent.get_state_history(THREAD)
    older = next(s for s in history if s.values["memory"].get("turn") == 8 and not s.next)

    chat.say(fork[0].said, older.config)
    state = chat.say(fork[1].said)

    assert states[-1]["memory"]["expanded"]["auth-bug"]["last_referenced_turn"] == 9
    assert state["memory"]["turn"] == 10
    assert state["memory"]["expanded"] == {}
    assert referenced(state) == {"auth-bug": 7, "css": 4}


def test_restore_rebuilds_the_counters(tmp_path: Path, run: list[After]) -> None:
    """From the events of the records all counters come out as they were."""
    *_, before = play(tmp_path, [*SETUP, *RUN[:4]])
    chat = talk(tmp_path, [], checkpointer=InMemorySaver())

    restore(chat.agent, THREAD)

    after = chat.agent.get_state(THREAD).values
    assert lasting(after) == lasting(before.state)
    assert after["memory"]["expanded"] == run[4].state["memory"]["expanded"]
