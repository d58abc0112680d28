"""Slice 3: an expanded log that nobody mentions collapses, and its summary is evicted later."""

import os
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, create_memory_agent
from ebbtide.graph.models import choose_model

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None

LIMITS = "Let's work on the rate limits: 100 requests a minute, because the database stops at 4000"
BUG = "Let's work on the auth bug: people are signed out in the middle of their work"
CODE = "The token lives 3600 seconds, and nobody renews it. " * 12
SETUP = (LIMITS, "That's done", BUG, CODE, "That's done", "It rains.")
RUN = {
    "expand auth-bug": "Show me the full log of the auth bug",
    "ask about auth-bug": "What does the auth bug have to do with the token?",
    "something unrelated": "My train leaves at nine.",
    "unrelated": "Platform four, they say.",
    "unrelated again": "There is coffee on board.",
    "go on": "Go on",
    "ask again, expand": "Show me the full log of the auth bug once more",
}
CONFIG: Any = {"configurable": {"thread_id": "slice3"}}


def main() -> None:
    """Conclude two efforts, expand one, change the subject until it collapses, expand again."""
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        model = choose_model(None, os.environ)
        options: Any = {"settings": Settings(rebuild="every-turn"), "checkpointer": InMemorySaver()}
        agent = create_memory_agent(model, archive=archive, **options)
        for words in SETUP:
            agent.invoke({"messages": words}, CONFIG)
        states = [agent.invoke({"messages": words}, CONFIG)["memory"] for words in RUN.values()]
    table = Table("turn", "what happens", "expanded after", "turns without reference", "log", "all")
    table.title = "Decay, and tokens of the context"
    sizes = []
    for turn, (event, state) in enumerate(zip(RUN, states, strict=True), start=1):
        report, silence = state["context_report"], ages(state)
        sizes.append(report["tokens"].get("expanded", 0))
        cells = (", ".join(silence) or "none", ", ".join(map(str, silence.values())))
        table.add_row(str(turn), event, *cells, str(sizes[-1]), str(report["total"]))
    print(table)
    print("\n".join(line for state in states for line in state["banners"]))
    if charts:
        figure = charts.Figure(figsize=(7, 3.5), layout="constrained")
        axes = figure.subplots()
        axes.bar(range(1, len(RUN) + 1), sizes)
        axes.set(xlabel="turn", ylabel="tokens of the expanded log")
        figure.savefig("slice3_decay.png")
    print("Plot: slice3_decay.png" if charts else "For a plot, install matplotlib.")


def ages(state: dict[str, Any]) -> dict[str, int]:
    """Return for each expanded effort the turns since its last reference."""
    expanded = state["expanded"].items()
    return {name: state["turn"] - entry["last_referenced_turn"] for name, entry in expanded}


if __name__ == "__main__":
    main()
