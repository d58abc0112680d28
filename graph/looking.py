"""The commands that only look: turns, efforts, search, figures."""

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ..memory.arguments import Nothing, Search
from ..memory.desk import Desk
from ..memory.errors import CommandError
from ..memory.metrics import Report, report
from ..memory.reading import effort_status
from ..memory.searching import search_efforts
from ..memory.turn_lines import TurnPage, numbers_on, pages, turn_line
from ..memory.view import every_turn
from ..nodes.session import workspace
from .threads import Agent, Thread, collaborators_of, on_a_thread, opened


def messages(agent: Agent, config: RunnableConfig, page: int = 1) -> TurnPage:
    """Return the turns of the state's lineage, 20 on a page, the newest first.

    Raises `CommandError` if there is no such page, and like the others here `SessionNotFoundError`
    if nothing was said on the thread, or by another user.
    """
    thread = _thread(agent, config)
    turn = thread.tip.turn
    if not 1 <= page <= pages(turn):
        raise CommandError(f"there is no page {page}: the pages are 1-{pages(turn)}")
    records = thread.view.turns(numbers_on(page, turn))
    return TurnPage(tuple(map(turn_line, reversed(records))), page, pages(turn))


amessages = on_a_thread(messages)


def efforts(agent: Agent, config: RunnableConfig) -> Mapping[str, Any]:
    """Return what the tool `effort_status` answers: `efforts`, and `more` if there are more."""
    return effort_status(_desk(_thread(agent, config)), Nothing())[1]


aefforts = on_a_thread(efforts)


def search(agent: Agent, config: RunnableConfig, query: str) -> Mapping[str, Any]:
    """Return what the tool `search_efforts` answers; such a search is not counted."""
    desk = _desk(_thread(agent, config))
    found: Mapping[str, Any] = search_efforts(desk, Search(query=query))[1]
    return found


asearch = on_a_thread(search)


def stats(agent: Agent, config: RunnableConfig) -> Report:
    """Return the metrics of the state's lineage."""
    thread = _thread(agent, config)
    return report(every_turn(thread.collaborators.archive, thread.owner, thread.tip))


astats = on_a_thread(stats)


def _thread(agent: Agent, config: RunnableConfig) -> Thread:
    collaborators_of(agent)
    return opened(agent, config, agent.get_state(config))


def _desk(thread: Thread) -> Desk:
    budget, count = thread.settings.context_budget, thread.collaborators.count
    return Desk(workspace(thread.state), thread.view, thread.settings, count, budget, budget)
