"""The commands that only look: turns, efforts, search, figures."""

import asyncio
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
from .threads import Agent, Thread, collaborators_of, opened


def messages(agent: Agent, config: RunnableConfig, page: int = 1) -> TurnPage:
    """Return the turns of the state's lineage, 20 on a page, the newest first.

    Raises `CommandError` if there is no such page, and like the others here `SessionNotFoundError`
    if nothing was said on the thread, or by another user.
    """
    return _page(_thread(agent, config), page)


async def amessages(agent: Agent, config: RunnableConfig, page: int = 1) -> TurnPage:
    """Do what `messages` does with an asynchronous checkpointer."""
    return await asyncio.to_thread(_page, await _athread(agent, config), page)


def efforts(agent: Agent, config: RunnableConfig) -> Mapping[str, Any]:
    """Return what the tool `effort_status` answers: `efforts`, and `more` if there are more."""
    return _efforts(_thread(agent, config))


async def aefforts(agent: Agent, config: RunnableConfig) -> Mapping[str, Any]:
    """Do what `efforts` does with an asynchronous checkpointer."""
    return await asyncio.to_thread(_efforts, await _athread(agent, config))


def search(agent: Agent, config: RunnableConfig, query: str) -> Mapping[str, Any]:
    """Return what the tool `search_efforts` answers; such a search is not counted."""
    return _search(_thread(agent, config), query)


async def asearch(agent: Agent, config: RunnableConfig, query: str) -> Mapping[str, Any]:
    """Do what `search` does with an asynchronous checkpointer."""
    return await asyncio.to_thread(_search, await _athread(agent, config), query)


def stats(agent: Agent, config: RunnableConfig) -> Report:
    """Return the metrics of the state's lineage."""
    return _stats(_thread(agent, config))


async def astats(agent: Agent, config: RunnableConfig) -> Report:
    """Do what `stats` does with an asynchronous checkpointer."""
    return await asyncio.to_thread(_stats, await _athread(agent, config))


def _thread(agent: Agent, config: RunnableConfig) -> Thread:
    collaborators_of(agent)
    return opened(agent, config, agent.get_state(config))


async def _athread(agent: Agent, config: RunnableConfig) -> Thread:
    collaborators_of(agent)
    return await asyncio.to_thread(opened, agent, config, await agent.aget_state(config))


def _page(thread: Thread, page: int) -> TurnPage:
    tip = thread.tip
    if not 1 <= page <= pages(tip.turn):
        raise CommandError(f"there is no page {page}: the pages are 1-{pages(tip.turn)}")
    records = thread.view.turns(numbers_on(page, tip.turn))
    return TurnPage(tuple(map(turn_line, reversed(records))), page, pages(tip.turn))


def _efforts(thread: Thread) -> Mapping[str, Any]:
    return effort_status(_desk(thread), Nothing())[1]


def _search(thread: Thread, query: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = search_efforts(_desk(thread), Search(query=query))[1]
    return found


def _stats(thread: Thread) -> Report:
    return report(every_turn(thread.collaborators.archive, thread.owner, thread.tip))


def _desk(thread: Thread) -> Desk:
    budget, count = thread.settings.context_budget, thread.collaborators.count
    return Desk(workspace(thread.state), thread.view, thread.settings, count, budget, budget)
