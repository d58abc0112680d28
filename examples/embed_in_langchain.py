"""The agent with tools, as a node of a larger graph, and in an LCEL chain."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import DASHED, MISSING, begin, output, save, write_rows
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, MemoryState, Settings, build_memory_graph
from ebbtide.graph.models import choose_model

SAID = (
    "Let's work on the late parcel: order A-17 should have come on Monday",
    "use order_status with order=A-17",
    "Why is order A-17 late?",
)


@tool
def order_status(order: str) -> str:
    """Return where an order is."""
    return f"Order {order} is late because of a strike, and left Lyon on Tuesday at 6:40."


class ShopState(MemoryState, total=False):
    """The state of the larger graph: the memory and one more key."""

    requests: int


def parent(agent: Any) -> Any:
    """Return a larger graph. The agent in it inherits the checkpointer."""
    count = "count", lambda state: {"requests": state.get("requests", 0) + 1}
    graph = StateGraph(ShopState, input_schema=MessagesState)
    graph.add_sequence([count, ("agent", agent)]).add_edge(START, "count")
    return graph.compile(checkpointer=InMemorySaver())


def hold(agent: Any, config: Any) -> Any:
    """Run the conversation with one of the three; return the last state."""
    return [agent.invoke({"messages": words}, config) for words in SAID][-1]


def main() -> None:
    """Run the same conversation in all three; the memory is the same."""
    path = output(__file__, __doc__)
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        model = choose_model(None, os.environ)
        memory = build_memory_graph(model, tools=[order_status], archive=archive)
        alone, shop = memory.compile(checkpointer=InMemorySaver()), parent(memory.compile())
        prompt: Any = ChatPromptTemplate([("user", "{messages}")])
        chain = prompt | (lambda value: {"messages": value.messages}) | alone
        variants = {"alone": alone, "in a graph": shop, "in a chain": chain}
        ends = {at: hold(one, {"configurable": {"thread_id": at}}) for at, one in variants.items()}
    table = Table("the agent", "turns", "effort", "tokens", "last answer")
    sizes = [end["memory"]["context_report"]["total"] for end in ends.values()]
    for (name, end), size in zip(ends.items(), sizes, strict=True):
        facts = (str(end["memory"][key]) for key in ("turn", "active_effort"))
        table.add_row(name, *facts, str(size), end["messages"][-1].text)
    print(table, f"The larger graph counted {ends['in a graph']['requests']} requests.")
    print(write_rows(path, Settings(), table))
    if axes := begin("where the agent runs", "last call (tokens)"):
        axes.bar([*ends], sizes)
        axes.axhline(Settings().context_budget, **DASHED)
    print(save(axes, path, legend={}) if axes else MISSING)


if __name__ == "__main__":
    main()
