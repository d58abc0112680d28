"""The figures of the README are those that the benchmarks kept."""

import json

from tests.pages import README, RESULTS_FOLDER, text


def test_the_comparison_is_what_was_measured() -> None:
    """Each figure beside the alternatives is that of the long conversation in the kept results."""
    kept = json.loads((RESULTS_FOLDER / "context_cost.json").read_text(encoding="utf-8"))
    measured = {row["agent"]: row for row in kept["rows"] if row["talk"] == "long"}
    table = text(README).partition("## Beside the alternatives")[2].partition("\n\nThe figures")[0]
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines() if "|" in line]

    assert len(rows) > 1
    for agent, _, *figures in rows:
        wanted = [measured[agent][name] for name in head[2:]]
        assert figures == [f"{one:,}" if isinstance(one, int) else one for one in wanted]
