"""A thread as a command finds and writes it: its session, its state, and whether it is at rest."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Overwrite, StateSnapshot

from ...memory.archive.protocol import Archive
from ...memory.errors import SessionNotFoundError, SettingsError, TurnRunningError
from ...memory.messages import answered, clean
from ...memory.record import Owner, Tip
from ...memory.settings import Settings, resolve
from ...memory.view import ArchiveView, past
from ...nodes.turn.arrivals import told_apart, unarchived
from ...nodes.turn.langchain_messages import to_dicts
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.recovery import remembered
from ...nodes.turn.state import TurnState, unpacked
from ...nodes.turn.values import claimed, resumed, sealed, tip_of, trusted, user_of
from ..build import MemoryGraph
from ..middleware import middleware_of

Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as a command works on it: its state, its session and the parts of its agent.

    `following` are the nodes of an unfinished turn. `kept` tells whether there are checkpoints,
    `checkpoint` is the id of the one that was found. `inside` tells that other nodes of a larger
    graph may have said something since the last turn.
    """

    parts: AgentParts
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

    def changed(self, **update: Any) -> dict[str, Any]:
        """Return the update of the thread's state that changes its memory."""
        return sealed(update, self.state, self.parts.archive)

    @property
    def turn(self) -> int:
        """The turn that was begun last; an unfinished one may not have been counted yet."""
        state, turn = self.state, self.state.get("turn", 0)
        if not self.unfinished:
            return turn
        counted = turn > state.get("persisted", 0) or not told_apart(state).new
        return turn + (not counted or any(map(_begins, self.following)))

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
        """Whether a turn was begun that the archive does not have whole.

        A crash between what a node wrote and its checkpoint leaves no node to follow, so the
        messages are looked at as well.
        """
        left = to_dicts(unarchived(self.state))
        return bool(self.following) or (bool(left) and not (self.inside and answered(left)))

    def at_rest(self) -> "Thread":
        """Return the thread; raises `TurnRunningError` if its last turn is not finished."""
        if self.unfinished:
            raise TurnRunningError(self.owner.thread, self.turn)
        return self


def on_a_thread(
    command: Callable[_Given, _Result],
) -> Callable[_Given, Coroutine[Any, Any, _Result]]:
    """Return the asynchronous form of a command: it runs on a thread, with any checkpointer."""

    @wraps(command)
    async def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        return await asyncio.to_thread(command, *args, **kwargs)

    run.__name__ = run.__qualname__ = f"a{command.__name__}"
    return run


def _begins(node: str) -> bool:
    """Tell whether an unfinished turn has its message but was not counted yet."""
    return node in {START, "begin_turn"} or node.endswith(".before_agent")


def parts_of(agent: Agent) -> AgentParts:
    """Return the parts of an agent, or of the one in a graph; it may have no checkpointer.

    Raises `SettingsError` if it is neither a graph of Ebbtide's nor has its middleware.
    """
    _, agent = holder(agent)
    graph = agent.builder
    if isinstance(graph, MemoryGraph):
        return graph.parts
    middleware = middleware_of(agent)
    if middleware is None:
        raise SettingsError(f"{type(graph).__name__} is no graph of Ebbtide's: pass its agent")
    return middleware.parts(agent)


def holder(agent: Agent) -> tuple[str, Agent]:
    """Return the path of the memory's agent inside a graph, and that agent.

    Raises `SettingsError` for what is no compiled graph, such as the client of a server; what
    stands for one, as in the server's routes, has its builder.
    """
    if not hasattr(agent, "builder"):
        raise SettingsError(
            f"{type(agent).__name__} is no compiled graph: pass the agent itself; the commands for "
            "an agent on a LangGraph server are routes of that server"
        )
    for path, graph in () if _has_memory(agent) else agent.get_subgraphs(recurse=True):
        if isinstance(graph, CompiledStateGraph) and _has_memory(graph):
            return path, graph
    return "", agent


def node_of(agent: Agent) -> str:
    """Return the node of a larger graph in which the agent stands, "" for an agent alone."""
    path, _ = holder(agent)
    return path.partition("|")[0]


def handed_over(agent: Agent) -> bool:
    """Tell whether a graph keeps the memory of the agent in it, and hands it over to each run.

    The middleware is given messages alone, unless it stands alone.
    """
    path, inner = holder(agent)
    return not path or (isinstance(inner.builder, MemoryGraph) and "memory" in agent.channels)


def _has_memory(agent: Agent) -> bool:
    return isinstance(agent.builder, MemoryGraph) or middleware_of(agent) is not None


