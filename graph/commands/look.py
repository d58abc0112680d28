"""Commands that change nothing: turns, efforts, search, metrics, the next context."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, Literal, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START
from langgraph.runtime import Runtime
from pydantic import PlainSerializer, TypeAdapter, computed_field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from ...memory.archive.protocol import Finding as Finding  # noqa: PLC0414 (exported as well)
from ...memory.context.budget import Part as Part  # noqa: PLC0414 (exported with the commands)
from ...memory.dates import stamp
from ...memory.errors import CommandError, SessionNotFoundError, ToolError
from ...memory.history import turns_of
from ...memory.metrics import Report as Report  # noqa: PLC0414 (exported with the commands)
from ...memory.metrics import report, without_calls
from ...memory.running_turn import Run, Turn
from ...memory.serialised import stored_form
from ...memory.settings import Settings
from ...memory.state_block import as_users_see
from ...memory.tool_names import MEMORY_TOOLS
from ...memory.tools.effort_status import effort_status
from ...memory.tools.search_efforts import search_efforts
from ...memory.transcript import first_words
from ...memory.turn import SHORT_ID, Status
from ...memory.valid_history import with_own_ids
from ...memory.view import fences_of
from ...nodes.assemble_context import working_context
from ...nodes.begin_turn import begin_turn
from ...nodes.turn.langchain_messages import completed, copied
from ...nodes.turn.state import AgentState, efforts_of, unpacked
from ...nodes.turn.turn import left_rounds, put_back
from ...nodes.turn.updates import tip_of
from ...prompts.loader import render
from ..build import MemoryGraph, Node
from .registry import Messages, command
from .threads import Agent, Thread, newest_config, thread_at

PAGE = 20
"""Turns on one page."""

_SHOWN = 60
"""Characters of a message in a list of turns, so that it fits on one line."""


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn: number, efforts, time (ISO 8601, UTC), start of the user's message, status."""

    turn: int
    efforts: tuple[str, ...]
    at: str
    said: str
    status: Status


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A page of turns, newest first; page 1 has the newest turns."""

    lines: tuple[TurnLine, ...]
    page: int
    pages: int


@command()
def messages(agent: Agent, config: RunnableConfig, page: int = 1) -> TurnPage:
    """List the turns of this branch, 20 on a page, newest first.

    Raises:
        CommandError: There is no such page.
        SessionNotFoundError: The thread has no turn of this user. All commands raise it if another
            user has turns there, except those on attention. In an empty thread `transcript`,
            `show_context`, `set_window` and commands that change efforts do not raise it, and
            `undo` raises `CommandError`.
        NotAdoptedError: The thread has not run with Ebbtide yet. All commands raise it, except
            `transcript`, `show_context` without a message, and those on attention; `undo` raises
            `CommandError`.
    """
    thread = thread_at(agent, config)
    last = thread.tip.turn
    pages = max(1, ceil(last / PAGE))
    if type(page) is not int or not 1 <= page <= pages:
        raise CommandError(f"there is no page {page!r}: the pages are 1-{pages}")
    newest = last - (page - 1) * PAGE
    turns = thread.view.past.turns(range(max(1, newest - PAGE + 1), newest + 1))
    lines = (
        TurnLine(one.number, one.efforts, one.at, first_words(one.messages, _SHOWN), one.status)
        for one in reversed(turns)
    )
    return TurnPage(tuple(lines), page, pages)


@command()
def verify(agent: Agent, config: RunnableConfig) -> tuple[Finding, ...]:
    """Check that all that is stored of this thread is there and undamaged.

    Ends of branches that no checkpoint of the thread names are reported too; these turns were
    archived, but the process died before their checkpoint, or the checkpoint was
    deleted.
    """
    thread = thread_at(agent, config)
    if thread.is_older:
        thread.at_rest()
    named = {tip_of(thread.state).id}
    for older in agent.get_state_history(newest_config(config)):
        configurable = {**config.get("configurable", {}), **older.config["configurable"]}
        named.add(tip_of(thread_at(agent, {**config, "configurable": configurable}).state).id)
    archive, session = thread.parts.archive, thread.session
    unnamed = (
        Finding(f"turn {tip.turn} ({tip.id[:SHORT_ID]})", "no checkpoint names it", fatal=False)
        for tip in archive.tips(session)
        if tip.id not in named
    )
    return (*archive.verify(session), *unnamed)


@dataclass(frozen=True, slots=True)
class EffortLine:
    """An effort as the tool `effort_status` shows it; one that is concluded has no goal."""

    id: str
    status: Literal["open", "concluded"]
    active: bool
    expanded: bool
    summary: str
    raw_tokens: int
    summary_tokens: int
    turns: str
    goal: str = ""
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EffortPage:
    """The efforts in the context and the newest others, and how many `more` there are."""

    efforts: tuple[EffortLine, ...]
    more: int


@command()
def efforts(agent: Agent, config: RunnableConfig) -> EffortPage:
    """List the efforts with their state, turns and summary."""
    listed = effort_status(_work(thread_at(agent, config)))[1]
    return TypeAdapter(EffortPage).validate_python(listed)


class Transcript(NamedTuple):
    """The messages of turns, and whether there are earlier ones."""

    messages: list[BaseMessage]
    more: bool


class _TranscriptData(TypedDict):
    messages: Messages
    more: bool


@command(slash="", given={"limit": PAGE})
def transcript(
    agent: Agent,
    config: RunnableConfig,
    *,
    limit: int | None = None,
    before: int | None = None,
) -> Annotated[Transcript, PlainSerializer(Transcript._asdict, return_type=_TranscriptData)]:
    """Return the messages of a thread as the user saw them, and whether there are earlier ones.

    Messages are in chronological order, without state blocks and calls of memory tools. Each has
    its `turn` and `status` (`done`, `aborted`, `running`, `erased`) under `ebbtide` in
    `response_metadata`. An erased turn is one system message. For a thread that
    has not run with Ebbtide yet, the messages of its checkpoint are returned, divided into turns.

    Args:
        agent: The agent, or a graph around it.
        config: The config of the thread's runs.
        limit: Return the last `limit` turns, or with `before` the last ones before it. Default:
            all.
        before: Only return turns before this one.

    Raises:
        CommandError: A number is below 1.
    """
    for number in (limit, before):
        if number is not None and (type(number) is not int or number < 1):
            raise CommandError(f"limit={limit!r}, before={before!r}: pass numbers of 1 or more")
    thread = thread_at(agent, config)
    running_messages = thread.unarchived
    try:
        tip = thread.tip
    except SessionNotFoundError:  # unknown, or not adopted yet
        if thread.state.get("turn"):
            raise
        turns = turns_of(thread.state.get("messages", []))
        page = _page(len(turns), limit, before)
        marked = [_marked(turns[turn - 1], turn, "done") for turn in page]
        return Transcript([message for turn in marked for message in turn], page.start > 1)
    page = _page(tip.turn + bool(running_messages), limit, before)
    shown = _shown_turns(thread, running_messages, page)
    whole = completed(thread.parts.archive, thread.session, shown, running_messages)
    return Transcript(whole, page.start > 1)


def _page(newest: int, limit: int | None, before: int | None) -> range:
    """Return the turns of a page: the last `limit` ones, or of those before a turn."""
    last = newest if before is None else min(newest, before - 1)
    return range(max(1, last - (limit or last) + 1), last + 1)


def _marked(messages: Sequence[BaseMessage], turn: int, status: str) -> list[BaseMessage]:
    """Return messages with their turn and its status under `ebbtide` in the metadata."""
    mark = {"ebbtide": {"turn": turn, "status": status}}
    return [
        message.model_copy(update={"response_metadata": {**message.response_metadata, **mark}})
        for message in messages
    ]


def _shown_turns(
    thread: Thread, running_messages: Sequence[BaseMessage], turns: range
) -> list[BaseMessage]:
    """Return the messages of turns as the user saw them, each marked with its turn."""
    view, running_turn = thread.view, thread.tip.turn + 1
    stored_turns = view.past.turns([turn for turn in turns if turn < running_turn])
    chosen: list[tuple[int, str, Sequence[BaseMessage]]]
    chosen = [(stored.number, stored.status, view.messages(stored)) for stored in stored_turns]
    if running_messages and running_turn in turns:
        state, whole = thread.state, stored_form(running_messages)
        if state.get("turn", 0) == running_turn:
            left = left_rounds(thread.parts.archive, thread.session, state)
            whole = put_back(whole, left.messages)
        chosen.append((running_turn, "running", whole))
    marked: list[BaseMessage] = []
    for turn, status, turn_messages in chosen:
        visible = copied([*without_calls(as_users_see(turn_messages), MEMORY_TOOLS)])
        erased = [SystemMessage(render("erased_turn"))]
        marked += _marked(erased if status == "erased" else visible, turn, status)
    return marked


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a turn: its day, who speaks, its text, and where this begins if far inside.

    A `weak` one has little in common with the query. Of several statements with the words
    `newest_with`, it is the newest.
    """

    turn: int
    at: str = ""
    text: str = ""
    speaker: str = ""
    offset: int = 0
    weak: bool = False
    newest_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search finds of an effort or a turn, and the session that it is of, "" for this one.

    `id` is the effort, or the fact, "" for a turn outside of efforts.
    """

    passages: tuple[Passage, ...]
    id: str = ""
    session: str = ""
    status: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The results of a search, the best first, and how many `more` there are.

    Nothing says the `unmatched` words. Without a result, `why` is the reason. `note` tells that the
    query could not be embedded.
    """

    query: str
    results: tuple[SearchResult, ...]
    more: int = 0
    unmatched: tuple[str, ...] = ()
    why: str = ""
    note: str = ""


