"""Agents for tests: a scripted model, an archive on disk, checkpoints in memory."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, cast

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from ebbtide import DiskArchive, EbbtideMiddleware, create_memory_agent
from ebbtide.graph.commands.look import ShownContext
from ebbtide.memory.archive.database import FILE
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Session, StoredTurn, Tip
from ebbtide.nodes.turn.state import unpacked
from ebbtide.nodes.turn.updates import tip_of
from tests.doubles import ScriptedModel

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
SUMMARY: dict[str, Any] = {
    "summary": "Tokens expire after 3600 s.",
    "keywords": ["tokens"],
    "importance": 70,
}
LASTING = {"turn", "active_effort", "open_efforts", "expanded", "summaries"}
LASTING |= {"archive", "number", "tip"}


@dataclass(frozen=True)
class Talk:
    """An agent with its model and archive, and the thread that a test talks in."""

    agent: CompiledStateGraph[Any, Any, Any, Any]
    model: ScriptedModel
    archive: DiskArchive

    def say(self, words: Any, config: RunnableConfig = THREAD, **options: Any) -> dict[str, Any]:
        """Send a user message and return the state."""
        found: dict[str, Any] = self.agent.invoke(
            {"messages": [("user", words)]}, config, **options
        )
        return found

    def say_all(self, messages: Iterable[Any]) -> list[dict[str, Any]]:
        """Send user messages one after the other, and return the states."""
        return [self.say(words) for words in messages]

    async def say_by(self, way: str, words: str) -> dict[str, Any]:
        """Send a user message by the "sync" or the "async" way, and return the state."""
        if way == "sync":
            return self.say(words)
        found: dict[str, Any] = await self.agent.ainvoke({"messages": words}, THREAD)
        return found

    def turns(self, values: dict[str, Any]) -> tuple[StoredTurn, ...]:
        """Return the turns that a state can see."""
        tip, sessions = tip_in(values), [Session(user, "") for user in self.archive.users()]
        if not tip.turn:  # the first turn was cut short
            return ()
        session = next(session for session in sessions if self.archive.load(session, tip).tip)
        return self.archive.load(session, tip).turns(range(1, tip.turn + 1))

    def said(self, values: dict[str, Any]) -> list[str]:
        """Return the user messages of the turns that a state can see."""
        messages = [m for turn in self.turns(values) for m in turn.messages]
        return [text(m) for m in messages if m.type == "human"]

    @property
    def branches(self) -> int:
        """The number of ends that the histories of all sessions have: one each without a fork."""
        sessions = [
            session for user in self.archive.users() for session in self.archive.sessions(user)
        ]
        return sum(len(self.archive.tips(session)) for session in sessions)

    @property
    def last(self) -> list[BaseMessage]:
        """The messages that the model was sent last."""
        return self.model.sent[-1].messages


SECRET = b"5" * 64
"""The secret of all archives of `talk`, so that fences are equal wherever what they hold is."""


@cache
def _without_sessions() -> tuple[bytes, bytes]:
    """Return the file of an archive with all tables and no session, and the id in it."""
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        archive.database.take_key(SECRET)
        archive.close()
        return Path(folder, FILE).read_bytes(), archive.database.id().encode()


def archive_in(root: Path) -> DiskArchive:
    """Return an archive on files below `root`, with the secret of all others if it is new.

    Its file is a copy: to make the tables takes longer than most of what tests do with them.
    """
    if not (root / FILE).exists():
        root.mkdir(parents=True, exist_ok=True)
        made, id_of_made = _without_sessions()
        (root / FILE).write_bytes(made.replace(id_of_made, token_hex(16).encode()))
    return DiskArchive(root, durable=False)


def unnumbered(text: str) -> str:
    """Return a text whose fences have no numbers, which two sessions never share."""
    return re.sub(r"(</?\w+) \d{9}>", r"\1>", text)


def talk(root: Path, answers: Any, structured: Any = None, **options: Any) -> Talk:
    """Return an agent on files below `root` whose model answers from a script.

    What compresses has a model of its own, which quotes nothing and says little.
    """
    model = ScriptedModel(answers=answers, structured=structured or [SUMMARY] * 50)
    archive = options.pop("archive", None) or archive_in(root)
    options.setdefault("checkpointer", InMemorySaver())
    quiet = ScriptedModel(answers=lambda _: "They talked.", structured=lambda _: {"new": []})
    options = {"extraction_model": quiet, "compression_model": quiet, **options}
    made = ENTRIES[options.pop("entry", entry)]
    return Talk(made(model, archive=archive, **options), model, archive)


def with_middleware(model: BaseChatModel, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return an agent of `create_agent` with the memory, given what `create_memory_agent` is.

    Commands that ask a model need a summary model.
    """
    options.setdefault("summary_model", model)
    own = {"tools", "system_prompt", "checkpointer", "store"} & options.keys()
    given = {name: options.pop(name) for name in own}
    agent: Any = create_agent(model, middleware=[EbbtideMiddleware(**options)], **given)
    return cast("CompiledStateGraph[Any, Any, Any, Any]", agent)


def inside(here: Talk, schema: Any) -> Any:
    """Return a graph around an agent that has no checkpointer of its own."""
    graph = StateGraph(schema)
    graph.add_node("agent", here.agent)
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=InMemorySaver())


ENTRIES: Mapping[str, Callable[..., CompiledStateGraph[Any, Any, Any, Any]]] = {
    "graph": create_memory_agent,
    "middleware": with_middleware,
}
entry = "graph"
"""How `talk` makes an agent; the fixture `entry` changes it."""


def shown_turns(shown: ShownContext) -> dict[str, tuple[int, ...]]:
    """Return by part of a context the turns that stand in it, in their order."""
    found: dict[str, dict[int, None]] = {}
    for part in shown.parts:
        if part.turn is not None:
            found.setdefault(part.name, {})[part.turn] = None
    return {name: tuple(turns) for name, turns in found.items()}


def unreported(values: dict[str, Any]) -> list[BaseMessage]:
    """Return the messages of a state without the reports of their calls, which are not archived."""
    found = []
    for message in values["messages"]:
        metadata = {k: v for k, v in message.response_metadata.items() if k != "ebbtide"}
        found.append(message.model_copy(update={"response_metadata": metadata}))
    return found


def referenced(values: dict[str, Any]) -> dict[str, int]:
    """Return in which turn each summary of a state was referenced last."""
    summaries = values["memory"]["summaries"].items()
    return {name: entry["last_referenced_turn"] for name, entry in summaries}


def tip_in(values: dict[str, Any]) -> Tip:
    """Return the last turn that a state has committed."""
    return tip_of(unpacked(values))


def lasting(values: dict[str, Any]) -> dict[str, Any]:
    """Return what the archive knows of the memory in a state."""
    return {key: value for key, value in unpacked(values).items() if key in LASTING}
