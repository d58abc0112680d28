"""What earlier runs left in the checkpointer: inputs that no run applied, and whose they are.

LangGraph stores the input of a run in a checkpoint of its own (`source` is "input") before it
applies it. If the process dies in between, a run without input applies it; a run with a new message
drops it. A run goes on where another was cut short, or from a checkpoint that it names. One from
before the thread's first turn names no user: then the first turn tells whose it is.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER, START

from ...memory.tool_names import MEMORY_TOOLS
from .arrivals import split_messages
from .langchain_messages import cleaned, messages_in_state
from .readable import readable
from .state import TurnState, unpacked

_ROLES = frozenset({"user", "human", "assistant", "ai", "system"})

_Result = TypeVar("_Result")

_USERS = ("langgraph_auth_user_id", "user_id")
"""The keys that name a run's user: that of a server's authentication, and the application's."""

_PAGES = (2, *[64] * 64)
"""How many checkpoints are read at a time: the run's input and the end of the last turn mostly do.

More are read where many runs failed in a row. A page is read as a whole: an open cursor would lock
the database.
"""


def input_messages(given: list[Any]) -> list[BaseMessage] | None:
    """Return the messages of an input, each with an id; None if they are malformed.

    So an input that one run stores and another takes along is the same one to both: LangGraph
    would give each its own id, and it would be said twice.
    """
    messages = _converted(given)
    return None if messages is None else [*map(_identified, messages)]


def _converted(given: list[Any]) -> list[BaseMessage] | None:
    try:
        messages = convert_to_messages(given)
    except (ValueError, TypeError, NotImplementedError):
        return None
    return [*map(readable, messages)]


