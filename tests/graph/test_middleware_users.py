"""One agent for many users: each has a model, a prompt and tools of their own, and nobody else's.

Everything of a user has their name in it, so that one search of the wire finds what leaked.
Complaint row 40.
"""

import asyncio
import gc
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRequest,
)
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, message_to_dict
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from ebbtide import (
    DiskArchive,
    EbbtideMiddleware,
    Session,
    Settings,
)
from ebbtide.memory.archive.export import read
from ebbtide.memory.fences import NAME
from ebbtide.memory.turn import StoredTurn
from tests.doubles import ScriptedModel, call, together

USERS = ("ann", "bob")
PROMPTS = {user: f"You serve {user}, whose account is {user}-iban." for user in USERS}
ROUNDS = {
    "open": [call("open_effort", name="work", goal="do it")],
    "close": [call("close_effort")],
    "all": [call("open_effort", name="work", goal="do it"), call("close_effort")],
    "both": [together(call("close_effort"), call("book"))],
    "book": [call("close_effort"), call("book")],
}


@dataclass(frozen=True)
class Tenant:
    """The application's context: who asks, and whose model answers."""

    user_id: str
    served_as: str = ""
    context_budget: int | None = None

    @property
    def name(self) -> str:
        """The user whose model, prompt and tools are taken."""
        return self.served_as or self.user_id


