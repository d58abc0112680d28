"""A thread as commands read and write it: its agent, its session, its state."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeAlias, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, StateSnapshot

from ...memory.archive.protocol import Archive
from ...memory.errors import (
    CommandError,
    NotAdoptedError,
    SessionNotFoundError,
    SettingsError,
    TipNotFoundError,
    TurnRunningError,
)
from ...memory.messages import answered
from ...memory.questions import Asks, What
from ...memory.serialised import clean
from ...memory.settings import Settings, resolve
from ...memory.turn import SHORT_ID, Session, Tip
from ...memory.view import ArchiveView, view_at
from ...nodes.ask import drive
from ...nodes.command import commit_command
from ...nodes.turn.arrivals import is_all_answered, new_messages, unarchived
from ...nodes.turn.commits import remembered
from ...nodes.turn.langchain_messages import messages_in_state
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.session import user_of
from ...nodes.turn.state import AgentState, TurnState, repacked, unpacked
from ...nodes.turn.updates import is_running, tip_of
from ...nodes.turn.well_typed import well_typed
from ..build import MemoryGraph, Node
from ..checkpoints import complete, implements
from ..entry import is_of_another
from ..middleware import EbbtideMiddleware
from ..models import UnknownModel

_log = logging.getLogger("ebbtide.calls")

Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Place:
    """The graph passed to a command, and the agent with the memory in it.

    `path` has the nodes that lead to the `agent`, joined by "|"; it is "" if `graph` is the agent.
    `memory` is the agent's `MemoryGraph`, or its middleware.
    """

    graph: Agent
    path: str
    agent: Agent
    memory: MemoryGraph | EbbtideMiddleware

    @property
    def parts(self) -> AgentParts:
        """The agent's parts, of one with the middleware those that no request changes."""
        return self.memory.parts if isinstance(self.memory, MemoryGraph) else self.memory.sized({})

    @property
    def node(self) -> str:
        """The node of the larger graph that has the agent inside, "" for an agent alone."""
        return self.path.partition("|")[0]

    @property
    def last_node(self) -> str:
        """The last node of a run; a state is written as its update, so that no node follows.

        It is the agent's own in a larger graph that has no node with an edge to the end alone.
        """
        builder = self.graph.builder
        if not self.node:  # `create_agent` runs the first middleware's `after_agent` last
            hooks = (name for name in builder.nodes if name.endswith(".after_agent"))
            return next(hooks, "persist")
        follow = Counter(before for before, _ in builder.edges)
        follow.update(node for joined, _ in builder.waiting_edges for node in joined)
        ends = (before for before, after in builder.edges if after == END and follow[before] == 1)
        return next((node for node in ends if node not in builder.branches), self.node)

    @property
    def has_memory(self) -> bool:
        """Whether the graph's state has the agent's memory, and passes it to each run.

        A larger graph passes only messages to an agent with the middleware.
        """
        is_passed = isinstance(self.memory, MemoryGraph) and "memory" in self.graph.channels
        return is_passed or not self.path

    @property
    def saver(self) -> BaseCheckpointSaver[Any] | None:
        """The graph's own checkpointer, None without one or if an outer graph has it."""
        saver = self.graph.checkpointer
        return saver if isinstance(saver, BaseCheckpointSaver) else None

    def session(self, config: RunnableConfig, settings: Settings | None = None) -> Session:
        """Return the session that a config names."""
        chosen = _chosen(config)
        user = user_of(settings or self.parts.settings, chosen)
        return Session(user, clean(str(chosen["thread_id"])), self.path)

    def thread(self, config: RunnableConfig, snapshot: StateSnapshot, context: object) -> "Thread":
        """Return the thread with the state of `snapshot`; a refused run has no next nodes.

        Raises `SessionNotFoundError` if the thread is another user's, or waits for one.
        """
        settings = resolve(context, self.parts.settings)
        session, archive = self.session(config, settings), self.parts.archive
        owner = archive.load(session, Tip()).owner
        if owner == "other" or is_of_another(snapshot.metadata, archive, session.user):
            raise SessionNotFoundError(session.thread)
        values = snapshot.values
        if "messages" in values:
            messages = map(well_typed, messages_in_state(values["messages"]))
            values = {**values, "messages": [*messages]}
        thread = Thread(
            self,
            config,
            context,
            session,
            settings,
            values,
            next_nodes=snapshot.next,
            has_checkpoints=snapshot.created_at is not None,
            checkpoint=str(snapshot.config.get("configurable", {}).get("checkpoint_id", "")),
        )
        # The last run was refused, or would be, because its input has no new message.
        given = bool(thread.next_nodes or thread.unarchived)
        if self.path or not (given and all(map(_begins, thread.next_nodes))):
            return thread
        if not is_all_answered(thread.state, view_at(archive, session, tip_of(thread.state))):
            return thread
        known = values["messages"][: len(values["messages"]) - len(thread.unarchived)]
        return replace(thread, next_nodes=(), values={**values, "messages": known})

    def write(self, config: RunnableConfig, update: dict[str, Any]) -> RunnableConfig:
        """Write an update as the turn's last node, and return the new config.

        In a larger graph a second update ends the run, so that no other node follows.
        """
        new_config = self.graph.update_state(config, update, as_node=self.last_node)
        if self.node:
            new_config = self.graph.update_state(new_config, None, as_node=END)
        if self.saver and implements(self.saver, "put"):
            try:
                _settle(self.saver, new_config, self.last_node)
            # The state is written: whoever tried a failed undo again would undo two turns.
            except Exception as error:  # noqa: BLE001 (any checkpointer's)
                _log.warning("a later update_state may resume a turn that broke off: %s", error)
        return new_config

    def seed(self, config: RunnableConfig, values: dict[str, Any]) -> RunnableConfig:
        """Write a whole state as the newest of a thread, and return the new config."""
        channels = self.graph.channels
        update = {
            key: Overwrite(v) if isinstance(channels[key], BinaryOperatorAggregate) else v
            for key, v in values.items()
            if key in channels
        }
        return self.write(config, update)


