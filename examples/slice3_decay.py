"""Slice 3: an expanded log that nobody mentions collapses, and can be expanded again."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import draw_turns, output, sums, write_rows
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
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
    "also unrelated": "There is coffee.",
    "go on": "Go on",
    "ask again and expand": "Show me the full log of the auth bug once more",
}
EVENTS = {1: " expanded", 5: "collapses ", 7: "expanded "}
HEADS = ("turn", "what happens", "expanded after", "turns without\nreference", "log", "all")
CONFIG: Any = {"configurable": {"thread_id": "slice3"}}


def main() -> None:
    """Conclude two efforts, expand one, change the subject until it collapses, expand again."""
    path = output(__file__, __doc__)
    settings = Settings()
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        options: Any = {"archive": archive, "checkpointer": InMemorySaver(), "settings": settings}
        agent = create_memory_agent(choose_model(None, os.environ), **options)
        for words in SETUP:
            agent.invoke({"messages": words}, CONFIG)
        states = [agent.invoke({"messages": words}, CONFIG)["memory"] for words in RUN.values()]
        figures = commands.stats(agent, CONFIG)
    turns = figures.turns[-len(RUN) :]
    table = Table(*HEADS, title=f"decay_threshold {settings.decay_threshold}; tokens sent")
    mentioned = 0
    for number, (event, state, sent) in enumerate(zip(RUN, states, turns, strict=True), start=1):
        log = sent.parts.get("expanded", 0)
        for entry in state["expanded"].values():
            mentioned = entry["last_referenced_turn"]
        collapsed = "collapsed" in "".join(state["banners"])
        after = ", ".join(state["expanded"]) or ("none (collapsed)" if collapsed else "none")
        silent = str(state["turn"] - mentioned) if state["expanded"] or collapsed else ""
        table.add_row(str(number), event, after, silent, f"{log:,}", f"{sent.total:,}")
    print(table, *(line for state in states for line in state["banners"]), sep="\n")
    print("Banners count the whole log; the prompt adds fences and leaves out what it has already.")
    print_metrics(figures)
    print(write_rows(path, settings, table, figures=figures))
    axes: Any = {"legend": {"loc": (0.2, 0.45)}, "xlabel": "turn", "ylim": (700, 30_000)}
    print(draw_turns(path, turns, EVENTS, **axes))


def print_metrics(figures: Any) -> None:
    """Print the metrics of all turns, the set-up's too."""
    collapses = figures.auto_collapses
    print(f"All {len(figures.turns)} turns:")
    print(f"false_decay_rate: {figures.false_decay_rate:g} (of {collapses} automatic collapse)")
    print(f"avg_expansion_duration: {figures.avg_expansion_duration:g} turns")
    print(f"manual_vs_auto_collapse: {figures.manual_collapses} : {collapses}")
    print(f"tokens_saved_by_decay: {figures.tokens_saved_by_decay:,} tokens")
    print(f"expansion_overhead: {figures.expansion_overhead:.1%} of the tokens of a turn")
    print(sums(figures))


if __name__ == "__main__":
    main()
