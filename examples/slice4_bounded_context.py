"""Slice 4: the context of 1,000 turns stays small; search finds what has left it."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import draw_lines
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.graph.models import choose_model

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
ROWS["on-change"].append(1_000 - len(SETUP))


def main() -> None:
    """Talk until three of five summaries are evicted, and ask for one of them."""
    for rebuild, rows in ROWS.items():
        shown, figures = run(Settings(rebuild=rebuild), rows[-1])
        title = f'rebuild="{rebuild}" (default: "on-change"); turns after the five efforts'
        table = Table("turn", "", "summaries", "exchanges", "log", "sent", "all said", title=title)
        for row in rows:
            turn, counts = figures.turns[len(SETUP) + row - 1], shown[len(SETUP) + row - 1]
            sizes = (*counts, turn.parts.get("expanded", 0), turn.total, turn.full_history)
            table.add_row(str(row), EVENTS.get(row, ""), *(f"{size:,}" for size in sizes))
        largest = max(call.total for turn in figures.turns for call in turn.calls)
        print(table, f"Largest context: {largest:,} tokens of {Settings().context_budget:,}.")
        sums = (figures.sent, figures.always_expanded, figures.full_history)
        print("Sent: {:,} tokens, always expanded: {:,}, full history: {:,}.".format(*sums))
    draw(figures.turns[len(SETUP) :])


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


def draw(turns: Any) -> None:
    """Draw what turns sent, their baselines, and the budget."""
    lines = {
        "full history": ("k--", [turn.full_history for turn in turns]),
        "always expanded": ("C1-.", [turn.always_expanded for turn in turns]),
        "sent": ("C0-", [turn.total for turn in turns]),
    }
    events = {22: "4 found ", 27: " 4 collapsed; 3, 5 evicted"}
    axes: Any = {"xlabel": "turns after the five efforts", "xscale": "log", "ylim": (1_200, 60_000)}
    print(draw_lines("slice4_bounded_context", lines, events, **axes))


if __name__ == "__main__":
    main()
