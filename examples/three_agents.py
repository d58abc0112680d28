"""Full history, a summariser and Ebbtide in one conversation; then a question about its start."""

import re
from collections.abc import Iterator
from shutil import rmtree
from typing import Any

from drawing import MISSING, begin, output, save, write_rows
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, EbbtideMiddleware, Settings
from ebbtide.memory.tokens import count_messages
from ebbtide.testing import ScriptedModel

ORDERS, BOXES = 30, 50
GOODS = ("oranges", "bicycles", "lamps", "books", "carpets", "kettles", "violins")
TOWNS = ("Lyon", "Graz", "Porto", "Bergen", "Turin")
WHY = ("the lift is out of order", "its papers are late", "the road is closed", "it can wait")
TALK = ("It rains again.", "The canteen has soup.", "My train was late.")
FACT = "The customs broker is Mrs Halvorsen, and her direct line is 0711 2350."
QUESTION = "What is the direct line of the customs broker?"
CONFIG: Any = {"configurable": {"thread_id": "orders"}}


def packing_list(order: int) -> str:
    """Return the packing list of an order."""
    boxes = range(100 * order, 100 * order + BOXES)
    return "\n".join(f"box {box}: {GOODS[box % 7]}, {box % 61} kg, seal {box**3}" for box in boxes)


def said() -> Iterator[str]:
    """Yield what the user says, turn by turn."""
    yield FACT
    for order in range(1, ORDERS + 1):
        goods = GOODS[order % 7]
        yield f"Let's work on order {order}: {goods} for {TOWNS[order % 5]}"
        yield f"use packing_list with order={order}"
        yield f"The {goods} stand at dock {7 * order} and weigh {900 + order} kg."
        yield f"We decided to send order {order} on the {order}th, because {WHY[order % 4]}."
        yield "That's done"
        yield TALK[order % 3]
    yield QUESTION


def summary(messages: list[BaseMessage]) -> str:
    """Return all that the user says in what is to be summarised: no model could keep more."""
    text = messages[-1].text
    return "\n".join(re.findall(r'<message type="human">(.*?)</message>', text, re.DOTALL))


def talk(*middleware: Any) -> tuple[list[int], str]:
    """Return the tokens of the last call of each turn, and the last answer."""
    tools, saver = [packing_list], InMemorySaver()
    agent: Any = create_agent(ScriptedModel(), tools, middleware=middleware, checkpointer=saver)
    turns = [agent.invoke({"messages": words}, CONFIG, durability="exit") for words in said()]
    answers = [turn["messages"][-1] for turn in turns]
    return [one.usage_metadata["input_tokens"] for one in answers], answers[-1].text


def main() -> None:
    """Hold the conversation with each agent; keep Ebbtide's archive beside the figure."""
    path, settings = output(__file__, __doc__), Settings(context_budget=8_000)
    trigger: Any = ("tokens", settings.context_budget)
    model = ScriptedModel([summary] * ORDERS)
    # By its own counter, four characters are a token: it would go up to 12,000 of those shown.
    counter: Any = count_messages
    summariser = SummarizationMiddleware(model, trigger=trigger, token_counter=counter)
    rmtree(path, ignore_errors=True)
    with DiskArchive(path) as archive:
        agents = {
            "full history": talk(),
            "summariser": talk(summariser),
            "Ebbtide": talk(EbbtideMiddleware(archive=archive, settings=settings)),
        }
    table = Table("agent", "last call", "largest call", title="Tokens")
    for name, (sizes, _) in agents.items():
        table.add_row(name, f"{sizes[-1]:,}", f"{max(sizes):,}")
    print(table, f"Turn 1: {FACT}", f"Turn {len([*said()])}: {QUESTION}", sep="\n")
    print(*(f"{name}: {answer}" for name, (_, answer) in agents.items()), sep="\n")
    print(write_rows(path, settings, table), f"Look at it: ebbtide inspect --root {path}", sep="\n")
    if axes := begin("turn", "last call of the turn (tokens)"):
        for (name, (sizes, _)), style in zip(agents.items(), ("k:", "C1--", "C0-"), strict=True):
            axes.plot(range(1, len(sizes) + 1), sizes, style, label=name)
    print(save(axes, path, legend={}) if axes else MISSING)


if __name__ == "__main__":
    main()
