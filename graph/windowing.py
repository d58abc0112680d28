"""The ambient window of a thread."""

from langchain_core.runnables import RunnableConfig

from ..memory.settings import settings
from ..nodes.state import repacked
from .checkpoints import last_node
from .threads import Agent, collaborators_of, on_a_thread, opened


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread keeps in its context; 0 is all, None the settings'.

    It wins over settings of the agent and of runs. It is kept in the state and nowhere else: it
    goes back with time travel, and a thread that is rebuilt from the archive begins without it.
    Raises `SettingsError` if it is out of range, `TurnRunningError` if a turn is not finished.
    """
    window = None if turns is None else settings(ambient_window=turns).ambient_window
    collaborators_of(agent)
    opened(agent, config, agent.get_state(config)).at_rest()
    agent.update_state(config, repacked({"window": window}), as_node=last_node(agent))


aset_window = on_a_thread(set_window)
