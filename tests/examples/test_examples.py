"""The examples, run as scripts: each ends well and prints what it claims, as the page says."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.page import SHOWN, not_printed
from tests.examples.running import DEMO, example_run, once, run_without_plots
from tests.processes import ROOT

EXAMPLES = ROOT / "examples"
LONG = "slice4_bounded_context"
"""It has tests of its own: two workers would wait for one run."""

CLAIMS = {
    "anchor_and_window": (
        'From the memory: "Technical Anchors: port 8443"',
        "Found turn 2: Miriam keeps the spare key of the server",
    ),
    "attention": (
        "│ 30 │ 42.0 │ 71.0 │ 58.4 │ 85.5 │ │",
        "│ 360 │ (18.0) │ 40.5 │ (33.6) │ (28.5) │ (32.0) │",
        "used-weekly: 253 days in attention came-back: 61 days in attention",
    ),
    "demo": ("verified: intact",),
    "embed_in_langchain": (
        *("│ alone │ 3 │ late-parcel │", "│ in a graph │ 3 │ late-parcel │"),
        *("│ in a chain │ 3 │ late-parcel │", "The larger graph counted 3 requests."),
    ),
    "long_turn": (),
    "selective_salience": (
        "verbatim We decided on PostgreSQL because the team knows it.",
        "gone The upload limit is 10 MB.",
    ),
    "slice1_compaction": ("│ 14 │",),
    "slice2_expansion": (
        "Expanded equals the original log, byte for byte: yes",
        "Collapsed equals concluded, token for token: yes",
        "The other effort, its log and its summary, is untouched: yes",
    ),
    "slice3_decay": (
        "--- Auto-collapsed effort: auth-bug (inactive for 3 turns) ---",
        *("false_decay_rate: 1", "avg_expansion_duration: 4"),
    ),
    "three_agents": (
        *("│ full history │ 37,538 │", "│ summariser │ 6,686 │", "│ Ebbtide │ 2,766 │"),
        'full history: You said: "The customs broker is Mrs Halvorsen',
        "summariser: I do not find an answer",
        'Ebbtide: From the log, turn 1: "The customs broker is Mrs Halvorsen',
    ),
}
"""What each example prints, spaces aside."""


def printed_by(name: str, shared: Path) -> str:
    """Return what an example or the demonstration prints, run once for all tests."""
    if name == "demo":
        return once(*DEMO, shared).printed
    return example_run(EXAMPLES / f"{name}.py", shared).printed


def test_every_example_is_run() -> None:
    """Each example has a claim here; what they draw with is none."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} - {"drawing", LONG} <= {*CLAIMS}
    assert {*SHOWN} <= {*CLAIMS, LONG}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CLAIMS)
def test_what_it_claims_is_printed(name: str, shared: Path) -> None:
    """So are the figures, words and whole rows that stand on the page of benchmarks."""
    printed = printed_by(name, shared)

    assert [claim for claim in CLAIMS[name] if claim not in " ".join(printed.split())] == []
    assert name not in SHOWN or not_printed(name, printed) == []


@pytest.mark.thorough
def test_an_effort_stays_in_its_share(shared: Path) -> None:
    """What was said grows fourfold and more; the effort in the context does not."""
    printed = printed_by("selective_salience", shared).replace(",", "")
    rows = re.findall(r"^│ \d+ +│ turns 1-\d+ +│ (\d+) +│ (\d+) +│ (\d+)", printed, re.MULTILINE)
    (first, second, *_, last) = [[*map(int, row)] for row in rows]

    assert last[2] > 4 * first[2]
    assert last[0] <= second[0] * 1.1  # the first has not filled its share


@pytest.mark.thorough
def test_a_long_turn_keeps_its_request_and_its_budget(shared: Path) -> None:
    """Results leave in the middle of it; each call has the request whole."""
    printed = printed_by("long_turn", shared).replace(",", "")
    rows = re.findall(r"^│ \d+ +│ (\d+) +│ (\w+) +│ (\d+) ", printed, re.MULTILINE)

    assert {request for _, request, _ in rows} == {"whole"}
    assert int(rows[-1][2]) >= 3
    assert max(int(tokens) for tokens, *_ in rows) <= 4_000


@pytest.mark.thorough
def test_the_table_is_printed_without_a_plot(shared: Path, tmp_path: Path) -> None:
    """Without matplotlib there is the table, its rows, and a line that says how to get the plot."""
    example = EXAMPLES / "attention.py"
    is_there = find_spec("matplotlib") is not None
    ran = run_without_plots(example, tmp_path) if is_there else example_run(example, shared)

    assert ran.code == 0
    assert ("┃" in ran.printed, "For a plot, install matplotlib." in ran.printed) == (True, True)
    assert [path.name for path in ran.folder.rglob("*.*")] == ["attention.json"]


@pytest.mark.thorough
def test_rows_of_a_table_are_kept_as_numbers(shared: Path) -> None:
    """Beside the figure a JSON file has the table, the metrics, and what made them."""
    ran = example_run(EXAMPLES / "slice3_decay.py", shared)
    kept = json.loads((ran.folder / "example-results" / "slice3_decay.json").read_text("utf-8"))
    rows = kept["tables"][0]["rows"]

    assert [row["turn"] for row in rows] == [*range(1, 8)]
    assert rows[0]["all"] - rows[5]["all"] > rows[5]["log"] == 0
    assert kept["metrics"]["false_decay_rate"] == 1
    assert kept["settings"]["decay_threshold"] == 3
    assert {"Python", "ebbtide", "langgraph"} <= {*kept["versions"]}
