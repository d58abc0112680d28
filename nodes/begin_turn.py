"""The first node: settle what was left behind, count the turn, accept what is new."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory import banners
from ..memory.clock import stamp
from ..memory.context.budget import checked
from ..memory.context.notes import hints, nudge
from ..memory.context.rebuild import begun
from ..memory.context.timeline import packed as packed_line
from ..memory.efforts import EffortState
from ..memory.messages import text
from ..memory.record import Owner, Tip
from ..memory.running_turn import banners_since
from ..memory.settings import Settings, resolve
from ..memory.view import past
from .turn.arrivals import GONE, arrivals, is_gone, kept_turns
from .turn.langchain_messages import to_dicts
from .turn.parts import AgentParts, sizes
from .turn.recovery import memory_at, recovered
from .turn.settling import settle
from .turn.state import OF_THE_RUN, TurnState
from .turn.user_attention import surface
from .turn.values import owner_of, packed, resumed, running_turn, tip_of, workspace


def begin_turn(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Commit what an earlier run left behind, then count the turn and accept its messages.

    In the first turn of a session what is in its user's attention is surfaced. A thread without a
    state goes on where the archive knows its messages, or with its history adopted.
    Raises `SettingsError` if the run's budget is below the floor, `InputError` if nothing is new to
    answer, what `owned` raises, and what the archive raises when it cannot commit.
    """
    settings = resolve(runtime.context, parts.settings)
    checked(settings, *sizes(parts, settings))
    owner = owner_of(state, runtime, settings)
    with parts.archive.together():
        return _begun(state, runtime, parts, settings, owner)


def _begun(
    state: TurnState,
    runtime: Runtime[Settings],
    parts: AgentParts,
    settings: Settings,
    owner: Owner,
) -> dict[str, Any]:
    archive = parts.archive
    known = recovered(state, archive, owner, settings.messages_window + 1)
    if known is not state:
        known = resumed(known, runtime, parts)
    arrived = arrivals(known, owner, archive)
    settled = settle(known, owner, arrived, archive)
    if arrived.left:  # its end may be in the archive and not in the checkpoint
        tip = tip_of(cast("TurnState", settled))
        known = cast("TurnState", {**known, **memory_at(archive, owner, tip)})
    turns = [*kept_turns(arrived, settings.messages_window), arrived.new]
    turn, events = settled["persisted"] + 1, tuple(settled["events"])
    space = _told(replace(workspace(known), turn=turn, events=events, banners=()), known, runtime)
    if space.active is not None:
        space = space.activated(space.active)
    if space.turn == 1 + known.get("adopted", 0):
        space = _surfaced(space, owner, arrived.new, runtime, parts)
    messages = [message for turn in turns for message in turn]
    update = {
        **{k: v for k, v in known.items() if known is not state and k not in OF_THE_RUN},
        **settled,
        **packed(space),
        "messages": messages,
        "session": asdict(owner),
        "turn": space.turn,
        "turn_starts": _starts(turns, gone=not arrived.left and is_gone(known)),
        "accepted": arrived.new[-1].id,
    }
    begun_ = cast("TurnState", {**known, **update})
    return {**update, **_view(begun_, runtime, parts), "messages": Overwrite(messages)}


def _starts(turns: Sequence[Sequence[BaseMessage]], *, gone: bool) -> list[str | None]:
    """Return where the turns begin; `gone`: the last archived one is not among them.

    If the new one is cut short, the turn before that must not be taken for the last one.
    """
    firsts = [turn[0].id for turn in turns]
    return [*firsts[:-1], GONE, firsts[-1]] if gone else firsts


def _view(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> dict[str, Any]:
    """Return the update of the timeline, and of the notes beside the question."""
    here = running_turn(state, runtime, parts)
    line = begun(here, stamp())
    given, said = hints(here, line), nudge(here)
    events = [*state["events"]]
    events += [{"type": "hinted", "hints": given}] if given else []
    events += [{"type": "nudged", "said": said}] if said else []
    return {"view": packed_line(line), "events": events}


def _told(space: EffortState, known: TurnState, runtime: Runtime[Settings]) -> EffortState:
    """Return the state with a banner about turns that were adopted or that it does not see."""
    adopted, unseen = known.get("adopted", 0), known.get("unseen")
    if adopted:
        space = space.told({"type": "adopted", "turns": adopted}, banners.adopted(adopted))
    elif unseen:
        space = replace(space, banners=(banners.unseen(unseen.turn, unseen.branch),))
    for banner in space.banners:
        runtime.stream_writer({"banner": banner})
    return space


def _surfaced(
    space: EffortState,
    owner: Owner,
    new: Sequence[BaseMessage],
    runtime: Runtime[Settings],
    parts: AgentParts,
) -> EffortState:
    """Return the state of a first turn with what is surfaced in it, and say so."""
    said = "\n".join(text(message) for message in to_dicts(new))
    view = past(parts.archive, owner, Tip())
    after = surface(space, view, said, runtime, parts)
    for banner in banners_since(space, after):
        runtime.stream_writer({"banner": banner})
    return after