@command(slash="/search WORDS")
def search(  # noqa: PLR0913 (the arguments of the tool)
    agent: Agent,
    config: RunnableConfig,
    query: str,
    *,
    also: Sequence[str] = (),
    limit: int = 0,
    since: str = "",
    until: str = "",
) -> SearchPage:
    """Search all that was said, as the model does with `search_efforts`.

    The metrics do not count this search.

    Args:
        agent: The agent, or a graph around it.
        config: The config of the thread's runs.
        query: What to search for.
        also: Other phrasings of the query. From the third on they are searched as one.
        limit: How many efforts and turns to return. 0 means the setting `search_limit`.
        since: The first day, such as "2026-03-22" or "2026-03".
        until: The last day.

    Raises:
        CommandError: The query is empty, a date is not valid, `since` is after `until`, or an
            argument has the wrong type.
    """
    for name, value in {"query": query, "since": since, "until": until}.items():
        if not isinstance(value, str):
            raise CommandError(f"{name} must be a text, got {value!r}")
    listed: Any = also
    if not isinstance(listed, Sequence) or not all(isinstance(text, str) for text in listed):
        raise CommandError(f"also must be a list of texts, got {also!r}")
    if type(limit) is not int or limit < 0:
        raise CommandError(f"limit must be a number of 0 or more, got {limit!r}")
    phrasings = (also,) if isinstance(also, str) else tuple(also)
    work = _work(thread_at(agent, config))
    try:
        found = search_efforts(work, query, also=phrasings, limit=limit, since=since, until=until)
    except ToolError as error:
        raise CommandError(str(error)) from error
    return TypeAdapter(SearchPage).validate_python(found[1])


