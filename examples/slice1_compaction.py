"""Slice 1: concluding an effort replaces its log in the context with a summary."""

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
PARTS = {"memory": "summary", "turns": "raw log", "turn": "this turn"}


def server_log(path: str) -> str:
    """Return this morning's requests for a path, as the server logged them."""
    return "\n".join(f"2026-03-14T09:{at:02}:07Z 401 {path} 3 ms" for at in range(12, 36))


def main() -> None:
    """Run the conversation, then print the context of each turn."""
    calls = talk()
    table = Table("turn", *PARTS.values(), title="Tokens of the context by part")
    for number, turn in enumerate(calls, start=1):
        table.add_row(str(number), *(f"{turn[-1].get(part, 0):,}" for part in PARTS))
    before, after = calls[-5][0]["turns"], calls[-1][0]["memory"]
    print(table, f"Open: {before:,} tokens of raw log. Concluded: {after:,} tokens of summary.")
    print(f"Saved: {1 - after / before:.1%}", plot([turn[-1] for turn in calls]), sep="\n")


def talk() -> list[list[dict[str, int]]]:
    """Return the tokens of each model call by part, turn by turn."""
    model, saver, calls = choose_model(None, os.environ), InMemorySaver(), []
    config: Any = {"configurable": {"thread_id": "slice1"}}
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        options: Any = {"archive": archive, "settings": Settings(rebuild="every-turn")}
        agent = create_memory_agent(model, tools=[server_log], checkpointer=saver, **options)
        for words in SAID:
            steps = agent.stream({"messages": words}, config, stream_mode="updates")
            sent = [step["assemble_context"] for step in steps if "assemble_context" in step]
            calls.append([context["memory"]["context_report"]["tokens"] for context in sent])
    return calls


def plot(turns: list[dict[str, int]]) -> str:
    """Save a plot if matplotlib is installed; return a line about it."""
    if charts is None:
        return "For a plot, install matplotlib."
    figure = charts.Figure(figsize=(7, 3.5), layout="constrained")
    axes, series = figure.subplots(), [[turn.get(part, 0) for turn in turns] for part in PARTS]
    axes.stackplot(range(1, len(turns) + 1), series, labels=PARTS.values(), step="mid")
    axes.set(xlabel="turn", ylabel="tokens", title="An effort, from its opening to its end")
    axes.legend(loc="upper left")
    figure.savefig("slice1_compaction.png")
    return "Plot: slice1_compaction.png"


if __name__ == "__main__":
    main()
