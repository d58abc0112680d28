"""Slice 1: concluding an effort replaces its log in the context with a summary."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import draw_lines, output, sums, write_rows
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.graph.models import choose_model

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
PARTS = {"memory": "summary", "turns": "turns,\nword for word", "turn": "this turn"}
HEADS = ("turn", "instructions\nand tools", *PARTS.values())


def server_log(path: str) -> str:
    """Return this morning's requests for a path, as the server logged them."""
    return "\n".join(f"2026-03-14T09:{at:02}:07Z 401 {path} 3 ms" for at in range(12, 36))


def main() -> None:
    """Hold the conversation, then print the context of each turn."""
    path = output(__file__, __doc__)
    figures = talk()
    table = Table(*HEADS, "sent", "full\nhistory", title="Tokens of the last call")
    for turn in figures.turns:
        parts = [turn.parts.get(part, 0) for part in PARTS]
        sizes = (turn.total - sum(parts), *parts, turn.total, turn.last_full_history)
        table.add_row(str(turn.turn), *(f"{size:,}" for size in sizes))
    before = figures.turns[CONCLUDED - 1].calls[0].parts["turns"]
    after = figures.turns[-1].parts["memory"]
    print(table, f"Open: {before:,} tokens of log. Concluded: {after:,} tokens of summary.")
    later = len(figures.turns) - CONCLUDED
    print(f"Saved: {1 - after / before:.1%} of the effort, with default settings.")
    print(f"In the {later} later turns: {later * after:,} tokens, as a log {later * before:,}.")
    print(sums(figures), write_rows(path, Settings(), table, figures=figures), sep="\n")
    draw(path, figures.turns)


def talk() -> Any:
    """Return the metrics of the conversation, as `ebbtide stats` has them."""
    config: Any = {"configurable": {"thread_id": "slice1"}}
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        options: Any = {"archive": archive, "checkpointer": InMemorySaver(), "tools": [server_log]}
        agent: Any = create_memory_agent(choose_model(None, os.environ), **options)
        for words in SAID:
            agent.invoke({"messages": words}, config)
        return commands.stats(agent, config)


def draw(path: Any, turns: Any) -> None:
    """Draw what each turn sent, its parts, and the budget."""
    lines = {
        "full history": ("k^:", [turn.last_full_history for turn in turns]),
        "sent": ("C0o-", [turn.total for turn in turns]),
        "turns, word for word": ("C1s--", [turn.parts.get("turns") for turn in turns]),
        "summary": ("C2D-.", [turn.parts.get("memory") for turn in turns]),
    }
    legend = {"ncols": 2, "loc": "upper center"}
    axes: Any = {"xlabel": "turn", "ylim": (20, 200_000)}
    print(draw_lines(path, lines, {1: " opened", CONCLUDED: " concluded"}, legend, **axes))


if __name__ == "__main__":
    main()
