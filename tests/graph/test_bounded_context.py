"""The proof run of the bounded context: five efforts and many exchanges, a row per turn."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, restore
from ebbtide.memory.metrics import report
from tests.agents import THREAD, lasting, talk
from tests.doubles import call, together
from tests.graph.journeys import (
    CEILING,
    PAGES,
    After,
    Turn,
    first_found,
    play,
    quoted,
    summarised,
    trains,
    using,
)

NAMES = ("gateway", "sidebar", "billing", "thumbnails", "backup")
CLOSING = together(*(call("close_effort", effort_id=name) for name in NAMES))
SETUP = [
    *trains(30),
    *(Turn(page, using("open_effort", name=name)) for name, page in zip(NAMES, PAGES, strict=True)),
    Turn("All five are done.", (CLOSING, "Done.")),
]
SEARCH = call("search_efforts", query="scanned receipts blurred")


def answered(messages: Sequence[BaseMessage]) -> str:
    """Answer with what the search found first."""
    found = first_found(messages)
    return f"It is in {found['id']}: {found['summary']}"


ROWS = {
    1: Turn("# How are gateway and sidebar?"),
    15: Turn("# Once more: gateway and sidebar."),
    22: Turn("# Why were the scanned receipts blurred?", (SEARCH, answered)),
    23: Turn("# Details, please.", using("expand_effort", effort_id="thumbnails")),
}
RUN = [ROWS.get(row, turn) for row, turn in enumerate(trains(27, first=100), start=1)]
SETTINGS = Settings(ambient_window=10, rebuild="every-turn")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the run's archive."""
    return tmp_path_factory.mktemp("bounded")


@pytest.fixture(scope="module")
def run(root: Path) -> list[After]:
    """Go through the whole run once; row 1 is at position 1, the last turn of the set-up at 0."""
    return play(root, [*SETUP, *RUN], settings=SETTINGS)[len(SETUP) - 1 :]


def test_the_counters_stand_at_the_end_of_the_set_up(run: list[After]) -> None:
    """All five efforts are concluded in the last turn of the set-up."""
    state = run[0].state

    assert state["memory"]["summaries"] == dict.fromkeys(NAMES, state["memory"]["turn"])


@pytest.mark.parametrize(
    ("row", "summaries"),
    [
        (1, NAMES),
        (15, NAMES),
        (20, NAMES),
        (21, NAMES[:2]),
        (22, NAMES[:2]),
        (23, (*NAMES[:2], "thumbnails")),
        (26, (*NAMES[:2], "thumbnails")),
        (27, (*NAMES[:2], "thumbnails")),
    ],
)
def test_the_summaries_sent(run: list[After], row: int, summaries: tuple[str, ...]) -> None:
    """In each row every call of the model is sent these summaries."""
    sent = [sorted(summarised(messages)) for messages in run[row].calls]

    assert sent == [sorted(summaries)] * len(run[row].calls)


@pytest.mark.parametrize(
    ("row", "summaries"),
    [
        (1, NAMES),
        (15, NAMES),
        (19, NAMES),
        (20, NAMES[:2]),
        (21, NAMES[:2]),
        (22, (*NAMES[:2], "thumbnails")),
        (23, (*NAMES[:2], "thumbnails")),
        (26, (*NAMES[:2], "thumbnails")),
        (27, (*NAMES[:2], "thumbnails")),
    ],
)
def test_the_summaries_in_state(run: list[After], row: int, summaries: tuple[str, ...]) -> None:
    """After each row the state has these summaries: those that the next turn is sent."""
    assert set(run[row].state["memory"]["summaries"]) == set(summaries)


def test_the_search_finds_what_was_evicted(run: list[After]) -> None:
    """In row 22 the tool finds effort 4 first, with its summary, and the answer names it."""
    (answer,) = run[22].results
    said = run[22].state["messages"][-1].text

    assert [one["id"] for one in answer["results"]][:1] == ["thumbnails"]
    assert answer["results"][0]["summary"] == PAGES[3]
    assert said == f"It is in thumbnails: {PAGES[3]}"


def test_being_found_and_used_is_a_reference(run: list[After]) -> None:
    """The counter of effort 4 stands at row 22 after it, and at row 23 after its expansion."""
    turns = [run[row].state["memory"]["turn"] for row in (22, 23)]

    assert [run[row].state["memory"]["summaries"]["thumbnails"] for row in (22, 23)] == turns


@pytest.mark.parametrize("row", range(1, 28))
def test_ten_ambient_groups_are_sent(run: list[After], row: int) -> None:
    """The window holds ten groups in every turn."""
    assert run[row].ambient_sent == 10


@pytest.mark.parametrize("row", range(1, 28))
def test_the_context_stays_below_its_ceiling(run: list[After], row: int) -> None:
    """No turn sends more than the ceiling."""
    assert run[row].state["memory"]["context_report"]["total"] < CEILING


@pytest.mark.parametrize(
    ("row", "shown"), [(22, False), (23, True), (24, True), (25, True), (26, True), (27, False)]
)
def test_the_raw_log_is_sent_until_it_fades(run: list[After], row: int, shown: bool) -> None:
    """The log of the expanded effort is sent from the turn of its expansion to its collapse."""
    log = quoted(run[row].sent, "thumbnails")

    assert (log is not None and PAGES[3] in log) is shown
    assert (run[row].tokens["expanded"] > 0) is shown


@pytest.mark.parametrize(
    ("row", "counters"),
    [(22, {}), (23, {"thumbnails": 0}), (24, {"thumbnails": 1}), (25, {"thumbnails": 2}), (26, {})],
)
def test_the_expanded_effort_fades(run: list[After], row: int, counters: dict[str, int]) -> None:
    """After each row the log was not referenced for so many turns, and is gone at the third."""
    assert run[row].counters == counters


@pytest.mark.parametrize(
    ("row", "banners"),
    [
        (19, []),
        (20, [f"--- Evicted effort: {name} (kept in the archive) ---" for name in NAMES[2:]]),
        (21, []),
        (22, ["--- Returned effort: thumbnails ---"]),
        (25, []),
        (26, ["--- Auto-collapsed effort: thumbnails (inactive for 3 turns) ---"]),
        (27, []),
    ],
)
def test_what_left_and_returned_is_told(run: list[After], row: int, banners: list[str]) -> None:
    """The banners say in the turn itself what leaves the context and what comes back."""
    assert run[row].state["memory"]["banners"] == banners


def test_the_metrics_of_the_bounded_run(root: Path, run: list[After]) -> None:
    """Three evictions, one return, and one automatic collapse, which was right."""
    found = report(talk(root, []).records(run[27].state))

    assert (found.evictions, found.returns) == (3, 1)
    assert (found.auto_collapses, found.false_decay_rate) == (1, 0.0)
    assert found.turns[-1].total == run[27].state["memory"]["context_report"]["total"]


def test_restore_knows_what_was_evicted_and_returned(root: Path, run: list[After]) -> None:
    """From the events of the records the counters of the whole run come out as they were."""
    again = talk(root, [], checkpointer=InMemorySaver(), settings=SETTINGS)

    restore(again.agent, THREAD)

    state = again.agent.get_state(THREAD).values
    assert lasting(state) == lasting(run[27].state)
