"""A thread as a command finds and writes it: its session, its state, and whether it is at rest."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Overwrite, StateSnapshot

from ...memory.archive.protocol import Archive
from ...memory.errors import SessionNotFoundError, SettingsError, TurnRunningError
from ...memory.messages import answered, clean
from ...memory.record import Owner, Tip
from ...memory.settings import Settings, resolve
from ...memory.view import ArchiveView, past
from ...nodes.turn.arrivals import divided, unarchived
from ...nodes.turn.langchain_messages import to_dicts
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.recovery import remembered
from ...nodes.turn.state import AgentState, TurnState, unpacked
from ...nodes.turn.values import claimed, resumed, sealed, tip_of, trusted, user_of
from ..build import MemoryGraph
from ..middleware import EbbtideMiddleware

Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Place:
    """The graph that a command is given, and the agent in it: its node's path, "" if it is alone.

    `memory` is the agent's graph of ours, or its middleware.
    """

    given: Agent
    path: str
    agent: Agent
    memory: MemoryGraph | EbbtideMiddleware

    @property
    def node(self) -> str:
        """The node of the larger graph in which the agent stands, "" for an agent alone."""
        return self.path.partition("|")[0]

    @property
    def last_node(self) -> str:
        """The last node of a turn, in whose name a whole state is written."""
        # In an agent of `create_agent` it is that of its first middleware.
        hooks = (name for name in self.given.builder.nodes if name.endswith(".after_agent"))
        return self.node or next(hooks, "compress")

    @property
    def has_memory(self) -> bool:
        """Whether the given graph keeps the memory of the agent, and hands it over to each run.

        The middleware is given messages alone, unless it stands alone.
        """
        given = isinstance(self.memory, MemoryGraph) and "memory" in self.given.channels
        return given or not self.path

    @property
    def parts(self) -> AgentParts:
        """The parts of the agent."""
        memory = self.memory
        return memory.parts if isinstance(memory, MemoryGraph) else memory.parts(self.agent)

    @property
    def saver(self) -> BaseCheckpointSaver[Any] | None:
        """The checkpointer, None if there is none or if it is that of an outer graph."""
        saver = self.given.checkpointer
        return saver if isinstance(saver, BaseCheckpointSaver) else None

    def named(self, config: RunnableConfig) -> Owner:
        """Return the session that a config names."""
        chosen = config.get("configurable", {})
        user = user_of(self.parts.settings, chosen)
        return Owner(user, clean(str(chosen["thread_id"])), self.path)

    def owner(self, config: RunnableConfig) -> Owner:
        """Return whose session a thread is; raises `SessionNotFoundError` if it is not the user's.

        Raises `TipNotFoundError` if its state is of another archive.
        """
        owner = self.named(config)
        values = self.given.get_state(newest_config(config)).values if self.saver else {}
        in_state = claimed(unpacked(values), owner.user)
        trusted(values, self.parts.archive)
        return in_state or owner

    def thread(self, config: RunnableConfig, snapshot: StateSnapshot, context: object) -> "Thread":
        """Return the thread that `config` names, as `snapshot` has it; raises what `owner` does."""
        parts, chosen = self.parts, config.get("configurable", {})
        settings = resolve(context, parts.settings)
        user = user_of(settings, chosen)
        owner = claimed(unpacked(snapshot.values), user)
        trusted(snapshot.values, parts.archive)
        return Thread(
            self,
            parts,
            config,
            context,
            owner or Owner(user, clean(str(chosen["thread_id"]))),
            settings,
            snapshot.values,
            following=snapshot.next,
            kept=snapshot.created_at is not None,
            checkpoint=str(snapshot.config.get("configurable", {}).get("checkpoint_id", "")),
        )

    def write(self, config: RunnableConfig, update: dict[str, Any]) -> RunnableConfig:
        """Write an update in the name of a turn's last node, and return the config.

        In a larger graph that is the node in which the agent stands, and nothing follows then.
        """
        written = self.given.update_state(config, update, as_node=self.last_node)
        return self.given.update_state(written, None, as_node=END) if self.node else written

    def seed(self, config: RunnableConfig, values: dict[str, Any]) -> RunnableConfig:
        """Write a whole state as the newest of a thread, as `write` does."""
        channels = self.given.channels
        written = {
            key: Overwrite(v) if isinstance(channels[key], BinaryOperatorAggregate) else v
            for key, v in values.items()
            if key in channels
        }
        return self.write(config, written)


def place_of(agent: Agent) -> Place:
    """Return where the agent with the memory stands; raises `SettingsError` if there is none."""
    if not hasattr(agent, "builder"):  # which what stands for an agent on a server has as well
        raise SettingsError(
            f"{type(agent).__name__} is no compiled graph: pass the agent itself; the commands for "
            "an agent on a LangGraph server are routes of that server"
        )
    if memory := _memory_of(agent):
        return Place(agent, "", agent, memory)
    for path, graph in agent.get_subgraphs(recurse=True):
        if isinstance(graph, CompiledStateGraph) and (memory := _memory_of(graph)):
            return Place(agent, path, graph, memory)
    kind = type(agent.builder).__name__
    raise SettingsError(f"{kind} is no graph of Ebbtide's: pass its agent")


def _memory_of(agent: Agent) -> MemoryGraph | EbbtideMiddleware | None:
    if isinstance(agent.builder, MemoryGraph):
        return agent.builder
    nodes: Mapping[str, Any] = getattr(agent.builder, "nodes", {})
    hooks = (getattr(node.runnable, "func", None) for node in nodes.values())
    owners = (getattr(hook, "__self__", None) for hook in hooks)
    return next((owner for owner in owners if isinstance(owner, EbbtideMiddleware)), None)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as a command works on it: its agent, its session and its state.

    `context` is that of the run that the command stands for. `following` are the nodes of an
    unfinished turn. `kept` tells whether there are checkpoints, `checkpoint` is the id of the one
    that was read. `inside` tells that other nodes of a larger graph may have said something since
    the last turn.
    """

    place: Place
    parts: AgentParts
    config: RunnableConfig
    context: Any
    owner: Owner
    settings: Settings
    values: dict[str, Any]
    following: tuple[str, ...]
    kept: bool
    checkpoint: str
    inside: bool = False

    @property
    def state(self) -> TurnState:
        """The state as the nodes see it."""
        return unpacked(self.values)

    @property
    def turn(self) -> int:
        """The turn that was begun last; an unfinished one may not have been counted yet."""
        state, turn = self.state, self.state.get("turn", 0)
        if not self.unfinished:
            return turn
        counted = turn > state.get("persisted", 0) or not divided(state).new
        uncounted = any(
            node in {START, "begin_turn"} or node.endswith(".before_agent")
            for node in self.following
        )
        return turn + (not counted or uncounted)

    @property
    def tip(self) -> Tip:
        """What the state has committed; without checkpoints the newest branch of the archive.

        Raises `SessionNotFoundError` if nothing was said yet.
        """
        if "persisted" in self.state:
            return tip_of(self.state)
        archive = self.parts.archive
        tip = None if self.kept else archive.reseeding(self.owner) or archive.newest(self.owner)
        if tip is None:
            raise SessionNotFoundError(self.owner.thread)
        return tip

    @property
    def view(self) -> ArchiveView:
        """The archive as this state sees it."""
        return past(self.parts.archive, self.owner, self.tip)

    @property
    def unfinished(self) -> bool:
        """Whether a turn was begun that the archive does not have whole."""
        # A crash between what a node wrote and its checkpoint leaves no node to follow.
        new = to_dicts(unarchived(self.state))
        return bool(self.following) or (bool(new) and not (self.inside and answered(new)))

    def at_rest(self) -> "Thread":
        """Return the thread; raises `TurnRunningError` if its last turn is not finished."""
        if self.unfinished:
            raise TurnRunningError(self.owner.thread, self.turn)
        return self

    def changed(self, **update: Any) -> dict[str, Any]:
        """Return the update of the thread's state that changes its memory, empty if none does."""
        return sealed(update, self.state, self.parts.archive)

    def rehearse(
        self, values: Mapping[str, Any], schema: type = AgentState, **nodes: Any
    ) -> dict[str, Any]:
        """Run nodes one after the other on a copy of the state, where the agent stands.

        Nothing is saved. `schema` is that of the state on which the nodes work.
        """
        graph: Any = StateGraph(schema, context_schema=Settings)
        graph.add_sequence([*nodes.items()]).add_edge(START, next(iter(nodes)))
        for name in reversed(self.place.path.split("|") if self.place.path else ()):
            inner, graph = graph, StateGraph(schema, context_schema=Settings)
            graph.add_node(name, inner.compile()).add_edge(START, name)
        whole = graph.compile(checkpointer=False, store=self.place.given.store)
        return dict(whole.invoke(values, newest_config(self.config), context=self.context))