@command()
def stats(agent: Agent, config: RunnableConfig) -> Report:
    """Show what was sent to the model, and what the memory did."""
    thread = thread_at(agent, config)
    return report([*thread.view.past.every_commit()], thread.parts.count)


def _work(thread: Thread) -> Turn:
    """Return what memory tools work on, with the whole budget for their results."""
    parts, budget = thread.parts, thread.settings.context_budget
    fences = fences_of(parts.archive, thread.session, parts.count)
    run = Run(thread.settings, parts.count, fences, embedder=parts.embedder)
    efforts = efforts_of(thread.state)
    return Turn(run, thread.view, efforts, room=budget, free=budget, now=stamp())


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A working context: its parts in the order in which they are sent, and the tool schemas.

    If `unfinished`, its turn has begun already, and this is what resuming it sends, without the
    results of tools that have not run yet. `missing` tells what is not shown, "" for nothing.
    """

    turn: int
    parts: tuple[Part, ...]
    tools: tuple[dict[str, Any], ...]
    unfinished: bool
    missing: str = ""

    @computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def messages(self) -> Messages:
        """The messages as the model receives them."""
        messages = [message for part in self.parts for message in part.messages]
        return copied(with_own_ids(messages))

    @computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def total(self) -> int:
        """The size of all parts in tokens."""
        return sum(part.tokens for part in self.parts)


class _Looking(AgentState, total=False):
    parts: tuple[Part, ...]


@command(path="threads/{thread_id}/context", slash="/context show [MESSAGE]")
def show_context(
    agent: Agent,
    config: RunnableConfig,
    message: str | SkipJsonSchema[BaseMessage] | None = None,
    *,
    context: object = None,
) -> ShownContext:
    """Show exactly what the next call would send to the model if you said `message`.

    Without `message`, return what would be sent before it. If a turn is unfinished, return what
    resuming that turn would send. Of an agent with the middleware, the application's prompt and
    tools are not shown, and counted as in the thread's last call. Raises `TurnRunningError` if a
    turn is unfinished and `message` is given, or if the process died before the message of that
    turn was in the state.
    """
    thread = thread_at(agent, config, context)
    return next_context(thread, message)


def next_context(thread: Thread, message: str | BaseMessage | None = None) -> ShownContext:
    """Return what `show_context` does, of a thread already read."""
    resumed = thread.unfinished
    if message is not None or thread.next_nodes == (START,):
        thread.at_rest()
    begins = not resumed or thread.turn > thread.state.get("turn", 0)
    values = dict(thread.values)
    if not resumed:
        said = message if isinstance(message, BaseMessage) else HumanMessage(message or "")
        values["messages"] = [*values.get("messages", []), said]
    first = {"begin_turn": Node(thread.parts, begin_turn)} if begins else {}

    def look(state: _Looking, runtime: Runtime[Settings]) -> dict[str, Any]:
        return {"parts": working_context(unpacked(state), runtime, thread.parts).parts}

    rehearsed = thread.rehearse(values, _Looking, **first, look=look)
    parts = rehearsed["parts"]
    if message is None and not resumed:
        parts = tuple(part for part in parts if part.name != "turn")
    turn, missing = rehearsed["memory"]["turn"], ""
    if not isinstance(thread.place.memory, MemoryGraph):
        counted = "counted as in the last call" if thread.parts.fixed else "known after the first"
        missing = f"the application's prompt and tools, {counted}"
    return ShownContext(turn, parts, thread.parts.schemas, resumed, missing)
