"""The first node: settle what was left behind, count the turn, accept what is new."""

from dataclasses import asdict, replace
from typing import Any, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory.banners import banner_of
from ..memory.clock import stamp
from ..memory.context.budget import check_budget
from ..memory.context.notes import notes
from ..memory.context.rebuild import before_turn
from ..memory.efforts import EffortState, happened
from ..memory.messages import text
from ..memory.record import Owner, Tip
from ..memory.settings import Settings, resolve
from ..memory.view import past
from .turn.arrivals import Arrivals, arrivals, asked_in
from .turn.langchain_messages import to_dicts
from .turn.parts import AgentParts
from .turn.recovery import recovered, settle
from .turn.state import OF_THE_RUN, TurnState
from .turn.values import effort_state, memory_at, owner_of, packed, resumed, running_turn, tip_of


def begin_turn(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Commit what an earlier run left behind, then count the turn and accept its messages.

    In the first turn of a session what is in its user's attention is surfaced. A thread without a
    state goes on where the archive knows its messages, or with its history adopted.
    Raises `SettingsError` if the run's budget is below the floor, `InputError` if nothing is new,
    what `owner_of` raises, and what the archive raises when it cannot commit.
    """
    settings = resolve(runtime.context, parts.settings)
    check_budget(settings, *parts.sizes(settings))
    owner = owner_of(state, runtime, settings)
    with parts.archive.together():
        known, arrived, settled = _settled(state, runtime, parts, owner)
        efforts = _counted(cast("TurnState", {**known, **settled}))
        if efforts.turn == 1 + known.get("adopted", 0):
            said = "\n".join(text(message) for message in to_dicts(arrived.new))
            efforts = parts.surfaced(efforts, past(parts.archive, owner, Tip()), said, runtime)
        for banner in efforts.banners:
            runtime.stream_writer({"banner": banner})
        carried = {k: v for k, v in known.items() if known is not state and k not in OF_THE_RUN}
        update = {
            **carried,
            **settled,
            **packed(efforts),
            **_messages(arrived, settled["persisted"], settings.messages_window),
            "session": asdict(owner),
            "turn": efforts.turn,
        }
        view = _view(cast("TurnState", {**known, **update}), runtime, parts)
        return {**update, **view, "messages": Overwrite(update["messages"])}


def _settled(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts, owner: Owner
) -> tuple[TurnState, Arrivals, dict[str, Any]]:
    """Find the thread's past and commit what was left behind; return the state, and what is new."""
    window = resolve(runtime.context, parts.settings).messages_window + 1
    known = recovered(state, parts.archive, owner, window)
    if known is not state:
        known = resumed(known, runtime, parts)
    arrived = arrivals(known, owner, parts.archive)
    settled = settle(known, owner, arrived, parts.archive)
    if arrived.left:  # its end may be in the archive and not in the checkpoint
        tip = tip_of(cast("TurnState", settled))
        known = cast("TurnState", {**known, **memory_at(parts.archive, owner, tip)})
    return known, arrived, settled


def _counted(state: TurnState) -> EffortState:
    """Return the efforts' state as the next turn begins, with what its user is to be told."""
    efforts = replace(effort_state(state), turn=state["persisted"] + 1, banners=())
    adopted, unseen = state.get("adopted", 0), state.get("unseen")
    if adopted:
        efforts = happened(efforts, {"type": "adopted", "turns": adopted})
    elif unseen:
        line = banner_of("unseen", turns=unseen.turn, branch=unseen.branch)
        efforts = replace(efforts, banners=(line,))
    return efforts if efforts.active is None else efforts.activated(efforts.active)


def _messages(arrived: Arrivals, persisted: int, window: int) -> dict[str, Any]:
    """Return the messages of the last turns and the new one, and how each was before_turn."""
    turns = {**arrived.kept_turns(persisted, window), persisted + 1: arrived.new}
    return {
        "messages": [message for turn in turns.values() for message in turn],
        # What is new is accepted up to its last message, whoever has made that.
        "asked": {**asked_in(turns), str(arrived.new[-1].id): persisted + 1},
    }


def _view(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> dict[str, Any]:
    """Return the update of the timeline, and of the notes beside the question."""
    work = running_turn(state, runtime, parts)
    line = before_turn(work, stamp())
    return {"view": line.packed(), "events": [*state["events"], *notes(work, line)]}
