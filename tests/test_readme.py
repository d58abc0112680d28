"""The README: its program with a real model, and its figures."""

import json
import os
import re
from pathlib import Path

from tests.openai_server import Say, serving
from tests.pages import README, RESULTS_FOLDER, text
from tests.processes import ended


def test_the_program_for_create_agent_runs(tmp_path: Path) -> None:
    """The first program runs with the model that it names, over HTTP."""
    program = re.findall(r"```py\n(.*?)```", text(README), re.DOTALL)[0]

    with serving(Say("Which bug?")) as server:
        told = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "x"}
        ran = ended(["-c", program], tmp_path, told)
        tools = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}

    assert ran.printed.startswith("Which bug? "), ran.failed
    assert {"open_effort", "search_efforts"} <= tools


def test_the_comparison_is_what_was_measured() -> None:
    """Each figure beside the alternatives is that of the long conversation in the kept results."""
    kept = json.loads((RESULTS_FOLDER / "context_cost.json").read_text(encoding="utf-8"))
    measured = {row["agent"]: row for row in kept["rows"] if row["talk"] == "long"}
    section = text(README).partition("## Compared with the alternatives")[2]
    table = section.partition("\n\nThe figures")[0]
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines() if "|" in line]

    assert len(rows) > 1
    for agent, _, *figures in rows:
        wanted = [measured[agent.removesuffix(", 2,000")][name] for name in head[2:]]
        assert figures == [f"{one:,}" if isinstance(one, int) else one for one in wanted]
