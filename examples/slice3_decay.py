"""Slice 3: an expanded log that nobody mentions collapses, and can be expanded again."""

import os
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.graph.models import choose_model

charts: Any = import_module("matplotlib.figure") if find_spec("matplotlib") else None

LIMITS = "Let's work on the rate limits: 100 requests a minute, because the database stops at 4000"
BUG = "Let's work on the auth bug: people are signed out in the middle of their work"
CODE = "The token lives 3600 seconds, and nobody renews it. " * 60
SETUP = (LIMITS, "That's done", BUG, CODE, "That's done", "It rains.")
RUN = {
    "expand auth-bug": "Show me the full log of the auth bug",
    "ask about auth-bug": "What does the auth bug have to do with the token?",
    "something unrelated": "My train leaves at nine.",
    "unrelated": "Platform four, they say.",
    "unrelated again": "There is coffee.",
    "go on": "Go on",
    "ask again, expand": "Show me the full log of the auth bug once more",
}
METRICS = """false_decay_rate avg_expansion_duration manual_vs_auto_collapse
tokens_saved_by_decay expansion_overhead sent always_expanded full_history"""
EVENTS = {1: "expanded", 5: "collapses", 7: "expanded"}
CONFIG: Any = {"configurable": {"thread_id": "slice3"}}


def main() -> None:
    """Conclude two efforts, expand one, change the subject until it collapses, expand again."""
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        model = choose_model(None, os.environ)
        agent = create_memory_agent(model, archive=archive, checkpointer=InMemorySaver())
        for words in SETUP:
            agent.invoke({"messages": words}, CONFIG)
        states = [agent.invoke({"messages": words}, CONFIG)["memory"] for words in RUN.values()]
        figures = commands.stats(agent, CONFIG)
    turns = figures.turns[-len(RUN) :]
    table = Table("turn", "what happens", "expanded after", "turns without reference", "log", "all")
    for number, (event, state, sent) in enumerate(zip(RUN, states, turns, strict=True), start=1):
        ages = [state["turn"] - log["last_referenced_turn"] for log in state["expanded"].values()]
        cells = (", ".join(state["expanded"]) or "none", ", ".join(map(str, ages)))
        log = sent.parts.get("expanded", 0)
        table.add_row(str(number), event, *cells, str(log), str(sent.total))
    print(table, *(line for state in states for line in state["banners"]), sep="\n")
    print(*(f"{name}: {getattr(figures, name):,.6g}" for name in METRICS.split()), sep="\n")
    print(plot(turns) if charts else "For a plot, install matplotlib.")


def plot(turns: Any) -> str:
    """Draw what each turn sent, its baselines, and the budget."""
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    axes, numbers = figure.subplots(), range(1, len(turns) + 1)
    axes.plot(numbers, [turn.full_history for turn in turns], "k^:", label="full history")
    axes.plot(numbers, [turn.always_expanded for turn in turns], "C1s--", label="always expanded")
    axes.plot(numbers, [turn.total for turn in turns], "C0o-", label="sent")
    axes.axhline(Settings().context_budget, color="C3", linestyle="-.", label="budget")
    for number, event in EVENTS.items():
        axes.axvline(number, color="0.8", zorder=0)
        axes.text(number, 10_500, f" {event} ", ha="left" if number == 1 else "right")
    axes.set(xlabel="turn", ylabel="last call of the turn (tokens)", yscale="log")
    ticks = [1_000, 2_000, 4_000, 8_000, 16_000]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.legend(loc=(0.2, 0.5))
    for ending in ("svg", "png"):
        figure.savefig(f"slice3_decay.{ending}", dpi=200)
    return "Plot: slice3_decay.svg and .png"


if __name__ == "__main__":
    main()
