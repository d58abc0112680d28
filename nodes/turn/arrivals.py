"""The messages in state by what they are: turns that are settled, a broken one, a new one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from ...memory.anchor import shown
from ...memory.archive.protocol import Archive
from ...memory.errors import InputError
from ...memory.messages import answered, unanswered
from ...memory.record import Owner, Record
from ...memory.valid_history import no_result
from ...memory.view import ArchiveView, past
from ...prompts.loader import render
from .langchain_messages import cleaned, from_dicts, to_dicts, with_ids
from .state import TurnState
from .values import tip_of

GONE = ""
"""Stands in `turn_starts` for the last archived turn when its messages are not in the state."""

MADE_HERE = frozenset({"ai", "tool"})
"""Types of the messages that an agent adds."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """Positions in the messages: last archived turn, what a broken turn left, what is new.

    All end where the next begins; `last` is None if the archived turn is not among the messages.
    """

    last: int | None
    left: int
    new: int


def incoming(messages: Sequence[BaseMessage], state: TurnState) -> Incoming:
    """Tell the parts of the messages apart by what the state says of the turns before.

    New is what follows the last archived message or, if neither that nor the question of its turn
    is among the messages, the last run of user messages, of which a question that begins an earlier
    turn is none: nobody answered that one. In an unfinished turn, new begins with the first message
    after the accepted ones that the graph cannot have made. An archived message that stands before
    its question has an id of an earlier one, in whose place LangGraph put it.
    """
    place: dict[str | None, int] = {m.id: at for at, m in enumerate(messages) if m.id}
    archived, accepted = place.get(state.get("archived")), place.get(state.get("accepted"))
    running, foreign = _is_running(state), None
    if accepted is not None:
        foreign = _first_foreign(messages, accepted + 1)
        if archived is not None and archived < accepted and not running:
            return Incoming(None, foreign, foreign)
    end = None if archived is None else archived + 1
    if end is None and not running:
        end = foreign
    last = None if end is None else place.get(_last_start(state))
    if end is None:
        starts = state.get("turn_starts", [])
        begun = max((place[start] for start in starts if start in place), default=-1)
        end = question(messages)
        if running:
            end = place.get(starts[-1], end)
        elif begun + 1 < len(messages):
            end = max(end, begun + 1)
    return Incoming(last, end, foreign if running and foreign is not None else end)


def _is_running(state: TurnState) -> bool:
    return state.get("turn", 0) > state.get("persisted", 0)


def _last_start(state: TurnState) -> str | None:
    """Return the id with which the last archived turn begins, if there is one; or `GONE`."""
    starts = state.get("turn_starts", [])
    return next(iter(starts[-2:-1] if _is_running(state) else starts[-1:]), None)


def _first_foreign(messages: Sequence[BaseMessage], start: int) -> int:
    positions = range(start, len(messages))
    return next((at for at in positions if messages[at].type not in MADE_HERE), len(messages))


def question(messages: Sequence[BaseMessage]) -> int:
    """Return where what the user said last begins, instructions before it included; 0 for nothing.

    >>> question([HumanMessage("Hi"), ToolMessage("", tool_call_id="1"), HumanMessage("Go on")])
    2
    """
    at = max((n for n, message in enumerate(messages) if message.type == "human"), default=0)
    while at > 0 and messages[at - 1].type not in MADE_HERE:
        at -= 1
    return at


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages in state. `last` is the last archived turn, None if it is not all there.

    `past` are the archived turns, `left` what a broken turn left, its calls answered.
    """

    past: tuple[list[BaseMessage], ...]
    last: list[BaseMessage] | None
    left: list[BaseMessage]
    new: list[BaseMessage]