def unapplied(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages of an input that waits in a checkpoint to be applied."""
    return [*map(_identified, _said(checkpoint))]


def unbegun(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages of a checkpoint that no turn has yet, whether a run applied them or not.

    A turn that was begun is left out, also where it broke off.
    """
    return [*split_messages(unpacked(_values(checkpoint))).new, *unapplied(checkpoint)]


def pending_results(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the results of application tools that ran in parallel with an interrupted one.

    LangGraph keeps them for a resumed run and drops them when a new message arrives. Results of
    memory tools are left out: what those tools changed in the memory is dropped too.
    """
    if not checkpoint.pending_writes:
        return []
    writes = (value for _, key, value in checkpoint.pending_writes if key == "messages")
    messages = chain.from_iterable(one if isinstance(one, list) else [one] for one in writes)
    return [m for m in messages if isinstance(m, ToolMessage) and m.name not in MEMORY_TOOLS]


def with_unapplied(new: Sequence[BaseMessage], there: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a run's `new` messages with those that no run applied before, in their order.

    A run from a checkpoint that it names takes along those before that one. Inputs of another user
    are left out. Results that an interrupted round left pending come first, but not in a run from a
    checkpoint that it names. Of messages that are `there`, in the state, an input may repeat the
    ids. Call it in a node. In a graph inside another one there are none: the input is the parent's.
    """
    source = _source()
    if source is None or not new:
        return [*new]
    search = _Search(source, new, _known(new, there))
    for checkpoint in source.checkpoints():
        if search.ends_at(checkpoint):
            break
    return [*search.left, *_merged(search.inputs, new)]


async def awith_unapplied(
    new: Sequence[BaseMessage], there: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return what `with_unapplied` does."""
    source = _source()
    if source is None or not new:
        return [*new]
    search = _Search(source, new, _known(new, there))
    async with aclosing(source.acheckpoints()) as checkpoints:
        async for checkpoint in checkpoints:
            if search.ends_at(checkpoint):
                break
    return [*search.left, *_merged(search.inputs, new)]


def own_messages(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, run: RunnableConfig, state: TurnState
) -> list[BaseMessage]:
    """Return the messages of the state at a checkpoint without what others said that no turn has.

    `run` is the config of the user's runs.
    """
    messages, new = messages_in_state(state.get("messages", [])), split_messages(state).new
    author = _author({**(run.get("metadata") or {}), **run.get("configurable", {})})
    if not (new and author):
        return messages
    source = _Source(saver, place, author, is_named=True)
    search = _Search(source, new, _known(new, messages))
    for checkpoint in source.checkpoints():
        if search.ends_at(checkpoint):
            break
    return _without_foreign(search.inputs, messages, len(messages) - len(new))


class _Source(NamedTuple):
    """Where the checkpoints before a run's present one are read, and who runs it.

    `place` is the present one, or the one that the run names, which is then read too.
    """

    saver: BaseCheckpointSaver[Any]
    place: RunnableConfig
    author: str
    is_named: bool

    @property
    def thread(self) -> RunnableConfig:
        """The config of the whole thread."""
        chosen = self.place["configurable"].items()
        return {"configurable": {key: value for key, value in chosen if key != "checkpoint_id"}}

    def checkpoints(self) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints, the newest first."""
        before = self.place
        if self.is_named and (named := _read(partial(self.saver.get_tuple, before))):
            yield named
        for size in _PAGES:
            page = _read(partial(self._page, before, size))
            yield from page
            if len(page) < size:
                return
            before = page[-1].config

    async def acheckpoints(self) -> AsyncGenerator[CheckpointTuple, None]:
        """Yield what `checkpoints` does."""
        before = self.place
        if self.is_named and (named := await self.saver.aget_tuple(before)):
            yield named
        for size in _PAGES:
            page = [one async for one in self.saver.alist(self.thread, before=before, limit=size)]
            for checkpoint in page:
                yield checkpoint
            if len(page) < size:
                return
            before = page[-1].config

    def _page(self, before: RunnableConfig, size: int) -> list[CheckpointTuple]:
        return [*self.saver.list(self.thread, before=before, limit=size)]


def _read(listed: Callable[[], _Result]) -> _Result:
    """Return what a reading of listed checkpoints returns.

    `InMemorySaver` cannot be read while another thread writes to it, as LangGraph does: it is asked
    again then.
    """
    while True:
        try:
            return listed()
        except RuntimeError as error:
            if "changed size during iteration" not in str(error):
                raise


def _source() -> _Source | None:
    """Return where to read; None without checkpoints and in a subgraph.

    Who goes on from a checkpoint that they name wants what was said up to it, and nothing later.
    """
    config = get_config()
    chosen, thread_id = config["configurable"], config["configurable"].get("thread_id")
    saver, current = chosen.get(CONFIG_KEY_CHECKPOINTER), chosen.get("checkpoint_map", {})
    if not isinstance(saver, BaseCheckpointSaver) or [*current] != [""]:
        return None
    metadata, is_named = config.get("metadata", {}), is_fork(config)
    at = metadata["checkpoint_id"] if is_named else current[""]
    root = {"thread_id": thread_id, "checkpoint_ns": ""}
    place: RunnableConfig = {"configurable": {**root, "checkpoint_id": at}}
    return _Source(saver, place, _author({**metadata, **chosen}), is_named)


def _author(metadata: Mapping[str, Any]) -> str:
    """Return the user whom a run, or the metadata of its checkpoints, names; "" if it names nobody.

    LangGraph copies there what `configurable` says, not what the run's context says.
    """
    return str(next(filter(None, map(metadata.get, _USERS)), ""))


def _known(new: Sequence[BaseMessage], there: Sequence[BaseMessage]) -> set[str | None]:
    """Return the ids of messages of the state that are not new, as texts, whatever they were."""
    return {message.id for message in messages_in_state(there)} - {message.id for message in new}


class _Input(NamedTuple):
    """What was said in a stored input, whether a run applied it, and whether others said it.

    A message has the id that the client gave it, which most do not.
    """

    said: list[BaseMessage]
    is_applied: bool
    is_foreign: bool


@dataclass(slots=True)
class _Search:
    """The inputs since the last turn, searched in checkpoints, of which the newest comes first.

    `inputs` has the oldest first. The run's own input is known by its messages; it may be missing,
    because LangGraph stores it late. What it says under a known id is not among the new. A message
    to a checkpoint with an input that no run applied replaces that input, and those before it.

    `_child` is the last checkpoint of the run's branch, and `_base` the first one that is no input.
    `_is_applied` and `_is_replaced` tell what became of the next input; None is not known yet.
    """

    source: _Source
    new: Sequence[BaseMessage]
    known: Collection[str | None]
    inputs: list[_Input] = field(default_factory=list)
    _child: CheckpointTuple | None = None
    _base: CheckpointTuple | None = None
    _is_applied: bool | None = None
    _is_replaced: bool = False

    @property
    def left(self) -> list[BaseMessage]:
        """The results that an interrupted round left pending, none for a named checkpoint."""
        base = None if self.source.is_named else self._base
        return [*map(_identified, pending_results(base))] if base else []

    def ends_at(self, checkpoint: CheckpointTuple) -> bool:
        """Take a checkpoint; tell whether the last turn ended there, or was begun."""
        if self._child is not None and _parent(self._child) != _id(checkpoint):
            self._is_replaced |= _is_input(self._child)  # what follows it was not the newest
            return False
        self._child = checkpoint
        if _is_input(checkpoint):
            self._take_input(checkpoint)
        elif START not in _values(checkpoint):  # else a fork's copy of an input that it applies
            self._base = self._base or checkpoint
            self._is_applied, self._is_replaced = True, False
            if not split_messages(unpacked(_values(checkpoint))).new:
                return True
        return checkpoint.parent_config is None

    def _take_input(self, checkpoint: CheckpointTuple) -> None:
        said, is_applied = _said(checkpoint), self._is_applied
        fresh = [message for message in said if message.id not in self.known] or said
        if is_applied is None:
            is_applied = _stands_in(self.new, fresh)
            self._is_replaced = self.source.is_named and not is_applied
        self._is_applied = False
        author, user = _author(checkpoint.metadata), self.source.author
        is_foreign = bool(user and author) and author != user
        if is_applied or not self._is_replaced:
            self.inputs.insert(0, _Input(fresh if is_applied else said, is_applied, is_foreign))


def _identified(message: BaseMessage) -> BaseMessage:
    message = readable(message)
    return message if message.id else message.model_copy(update={"id": str(uuid4())})


def _merged(inputs: Sequence[_Input], new: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the new messages, each input that no run applied in its place among them.

    Those of another user are left out.
    """
    if all(one.is_applied and not one.is_foreign for one in inputs):
        return _once(new)
    merged, sayers, at = list[BaseMessage](), _sayers(inputs, new), 0
    for position, message in enumerate(new):
        first, last = sayers.get(position, (len(inputs), None))
        merged += _unapplied_own(inputs[at:first])
        at = max(at, first)
        if last is None or not inputs[last].is_foreign:
            merged.append(message)
    return _once([*merged, *_unapplied_own(inputs[at:])])


def _without_foreign(
    inputs: Sequence[_Input], messages: Sequence[BaseMessage], start: int = 0
) -> list[BaseMessage]:
    """Return messages, which are new from `start` on, without those of another user's inputs."""
    sayers = _sayers(inputs, messages[start:])
    foreign = {start + at for at, (_, last) in sayers.items() if inputs[last].is_foreign}
    return [message for at, message in enumerate(messages) if at not in foreign]


def _unapplied_own(inputs: Iterable[_Input]) -> list[BaseMessage]:
    said = (one.said for one in inputs if not one.is_applied and not one.is_foreign)
    return [*map(_identified, chain.from_iterable(said))]


def _sayers(inputs: Sequence[_Input], new: Sequence[BaseMessage]) -> dict[int, tuple[int, int]]:
    """Return by position of a new message which input said it first, and which one last.

    LangGraph leaves a message that is said again under its id at its place. A message without an id
    is known by its words; if another middleware changed them, by its place among the others.
    """
    ids = {message.id: at for at, message in enumerate(new)}
    found, rest = dict[int, tuple[int, int]](), list[tuple[int, BaseMessage]]()
    for number, one in enumerate(inputs):
        for message in one.said if one.is_applied else ():
            at = ids.get(message.id) if message.id else None
            if at is None:
                rest.append((number, message))
            else:
                found[at] = (found.get(at, (number,))[0], number)
    waiting, changed = [at for at in range(len(new)) if at not in found], list[int]()
    for number, message in rest:
        words = _words(cleaned(message))
        at = next((at for at in waiting if _words(new[at]) == words), None)
        if at is not None:
            waiting.remove(at)
            found[at] = (number, number)
        elif not message.id:
            changed.append(number)
    return {**found, **{at: (n, n) for at, n in zip(waiting, changed, strict=False)}}


def _once(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages without those that a client sent again later, under the same id."""
    last = {message.id: at for at, message in enumerate(messages)}
    return [m for at, m in enumerate(messages) if m.id is None or last[m.id] == at]


def _is_input(checkpoint: CheckpointTuple) -> bool:
    return checkpoint.metadata.get("source") == "input"


def _said(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages of a stored input; those of a malformed one, which failed, are none."""
    given = checkpoint.checkpoint["channel_values"].get(START)
    said = given.get("messages") if isinstance(given, Mapping) else getattr(given, "messages", None)
    if said is None:
        return []
    messages = _converted(said if isinstance(said, list) and not _is_pair(said) else [said])
    return [message for message in messages or () if not isinstance(message, RemoveMessage)]


def _is_pair(said: list[Any]) -> bool:
    """Tell whether a list was a pair of a role and a text; a checkpointer stores pairs as lists."""
    role, *text = said or [None]
    return isinstance(role, str) and role in _ROLES and len(text) == 1 and isinstance(text[0], str)


def _stands_in(new: Sequence[BaseMessage], said: Sequence[BaseMessage]) -> bool:
    """Tell whether the end of what was said, whose beginning may be known, is among the new."""
    texts = [*map(_words, new)]
    wanted = [*map(_words, map(cleaned, said))][-len(new) :]
    return any(texts[at : at + len(wanted)] == wanted for at in range(len(texts)))


def _words(message: BaseMessage) -> tuple[str, str]:
    """Return what a message is known by; some checkpointers store a lone surrogate as "?"."""
    return message.type, str(message.content).replace("\ufffd", "?")


def _id(checkpoint: CheckpointTuple) -> str:
    return str(checkpoint.config["configurable"]["checkpoint_id"])


def _parent(checkpoint: CheckpointTuple) -> str | None:
    parent = checkpoint.parent_config
    return str(parent["configurable"]["checkpoint_id"]) if parent else None


_RESUMING = "__pregel_resuming"
"""LangGraph's key in the config of a run that goes on where another was cut short."""


def is_fork(config: RunnableConfig) -> bool:
    """Tell whether a run goes on from a checkpoint that it names, by the config in its nodes."""
    return bool(config.get("metadata", {}).get("checkpoint_id"))


def names_user(state: Mapping[str, Any]) -> bool:
    """Tell whether a state says whose it is, as it does once a turn was begun.

    >>> names_user({"bookkeeping": {"nonce": "ab"}}), names_user({"messages": []})
    (True, False)
    """
    turn_state = unpacked(state)
    return bool(turn_state.get("tip") or turn_state.get("nonce"))


class Source(NamedTuple):
    """The checkpoint that a run goes on from, and the state that tells whose it is."""

    checkpoint: CheckpointTuple
    owned: TurnState


def source(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, thread: RunnableConfig
) -> Source | None:
    """Return the source of a run, given the configs of its checkpoint and of its whole thread."""
    checkpoint = saver.get_tuple(place)
    if checkpoint is None:
        return None
    if place == thread or names_user(_values(checkpoint)):
        return Source(checkpoint, unpacked(_values(checkpoint)))
    first = _read(lambda: _first_turn(saver.list(thread)))
    return Source(checkpoint, unpacked(first or _values(checkpoint)))


async def asource(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, thread: RunnableConfig
) -> Source | None:
    """Return what `source` does."""
    checkpoint = await saver.aget_tuple(place)
    if checkpoint is None:
        return None
    if place == thread or names_user(_values(checkpoint)):
        return Source(checkpoint, unpacked(_values(checkpoint)))
    first = await _afirst_turn(saver.alist(thread))
    return Source(checkpoint, unpacked(first or _values(checkpoint)))


def _values(checkpoint: CheckpointTuple) -> Mapping[str, Any]:
    return checkpoint.checkpoint["channel_values"]


def _first_turn(checkpoints: Iterable[CheckpointTuple]) -> Mapping[str, Any] | None:
    """Return the state of a thread's first turn, given its checkpoints, the newest first."""
    found = None
    for values in map(_values, checkpoints):
        found = values if names_user(values) else found
    return found


async def _afirst_turn(
    checkpoints: AsyncIterable[CheckpointTuple],
) -> Mapping[str, Any] | None:
    found = None
    async for checkpoint in checkpoints:
        found = _first_turn([checkpoint]) or found
    return found


def gone_on_from(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state that tells whose turn a run goes on with; None if its input is its own.

    Call it in a node, with the node's state.
    """
    if (fork := _fork_before_first_turn(state)) is None:
        return _gone_on_with(state)
    return _read(lambda: _first_turn(fork.saver.list(fork.thread))) or state


async def agone_on_from(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what `gone_on_from` does."""
    if (fork := _fork_before_first_turn(state)) is None:
        return _gone_on_with(state)
    return await _afirst_turn(fork.saver.alist(fork.thread)) or state


def _gone_on_with(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state of a run that forks or resumes, None for one with an input of its own."""
    config = get_config()
    return state if is_fork(config) or config["configurable"].get(_RESUMING) else None


class _Fork(NamedTuple):
    """Where the checkpoints of a thread are found that a run forks from."""

    saver: BaseCheckpointSaver[Any]
    thread: RunnableConfig


def _fork_before_first_turn(state: Mapping[str, Any]) -> _Fork | None:
    """Return the fork of a run from a checkpoint before its thread's first turn, else None.

    An agent inside another graph has no such fork: its checkpoints are not those of the thread.
    """
    config = get_config()
    chosen = config["configurable"]
    saver, namespaces = chosen.get(CONFIG_KEY_CHECKPOINTER), [*chosen.get("checkpoint_map", {})]
    if not is_fork(config) or names_user(state) or namespaces != [""]:
        return None
    thread: RunnableConfig = {
        "configurable": {"thread_id": chosen["thread_id"], "checkpoint_ns": ""}
    }
    return _Fork(saver, thread) if isinstance(saver, BaseCheckpointSaver) else None