def thread_at(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return the thread of an agent or of a graph around it, which may keep nothing but messages.

    In the middle of a turn the agent's own state is newer than that of the graph around it.
    """
    path, inner = holder(agent)
    if not path:
        parts_of(agent)
        if not agent.checkpointer:
            raise SettingsError("the agent has no checkpointer, so it has no threads: give it one")
        snapshot = agent.get_state(config)
        return _whole(agent, thread_of(agent, config, snapshot, context), snapshot)
    _saver_of(agent)
    snapshot = outer = agent.get_state(config, subgraphs=True)
    for name in path.split("|"):
        states = (task.state for task in snapshot.tasks if task.name == name)
        snapshot = next((state for state in states if isinstance(state, StateSnapshot)), snapshot)
    thread = thread_of(inner, config, snapshot, context)
    if snapshot is outer:  # what follows are nodes of its own
        alone = {"messages": thread.values.get("messages", [])}
        values = thread.values if handed_over(agent) else alone
        thread = replace(thread, following=(), values=values, inside=True)
    if "session" in thread.state:
        return _whole(agent, thread, snapshot)
    owner = replace(thread.owner, namespace=path)
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


def _whole(agent: Agent, thread: Thread, snapshot: StateSnapshot) -> Thread:
    """Return a thread with what its checkpoint has of an unfinished turn and a snapshot has not.

    That is what the model said beside its answers.
    """
    if not thread.unfinished:
        return thread
    checkpoint = _saver_of(agent).get_tuple(snapshot.config)
    values = checkpoint.checkpoint["channel_values"] if checkpoint else {}
    return replace(thread, values={**thread.values, "raw_answers": values.get("raw_answers", {})})


def _saver_of(agent: Agent) -> BaseCheckpointSaver[Any]:
    """Return an agent's checkpointer; raises `SettingsError` if it is that of an outer graph."""
    if not isinstance(agent.checkpointer, BaseCheckpointSaver):
        raise SettingsError("the agent's checkpointer is not its own: pass the outermost graph")
    return agent.checkpointer


def thread_of(
    agent: Agent, config: RunnableConfig, snapshot: StateSnapshot, context: object = None
) -> Thread:
    """Return the thread that `config` names, as `snapshot` has it; `context` is that of a run.

    Raises `SessionNotFoundError` if it belongs to another user, `TipNotFoundError` if its state is
    of another archive.
    """
    parts, chosen = parts_of(agent), config.get("configurable", {})
    settings = resolve(context, parts.settings)
    user = user_of(settings, chosen)
    owner = claimed(unpacked(snapshot.values), user)
    trusted(snapshot.values, parts.archive)
    owner = owner or Owner(user, clean(str(chosen["thread_id"])))
    return Thread(
        parts,
        owner,
        settings,
        snapshot.values,
        following=snapshot.next,
        kept=snapshot.created_at is not None,
        checkpoint=str(snapshot.config.get("configurable", {}).get("checkpoint_id", "")),
    )


def owner_in(agent: Agent, config: RunnableConfig) -> Owner:
    """Return whose session a thread is, as its user knows it.

    Raises `SessionNotFoundError` if the thread's state is another user's, `TipNotFoundError` if it
    is of another archive.
    """
    owner = named(agent, config)
    has_saver = isinstance(agent.checkpointer, BaseCheckpointSaver)
    values = agent.get_state(newest_config(config)).values if has_saver else {}
    in_state = claimed(unpacked(values), owner.user)
    trusted(values, parts_of(agent).archive)
    return in_state or owner


def named(agent: Agent, config: RunnableConfig) -> Owner:
    """Return the session that a config names, of an agent or of a graph around it."""
    path, _ = holder(agent)
    chosen = config.get("configurable", {})
    user = user_of(parts_of(agent).settings, chosen)
    return Owner(user, clean(str(chosen["thread_id"])), path)


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


def last_node(agent: Agent) -> str:
    """Return the last node of a turn, in whose name a whole state is written.

    In an agent of `create_agent` it is that of its first middleware.
    """
    hooks = (name for name in agent.builder.nodes if name.endswith(".after_agent"))
    return next(hooks, "compress")


def write(agent: Agent, config: RunnableConfig, update: dict[str, Any]) -> RunnableConfig:
    """Write an update in the name of the last node of a turn, and return the config.

    In a larger graph that is the node in which the agent stands, and nothing follows then.
    """
    node = node_of(agent)
    written = agent.update_state(config, update, as_node=node or last_node(agent))
    return agent.update_state(written, None, as_node=END) if node else written


def seed(agent: Agent, config: RunnableConfig, values: dict[str, Any]) -> RunnableConfig:
    """Write a whole state as the newest of a thread, as `write` does."""
    written = {
        key: Overwrite(v) if isinstance(agent.channels[key], BinaryOperatorAggregate) else v
        for key, v in values.items()
        if key in agent.channels
    }
    return write(agent, config, written)