def arrivals(state: TurnState, owner: Owner, archive: Archive) -> Arrivals:
    """Tell the messages in state apart; raises `InputError` if nothing is new."""
    arrived = told_apart(state)
    if not arrived.new and arrived.left and not answered(to_dicts(arrived.left)):
        asked = (message for message in arrived.left if isinstance(message, HumanMessage))
        return replace(arrived, new=_renamed(asked))
    arrived = _with_repeated(arrived, state, past(archive, owner, tip_of(state)))
    if not arrived.new:
        raise InputError(len(state.get("messages", [])))
    return arrived


def told_apart(state: TurnState) -> Arrivals:
    """Divide the messages in state by their ids; there may be no new ones."""
    messages, parts = _parted(state)
    turns = _turns(messages[: parts.left], state.get("turn_starts", []))
    return Arrivals(
        past=tuple(turns),
        last=None if parts.last is None else messages[parts.last : parts.left],
        left=closed(messages[parts.left : parts.new]),
        new=[with_ids(cleaned(message)) for message in messages[parts.new :]],
    )


def unarchived(state: TurnState) -> list[BaseMessage]:
    """Return the messages in state that the archive does not have, as they are."""
    messages, parts = _parted(state)
    return messages[parts.left :]


def at_rest(state: TurnState) -> bool:
    """Tell whether all that the messages in state hold is in the archive."""
    return not unarchived(state)


def kept_turns(arrived: Arrivals, window: int) -> tuple[list[BaseMessage], ...]:
    """Return the earlier turns that stay in `messages`."""
    turns = tuple(filter(None, (*arrived.past, arrived.left)))
    return turns[max(0, len(turns) - window) :]


def _parted(state: TurnState) -> tuple[list[BaseMessage], Incoming]:
    messages: list[BaseMessage] = [*state.get("messages", [])]
    return messages, incoming(messages, state)


def closed(left: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what a broken turn left, with an error result for each call that has none."""
    why = render("no_result")
    results = [ToolMessage(**no_result(call, why)["data"]) for call in unanswered(to_dicts(left))]
    return [*left, *(result.model_copy(update={"id": str(uuid4())}) for result in results)]


def _turns(messages: Sequence[BaseMessage], starts: Sequence[str]) -> Iterator[list[BaseMessage]]:
    """Yield the turns that begin with these ids; messages before the first are not ours."""
    firsts = [at for at, message in enumerate(messages) if message.id in starts]
    for begin, end in pairwise([*firsts, len(messages)]):
        yield list(messages[begin:end])


def _with_repeated(arrived: Arrivals, state: TurnState, view: ArchiveView) -> Arrivals:
    """Treat a message that repeats an archived id as new, and restore the archived one.

    With a new message beside it, another text in the last turn is an edit of that turn instead.
    """
    persisted, settled = state.get("persisted", 0), len(arrived.past)
    edited = 1 if arrived.new and arrived.last is not None else 0
    records = _newest(view, persisted - edited, settled - edited)
    turns = [from_dicts(shown(view.messages(record))) for record in records]
    known = {message.id: message for turn in turns for message in turn}
    repeated = [
        message
        for turn in arrived.past
        for message in turn
        if isinstance(message, HumanMessage) and message.id in known
        if to_dicts([message]) != to_dicts([known[message.id]])
    ]
    if not repeated:
        return arrived
    return Arrivals(
        past=(*turns, *arrived.past[settled - edited :]),
        last=arrived.last if edited or arrived.last is None else turns[-1],
        left=arrived.left,
        new=[*map(cleaned, _renamed(repeated)), *arrived.new],
    )


def _newest(view: ArchiveView, upto: int, count: int) -> tuple[Record, ...]:
    """Return the newest so many turns up to one that have messages: erased ones have a number."""
    newest: tuple[Record, ...] = ()
    while len(newest) < count and upto > 0:
        first = max(1, upto - (count - len(newest)) + 1)
        records = view.turns(range(first, upto + 1))
        newest, upto = (*(record for record in records if record.messages), *newest), first - 1
    return newest


def _renamed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": str(uuid4())}) for message in messages]