def _settle(saver: BaseCheckpointSaver[Any], config: RunnableConfig, node: str) -> None:
    """Write into a checkpoint that a node ran last.

    LangGraph takes a later update for one by the node that ran last. That may be one of a turn that
    broke off, so that others would follow it.
    """
    found = saver.get_tuple(config)
    versions = found.checkpoint["channel_versions"] if found else {}
    if found is None or not versions:
        return
    seen = {**found.checkpoint["versions_seen"]}
    seen[node] = {f"branch:to:{node}": max(versions.values())}
    checkpoint: Checkpoint = {**found.checkpoint, "versions_seen": seen}
    root = {key: found.config["configurable"][key] for key in ("thread_id", "checkpoint_ns")}
    saver.put(found.parent_config or {"configurable": root}, checkpoint, found.metadata, {})


def place_of(agent: Agent) -> Place:
    """Find the agent with the memory in a graph; raises `SettingsError` if there is none."""
    if not hasattr(agent, "builder"):  # a `RemoteGraph` has none; `server` passes an agent that has
        raise SettingsError(
            f"{type(agent).__name__} is not a compiled graph: pass the agent itself; for an agent "
            "on a LangGraph server, use the routes of that server"
        )
    graphs: Iterable[tuple[str, Any]] = chain([("", agent)], agent.get_subgraphs(recurse=True))
    for path, graph in graphs:
        builder = getattr(graph, "builder", None)
        if isinstance(builder, MemoryGraph):
            return Place(agent, path, graph, builder)
        # The middleware of an agent is found as the owner of its hooks.
        nodes: Mapping[str, Any] = getattr(builder, "nodes", {})
        for hook in (getattr(node.runnable, "func", None) for node in nodes.values()):
            if isinstance(owner := getattr(hook, "__self__", None), EbbtideMiddleware):
                return Place(agent, path, graph, owner)
    kind = type(agent.builder).__name__
    raise SettingsError(f"{kind} is not a graph of Ebbtide: pass the agent")


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as a command works on it: its agent, its session and its state.

    `context` holds the settings of the command, as that of a run does. `next_nodes` are the nodes
    that an unfinished turn runs next. `checkpoint` is the id of the checkpoint that was read, ""
    for none. `inside` tells that other nodes of a larger graph may have added messages since the
    last turn.
    """

    place: Place
    config: RunnableConfig
    context: Any
    session: Session
    settings: Settings
    values: dict[str, Any]
    next_nodes: tuple[str, ...]
    has_checkpoints: bool
    checkpoint: str
    inside: bool = False

    @property
    def parts(self) -> AgentParts:
        """The agent's parts; of one with the middleware, with the sizes of its last call."""
        memory = self.place.memory
        return memory.parts if isinstance(memory, MemoryGraph) else memory.sized(self.state)

    @property
    def state(self) -> TurnState:
        """The state as the nodes read it."""
        return unpacked(self.values, self.place.parts.secret)

    @property
    def turn(self) -> int:
        """The number of the last turn, also of an unfinished one that is not counted yet."""
        state, turn = self.state, self.state.get("turn", 0)
        if not self.unfinished:
            return turn
        counted = is_running(state) or not new_messages(state)
        uncounted = any(node == START or _begins(node) for node in self.next_nodes)
        return turn + (not counted or uncounted)

    @property
    def tip(self) -> Tip:
        """The tip that the state has, else the newest turn of the session.

        Raises `SessionNotFoundError` if the thread has no turn, `TipNotFoundError` if its state is
        of another archive.
        """
        archive, state = self.parts.archive, self.state
        if "tip" in state and not state["tip"]:
            return Tip()
        if "tip" in state:
            tip = archive.load(self.session, tip_of(state)).tip
            if tip is None and state.get("archive", archive.id) != archive.id:
                raise TipNotFoundError(state["tip"], state.get("number", 0))
        else:
            tip = None if self.has_checkpoints else archive.load(self.session).reseed
        if tip is None and ("tip" in state or not self.has_checkpoints):
            tip = archive.load(self.session).tip
        if tip is None:
            is_adopted_later = self.is_older or (self.inside and self.values.get("messages"))
            raise self._older() if is_adopted_later else SessionNotFoundError(self.session.thread)
        return tip

    @property
    def view(self) -> ArchiveView:
        """The archive up to the tip of this state."""
        return view_at(self.parts.archive, self.session, self.tip)

    @property
    def unarchived(self) -> list[BaseMessage]:
        """The messages in the state that the user's archive does not have."""
        return unarchived(self.state)

    @property
    def unfinished(self) -> bool:
        """Whether the last turn is not archived as a whole."""
        # After a crash between a node's writes and its checkpoint, there is no next node.
        new = unarchived(self.state)
        return bool(self.next_nodes) or (bool(new) and not (self.inside and answered(new)))

    @property
    def is_older(self) -> bool:
        """Whether the thread has messages but has not run with Ebbtide, which adopts them."""
        has_begun = self.inside or self.next_nodes or {"tip", "turn"} & self.state.keys()
        messages = self.values.get("messages", ())
        return not has_begun and answered(messages[-1:])

    def _older(self) -> NotAdoptedError:
        return NotAdoptedError(self.session.thread, len(self.values["messages"]))

    def at_rest(self) -> "Thread":
        """Return the thread.

        Raises `TurnRunningError` if its last turn is not finished, `NotAdoptedError` if the memory
        has not adopted it yet.
        """
        if self.is_older:
            raise self._older()
        if self.unfinished:
            raise TurnRunningError(self.session.thread, self.turn)
        return self

    def checked(self, what: What) -> "Thread":
        """Return the thread; raises `SettingsError` if no model for this purpose is known."""
        model = self.parts.models[what]
        if isinstance(model, UnknownModel):
            raise model.error
        return self

    def asked(self, steps: Asks[_Result]) -> _Result:
        """Return what a rule returns that asks models, which get the command's config."""
        with set_config_context(newest_config(self.config)) as context:
            return context.run(drive, steps, self.parts.models)

    def changed(self, **update: Any) -> dict[str, Any]:
        """Return the update of the state with these changes of its memory, empty without any."""
        return repacked(update, self.parts, self.state, self.settings)

    def with_command(self) -> dict[str, Any]:
        """Commit the command that waits in the state, and return the memory's channels after it."""
        node = Node(self.parts, commit_command)
        return channels(self.rehearse(self.values, commit_command=node))

    def rehearse(
        self, values: Mapping[str, Any], schema: type = AgentState, **nodes: Any
    ) -> dict[str, Any]:
        """Run nodes in sequence on a copy of the state, and return the state after them.

        They run at the agent's path in graphs of the same shape, because the nodes derive the
        session from it. Nothing is saved. `schema` is that of the nodes' state.
        """
        graph: Any = StateGraph(schema, context_schema=Settings)
        graph.add_sequence([*nodes.items()]).add_edge(START, next(iter(nodes)))
        for name in reversed(self.place.path.split("|") if self.place.path else ()):
            inner, graph = graph, StateGraph(schema, context_schema=Settings)
            graph.add_node(name, inner.compile()).add_edge(START, name)
        compiled = graph.compile(checkpointer=False, store=self.place.graph.store)
        return dict(compiled.invoke(values, newest_config(self.config), context=self.context))


