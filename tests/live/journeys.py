"""Journeys for a real model: plain speech, and what should become of it.

Each takes a model and a folder, and returns what it claims, each claim with whether it held.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, create_memory_agent
from tests.agents import THREAD

Claims: TypeAlias = Mapping[str, bool]
Journey: TypeAlias = Callable[[BaseChatModel, Path], Claims]

WORK = (
    "Let's work on the login bug: our users get error 401 after one hour and must sign in again.",
    "The refresh token was never sent. I added an axios interceptor to session.ts, in line 7313.",
    "All tests pass, so that's done. Please conclude it.",
)
OTHER = ("Count from one to ten.", "Say the alphabet.", "Put 'good morning' into Spanish.")
SHOW = "Show me, word for word, the full log of the login bug."
TOPIC = "What did we change so that the error 401 went away for our users?"
DETAILS = "Show me the full log of that work, word for word."
FORGETFUL = Settings(summary_eviction_threshold=len(OTHER), recall_hints=0, rebuild="every-turn")


@dataclass
class Spoken:
    """A conversation in plain speech: the agent, and the state after each turn."""

    agent: Any
    states: list[dict[str, Any]] = field(default_factory=list)

    def say(self, *lines: str) -> dict[str, Any]:
        """Say these lines, a turn each, and return the last state."""
        for words in lines:
            self.states.append(self.agent.invoke({"messages": [("user", words)]}, THREAD))
        return self.states[-1]


def spoken(model: BaseChatModel, root: Path, settings: Settings | None = None) -> Spoken:
    """Begin a conversation with a model."""
    archive = DiskArchive(root, durable=False)
    saver = InMemorySaver()
    agent = create_memory_agent(model, archive=archive, checkpointer=saver, settings=settings)
    return Spoken(agent)


def called(state: Mapping[str, Any]) -> list[str]:
    """Return the tools that the model called in the last turn."""
    messages = state["messages"]
    start = max(at for at, message in enumerate(messages) if message.type == "human")
    calls = [call for message in messages[start:] for call in getattr(message, "tool_calls", ())]
    return [call["name"] for call in calls]


def opens_and_closes(model: BaseChatModel, root: Path) -> Claims:
    """Go through a piece of work; nobody names a tool."""
    talk = spoken(model, root)
    first, second, last = (talk.say(words) for words in WORK)
    return {
        "opens an effort": len(first["memory"]["open_efforts"]) == 1,
        "keeps it open while the work goes on": len(second["memory"]["open_efforts"]) == 1,
        "concludes it": not last["memory"]["open_efforts"]
        and len(last["memory"]["summaries"]) == 1,
        "answers": all(state["messages"][-1].text for state in talk.states),
    }


def expands_again(model: BaseChatModel, root: Path) -> Claims:
    """Ask for a log, let it collapse by itself, ask for it again."""
    talk = spoken(model, root)
    concluded = [*talk.say(*WORK)["memory"]["summaries"]]
    shown = [*talk.say(SHOW)["memory"]["expanded"]]
    silent = [*talk.say(*OTHER)["memory"]["expanded"]]
    again = [*talk.say(SHOW)["memory"]["expanded"]]
    return {
        "expands the log": shown == concluded != [],
        "lets it collapse": silent == [],
        "expands it again": again == concluded != [],
    }


def searches(model: BaseChatModel, root: Path) -> Claims:
    """Ask about a topic whose summary was evicted."""
    talk = spoken(model, root, FORGETFUL)
    concluded = talk.say(*WORK)["memory"]["summaries"]
    evicted = talk.say(*OTHER)["memory"]["summaries"]
    found = talk.say(TOPIC)
    return {
        "the summary is evicted": len(concluded) == 1 and not evicted,
        "searches": "search_efforts" in called(found),
        "answers": "interceptor" in found["messages"][-1].text.lower(),
    }


def expands_after_searching(model: BaseChatModel, root: Path) -> Claims:
    """Ask about a topic whose summary was evicted, and then for its log."""
    talk = spoken(model, root, FORGETFUL)
    concluded = [*talk.say(*WORK)["memory"]["summaries"]]
    found = called(talk.say(*OTHER, TOPIC))
    details = talk.say(DETAILS)
    return {
        "searches": "search_efforts" in [*found, *called(details)],
        "expands what it found": [*details["memory"]["expanded"]] == concluded != [],
        "sees the log": details["memory"]["context_report"]["tokens"].get("expanded", 0) > 0,
    }


JOURNEYS: tuple[Journey, ...] = (opens_and_closes, expands_again, searches, expands_after_searching)
"""All journeys, in the order in which a reader would take them."""


def broken(claims: Claims) -> list[str]:
    """Return the claims that did not hold."""
    return [claim for claim, held in claims.items() if not held]
