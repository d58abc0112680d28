"""Commands by hand: a memory tool runs on a thread at rest, and its events are committed.

A command is no exchange: it has no messages and no turn number, and ages nothing.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from ..memory.archive.memories import touches_attention
from ..memory.context.changes import new_plan
from ..memory.dates import stamp
from ..memory.history import KNOWN
from ..memory.settings import Settings, resolve
from ..memory.tools.toolbox import run
from ..memory.view import claimed_view, view_at
from .ask import QuestionCost, drive
from .turn.commits import commit, recovered
from .turn.parts import AgentParts
from .turn.session import session_of
from .turn.state import TurnState
from .turn.tracing import trace_metadata
from .turn.turn import command_to_store, correction, load_turn
from .turn.updates import efforts_update, tip_of, tip_update, with_costs, with_texts


def run_command(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts, call: Mapping[str, Any]
) -> dict[str, Any]:
    """Run the call of a memory tool, and return the update with the tool's result as a message.

    The events wait in the state under a nonce until `commit_command` commits them: whatever happens
    in between, they are committed once. A thread that is nobody's becomes this user's before that.
    Raises `SessionNotFoundError` if it is another user's.
    """
    settings = resolve(runtime.context, parts.settings)
    session, window = session_of(state, runtime, settings), settings.earlier_turns + 1
    seen = claimed_view(parts.archive, session, tip_of(state))
    before = recovered(state, seen, window)
    rest = load_turn(before, runtime, parts)
    attended = parts.attended(rest.view, runtime)
    work = replace(
        rest.put(replace(rest.efforts, banners=correction(state))),
        now=stamp(),
        related=attended and attended.related,
    )
    costs: list[QuestionCost] = []
    steps = run(work, [call], frozenset())
    done = with_costs(drive(steps, parts.models, costs.append, about=trace_metadata(before)), costs)
    waiting = {
        "archive": parts.archive.id,
        "turn": rest.view.tip.turn,
        **tip_update(rest.view.tip),
        "command": secrets.token_hex(16),
    }
    own = {key: value for key, value in before.items() if key != "messages"}
    own["known"] = [*before.get("known", ())][-KNOWN:]
    efforts = with_texts(done.efforts, rest.view)
    return {**own, **efforts_update(efforts), **waiting, "messages": [*done.results]}


def commit_command(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Commit the command that waits in the state, if there is one; return the update.

    The model sees what was done in what the context shows from now on.
    """
    if not state.get("command"):
        return {}
    work = load_turn(state, runtime, parts)
    archive, session = parts.archive, work.view.session
    tip = work.view.past.tip or tip_of(state)
    turn = commit(archive, session, tip, command_to_store(state), parts.embedder)
    if turn.beside or touches_attention(turn):
        parts.memories_changed(session)
    rest = replace(work.efforts, events=())
    after = replace(work, efforts=rest, view=view_at(archive, session, turn.tip))
    plan = new_plan(after, "command").packed()
    return {**tip_update(turn.tip), "events": [], "command": "", "plan": plan}
