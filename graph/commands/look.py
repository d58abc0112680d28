"""The commands that only look: turns, efforts, search, figures, the next context.

Each takes an agent, one with the middleware, or the graph around either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from ...memory.anchor import shown as shown_messages
from ...memory.context.timeline import Part
from ...memory.errors import CommandError
from ...memory.metrics import (
    PAGE,
    Report,
    TurnPage,
    numbers_on,
    pages,
    report,
    turn_line,
    without_calls,
)
from ...memory.record import Record
from ...memory.running_turn import RunningTurn
from ...memory.settings import Settings
from ...memory.tools.recall import effort_status
from ...memory.tools.search_efforts import search_efforts
from ...memory.tools.toolbox import NAMES
from ...memory.valid_history import with_own_ids
from ...memory.view import ArchiveView, every_turn
from ...nodes.begin_turn import begin_turn
from ...nodes.turn.arrivals import unarchived
from ...nodes.turn.langchain_messages import from_dicts, to_dicts
from ...nodes.turn.model_call import working_context
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.state import AgentState, unpacked
from ...nodes.turn.values import effort_state
from ...prompts.loader import render
from ..build import Node
from .threads import Agent, Thread, newest_config, on_a_thread, thread_at


def messages(agent: Agent, config: RunnableConfig, page: int = 1) -> TurnPage:
    """Return the turns of the state's lineage, 20 on a page, the newest first.

    Raises `CommandError` if there is no such page, and like the others here `SessionNotFoundError`
    if nothing was said on the thread, or by another user.
    """
    thread = thread_at(agent, config)
    turn = thread.tip.turn
    if not 1 <= page <= pages(turn):
        raise CommandError(f"there is no page {page}: the pages are 1-{pages(turn)}")
    records = thread.view.turns(numbers_on(page, turn))
    return TurnPage(tuple(map(turn_line, reversed(records))), page, pages(turn))


def efforts(agent: Agent, config: RunnableConfig) -> Mapping[str, Any]:
    """Return what the tool `effort_status` answers: `efforts`, and `more` if there are more."""
    return effort_status(_work(thread_at(agent, config)))[1]


def transcript(
    agent: Agent, config: RunnableConfig, *, before: int | None = None, turns: int = PAGE
) -> list[BaseMessage]:
    """Return the last `turns` turns of a thread, or those before one, as its user saw them.

    Oldest first, without state blocks and without calls of memory tools. Each message has its
    `turn` and `status` under `ebbtide` in `response_metadata`, which providers are not sent. An
    erased turn is one system message with the status `erased`; one that is not archived yet has the
    status `running`. Nothing comes before turn 1: then the list is empty. Raises `CommandError` if
    a number is below 1, and what `messages` raises.
    """
    if turns < 1 or (before is not None and before < 1):
        raise CommandError(f"turns={turns}, before={before}: give numbers from 1 on")
    thread = thread_at(agent, config)
    now = unarchived(thread.state)
    newest_turn = thread.tip.turn + bool(now)
    last = newest_turn if before is None else min(newest_turn, before - 1)
    first = max(1, last - turns + 1)
    view = thread.view
    records = view.turns(range(first, min(last, thread.tip.turn) + 1))
    messages = [message for record in records for message in _seen(view, record)]
    if now and first <= newest_turn == last:
        running = from_dicts([*without_calls(shown_messages(to_dicts(now)), NAMES)])
        messages += [_marked(message, newest_turn, "running") for message in running]
    return messages


def _seen(view: ArchiveView, record: Record) -> list[BaseMessage]:
    messages = from_dicts([*without_calls(shown_messages(view.messages(record)), NAMES)])
    if record.status == "erased":
        messages = [SystemMessage(render("erased_turn"))]
    return [_marked(message, record.turn, record.status) for message in messages]


def _marked(message: BaseMessage, turn: int, status: str) -> BaseMessage:
    metadata = {**message.response_metadata, "ebbtide": {"turn": turn, "status": status}}
    return message.model_copy(update={"response_metadata": metadata})


def search(agent: Agent, config: RunnableConfig, query: str) -> Mapping[str, Any]:
    """Return what the tool `search_efforts` answers; such a search is not counted."""
    work = _work(thread_at(agent, config))
    answer: Mapping[str, Any] = search_efforts(work, query)[1]
    return answer


def stats(agent: Agent, config: RunnableConfig) -> Report:
    """Return the metrics of the state's lineage."""
    thread = thread_at(agent, config)
    return report(every_turn(thread.parts.archive, thread.owner, thread.tip))


def _work(thread: Thread) -> RunningTurn:
    budget, count = thread.settings.context_budget, thread.parts.count
    return RunningTurn(
        effort_state(thread.state), thread.view, thread.settings, count, budget, budget
    )


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A working context: its parts in the order in which they are sent, and the tool schemas.

    `turn` is the turn of the call. `unfinished` tells that it has begun already: then this is what
    resuming sends, without the results of tools that are still to run.
    """

    turn: int
    parts: tuple[Part, ...]
    tools: tuple[dict[str, Any], ...]
    unfinished: bool

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, as the model is given them."""
        messages = [message for part in self.parts for message in part.messages]
        return from_dicts(with_own_ids(messages))

    @property
    def total(self) -> int:
        """The size of it all in tokens."""
        return sum(part.tokens for part in self.parts)


class _Looking(AgentState, total=False):
    parts: tuple[Part, ...]


def show_context(
    agent: Agent,
    config: RunnableConfig,
    message: str | BaseMessage | None = None,
    *,
    context: object = None,
) -> ShownContext:
    """Return exactly what the next call of the model would be sent, if the user said `message`.

    Without one it is all that stands before the user's words; of a turn that is not finished, what
    resuming it sends. `context` is the context of that run. Raises `TurnRunningError` if there is a
    message while a turn is not finished, or if that turn was killed before its message was in the
    state, and what beginning a turn raises.
    """
    return rehearsed(thread_at(agent, config, context), config, message, context)


def rehearsed(
    thread: Thread, config: RunnableConfig, message: str | BaseMessage | None, context: object
) -> ShownContext:
    """Run the first nodes of a turn on a copy of the state, so that nothing is saved."""
    resumed = thread.unfinished
    if message is not None or thread.following == (START,):
        thread.at_rest()
    begins = not resumed or thread.turn > thread.state.get("turn", 0)
    values = dict(thread.values)
    if not resumed:
        asked = message if isinstance(message, BaseMessage) else HumanMessage(message or "")
        values["messages"] = [*values.get("messages", []), asked]
    graph: Any = StateGraph(_Looking, context_schema=Settings)
    first = [("begin_turn", Node(thread.parts, begin_turn))] if begins else []
    graph.add_sequence([*first, ("look", partial(_look, parts=thread.parts))])
    graph.add_edge(START, "begin_turn" if begins else "look")
    after = graph.compile(checkpointer=False).invoke(values, newest_config(config), context=context)
    parts = after["parts"]
    if message is None and not resumed:
        parts = tuple(part for part in parts if part.name != "turn")
    return ShownContext(after["memory"]["turn"], parts, thread.parts.schemas, resumed)


def _look(state: _Looking, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    return {"parts": working_context(unpacked(state), runtime, parts).parts}


amessages = on_a_thread(messages)
aefforts = on_a_thread(efforts)
atranscript = on_a_thread(transcript)
asearch = on_a_thread(search)
astats = on_a_thread(stats)
ashow_context = on_a_thread(show_context)
