"""The input of a run: whose it is, and what an earlier run left in the newest checkpoint.

LangGraph stores the input of a run in a checkpoint of its own before it applies it. If the process
dies in between, a run without input applies it; a run with a new message drops it.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from ..memory.archive.protocol import Archive
from ..memory.errors import InputError, SessionNotFoundError
from ..memory.serialised import clean
from ..memory.settings import resolve
from ..memory.tool_names import MEMORY_TOOLS
from ..memory.turn import Session, Tip
from ..memory.view import view_at
from ..nodes.turn.arrivals import is_all_answered
from ..nodes.turn.langchain_messages import messages_in_state
from ..nodes.turn.parts import AgentParts
from ..nodes.turn.session import user_of
from ..nodes.turn.state import unpacked, without_reserved
from ..nodes.turn.updates import tip_of
from ..nodes.turn.well_typed import well_typed

_ROLES = frozenset({"user", "human", "assistant", "ai", "system"})

_USER = "ebbtide_user"
"""The key of a digest of the run's user in the metadata of each of its checkpoints."""


def entered(
    given: Any,
    found: CheckpointTuple | None,
    parts: AgentParts,
    place: RunnableConfig,
    context: object,
) -> tuple[Any, RunnableConfig]:
    """Return the input of a run after what an earlier one left, and a config with its user.

    `found` is the checkpoint that it goes on from, at its `place`. A `RemoveMessage` of a message
    that has left is dropped, since LangGraph fails for it. Raises `SessionNotFoundError` if the
    thread is another user's, or the run goes on with what another user said before its first turn;
    `InputError` if it has nothing to answer.
    """
    update, chosen = without_reserved(given), place.get("configurable", {})
    user = user_of(resolve(context, parts.settings), chosen)
    session, archive = Session(user, clean(str(chosen.get("thread_id")))), parts.archive
    own = archive.keyed_digest(f"user {user}")
    named: RunnableConfig = {"metadata": {_USER: own}}
    writer = found.metadata.get(_USER) if found else None
    goes_on = bool(chosen.get("checkpoint_id")) or not isinstance(update, Mapping)
    is_of_others = writer not in {None, own}
    is_refused = is_of_others and goes_on
    # The archive is asked when the turn begins; before it where the checkpoint does not say.
    is_known = writer == own and not chosen.get("checkpoint_id")
    if "thread_id" in chosen and (
        is_refused or (not is_known and archive.load(session, Tip()).owner == "other")
    ):
        raise SessionNotFoundError(session.thread)
    left: list[BaseMessage] = []
    if is_of_others:
        left, found = [RemoveMessage(id=REMOVE_ALL_MESSAGES)], None
    elif found is not None and not goes_on:
        left = left_messages(found)
    if not isinstance(update, Mapping):
        return update, named
    said = input_messages(update.get("messages", []))
    if said is None:  # malformed ones are left to LangGraph
        return update, named
    values = found.checkpoint["channel_values"] if found else {}
    earlier = (*messages_in_state(values.get("messages")), *left)
    there = {REMOVE_ALL_MESSAGES, *(one.id for one in earlier)}
    messages = [one for one in said if one.type != "remove" or one.id in there]
    if not messages and (is_of_others or not left):
        state = unpacked(values, parts.secret)
        if is_all_answered(state, view_at(archive, session, tip_of(state))):
            raise InputError(len(state.get("messages", [])))
    return {**update, "messages": [*left, *messages]}, named


def is_of_another(metadata: Mapping[str, Any] | None, archive: Archive, user: str) -> bool:
    """Tell whether another user's run wrote a checkpoint; one of no run is anybody's."""
    writer = (metadata or {}).get(_USER)
    return writer not in {None, archive.keyed_digest(f"user {user}")}


def input_messages(given: Any) -> list[BaseMessage] | None:
    """Return the messages of an input as they can be stored, None if they are malformed.

    Each has an id: LangGraph would give one to what is stored and another to what the next run
    takes along, so that it was said twice.
    """
    try:
        messages = convert_to_messages(given if isinstance(given, list) else [given])
    except (ValueError, TypeError, NotImplementedError):
        return None
    typed = map(well_typed, messages)
    return [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in typed]


def left_messages(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages of an input that no run applied, else results that no run took.

    The results are of application tools that ran in parallel with an interrupted one: LangGraph
    keeps them for a resumed run and drops them when a new message arrives. Those of memory tools
    are left out: what these tools changed in the memory is dropped too.
    """
    given = checkpoint.checkpoint["channel_values"].get(START)
    said = given.get("messages") if isinstance(given, Mapping) else getattr(given, "messages", None)
    if said is not None:
        messages = input_messages([tuple(said)] if _is_pair(said) else said)
        return [message for message in messages or () if not isinstance(message, RemoveMessage)]
    writes = (value for _, key, value in checkpoint.pending_writes or () if key == "messages")
    results = chain.from_iterable(one if isinstance(one, list) else [one] for one in writes)
    return [m for m in results if isinstance(m, ToolMessage) and m.name not in MEMORY_TOOLS]


def _is_pair(said: Any) -> bool:
    """Tell whether an input is a pair of a role and a text; a checkpointer stores it as a list."""
    role, *text = said if isinstance(said, Sequence) and said else [None]
    return isinstance(role, str) and role in _ROLES and len(text) == 1 and isinstance(text[0], str)
