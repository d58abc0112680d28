"""The commands that change efforts, for applications; each is a turn, as `order` says."""

from typing import Any

from langchain_core.runnables import RunnableConfig

from ..nodes.by_hand import Order
from .order_tools import Commanded, order
from .threads import Agent, on_a_thread


def open_effort(
    agent: Agent, config: RunnableConfig, name: str, goal: str = "", *, context: object = None
) -> Commanded:
    """Begin an effort and make it active."""
    return order(agent, config, opening(name, goal), context)


aopen_effort = on_a_thread(open_effort)


def close_effort(
    agent: Agent, config: RunnableConfig, effort_id: str | None = None, *, context: object = None
) -> Commanded:
    """Conclude an effort, the active one by default; the model that summarises is called."""
    return order(agent, config, closing(effort_id), context)


aclose_effort = on_a_thread(close_effort)


def switch_effort(
    agent: Agent, config: RunnableConfig, effort_id: str = "", *, context: object = None
) -> Commanded:
    """Make another open effort the active one; without a name none is, and all stay open."""
    return order(agent, config, _named("switch", effort_id), context)


aswitch_effort = on_a_thread(switch_effort)


def reopen_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> Commanded:
    """Go on with a concluded effort."""
    return order(agent, config, _named("reopen", effort_id), context)


areopen_effort = on_a_thread(reopen_effort)


def expand_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, turns: str = "", *, context: object = None
) -> Commanded:
    """Show the raw log of a concluded effort in the context; `turns` such as "3-5,8"."""
    return order(agent, config, expanding(effort_id, turns), context)


aexpand_effort = on_a_thread(expand_effort)


def collapse_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> Commanded:
    """Take the raw log of an expanded effort out of the context."""
    return order(agent, config, _named("collapse", effort_id), context)


acollapse_effort = on_a_thread(collapse_effort)


def opening(name: str, goal: str) -> Order:
    """Return the order to open an effort.

    >>> opening("auth bug", "sign-in works").said
    '/open auth bug: sign-in works'
    """
    said = f"/open {name}: {goal}" if goal else f"/open {name}"
    return Order(said, "open_effort", {"name": name, "goal": goal})


def closing(effort_id: str | None) -> Order:
    """Return the order to close an effort, None for the active one."""
    arguments: dict[str, Any] = {"effort_id": effort_id} if effort_id else {}
    return Order(f"/close {effort_id or ''}".strip(), "close_effort", arguments)


def expanding(effort_id: str, turns: str) -> Order:
    """Return the order to expand an effort, all of it or some turns."""
    arguments = {"effort_id": effort_id, "turns": turns}
    return Order(f"/expand {effort_id} {turns}".strip(), "expand_effort", arguments)


def _named(verb: str, effort_id: str) -> Order:
    return Order(f"/{verb} {effort_id}".strip(), f"{verb}_effort", {"effort_id": effort_id})
