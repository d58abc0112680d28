"""A long turn: one request and forty rounds of tools, with a budget of 4,000 tokens."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import DASHED, MISSING, begin, mark, output, save, write_rows
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, create_memory_agent
from ebbtide.graph.models import choose_model
from ebbtide.testing import ScriptedModel

TASKS = ("gateway", "sidebar", "billing", "backup")
REQUEST = f"Find out which file of each is at fault: {', '.join(TASKS)}. Change nothing!"
CONFIG: Any = {"configurable": {"thread_id": "long"}, "recursion_limit": 500}


@tool
def read_source(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "a line of a program that nobody has looked at for a while. " * 20


def script() -> list[AIMessage]:
    """Return the answers for a run without a key: one effort for each task."""
    calls: list[tuple[str, dict[str, str]]] = []
    for task in TASKS:
        files = [("read_source", {"path": f"{task}/{number}.py"}) for number in range(8)]
        calls += [("open_effort", {"name": task}), *files, ("close_effort", {})]
    asking = [
        [{"name": name, "args": args, "id": f"c{at}"}] for at, (name, args) in enumerate(calls)
    ]
    return [*(AIMessage("", tool_calls=calls) for calls in asking), AIMessage("The first of each.")]


def main() -> None:
    """Run the turn, and show what every seventh model call was sent."""
    path = output(__file__, __doc__)
    has_key = "OPENAI_API_KEY" in os.environ
    model = choose_model(None, os.environ) if has_key else ScriptedModel(script())
    budget = 4_000
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        options: Any = {"settings": Settings(context_budget=budget), "archive": archive}
        options["summary_model"] = model if has_key else ScriptedModel()
        saver = InMemorySaver()
        agent = create_memory_agent(model, tools=[read_source], checkpointer=saver, **options)
        steps = agent.stream({"messages": REQUEST}, CONFIG, stream_mode="updates")
        sent = [step["assemble_context"] for step in steps if "assemble_context" in step]
    sizes = [update["memory"]["context_report"]["total"] for update in sent]
    notes = [[part.text for part in update["context"]["messages"]] for update in sent]
    lists = ["".join(text for text in texts if ">concluded efforts" in text) for texts in notes]
    summaries = [text.count("\n- ") for text in lists]
    more = [at for at in range(1, len(sent)) if summaries[at] > summaries[at - 1]]
    table = Table("call", "tokens", "request", "summaries", "results shown")
    for number in range(0, len(sent), 7):
        messages = sent[number]["context"]["messages"]
        request = "whole" if any(part.text == REQUEST for part in messages) else "cut"
        results = sum(part.name == "read_source" for part in messages)
        row = (request, str(summaries[number]), str(results))
        table.add_row(str(number + 1), f"{sizes[number]:,}", *row)
    print(table, f"Largest of {len(sizes)} calls: {max(sizes):,} tokens of {budget:,}.")
    print(f"Settings here, so that results leave sooner: {options['settings']!r}")
    print(write_rows(path, options["settings"], table))
    if axes := begin("call of the model", "tokens"):
        axes.plot(range(1, len(sizes) + 1), sizes, label="context")
        axes.axhline(budget, **DASHED)
        axes.set_ylim(0, budget * 1.25)
        mark(axes, {at + 1: "concluded " for at in more})
    print(save(axes, path, legend={"ncols": 2}) if axes else MISSING)


if __name__ == "__main__":
    main()
