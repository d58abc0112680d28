"""The anchor: turns leave the rolling window, anchored facts stay in the context."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import MISSING, begin, output, save, write_rows
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, create_memory_agent
from ebbtide.graph.models import choose_model

TALK = (
    "The gateway listens on port 8443.",
    "Miriam keeps the spare key of the server room in the red cabinet.",
    "Node runs as version 20.11 on all machines.",
    "It has rained since Tuesday.",
    "My train was late again.",
    "There is coffee on platform four.",
    "The meeting moves to Thursday.",
    "Lunch is at noon, they say.",
    "The printer hums all day.",
    "Somebody has watered the plants.",
)
ANCHORED = "Which port is it, again?"
FOUND = "Search for the spare key"
CONFIG: Any = {"configurable": {"thread_id": "anchor"}}
COLUMNS = ("turn", "the user says", "ambient turns", "anchor", "tokens", "prefix")


def main() -> None:
    """State facts, talk until they leave the window, then ask about them."""
    path = output(__file__, __doc__)
    settings = Settings(ambient_window=4, rebuild="every-turn", recall_hints=0)
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        model, saver = choose_model(None, os.environ), InMemorySaver()
        agent = create_memory_agent(model, archive=archive, checkpointer=saver, settings=settings)
        turns = [say(agent, words) for words in (*TALK, ANCHORED, FOUND)]
    table, shares = Table(*COLUMNS, title="A rolling window, and an anchor"), []
    for state, ambient_turns in turns:
        memory = state["memory"]
        report, anchor = memory["context_report"], "; ".join(memory["anchor"].values())
        shares.append(report["prefix"] / report["total"])
        words = next(m.text for m in reversed(state["messages"]) if m.type == "human")
        cells = (str(ambient_turns), anchor.replace("\n", ", "), f"{report['total']:,}")
        table.add_row(str(memory["turn"]), words, *cells, f"{shares[-1]:.0%}")
    why = "so that the window is small and exact, and only the anchor reminds"
    print(table, f"Settings here, {why}: {settings!r}", sep="\n")
    print(write_rows(path, settings, table))
    for question, (state, _) in zip((ANCHORED, FOUND), turns[-2:], strict=True):
        print(f"{question} {state['messages'][-1].text}")
    if axes := begin("turn", "cached prefix (share of the prompt)"):
        axes.bar(range(1, len(shares) + 1), shares)
    print(save(axes, path) if axes else MISSING)


def say(agent: Any, words: str) -> tuple[dict[str, Any], int]:
    """Run a turn; return the state, and the number of ambient turns in the last model call."""
    steps = [*agent.stream({"messages": words}, CONFIG, stream_mode="updates")]
    *_, sent = (step["assemble_context"]["context"] for step in steps if "assemble_context" in step)
    requests = [m for m in sent["messages"] if m.type == "human" and m.name != "ebbtide"]
    return agent.get_state(CONFIG).values, len(requests) - 1


if __name__ == "__main__":
    main()
