"""Rebuild the state of a thread from the archive, when its checkpoints are lost."""

import asyncio

from langchain_core.runnables import RunnableConfig

from ..memory.errors import SessionNotFoundError, StateError
from ..nodes.recovery import state_at
from ..nodes.state import repacked
from .checkpoints import Agent, seed
from .threads import named, owner_in, parts_of


def restore(agent: Agent, config: RunnableConfig) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive; return its new config.

    `config` names the thread, and the user if there is one. Raises `SessionNotFoundError` if the
    archive holds no such session, `SettingsError` if the graph is not one of Ebbtide's.
    """
    parts = parts_of(agent)
    try:
        owner = owner_in(agent, config)
    except StateError:  # a state that is none is what restoring mends
        owner = named(agent, config)
    tip = parts.archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    state = state_at(parts.archive, owner, tip, parts.settings.messages_window + 1)
    return seed(agent, config, repacked(state))


async def arestore(agent: Agent, config: RunnableConfig) -> RunnableConfig:
    """Do what `restore` does, on a thread."""
    return await asyncio.to_thread(restore, agent, config)
