"""The first node: settle what was left behind, count the turn, accept what is new."""

from dataclasses import asdict, replace
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory.settings import Settings, resolve
from ..memory.shares import checked
from .arrivals import arrivals, kept_turns
from .collaborators import Collaborators, sizes
from .held_state import revived
from .session import owner_of, packed, workspace
from .settling import settle
from .state import AgentState


def begin_turn(
    state: AgentState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Commit what an earlier run left behind, then count the turn and accept its messages.

    A thread that lost its state while a turn was erased goes on from the one that is held for it.
    Raises `SettingsError` if the run's budget is below the floor, `InputError` if there is nothing
    new to answer, `SessionNotFoundError` if the session belongs to another user, and what the
    archive raises when it cannot commit.
    """
    settings = resolve(runtime.context, collaborators.settings)
    checked(settings, *sizes(collaborators, settings))
    owner = owner_of(state, runtime, settings)
    known = revived(state, collaborators.archive, owner)
    arrived = arrivals(known, owner, collaborators.archive)
    settled = settle(known, owner, arrived, collaborators.archive)
    turns = [*kept_turns(arrived, settings.messages_window), arrived.new]
    space = replace(
        workspace(known),
        turn=settled["persisted"] + 1,
        events=tuple(settled["events"]),
        banners=(),
    )
    if space.active is not None:
        space = space.activated(space.active)
    return {
        **({} if known is state else known),
        **settled,
        **packed(space),
        "messages": Overwrite([message for turn in turns for message in turn]),
        "session": asdict(owner),
        "turn": space.turn,
        "turn_starts": [turn[0].id for turn in turns],
        "accepted": arrived.new[-1].id,
    }
