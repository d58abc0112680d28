"""Rebuild the state of a thread from the archive, when its checkpoints are lost."""

from langchain_core.runnables import RunnableConfig

from ...memory.errors import SessionNotFoundError, StateError, TipNotFoundError
from ...nodes.turn.recovery import state_at
from ...nodes.turn.state import repacked
from ..erase.checkpoints import Agent, seed
from .threads import named, newest, on_a_thread, owner_in, parts_of, tip_named


def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive; return its new config.

    `config` names the thread, and the user if there is one; `branch` names another branch. Raises
    `SessionNotFoundError` if the archive holds no such session, `SettingsError` if the graph is not
    one of Ebbtide's, or if there is no such branch.
    """
    parts = parts_of(agent)
    try:
        owner = owner_in(agent, config)
    except (StateError, TipNotFoundError):  # what restoring mends
        owner = named(agent, config)
    tip = parts.archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    if branch is not None:
        tip = tip_named(parts.archive, owner, branch)
    state = state_at(parts.archive, owner, tip, parts.settings.messages_window + 1)
    asked = newest(config)
    written = seed(agent, asked, repacked(state))
    return {**written, "configurable": {**asked["configurable"], **written["configurable"]}}


arestore = on_a_thread(restore)
