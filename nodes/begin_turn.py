"""Begin a turn: finish what an earlier run left, count the turn, accept its messages."""

import secrets
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory.attention.surfacing import learned
from ..memory.banners import banner_of
from ..memory.context.budget import check_budget
from ..memory.context.changes import before_turn, end_turn
from ..memory.context.hints import dated, hinted
from ..memory.dates import stamp
from ..memory.efforts import Efforts, happened
from ..memory.errors import InputError
from ..memory.history import known_of, numbers_of
from ..memory.messages import answered, text
from ..memory.references import referenced
from ..memory.salience.compress import outgrown
from ..memory.settings import Settings
from ..memory.turn import SHORT_ID, Tip
from ..memory.view import ArchiveView, claimed_view
from .command import commit_command
from .turn.arrivals import Arrival, arrival, results_of_client, standing
from .turn.commits import adopted, commit_arrival, recovered
from .turn.langchain_messages import completed, kept_in_state
from .turn.parts import AgentParts
from .turn.session import session_of
from .turn.state import TurnState, efforts_of, updated
from .turn.turn import correction, memory_at, running_turn
from .turn.updates import (
    efforts_update,
    is_running,
    plan_update,
    streamed_update,
    tip_of,
)
from .turn.well_typed import well_typed


def begin_turn(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Commit what an earlier run left unfinished, then count the turn and accept its messages.

    The first turn of a session surfaces memories that are in the user's attention. A thread without
    state continues the archived turn that its messages end, or adopts them as history.
    Results that a client sends for waiting calls continue their turn.
    A thread that is nobody's becomes this user's. Raises `SessionNotFoundError` if it is another
    user's, `SettingsError` if the run's budget is below the floor, `InputError` if no message is
    new, what `session_of` raises, and what the archive raises when it cannot commit.
    """
    state = updated(state, {"messages": [*map(well_typed, state["messages"])]})
    settings = parts.settings_of(runtime.context)
    archive, window, nonce = parts.archive, settings.earlier_turns, secrets.token_hex(16)
    # A run without a thread is named by the nonce of its turn.
    session = session_of(updated(state, {"nonce": nonce}), runtime, settings)
    seen = claimed_view(archive, session, tip_of(state))
    check_budget(settings, *parts.sizes(settings))
    if results := results_of_client(state):
        messages = [*state["messages"][: -len(results)], *results]
        return {"messages": Overwrite(kept_in_state(archive, session, messages))}
    before, arrived, settled = _finish_earlier_run(state, runtime, parts, seen, window)
    view = seen.at(Tip(settled["number"], settled["tip"]))
    before_it = state.get("known", ()) if state.get("number") and not arrived.turns else ()
    cleared = bool(before_it) and {*numbers_of(state["messages"], before_it)} == {None}
    efforts = _efforts_at_start(updated(before, settled), arrived, cleared=cleared)
    if efforts.turn == 1 + before.get("adopted", 0):
        question = "\n".join(map(text, arrived.new))
        attended = parts.attended(seen.at(Tip()), runtime)
        efforts = attended.surfaced(efforts, question) if attended else efforts
    else:
        efforts = learned(view, efforts)
    turns = {**arrived.kept(efforts.turn - 1, window), efforts.turn: [*arrived.new]}
    kept = [message for messages in turns.values() for message in messages]
    older = standing(arrived.system, kept)
    messages = kept_in_state(archive, session, [*older, *kept])
    # A larger graph hands over the older turns again.
    known = known_of({0: older, **(arrived.turns if session.namespace else {}), **turns})
    update = settled | efforts_update(efforts) | {"turn": efforts.turn, "known": known}
    update |= {"messages": messages}
    update |= {"archive": archive.id, "nonce": nonce, "round": "", "references": []}
    after = updated(before, update)
    begun = _plan_and_notes(after, runtime, parts, view)
    return {**update, **begun, "messages": Overwrite(update["messages"])}


def _plan_and_notes(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts, view: ArchiveView
) -> dict[str, Any]:
    """Return the update of the turn's efforts, day, hints and plan, and whether a pass is due."""
    read, now = running_turn(state, runtime, parts, view), stamp()
    attended = parts.attended(read.view, runtime)
    work = before_turn(replace(read, now=now, related=attended and attended.related), now)
    update = efforts_update(work.efforts) | plan_update(work, read.plan)
    for banner in update["banners"]:
        runtime.stream_writer({"banner": banner})
    update["events"] += [*dated(work), *hinted(work)]
    due = bool(work.efforts.open) and outgrown(work) is not None
    return {**update, "due": due}


def _finish_earlier_run(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts, seen: ArchiveView, window: int
) -> tuple[TurnState, Arrival, dict[str, Any]]:
    """Recover the state and commit what an earlier run left unfinished; `seen` is before it.

    Returns the state as that run left it, its messages told apart, and the update of the commits.
    """
    language, session = parts.settings_of(runtime.context).language, seen.session
    before = recovered(state, seen, window + 1)
    if before.get("command"):
        before = updated(before, commit_command(before, runtime, parts=parts))
    arrived = arrival(before, seen.at(tip_of(before)))
    if not arrived.new:
        raise InputError(len(state["messages"]))
    # A client may refer to a file, and say anything of it: it is read again.
    arrived = replace(arrived, new=completed(parts.archive, session, arrived.new))
    if arrived.history:
        before, turns = adopted(before, session, arrived.history, parts.archive, language)
        arrived = replace(arrived, turns={**arrived.turns, **turns})
    if is_running(before) and answered(arrived.unfinished):
        said = {message.id for message in arrived.new}
        messages = [message for message in before["messages"] if message.id not in said]
        work = running_turn(updated(before, {"messages": messages}), runtime, parts)
        ended = end_turn(work.put(referenced(work, parts.keywords)))
        before = updated(
            before, {**streamed_update(work.efforts, ended.efforts, runtime), **plan_update(ended)}
        )
    settled = commit_arrival(before, session, arrived, parts.archive)
    if settled["number"] > before.get("number", 0):  # the archive may have a later end
        tip = tip_of(updated({}, settled))
        before = updated(before, memory_at(parts.archive, session, tip))
    if before is not state:
        settled = {**before, **settled}
    if state.get("command"):  # committed by now, or another user's
        settled["command"] = ""
    return before, arrived, settled


def _efforts_at_start(state: TurnState, arrived: Arrival, *, cleared: bool) -> Efforts:
    """Return the efforts' state as the next turn begins, with the banners that begin it."""
    efforts = replace(efforts_of(state), turn=state["number"] + 1, banners=())
    adopted, unseen = state.get("adopted", 0), state.get("unseen")
    if adopted:
        efforts = happened(efforts, {"type": "adopted", "turns": adopted})
    banners = [*efforts.banners]
    if unseen and not adopted:
        banners.append(banner_of("unseen", turns=unseen.turn, branch=unseen.id[:SHORT_ID]))
    banners += correction(state)
    if cleared:
        banners.append(banner_of("cleared"))
    if state.get("lost"):
        banners.append(banner_of("lost"))
    if arrived.unknown:
        banners.append(banner_of("taken_along", turns=arrived.unknown))
    efforts = replace(efforts, banners=tuple(banners))
    return efforts if efforts.active is None else efforts.activated(efforts.active)
