"""Slice 4: the context of 1,000 turns stays small; search finds what has left it."""

import os
from tempfile import TemporaryDirectory
from typing import Any, Literal

from drawing import draw_turns, output, sums, write_rows
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
SETUP, SAID = [TRAIN] * 30, [TRAIN] * 27
for name, fact in WORK.items():
    SETUP += [f"Let's work on {name}", fact * 24, "That's done"]
SETUP[-1] += f". So much on {[*WORK]}."  # a mention of all, so that all count from here
SAID[0] = SAID[14] = "The gateway is fine, and the footer fits the viewport."
SAID[21], SAID[22] = "Why were our receipts blurred?", "Show me the full log of thumbnails"
for number in range(6, 201):
    fact = f"Order {number} waits at dock {number * 7} for its papers. "
    SAID += [f"Let's work on order {number}", fact * 30, "That's done", TRAIN]
SAID += [TRAIN] * (1_000 - len(SAID))
EVENTS = {
    1: "1, 2 mentioned",
    15: "1, 2 mentioned again",
    20: "3, 4, 5 due at its end",
    21: "unrelated",
}
EVENTS |= {22: "4 found", 23: "4 expanded", 26: "4 collapses at its end", 27: "unrelated"}
STEPS = {6: "unrelated", 7: "10 exchanges again", 22: "4 found, so it stays", 25: "unrelated"}
STEPS |= {24: "3, 5 evicted at its end", 500: "124 opened", len(SAID): "all 200 concluded"}
RUNS: dict[Literal["every-turn", "on-change"], dict[int, str]] = {
    "every-turn": EVENTS | {20: "3, 4, 5 evicted at its end"},
    "on-change": EVENTS | STEPS,
}
CONFIG: Any = {"configurable": {"thread_id": "slice4"}}
HEADS = ("turn", "what happens", "summaries\nsent", "ambient\nexchanges\nsent", "log", "sent")


def main() -> None:
    """Talk until three of five summaries are evicted, and ask for one of them."""
    path = output(__file__, __doc__)
    reports: dict[str, Any] = {}
    print("Efforts:", *(f"{number} {name}" for number, name in enumerate(WORK, start=1)))
    for rebuild, events in RUNS.items():
        shown, figures = run(used := Settings(rebuild=rebuild), max(events))
        title = f"{rebuild}; summaries evicted after {used.summary_eviction_threshold} turns, logs "
        title += f"after {used.decay_threshold}; window of {used.ambient_window}; tokens"
        table = Table(*HEADS, "full\nhistory", title=title)
        for row, event in sorted(events.items()):
            counts, turn = shown[len(SETUP) + row - 1], figures.turns[len(SETUP) + row - 1]
            sizes = (*counts, turn.parts.get("expanded", 0), turn.total, turn.last_full_history)
            table.add_row(str(row), event, *(f"{size:,}" for size in sizes))
        file = path.with_name(f"{path.name}_{rebuild}")
        print(table, sums(figures), write_rows(file, used, table, figures=figures), sep="\n")
        reports[rebuild] = figures
    turns = reports["on-change"].turns[len(SETUP) :]
    print(draw_turns(path, turns, {}, xlabel="turns after the five efforts"))


def run(settings: Settings, turns: int) -> tuple[list[tuple[int, int]], Any]:
    """Return how many summaries and ambient exchanges each turn was sent, and the metrics."""
    shown = list[tuple[int, int]]()
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        options: Any = {"archive": archive, "checkpointer": InMemorySaver(), "settings": settings}
        agent = create_memory_agent(choose_model(None, os.environ), **options)
        for words in SETUP + SAID[:turns]:
            steps = agent.stream({"messages": words}, CONFIG, stream_mode="updates")
            calls = [step["assemble_context"] for step in steps if "assemble_context" in step]
            messages = calls[0]["context"]["messages"]
            notes = [one.text for one in messages if ">concluded efforts" in one.text]
            said = [one.text for one in messages if one.type == "human" and one.name != "ebbtide"]
            ambient = [text for text in said[:-1] if not text.startswith("That's done")]
            shown.append(("".join(notes).count("\n- "), len(ambient)))
        return shown, commands.stats(agent, CONFIG)


if __name__ == "__main__":
    main()
