"""A conversation whose every text is known by a word of its own, to be looked for after an erasure.

Turn 2 leaves something wherever an agent keeps something: messages in two scripts, a tool's result,
a goal, a field of the state block that is a fact of the user, a goal set by hand after it, a
summary, and results of later turns that quote and repeat them.
"""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from ebbtide import MemoryState, commands
from ebbtide.memory.turn import Session
from tests.agents import Talk, talk
from tests.doubles import Concepts, call, together
from tests.faults.places import Place

ANN: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ann"}}
ONE = "Walnut is what was asked first, at dawn."
ASKED = "The zirconium gate opens with the code of the harbour master."
CHINESE = "北门的钥匙在玛丽昂那里，不要告诉任何人。"
FOUND = "Xylophone street 12, on the second floor."
ANSWERED = "I shall keep the quicksilver to myself."
GOAL = "Guard the tourmaline"
FACT = "the password is swordfish"
BY_HAND = "Count the obsidian"
TOLD = "It was said of malachite that it is green."
THREE = "Vermilion is what was asked third, at dusk."
LAST = "Periwinkle is what was asked at last."
NEW = "Cinnabar is what is asked instead."
OF_TURN_2 = (ASKED, CHINESE, FOUND, ANSWERED, GOAL, FACT, BY_HAND, TOLD)
TEXTS = (ONE, *OF_TURN_2, THREE, LAST)
STEMS = {
    ONE: "walnut",
    ASKED: "zirconium",
    FOUND: "xylophon",
    ANSWERED: "quicksilv",
    GOAL: "tourmalin",
    BY_HAND: "obsidian",
    TOLD: "malachit",
    THREE: "vermilion",
    LAST: "periwinkl",
    NEW: "cinnabar",
    FACT: "swordfish",
}
LOOKS = (call("expand_effort", effort_id="gate"), call("search_efforts", query="green"))
SCRIPT = (
    *("Hello.", call("open_effort", name="gate", goal=GOAL)),
    *(call("look_up", what="zirconium"),),
    f"{ANSWERED}\n---STATE---\nGoal: tidy up\nFacts: {FACT}\n---END STATE---",
    together(call("effort_status"), call("read_log", turns="2")),
    *("Noted.", call("close_effort"), together(*LOOKS), "Closed."),
)
SUMMARY = {"summary": TOLD, "keywords": ["zirconium"], "importance": 90}
AGAIN = {"summary": "It is about a garden.", "keywords": ["garden"], "importance": 50}


class Kept(MemoryState, total=False):
    """A graph that keeps the memory, and something of its own."""

    visits: Annotated[list[str], operator.add]


class Said(MessagesState):
    """A graph that keeps messages, and something of its own."""

    visits: Annotated[list[str], operator.add]


class Counted(TypedDict):
    """What the graph beside the agent counts."""

    runs: Annotated[int, operator.add]


AROUND: dict[str, Any] = {"mixed": Kept, "parent": Said}
"""The graphs around an agent, by the names of the places where an agent can be."""


def look_up(what: str) -> str:
    """Look something up."""
    return f"{FOUND} ({len(what)})"


def around(chat: Talk, schema: Any, saver: Any) -> Any:
    """Return a graph around an agent, with another one beside it that has a state of its own."""
    counting = StateGraph(Counted).add_node("count", lambda _: {"runs": 1}).add_edge(START, "count")
    graph = StateGraph(schema)
    graph.add_node("visit", lambda state: {"visits": [f"{len(state['messages'])} messages"]})
    graph.add_node("tally", counting.compile(checkpointer=True))
    graph.add_node("agent", chat.agent).add_edge(START, "visit")
    graph.add_edge("visit", "tally").add_edge("tally", "agent")
    return graph.compile(checkpointer=saver)


def of_its_own(agent: Any) -> tuple[Any, int]:
    """Return what a graph around the agent, and the one beside that, keep of their own."""
    inner = {"configurable": {"thread_id": "t", "checkpoint_ns": "tally"}}
    found = agent.checkpointer.get_tuple(inner)
    runs = found.checkpoint["channel_values"]["runs"] if found else 0
    return agent.get_state(ANN).values.get("visits"), runs


def agent_at(place: Place, where: str, saver: Any, archive: Any, **options: Any) -> Talk:
    """Return an agent of the scene, inside a graph around it if that is where it is."""
    return talk(
        place.root,
        lambda _: "On we go.",
        [AGAIN] * 9,
        archive=archive,
        checkpointer=None if where in AROUND else saver,
        tools=[look_up],
        embeddings=Concepts(),
        entry="middleware" if where == "middleware" else "graph",
        **options,
    )


@contextmanager
def opened(place: Place, where: str = "graph", saver: Any = None) -> Iterator[tuple[Talk, Any]]:
    """Open the scene as a new process does; yield the agent, and what its runs are of."""
    with place.saver() as own, place.archive() as archive, place.attention(archive) as cache:
        saver = own if saver is None else saver
        chat = agent_at(place, where, saver, archive, attention=cache)
        schema = AROUND.get(where)
        yield chat, around(chat, schema, saver) if schema else chat.agent


def say(agent: Any, words: Any, config: RunnableConfig = ANN) -> Any:
    """Send a user message and return the state."""
    return agent.invoke({"messages": [("user", words)]}, config)


def play(place: Place, where: str = "graph", *, edited: bool = False) -> None:
    """Have the conversation; `edited`: at last the question of turn 2 is edited, and it goes on."""
    with opened(place, where) as (chat, agent):
        chat.model.answers = [*SCRIPT, "On we go."]
        chat.model.structured = [SUMMARY]
        say(agent, ONE)
        say(agent, f"{ASKED}\n{CHINESE}")
        commands.open_effort(agent, ANN, "count", BY_HAND)
        commands.switch_effort(agent, ANN, "gate")
        say(agent, THREE)
        say(agent, LAST)
        if edited:
            messages = agent.get_state(ANN).values["messages"]
            (asked,) = (one for one in messages if ASKED in one.text and one.type == "human")
            update = {"messages": [asked.model_copy(update={"content": NEW})]}
            agent.update_state(ANN, update)
            say(agent, "And then?")


def session(where: str) -> Session:
    """Return the session of the thread."""
    return Session("ann", "t", "agent" if where in AROUND else "")


def left(place: Place, texts: Any) -> list[str]:
    """Return where something of the texts stands, as it is or as the words that find it."""
    return place.holding(texts, [STEMS[one] for one in texts if one in STEMS])


def standing(place: Place, texts: Any) -> set[str]:
    """Return which texts stand somewhere."""
    return {line.rpartition(": ")[2] for line in place.holding(texts)}
