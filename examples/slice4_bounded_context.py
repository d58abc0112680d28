"""Slice 4: the context of a long conversation stays small; search finds what has left it."""

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
from ebbtide.memory.metrics import report
from ebbtide.memory.record import Owner

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
SETUP = [TRAIN] * 27 + [words for effort in EFFORTS for words in effort] + [TRAIN] * 2
SETUP += ["So much for gateway, sidebar, billing, thumbnails and backup."]
RUN = {
    1: ("about efforts 1 and 2", "The gateway and the sidebar, you remember."),
    15: ("1, 2 referenced again", "Once more, gateway and sidebar."),
    20: ("nothing about 3, 4, 5", TRAIN),
    21: ("unrelated", TRAIN),
    22: ("question on 4, search", "Why were our receipts blurred?"),
    23: ("details: expand 4", "Show me the full log of thumbnails"),
    26: ("third silent turn", TRAIN),
    27: ("after the collapse", TRAIN),
}
CONFIG: Any = {"configurable": {"thread_id": "slice4"}}


def main() -> None:
    """Conclude five efforts, change the subject until three are evicted, ask about one of them."""
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        options: Any = {"settings": Settings(rebuild="every-turn"), "checkpointer": InMemorySaver()}
        agent = create_memory_agent(choose_model(None, os.environ), archive=archive, **options)
        talk = SETUP + [RUN.get(row, ("", TRAIN))[1] for row in range(1, 28)]
        sent = [say(agent, words) for words in talk]
        (tip,) = archive.tips(owner := Owner("", "slice4"))
        sizes = report(archive.turns(owner, tip, range(1, tip.turn + 1))).turns
    table = Table("turn", "what happens", "summaries", "ambient", "log", "context", "history")
    for row, (event, _) in RUN.items():
        at = len(SETUP) + row - 1
        tokens = (sizes[at].tiers.get("expanded", 0), sizes[at].total, sizes[at].full_history)
        table.add_row(str(row), event, *map(str, (*sent[at], *tokens)))
    print(table, f"Largest context: {max(size.total for size in sizes):,} tokens.")
    if charts:
        figure = charts.Figure(figsize=(7, 3.5), layout="constrained")
        lines = figure.subplots().plot([(size.total, size.full_history) for size in sizes])
        figure.legend(lines, ["context", "full history"], title="tokens by turn", loc=(0.1, 0.7))
        figure.savefig("slice4_bounded_context.png")
    print("Plot: slice4_bounded_context.png" if charts else "For a plot, install matplotlib.")


def say(agent: Any, words: str) -> tuple[int, int]:
    """Run a turn; return the summaries and the ambient exchanges in the last call of the model."""
    steps = agent.stream({"messages": words}, CONFIG, stream_mode="updates")
    *_, sent = (step["assemble_context"]["context"] for step in steps if "assemble_context" in step)
    requests = [part for part in sent["messages"] if part.type == "human"]
    memory = "".join(part.text for part in requests if ">concluded efforts" in part.text)
    return memory.count("\n- "), sum(part.name != "ebbtide" for part in requests) - 1


if __name__ == "__main__":
    main()
