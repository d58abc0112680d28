"""A thread as a command finds it: its session, its state, and whether it is at rest."""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import StateSnapshot

from ..memory.errors import SessionNotFoundError, SettingsError, TurnRunningError
from ..memory.messages import clean
from ..memory.record import Owner, Tip
from ..memory.settings import Settings, resolve
from ..memory.view import View, past
from ..nodes.collaborators import Collaborators
from ..nodes.session import owned, tip_of, user_of
from ..nodes.state import TurnState, unpacked
from .build import MemoryGraph

Agent: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]

_NOT_COUNTED = {(START,), ("begin_turn",)}
"""What follows in a turn that has a message and no number yet."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread with what its agent works with.

    `following` are the nodes of an unfinished turn. `kept` tells whether there are checkpoints;
    `store` is the one that the graph runs with.
    """

    collaborators: Collaborators
    owner: Owner
    settings: Settings
    values: dict[str, Any]
    following: tuple[str, ...]
    kept: bool
    store: BaseStore | None

    @property
    def state(self) -> TurnState:
        """The state as the nodes see it."""
        return unpacked(self.values)

    @property
    def turn(self) -> int:
        """The turn that was begun last; an unfinished one may not have been counted yet."""
        return self.state.get("turn", 0) + (self.following in _NOT_COUNTED)

    @property
    def tip(self) -> Tip:
        """What the state has committed; without checkpoints the newest branch of the archive.

        Raises `SessionNotFoundError` if nothing was said yet.
        """
        if "persisted" in self.state:
            return tip_of(self.state)
        tip = None if self.kept else self.collaborators.archive.newest(self.owner)
        if tip is None:
            raise SessionNotFoundError(self.owner.thread)
        return tip

    @property
    def view(self) -> View:
        """The archive as this state sees it."""
        return past(self.collaborators.archive, self.owner, self.tip)

    def whole(self, kept: CheckpointTuple | None) -> "Thread":
        """Return the thread with what its checkpoint `kept` has and snapshots do not show.

        That is what the model said in an unfinished turn beside its answers.
        """
        hidden = kept.checkpoint["channel_values"].get("raw_answers") if kept else None
        return replace(self, values={**self.values, "raw_answers": hidden or {}})

    def at_rest(self) -> "Thread":
        """Return the thread; raises `TurnRunningError` if its last turn is not finished."""
        if self.following:
            raise TurnRunningError(self.owner.thread, self.turn)
        return self


def collaborators_of(agent: Agent) -> Collaborators:
    """Return what an agent works with; raises `SettingsError` if it keeps no memory of threads."""
    collaborators = parts_of(agent)
    if not agent.checkpointer:
        raise SettingsError("the agent has no checkpointer, so it has no threads: give it one")
    return collaborators


def parts_of(agent: Agent) -> Collaborators:
    """Return the parts of an agent, which may keep no memory of threads.

    Raises `SettingsError` if the graph is not one of Ebbtide's.
    """
    graph = agent.builder
    if not isinstance(graph, MemoryGraph):
        raise SettingsError(f"{type(graph).__name__} is no graph of Ebbtide's: pass its agent")
    return graph.collaborators


def saver_of(agent: Agent) -> BaseCheckpointSaver[Any]:
    """Return an agent's checkpointer; raises `SettingsError` if it is that of an outer graph."""
    if not isinstance(agent.checkpointer, BaseCheckpointSaver):
        raise SettingsError("the agent's checkpointer is not its own: pass the outermost graph")
    return agent.checkpointer


def opened(
    agent: Agent, config: RunnableConfig, found: StateSnapshot, context: object = None
) -> Thread:
    """Return the thread that `config` names, as `found` has it; `context` is that of a run.

    Raises `SessionNotFoundError` if it belongs to another user.
    """
    collaborators, chosen = collaborators_of(agent), config.get("configurable", {})
    settings = resolve(context, collaborators.settings)
    user = user_of(settings, chosen)
    owner = owned(unpacked(found.values), user) or Owner(user, clean(str(chosen["thread_id"])))
    return Thread(
        collaborators,
        owner,
        settings,
        found.values,
        following=found.next,
        kept=found.created_at is not None,
        store=agent.store,
    )


def newest(config: RunnableConfig) -> RunnableConfig:
    """Return the config of the newest state of the thread, whichever state `config` names."""
    chosen = config.get("configurable", {})
    kept = {key: value for key, value in chosen.items() if not key.startswith("checkpoint_")}
    return {**config, "configurable": kept}
