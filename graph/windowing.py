"""The ambient window of a thread."""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig

from ..memory.settings import settings
from ..nodes.state import repacked
from .checkpoints import LAST_NODE
from .threads import Agent, collaborators_of, opened


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread keeps in its context; 0 is all, None the settings'.

    It wins over settings of the agent and of runs. It is kept in the state and nowhere else: it
    goes back with time travel, and a thread that is rebuilt from the archive begins without it.
    Raises `SettingsError` if it is out of range, `TurnRunningError` if a turn is not finished.
    """
    values = _checked(turns)
    collaborators_of(agent)
    opened(agent, config, agent.get_state(config)).at_rest()
    agent.update_state(config, values, as_node=LAST_NODE)


async def aset_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Do what `set_window` does with an asynchronous checkpointer."""
    values = _checked(turns)
    collaborators_of(agent)
    found = await agent.aget_state(config)
    (await asyncio.to_thread(opened, agent, config, found)).at_rest()
    await agent.aupdate_state(config, values, as_node=LAST_NODE)


def _checked(turns: int | None) -> dict[str, Any]:
    window = None if turns is None else settings(ambient_window=turns).ambient_window
    return repacked({"window": window})
