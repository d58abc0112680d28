"""The README: its program with a real model, and its figures."""

import json
import os
import re
from pathlib import Path

from tests.openai_server import Say, serving
from tests.pages import README, RESULTS_FOLDER, text
from tests.processes import ended


def test_the_program_runs_with_a_real_model(tmp_path: Path) -> None:
    """The first program runs over HTTP with the line of the model that follows it."""
    program, line = (
        re.findall(rf"```{kind}\n(.*?)```", text(README), re.DOTALL)[0] for kind in ("python", "py")
    )

    with serving(*[Say("Which bug?")] * 3) as server:
        told = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "x"}
        real = program.replace("model = ScriptedModel()\n", line)
        ran = ended(["-c", real], tmp_path, told)
        tools = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}

    assert ran.printed == "Which bug?\n" * 3, ran.failed
    assert {"open_effort", "search_efforts"} <= tools


def test_the_comparison_is_what_was_measured() -> None:
    """Each figure beside the alternatives is that of a conversation in the kept results."""
    kept = json.loads((RESULTS_FOLDER / "context_cost.json").read_text(encoding="utf-8"))
    measured = {(row["talk"], row["agent"]): row for row in kept["rows"]}
    section = text(README).partition("## Compared with the alternatives")[2].partition("\n\n**")[0]
    head, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if "|" in line]

    assert len(rows) > 1
    for agent, _, *figures in rows:
        kind, columns = agent.removesuffix(", 2,000"), (one.split(": ") for one in head[2:])
        wanted = [measured[talk, kind][name] for talk, name in columns]
        assert figures == [f"{one:,}" for one in wanted]
