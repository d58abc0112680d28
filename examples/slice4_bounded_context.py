"""Slice 4: the context stays small over 1,000 turns; search finds evicted efforts."""

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

WORK = {
    "gateway": "The certificate was rotated on Monday, so that it answers 401. ",
    "sidebar": "It overlaps the footer whenever the viewport shrinks. ",
    "billing": "Invoices arrive twice since the queue was doubled. ",
    "thumbnails": "Scanned receipts look blurred, because they are resized to 64 pixels. ",
    "backup": "Snapshots fill the disk at night, since nobody compresses them. ",
}
TRAIN = "My train leaves at nine, they say, from platform four."
EFFORTS = [(f"Let's work on {name}", fact * 24, "That's done") for name, fact in WORK.items()]
SETUP = [words for effort in EFFORTS for words in effort]
RUN = {
    16: ("about efforts 1 and 2", "The gateway and the sidebar, you remember."),
    30: ("1, 2 referenced again", "Once more, gateway and sidebar."),
    41: ("3, 4, 5 have left", TRAIN),
    42: ("question on 4, search", "Why were our receipts blurred?"),
    43: ("details: expand 4", "Show me the full log of thumbnails"),
    47: ("after the collapse", TRAIN),
    1_000: ("the last turn", TRAIN),
}
CONFIG: Any = {"configurable": {"thread_id": "slice4"}}


def main() -> None:
    """Conclude five efforts, change the subject until they are evicted, ask about one of them."""
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        options: Any = {"archive": archive, "checkpointer": InMemorySaver()}
        agent = create_memory_agent(choose_model(None, os.environ), **options)
        talk = SETUP + [RUN.get(turn, ("", TRAIN))[1] for turn in range(len(SETUP) + 1, 1_001)]
        memories = [agent.invoke({"messages": words}, CONFIG)["memory"] for words in talk]
        figures = commands.stats(agent, CONFIG)
    table = Table("turn", "what happens", "summaries", "log", "context", "full history")
    for turn, (event, _) in RUN.items():
        sent, summaries = figures.turns[turn - 1], len(memories[turn - 1]["summaries"])
        sizes = (sent.parts.get("expanded", 0), sent.total, sent.full_history)
        table.add_row(str(turn), event, str(summaries), *(f"{size:,}" for size in sizes))
    largest = max(call.total for turn in figures.turns for call in turn.calls)
    print(table, f"Largest context: {largest:,} tokens of {Settings().context_budget:,}.")
    print(f"Sent: {figures.sent:,} tokens, full history: {figures.full_history:,}.")
    print(plot(figures.turns) if charts else "For a plot, install matplotlib.")


def plot(turns: Any) -> str:
    """Draw the context of each turn, the full history, and the budget."""
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    axes, numbers = figure.subplots(), range(1, len(turns) + 1)
    axes.plot(numbers, [turn.full_history for turn in turns], "--", label="full history")
    axes.plot(numbers, [turn.total for turn in turns], label="sent")
    axes.axhline(Settings().context_budget, color="tab:red", linestyle=":", label="budget")
    for turn, event in {15: "concluded ", 41: "evicted ", 43: " expanded"}.items():
        axes.axvline(turn, color="0.8", zorder=0)
        axes.text(turn, 110, event, ha="left" if event[0] == " " else "right")
    axes.set(
        xlabel="turn", ylabel="last call (tokens)", xscale="log", yscale="log", ylim=(100, None)
    )
    axes.legend(loc=(0.03, 0.6))
    for ending in ("svg", "png"):
        figure.savefig(f"slice4_bounded_context.{ending}", dpi=200)
    return "Plot: slice4_bounded_context.svg and .png"


if __name__ == "__main__":
    main()