def _begins(node: str) -> bool:
    """Tell whether a node runs before the turn is counted."""
    return node == "begin_turn" or node.endswith(".before_agent")


def thread_at(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread of an agent, or of a graph around it, which may store only messages.

    Raises `SettingsError` if there are no threads, and what `Place.session` raises.
    """
    place = place_of(agent)
    if not agent.checkpointer:
        raise SettingsError("the agent has no checkpointer, so it has no threads: give it one")
    if place.saver is None:
        raise SettingsError("the checkpointer is that of a graph around the agent: pass that graph")
    thread_id = str(_chosen(config)["thread_id"])
    # During a turn the agent's own state is newer than that of the graph around it.
    try:
        snapshot = outer = agent.get_state(config, subgraphs=bool(place.path))
        if outer.created_at is None and complete(place.saver, thread_id):
            snapshot = outer = agent.get_state(config, subgraphs=bool(place.path))
    except asyncio.InvalidStateError as error:  # of an asynchronous checkpointer
        raise CommandError(
            "inside a running event loop use the command's asynchronous form: atranscript for "
            "transcript, aerase for erase, and so on"
        ) from error
    for name in place.path.split("|"):
        states = (task.state for task in snapshot.tasks if task.name == name)
        snapshot = next((state for state in states if isinstance(state, StateSnapshot)), snapshot)
    thread = place.thread(config, snapshot, context)
    if place.path and snapshot is outer:  # the next nodes are the larger graph's
        messages_only = {"messages": thread.values.get("messages", [])}
        values = thread.values if place.has_memory else messages_only
        thread = replace(thread, next_nodes=(), values=values, inside=True)
    if not place.path or "tip" in thread.state:
        return thread
    state = remembered(thread.state, place.parts.archive, thread.session, 1)
    return replace(thread, values=repacked(state, thread.parts, None, thread.settings))


def _chosen(config: RunnableConfig) -> Mapping[str, Any]:
    """Return what a config chooses; raise `SettingsError` if that is no thread."""
    given: Any = config
    chosen = given.get("configurable") if isinstance(given, Mapping) else given
    if not isinstance(chosen, Mapping) or chosen.get("thread_id") is None:
        raise SettingsError(
            f'the config names no thread: pass {{"configurable": {{"thread_id": "..."}}}} '
            f"(got {chosen!r})"
        )
    return chosen


def resting(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread; raises `TurnRunningError` if its agent or the graph around it still runs.

    If such a thread were changed, the graph's next nodes would never run. A command that waits for
    its commit is committed.
    """
    thread = thread_at(agent, config, context).at_rest()
    if thread.place.node and agent.get_state(config).next:
        raise TurnRunningError(thread.session.thread, thread.turn)
    if not thread.state.get("command"):
        return thread
    written = thread.place.write(thread.config, thread.with_command())
    configurable = {**thread.config.get("configurable", {}), **written["configurable"]}
    return thread_at(agent, {**config, "configurable": configurable}, context)


def channels(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the channels of the memory."""
    return {key: state[key] for key in ("memory", "bookkeeping")}


def tip_named(archive: Archive, session: Session, branch: str) -> Tip:
    """Return the end of a branch by the first digits of its id; raises `SettingsError`."""
    tips = archive.tips(session)
    named = [tip for tip in tips if branch and tip.id.startswith(branch)]
    if len(named) != 1:
        listed = ", ".join(f"{tip.id[:SHORT_ID]} (turn {tip.turn})" for tip in tips)
        reason = f"{len(named)} branches begin with" if named else "no branch"
        raise SettingsError(f"{reason} {branch!r}: use one of {listed}")
    return named[0]


def newest_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config without the checkpoint that it names, so that the newest state is read."""
    thread = {
        key: value for key, value in _chosen(config).items() if not key.startswith("checkpoint_")
    }
    return {**config, "configurable": thread}


def on_a_thread(
    command: Callable[_Arguments, _Result],
) -> Callable[_Arguments, Coroutine[Any, Any, _Result]]:
    """Return the async form of a command: on a worker thread it works with any checkpointer."""

    @wraps(command)
    async def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return await asyncio.to_thread(command, *args, **kwargs)

    run.__name__ = run.__qualname__ = f"a{command.__name__}"
    return run
