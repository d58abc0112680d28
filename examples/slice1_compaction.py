"""Slice 1: concluding an effort replaces its log in the context with a summary."""

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

SAID = (
    "Let's work on the auth bug: people are signed out in the middle of their work",
    "Support has 37 tickets since Monday, all from people who keep the page open over lunch.",
    "use server_log with path=/api/orders",
    "The access token expires after 3600 seconds, the refresh token after 30 days.",
    "We found that refreshTokens() is never called, because release 4.2.0 lost its interceptor.",
    "I tried a timer first, but it fires late when the laptop sleeps, and the token is gone.",
    "We decided to bring the interceptor back and to retry once, because it acts on every 401.",
    "use server_log with path=/auth/refresh",
    "Two requests must not refresh at once: they wait for one promise. All 14 tests pass.",
    *["That's done", "It rains.", "It rains.", "It rains.", "It rains."],
)
CONCLUDED = 10
PARTS = {"memory": "summary", "turns": "raw log", "turn": "this turn"}


def server_log(path: str) -> str:
    """Return this morning's requests for a path, as the server logged them."""
    return "\n".join(f"2026-03-14T09:{at:02}:07Z 401 {path} 3 ms" for at in range(12, 36))


def main() -> None:
    """Hold the conversation, then print the context of each turn."""
    figures = talk()
    table = Table("turn", *PARTS.values(), "sent", "full history", title="Tokens of the last call")
    for turn in figures.turns:
        sizes = (*(turn.parts.get(part, 0) for part in PARTS), turn.total, turn.full_history)
        table.add_row(str(turn.turn), *(f"{size:,}" for size in sizes))
    before = figures.turns[CONCLUDED - 1].calls[0].parts["turns"]
    after = figures.turns[-1].parts["memory"]
    print(table, f"Open: {before:,} tokens of raw log. Concluded: {after:,} tokens of summary.")
    print(f"Saved: {1 - after / before:.1%} of the effort, with default settings.")
    print(f"All calls: {figures.sent:,} tokens, full history: {figures.full_history:,}.")
    print(plot(figures.turns) if charts else "For a plot, install matplotlib.")


def talk() -> Any:
    """Return the metrics of the conversation, as `ebbtide stats` has them."""
    model = choose_model(None, os.environ)
    config: Any = {"configurable": {"thread_id": "slice1"}}
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        options: Any = {"archive": archive, "checkpointer": InMemorySaver()}
        agent: Any = create_memory_agent(model, tools=[server_log], **options)
        for words in SAID:
            agent.invoke({"messages": words}, config)
        return commands.stats(agent, config)


def plot(turns: Any) -> str:
    """Draw what each turn sent, its parts, and the budget."""
    figure = charts.Figure(figsize=(7, 4), layout="constrained")
    axes, numbers = figure.subplots(), range(1, len(turns) + 1)
    axes.plot(numbers, [turn.full_history for turn in turns], "k^:", label="full history")
    axes.plot(numbers, [turn.total for turn in turns], "C0o-", label="sent")
    axes.plot(
        numbers, [turn.parts.get("turns") for turn in turns], "C1s--", label="turns, word for word"
    )
    axes.plot(numbers, [turn.parts.get("memory") for turn in turns], "C2D-.", label="summary")
    axes.axhline(Settings().context_budget, color="C3", linestyle="-", label="budget")
    for number, event in {1: "opened", CONCLUDED: "concluded"}.items():
        axes.axvline(number, color="0.8", zorder=0)
        axes.text(number, 22, f" {event}")
    axes.set(
        xlabel="turn", ylabel="last call of the turn (tokens)", yscale="log", ylim=(20, 200_000)
    )
    axes.set_yticks(ticks := [100, 1_000, 10_000], [f"{tick:,}" for tick in ticks])
    axes.legend(ncols=2, loc="upper center")
    for ending in ("svg", "png"):
        figure.savefig(f"slice1_compaction.{ending}", dpi=200)
    return "Plot: slice1_compaction.svg and .png"


if __name__ == "__main__":
    main()
