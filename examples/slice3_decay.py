"""Slice 3: an expanded log that nobody mentions collapses, and can be expanded again."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import draw_lines
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, commands, create_memory_agent
from ebbtide.graph.models import choose_model

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
EVENTS = {1: " expanded", 5: "collapses ", 7: "expanded "}
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
    draw(turns)


def draw(turns: Any) -> None:
    """Draw what each turn sent, its baselines, and the budget."""
    lines = {
        "full history": ("k^:", [turn.full_history for turn in turns]),
        "always expanded": ("C1s--", [turn.always_expanded for turn in turns]),
        "sent": ("C0o-", [turn.total for turn in turns]),
    }
    legend = {"loc": (0.2, 0.5)}
    print(draw_lines("slice3_decay", lines, EVENTS, legend, xlabel="turn", ylim=(700, 20_000)))


if __name__ == "__main__":
    main()
