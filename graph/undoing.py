"""Go back one turn: a fork, so that nothing is lost."""

from dataclasses import replace
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import StateSnapshot

from ..memory.errors import CommandError
from ..nodes.arrivals import at_rest, told_apart
from ..nodes.settling import settle
from ..nodes.state import TurnState, unpacked
from .checkpoints import last_node
from .threads import Agent, Thread, collaborators_of, on_a_thread, opened, saver_of


def undo(agent: Agent, config: RunnableConfig) -> int:
    """Make the state before the last turn the newest of the thread; return its turn, 0 for none.

    The turn stays where it is, in the archive and in the checkpoints; what is said next begins a
    branch beside it. A turn that is not finished is archived as aborted and left behind. Raises
    `CommandError` if there is no turn, or no older checkpoint to go back to.
    """
    collaborators_of(agent)
    older = agent.get_state(config)
    thread = opened(agent, config, older)
    if not thread.turn:
        raise CommandError("there is no turn to undo")
    while not _precedes(older, thread):
        older = agent.get_state(_parent(older, thread))
    _keep(thread, saver_of(agent).get_tuple(config))
    agent.update_state(older.config, {}, as_node=last_node(agent))
    return _turn(older)


aundo = on_a_thread(undo)


def _precedes(older: StateSnapshot, thread: Thread) -> bool:
    """Tell whether a state is from before the last turn: at rest, or the very first of all."""
    if older.next or not at_rest(unpacked(older.values)):
        return older.parent_config is None and not older.values.get("messages")
    return _turn(older) < thread.turn


def _parent(older: StateSnapshot, thread: Thread) -> RunnableConfig:
    if older.parent_config is None:
        raise CommandError(
            f"turn {thread.turn} cannot be undone: the thread has no checkpoint from before it, "
            "since it was rebuilt from the archive, something was erased, or none was written"
        )
    return older.parent_config


def _keep(thread: Thread, kept: CheckpointTuple | None) -> None:
    """Archive what there is of an unfinished turn, so that none of its messages is lost."""
    if at_rest(thread.state):
        return
    state, archive = thread.whole(kept).state, thread.collaborators.archive
    found = told_apart(state)
    settled = settle(state, thread.owner, found, archive)
    if found.new:
        begun = cast("TurnState", {**state, **settled, "turn": settled["persisted"] + 1})
        settle(begun, thread.owner, replace(found, last=None, left=found.new, new=[]), archive)


def _turn(found: StateSnapshot) -> int:
    return unpacked(found.values).get("turn", 0)