def thread_at(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return the thread of an agent or of a graph around it, which may keep nothing but messages.

    In the middle of a turn the agent's own state is newer than that of the graph around it.
    """
    place = place_of(agent)
    if not agent.checkpointer:
        raise SettingsError("the agent has no checkpointer, so it has no threads: give it one")
    if place.saver is None:
        raise SettingsError("the agent's checkpointer is not its own: pass the outermost graph")
    snapshot = outer = agent.get_state(config, subgraphs=bool(place.path))
    for name in place.path.split("|"):
        states = (task.state for task in snapshot.tasks if task.name == name)
        snapshot = next((state for state in states if isinstance(state, StateSnapshot)), snapshot)
    thread = place.thread(config, snapshot, context)
    if place.path and snapshot is outer:  # what follows are nodes of its own
        alone = {"messages": thread.values.get("messages", [])}
        values = thread.values if place.has_memory else alone
        thread = replace(thread, following=(), values=values, inside=True)
    if not place.path or "session" in thread.state:
        if not thread.unfinished:
            return thread
        # A snapshot does not have what the model said beside its answers; the checkpoint does.
        checkpoint = place.saver.get_tuple(snapshot.config)
        written = checkpoint.checkpoint["channel_values"] if checkpoint else {}
        raw = {"raw_answers": written.get("raw_answers", {})}
        return replace(thread, values={**thread.values, **raw})
    owner = replace(thread.owner, namespace=place.path)
    known = remembered(thread.state, thread.parts.archive, owner, 1)
    if "session" in known:
        asked = thread.settings.model_copy(update={"user_id": owner.user})
        known = resumed(known, Runtime(context=asked), thread.parts)
    return replace(thread, owner=owner, values=sealed(known, {}, thread.parts.archive))


def resting(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread; raises `TurnRunningError` if its agent, or the graph around it, still runs.

    What follows in that graph would never run if the thread were changed.
    """
    thread = thread_at(agent, config, context).at_rest()
    if agent.get_state(config).next:
        raise TurnRunningError(thread.owner.thread, thread.turn)
    return thread


def tip_named(archive: Archive, owner: Owner, branch: str) -> Tip:
    """Return the tip of a session's branch; raises `SettingsError` if there is none of the name."""
    tips = {tip.branch: tip for tip in archive.tips(owner)}
    if branch not in tips:
        raise SettingsError(f"no branch {branch!r}: use one of {', '.join(tips)}")
    return tips[branch]


def newest_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config of the newest state of the thread, whichever state `config` names."""
    chosen = config.get("configurable", {})
    thread = {key: value for key, value in chosen.items() if not key.startswith("checkpoint_")}
    return {**config, "configurable": thread}


def on_a_thread(
    command: Callable[_Given, _Result],
) -> Callable[_Given, Coroutine[Any, Any, _Result]]:
    """Return the asynchronous form of a command: it runs on a thread, with any checkpointer."""

    @wraps(command)
    async def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        return await asyncio.to_thread(command, *args, **kwargs)

    run.__name__ = run.__qualname__ = f"a{command.__name__}"
    return run
