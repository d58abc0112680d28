"""The state that the archive holds for a thread whose checkpoints are being replaced."""

from collections.abc import Mapping
from typing import Any, cast

from langgraph.graph import add_messages

from ..memory.archive.protocol import Archive
from ..memory.record import Owner
from .plain import plain, real
from .state import TurnState


def hold(archive: Archive, owner: Owner, values: Mapping[str, Any]) -> None:
    """Let the archive hold a state, in plain data."""
    archive.hold(owner, {**values, "messages": [*plain(values["messages"])]})


def held(archive: Archive, owner: Owner) -> dict[str, Any]:
    """Return the state that is held for a thread, empty if none is."""
    state = archive.held(owner)
    return {} if state is None else {**state, "messages": real(state["messages"])}


def revived(state: TurnState, archive: Archive, owner: Owner) -> TurnState:
    """Return the state; of a thread that lost it while a turn was erased what is held, and the new.

    If the thread has a state of its own, nothing needs to be held for it any more.
    """
    if "session" in state:
        if archive.held(owner) is not None:
            archive.hold(owner, None)
        return state
    lost = held(archive, owner)
    if not lost:
        return state
    new: list[Any] = [*state.get("messages", [])]
    messages = add_messages(lost["messages"], new)
    return cast("TurnState", {**lost, **state, "messages": messages})
