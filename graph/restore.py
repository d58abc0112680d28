"""Rebuild the state of a thread from the archive, when its checkpoints are lost."""

import asyncio
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite

from ..memory.anchor import shown
from ..memory.archive.protocol import Archive
from ..memory.errors import SessionNotFoundError
from ..memory.messages import digest
from ..memory.record import DEFAULT_USER, Owner, Record, Tip
from ..memory.restoring import replay
from ..memory.view import every_turn, past
from ..nodes.attending import remembered
from ..nodes.erased_state import marks
from ..nodes.plain import real
from ..nodes.session import packed
from ..nodes.state import repacked
from .checkpoints import LAST_NODE
from .threads import parts_of


def restore(
    agent: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig
) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive; return its new config.

    What it concluded and attention does not know is kept there. `config` names the thread, and the
    user if there is one. Raises `SessionNotFoundError` if the
    archive holds no such session, `SettingsError` if the graph is not one of Ebbtide's.
    """
    return agent.update_state(config, _restored(agent, config), as_node=LAST_NODE)


async def arestore(
    agent: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig
) -> RunnableConfig:
    """Do what `restore` does with an asynchronous checkpointer."""
    values = await asyncio.to_thread(_restored, agent, config)
    return await agent.aupdate_state(config, values, as_node=LAST_NODE)


def _restored(
    agent: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig
) -> dict[str, Any]:
    parts, chosen = parts_of(agent), config.get("configurable", {})
    archive = parts.archive
    owner = Owner(str(chosen.get("user_id") or DEFAULT_USER), str(chosen["thread_id"]))
    tip = archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    remembered(owner, agent.store, parts)
    window = parts.settings.messages_window + 1
    return _values(archive, owner, tip, window)


def _values(archive: Archive, owner: Owner, tip: Tip, window: int) -> dict[str, Any]:
    records = every_turn(archive, owner, tip)
    view = past(archive, owner, tip)
    turns = [_identified(real(shown(view.messages(record)))) for record in records[-window:]]
    kept = marks([turn for turn in turns if turn], gone=_changed(records[-1]))
    state = {
        **packed(replay(records)),
        **kept,
        "session": asdict(owner),
        "turn": tip.turn,
        "branch": tip.branch,
        "persisted": tip.turn,
        "tip": tip.digest,
        "attended": tip.turn,
        "safety_factor": 1.0,
    }
    return {key: Overwrite(value) for key, value in repacked(state).items()}


def _changed(record: Record) -> bool:
    """Tell whether a record lost text since it was committed."""
    return digest(record.messages) != record.digest


def _identified(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in messages]
