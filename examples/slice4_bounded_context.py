"""Slice 4: the context of 1,000 turns stays small; search finds what has left it."""

import os
import sys
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
SETUP = [TRAIN] * 30 + [words for effort in EFFORTS for words in effort] + [f"So much: {[*WORK]}"]
SAID = {1: "The gateway and the sidebar, you remember.", 15: "Once more, gateway and sidebar."}
SAID |= {22: "Why were our receipts blurred?", 23: "Show me the full log of thumbnails"}
EVENTS = {1: "about 1 and 2", 15: "1 and 2 again", 22: "4 is found", 23: "4 is expanded"}
ROWS = {"every-turn": [1, 15, 20, 21, 22, 23, 26, 27], "on-change": [1, 6, 7, 15, *range(20, 28)]}
TURNS = int(sys.argv[1]) if sys.argv[1:] else 1_000
ROWS["on-change"].append(TURNS - len(SETUP))


def main() -> None:
    """Talk until three of five summaries are evicted, and ask for one of them."""
    for rebuild, rows in ROWS.items():
        shown, figures = run(Settings(rebuild=rebuild), rows[-1])
        title = f'rebuild="{rebuild}" (default: "on-change"); turns after the five efforts'
        table = Table("turn", "", "summaries", "exchanges", "log", "sent", "all said", title=title)
        for row in rows:
            turn = figures.turns[len(SETUP) + row - 1]
            sizes = (turn.parts.get("expanded", 0), turn.total, turn.full_history)
            cells = (EVENTS.get(row, ""), *map(str, shown[len(SETUP) + row - 1]))
            table.add_row(str(row), *cells, *(f"{size:,}" for size in sizes))
        largest = max(call.total for turn in figures.turns for call in turn.calls)
        print(table, f"Largest context: {largest:,} tokens of {Settings().context_budget:,}.")
        sums = (figures.sent, figures.always_expanded, figures.full_history)
        print("Sent: {:,} tokens, always expanded: {:,}, full history: {:,}.".format(*sums))
    print(plot(figures.turns[len(SETUP) :]) if charts else "For a plot, install matplotlib.")


def run(settings: Settings, turns: int) -> tuple[list[tuple[int, int]], Any]:
    """Return how many summaries and ambient exchanges each turn was sent, and the metrics."""
    config: Any = {"configurable": {"thread_id": "slice4"}}
    shown = list[tuple[int, int]]()
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        options: Any = {"archive": archive, "checkpointer": InMemorySaver(), "settings": settings}
        agent = create_memory_agent(choose_model(None, os.environ), **options)
        for words in SETUP + [SAID.get(number, TRAIN) for number in range(1, turns + 1)]:
            steps = agent.stream({"messages": words}, config, stream_mode="updates")
            calls = [step["assemble_context"] for step in steps if "assemble_context" in step]
            messages = calls[0]["context"]["messages"]
            notes = [one.text for one in messages if ">concluded efforts" in one.text]
            exchanges = sum(one.type == "human" and one.name != "ebbtide" for one in messages) - 1
            shown.append(("".join(notes).count("\n- "), exchanges))
        return shown, commands.stats(agent, config)


def plot(turns: Any) -> str:
    """Draw what turns sent, their baselines, and the budget."""
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    axes, numbers, ticks = figure.subplots(), range(1, len(turns) + 1), [2_000, 8_000, 32_000]
    for name, style in {"full_history": "k--", "always_expanded": "C1-.", "total": "C0-"}.items():
        label = {"total": "sent"}.get(name, name.replace("_", " "))
        axes.plot(numbers, [getattr(turn, name) for turn in turns], style, label=label)
    axes.axhline(Settings().context_budget, color="C3", linestyle=":", label="budget")
    for row, event, side in (22, "4 found ", "right"), (27, " 4 collapsed; 3, 5 evicted", "left"):
        axes.axvline(row, color="0.7", zorder=0)
        axes.text(row, 1_250, event, ha=side)
    axes.set(xlabel="turns after the five efforts", ylabel="last call of the turn (tokens)")
    axes.set(xscale="log", yscale="log", ylim=(1_200, None))
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
    axes.minorticks_off()
    axes.set_xticks(ticks := [1, 10, 100, 1_000], [f"{tick:,}" for tick in ticks])
    axes.legend()
    for ending in ("svg", "png"):
        figure.savefig(f"slice4_bounded_context.{ending}", dpi=200)
    return "Plot: slice4_bounded_context.svg and .png"


if __name__ == "__main__":
    main()
