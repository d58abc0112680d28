"""Commit the turn and its events to the archive, once."""

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from ..memory.metrics import cost
from ..memory.settings import Settings, resolve
from .attending import attended
from .by_hand import by_hand
from .collaborators import Collaborators
from .embedding import embed
from .session import committed, group, owner_of, running, tip_of
from .settling import commit, commit_again
from .state import TurnState


def persist(
    state: TurnState, runtime: Runtime[Settings], *, collaborators: Collaborators
) -> dict[str, Any]:
    """Commit the running turn; a failed archive raises after retries and nothing changes.

    With an embedder, vectors that are missing are computed then, a bounded number. Attention is
    told of what was concluded and used.
    """
    settings = resolve(runtime.context, collaborators.settings)
    messages = running(state)
    owner = owner_of(state, runtime, settings)
    turn, tip = group(state, messages), tip_of(state)
    if "context_report" in state and not by_hand(messages):
        spent = cost(state["context_report"]["tokens"], turn.messages, collaborators.count)
        turn = replace(turn, events=(*turn.events, spent))
    keep = commit if turn.turn > tip.turn else commit_again
    record = keep(collaborators.archive, owner, tip, turn)
    if collaborators.embedder is not None:
        embed(collaborators.archive, owner, collaborators.embedder, settings.embedded_turns)
    told = attended(state, owner, record, runtime, collaborators)
    return {**committed(record, str(messages[-1].id)), **told}