@dataclass
class PerUser(AgentMiddleware[Any, Any, Any]):
    """Chooses model, prompt and tools by the run's context, as LangChain's documentation does."""

    models: dict[str, ScriptedModel]
    prompts: dict[str, str] = field(default_factory=PROMPTS.copy)

    def changed(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request as this user's."""
        user = request.runtime.context.name
        tools: list[BaseTool | dict[str, Any]] = [
            one for one in request.tools if isinstance(one, BaseTool) and user in one.name
        ]
        prompt = SystemMessage(self.prompts[user])
        return request.override(model=self.models[user], system_message=prompt, tools=tools)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        """Change the request."""
        return handler(self.changed(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Change the request."""
        return await handler(self.changed(request))


@dataclass
class Service:
    """An agent for all users, with the models, and a gate at which their calls meet."""

    agent: Any
    models: dict[str, ScriptedModel]
    memory: EbbtideMiddleware
    archive: DiskArchive
    gate: list[Barrier]

    def say(self, user: str, words: str, **context: Any) -> Any:
        """Send a message of a user, in their own thread."""
        return self.agent.invoke({"messages": words}, thread(user), context=Tenant(user, **context))

    def both_say(self, how: str, words: str) -> None:
        """Send a message of each user: one after the other, from two threads, or by asyncio."""
        if how == "in turns":
            for user in USERS:
                self.say(user, words.replace("{}", user))
            return
        self.gate[:] = [Barrier(len(USERS), timeout=30)]
        if how == "threads":
            with ThreadPoolExecutor(2) as pool:
                [*pool.map(lambda user: self.say(user, words.replace("{}", user)), USERS)]
        else:
            asyncio.run(self._both_say(words))
        self.gate.clear()

    async def _both_say(self, words: str) -> None:
        runs = (
            self.agent.ainvoke(
                {"messages": words.replace("{}", user)}, thread(user), context=Tenant(user)
            )
            for user in USERS
        )
        await asyncio.gather(*runs)


def thread(user: str) -> RunnableConfig:
    """Return the config of a user's thread."""
    return {"configurable": {"thread_id": f"of-{user}", "user_id": user}}


def model_of(user: str, gate: list[Barrier]) -> ScriptedModel:
    """Return a user's model: it calls what the first word says, and names the user in all else."""

    def answer(messages: list[BaseMessage]) -> Any:
        [barrier.wait() for barrier in gate]
        at = max(i for i, m in enumerate(messages) if m.type == "human" and m.name != NAME)
        rounds = ROUNDS.get(messages[at].text.split(" ")[0], [])
        done = sum(m.type == "ai" for m in messages[at + 1 :])
        return rounds[done] if done < len(rounds) else f"The answer for {user} is {user}-answer."

    def structured(messages: list[BaseMessage]) -> Any:
        [barrier.wait() for barrier in gate]
        if messages[0].text.startswith("You choose"):
            return {"new": []}
        return {"summary": f"It was {user}-summary.", "keywords": [user], "importance": 60}

    return ScriptedModel(answers=answer, structured=structured)


def tool_of(user: str) -> StructuredTool:
    """Return a tool of one user alone."""
    return StructuredTool.from_function(lambda: "ok", name=f"{user}_ledger", description="Book it.")


def service(root: Path, *after: Any, **options: Any) -> Service:
    """Return an agent whose model, prompt and tools depend on the context of a run."""
    gate: list[Barrier] = []
    models = {user: model_of(user, gate) for user in USERS}
    before = options.pop("before", None) or PerUser(models, options.pop("prompts", PROMPTS))
    model = options.pop("model", None) or ScriptedModel(answers=[])
    saver = options.pop("checkpointer", None) or InMemorySaver()
    archive = DiskArchive(root, durable=False)
    memory = EbbtideMiddleware(archive=archive, **options)
    book = StructuredTool.from_function(lambda: "ok", name="book", description="Book it.")
    agent = create_agent(
        model,
        [*map(tool_of, USERS), book],
        middleware=[before, memory, *after],
        checkpointer=saver,
        context_schema=Tenant,
    )
    return Service(agent, models, memory, archive, gate)


def wire(model: ScriptedModel) -> str:
    """Return all that a model was sent, as one text."""
    return "\n".join(
        json.dumps([*map(message_to_dict, one.messages), *one.tools, repr(one.options)])
        for one in [*model.sent, *model.asked]
    )


def other(user: str) -> str:
    """Return the other user."""
    return USERS[user == USERS[0]]


def leaks(text: str, user: str) -> list[str]:
    """Return what a text has of the other user."""
    return re.findall(rf".{{0,40}}(?<![a-z]){other(user)}(?![a-z]).{{0,40}}", text)


HOW = ["in turns", "threads", "asyncio"]


@pytest.mark.thorough
@pytest.mark.parametrize("how", HOW)
def test_turns_and_summaries(tmp_path: Path, how: str) -> None:
    """Each call, also the one that summarises an effort, goes to the model of its own user."""
    served = service(tmp_path)

    for words in ("open it", "The code is {}-code.", "close it", "And now?"):
        served.both_say(how, words)

    for user, model in served.models.items():
        assert leaks(wire(model), user) == []
        assert f"{user}-code" in model.asked[0].text
        assert model.sent[-1].tool_names[-1] == f"{user}_ledger"
        assert f"{user}-iban" in model.sent[-1].messages[0].text


class Between(AgentMiddleware[Any, Any, Any]):
    """Runs something between the request of ann's last call and the memory's own question."""

    def __init__(self) -> None:
        """Run nothing before `meanwhile` is set."""
        self.meanwhile: Callable[[], Any] | None = None

    def after_model(self, state: Any, runtime: Any) -> None:
        """Run it once."""
        if runtime.context.name == "ann" and state["messages"][-1].tool_calls and self.meanwhile:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()


def test_a_summary_while_another_user_is_answered(tmp_path: Path) -> None:
    """The other's whole turn comes between the request and the memory's question."""
    between = Between()
    served = service(tmp_path, between)
    for words in ("open it", "The code is {}-code."):
        served.both_say("in turns", words)
    between.meanwhile = lambda: served.say("bob", "hello")

    served.say("ann", "close it")

    assert "ann-code" in served.models["ann"].asked[0].text
    assert leaks(wire(served.models["bob"]), "bob") == []


@pytest.mark.thorough
@pytest.mark.parametrize("how", HOW)
def test_compression(tmp_path: Path, how: str) -> None:
    """What shortens an open effort before a turn's first call is the turn's own model."""
    served = service(tmp_path, settings=Settings(context_budget=4_500))
    served.both_say(how, "open it")

    for number in range(12):
        served.both_say(how, f"{number}: {{}} looked at the shop for long. " * 20)

    for user, model in served.models.items():
        log = read(served.archive, Session(user, f"of-{user}")).extractions
        assert [entry["told"].get("failed") for entry in log][:1] == [None]
        assert leaks(wire(model), user) == []


def test_sizes_before_the_first_request(tmp_path: Path) -> None:
    """They are the thread's own: another user's long prompt leaves no less room for it."""
    served = service(tmp_path, prompts={**PROMPTS, "bob": "bob " * 9_000})
    served.say("bob", "hello")

    state = served.say("ann", "hello", context_budget=4_000)

    assert state["memory"]["context_report"]["tokens"]["system"] < 2_000


def test_two_runs_of_one_thread(tmp_path: Path) -> None:
    """Runs of one thread at once, with two models: each asks its own."""
    served = service(tmp_path)
    served.say("ann", "open it")
    served.gate[:] = [Barrier(2, timeout=30)]

    with ThreadPoolExecutor(2) as pool:
        [
            *pool.map(
                lambda model: served.say("ann", f"close it for {model}-run", served_as=model), USERS
            )
        ]

    for user, model in served.models.items():
        assert [f"{user}-run" in asked.text for asked in model.asked] == [True]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_twice_in_one_graph(tmp_path: Path, how: str) -> None:
    """An agent that one run has twice inside, at once, with two models."""
    served = service(tmp_path)
    agent = served.agent
    agent.checkpointer = None
    given = {user: {"messages": [HumanMessage(f"all of it: {user}-code, " * 30)]} for user in USERS}

    def node(user: str) -> Any:
        def run(_: Any) -> dict[str, Any]:
            agent.invoke(given[user], context=Tenant("ann", user))
            return {}

        async def arun(_: Any) -> dict[str, Any]:
            await agent.ainvoke(given[user], context=Tenant("ann", user))
            return {}

        return run if how == "sync" else arun

    graph = StateGraph(MessagesState)
    for user in USERS:
        graph.add_node(user, node(user)).add_edge(START, user)
    outer: Any = graph.compile(checkpointer=InMemorySaver())
    served.gate[:] = [Barrier(2, timeout=30)]
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    if how == "sync":
        outer.invoke({"messages": []}, config)
    else:
        asyncio.run(outer.ainvoke({"messages": []}, config))

    for user, model in served.models.items():
        assert f"{user}-code" in model.asked[0].text
        assert leaks(wire(model), user) == []


def references(start: object) -> Iterator[object]:
    """Yield all objects that an object keeps alive, without modules, classes and their contents.

    Stored turns are left out, which the archive caches: each is its user's.
    """
    seen, waiting = {id(start)}, [start]
    while waiting:
        one = waiting.pop()
        yield one
        kept = one.__closure__ or () if isinstance(one, FunctionType) else gc.get_referents(one)
        for value in kept:
            skipped = (
                isinstance(value, ModuleType | type | FrameType | StoredTurn) or id(value) in seen
            )
            if not skipped:
                seen.add(id(value))
                waiting.append(value)


def kept_of(served: Service, user: str) -> list[object]:
    """Return what the middleware keeps of a user: their model, or a text of their prompt."""
    return [
        one
        for one in references(served.memory)
        if one is served.models[user] or (isinstance(one, str) and f"{user}-iban" in one)
    ]


@pytest.mark.thorough
def test_nothing_is_kept_after_a_turn(tmp_path: Path) -> None:
    """Neither prompt nor model: not of a turn that ended, and of one that waits until it ends."""
    asking = HumanInTheLoopMiddleware({"book": True})
    served = service(tmp_path, asking)
    for words in ("open it", "The code is {}-code.", "close it"):
        served.both_say("in turns", words)
    ended = [kept_of(served, user) for user in USERS]
    served.say("ann", "open it")
    served.say("ann", "book it")
    waiting = [bool(kept_of(served, user)) for user in USERS]

    approve: Any = Command(resume={"decisions": [{"type": "approve"}]})
    served.agent.invoke(approve, thread("ann"), context=Tenant("ann"))

    assert ended == [[], []]
    assert waiting == [True, False]
    assert [kept_of(served, user) for user in USERS] == [[], []]
