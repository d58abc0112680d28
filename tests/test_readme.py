"""The README's picture and first program, and the tables that benchmarks wrote."""

import json
from pathlib import Path

import pytest

from ebbtide import DiskArchive, create_memory_agent
from ebbtide.testing import ScriptedModel
from tests.pages import README, RESULTS_FOLDER, blocks, text


def look_up(word: str) -> str:
    """Look a word up."""
    return word


def test_the_first_program_is_short() -> None:
    """The first program has at most ten lines, blank ones aside."""
    lines = [line for line in blocks()[0].program.splitlines() if line]

    assert len(lines) <= 10


def test_the_picture_is_the_graph(tmp_path: Path) -> None:
    """The picture is the one that an agent with a tool draws of itself, without styles."""
    agent = create_memory_agent(ScriptedModel(), archive=DiskArchive(tmp_path), tools=[look_up])
    drawn = agent.get_graph().draw_mermaid(with_styles=False)

    assert f"```mermaid\n{drawn.strip()}\n```" in text(README)


@pytest.mark.parametrize("path", sorted(RESULTS_FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_results_of_benchmarks_fit_together(path: Path) -> None:
    """A table that is kept has each row and the command of the JSON beside it, and a plot."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    shown = path.with_suffix(".md").read_text(encoding="utf-8")

    assert f"`{kept['command']}`" in shown
    first = [next(iter(row.values())) for row in kept["rows"]]
    named = [f"{one:,}" if isinstance(one, int) else one for one in first]
    assert [name for name in named if f"| {name} |" not in shown] == []
    assert path.with_suffix(".png").stat().st_size > 0


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
