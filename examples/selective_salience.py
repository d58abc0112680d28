"""Selective salience: important sentences of a long effort stay in the context verbatim."""

import os
from itertools import accumulate
from tempfile import TemporaryDirectory
from typing import Any

from drawing import DASHED, MISSING, begin, mark, output, save, write_rows
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, create_memory_agent
from ebbtide.graph.models import choose_model
from ebbtide.memory.tokens import count

HOLDING = (
    "The orders table must never be locked for longer than 2 seconds.",
    "Personal data must not leave the European Union.",
    "We decided on PostgreSQL because the team knows it.",
    "The upload limit is now 25 MB.",
)
GONE = "The upload limit is 10 MB."
STATED = {5: HOLDING[0], 9: GONE, 25: HOLDING[1], 40: HOLDING[2], 60: HOLDING[3]}
TALK = (
    "I looked at the dashboards again this morning, and at the logs, and found nothing new.",
    "The people from the shop called and told me at length what they had done over the weekend.",
)
TURNS, BUDGET = 120, 2_800
CONFIG: Any = {"configurable": {"thread_id": "salience"}}
COLUMNS = ("turn", "compressed", "active effort", "context", "all that was said")


def main() -> None:
    """Work on one effort for 120 turns, and print which sentences stay in the context."""
    path = output(__file__, __doc__)
    settings, sizes, history = Settings(context_budget=BUDGET), [], []
    passes: dict[int, str] = {}
    sent = ""
    table = Table(*COLUMNS, title="One effort that goes on for long")
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        model, saver = choose_model(None, os.environ), InMemorySaver()
        agent = create_memory_agent(model, archive=archive, checkpointer=saver, settings=settings)
        for turn in range(1, TURNS + 1):
            words = "Let's work on the shop migration." if turn == 1 else TALK[turn % 2]
            state, sent = say(agent, " ".join(filter(None, (words, STATED.get(turn)))))
            report, banners = state["memory"]["context_report"], state["memory"]["banners"]
            history.append(sum(count(m.text) for m in state["messages"][-2:]))
            sizes.append(report["tokens"].get("quotes", 0) + report["tokens"].get("turns", 0))
            compressed = [line for line in banners if line.startswith("--- Compressed")]
            if compressed:
                passes[turn] = "" if passes else " compressed"
            if compressed or turn in {1, TURNS}:
                span = compressed[0].split("(")[1].rstrip(") -") if compressed else ""
                cells = (f"{sizes[-1]:,}", f"{report['total']:,}", f"{sum(history):,}")
                table.add_row(str(turn), span, *cells)
    print(table, f"Settings here, so that compression begins sooner: {settings!r}", sep="\n")
    for sentence in (*HOLDING, GONE):
        print(f"{'verbatim' if sentence in sent else 'gone':8} {sentence}")
    print(write_rows(path, settings, table))
    if axes := begin("turn", "tokens"):
        turns = range(1, TURNS + 1)
        axes.plot(turns, sizes, label="the active effort in the context")
        axes.plot(turns, [*accumulate(history)], ":", label="all that was said in it")
        axes.axhline(BUDGET, **DASHED)
        axes.set_ylim(0, None)
        mark(axes, passes)
    print(save(axes, path, legend={}) if axes else MISSING)


def say(agent: Any, words: str) -> tuple[dict[str, Any], str]:
    """Run a turn; return the state and the text of the last model call."""
    steps = [*agent.stream({"messages": words}, CONFIG, stream_mode="updates")]
    *_, sent = (step["assemble_context"]["context"] for step in steps if "assemble_context" in step)
    return agent.get_state(CONFIG).values, "\n".join(m.text for m in sent["messages"])


if __name__ == "__main__":
    main()
