"""Commit the turn to the archive, once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..memory.archive.index import language_event
from ..memory.archive.memories import touches_attention
from ..memory.banners import banner_of
from ..memory.errors import ArchiveError, EmbeddingError
from ..memory.history import KNOWN, entries
from ..memory.locks import CACHES
from ..memory.metrics import cost
from ..memory.search.embeddings import EMBEDDED_TURNS
from ..memory.settings import Settings
from ..memory.state_block import as_users_see
from ..memory.tool_names import MEMORY_TOOLS
from ..memory.turn import SHORT_ID, StoredTurn
from ..memory.view import ArchiveView
from .turn.commits import commit
from .turn.langchain_messages import archived
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.tracing import spanned
from .turn.turn import left_rounds, running_turn, turn_to_store
from .turn.updates import commit_update, tip_of

_log = logging.getLogger("ebbtide.embeddings")


@spanned
def persist(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Commit the turn to the archive, once.

    An archive that fails after retries raises, and nothing changes. An embedder adds the turn's
    vectors, and a few that are missing.
    """
    work = running_turn(state, runtime, parts)
    messages = [message for message, *_ in work.converted.values()]
    fixed: tuple[Mapping[str, Any], ...] = ()  # system message and tools, if not those stored last
    if parts.fixed is None:  # else only their sizes are known: an agent without a request
        event = parts.opening_event(work.run.settings)
        fixed = () if state.get("fixed") == event["digest"] else (event,)
    events = (*fixed, *language_event(work.run.settings.language))
    turn = _committed(state, messages, work.view, parts, events)
    with CACHES:
        parts.turns.pop(work.key, None)
    stored: dict[str, Any] = {"fixed": fixed[0]["digest"]} if fixed else {}
    if turn.beside and turn.beside[1] >= work.began:  # another one was answered meanwhile
        other, short = turn.beside[0], {"branch": turn.id[:SHORT_ID]}
        short["beside"] = other.id[:SHORT_ID]
        line = banner_of("at_once", turn=turn.number, other=other.turn, **short)
        runtime.stream_writer({"banner": line})
        stored["banners"] = [*work.efforts.banners, line]
    if (smaller := archived(state["messages"])) is not None:
        stored["messages"] = Overwrite(smaller)
    number, known = state.get("turn", 0), state.get("known", ())
    older = [entry for entry in known if entry[2] != number]
    return {
        **commit_update(turn),
        **stored,
        "known": [*older, *entries(messages, number)][-KNOWN:],
    }


def _committed(
    state: TurnState,
    messages: Sequence[BaseMessage],
    view: ArchiveView,
    parts: AgentParts,
    events: tuple[Mapping[str, Any], ...],
) -> StoredTurn:
    """Commit the running turn with these events and its cost, embed it, and invalidate caches."""
    archive, session, tip = view.archive, view.session, view.past.tip or tip_of(state)
    # Also a turn that ends with a result: of a tool that answers directly, or structured output.
    turn = turn_to_store(state, messages, left_rounds(archive, session, state), is_done=True)
    turn = replace(turn, events=(*turn.events, *events))
    if "context_report" in state:
        # The cost is compared with what the application would send without a memory.
        spent = cost(as_users_see(turn.messages), parts.alone, parts.count, MEMORY_TOOLS)
        turn = replace(turn, events=(*turn.events, spent))
    stored = commit(archive, session, tip, turn, parts.embedder)
    if parts.embedder is not None:
        try:  # the next turn embeds what fails here
            archive.embed(session, parts.embedder, EMBEDDED_TURNS)
        except (EmbeddingError, ArchiveError, OSError) as error:
            _log.warning("session %r has turns without a vector: %s", session.thread, error)
    # Attention elsewhere is a cache: a turn that follows an older one concludes other efforts.
    if parts.attention is not None and (stored.beside or touches_attention(stored)):
        parts.memories_changed(session)
    return stored
