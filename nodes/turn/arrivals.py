"""The messages in state by what they are: turns that are settled, a broken one, a new one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage

from ...memory.anchor import shown
from ...memory.archive.protocol import Archive
from ...memory.errors import InputError
from ...memory.messages import answered
from ...memory.record import Owner
from ...memory.view import ArchiveView, past
from .langchain_messages import MADE_HERE, cleaned, closed, from_dicts, question, to_dicts, with_ids
from .state import TurnState
from .values import tip_of


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

    New is what follows the last archived message. If that was removed, it is what follows the
    question of its turn and what the graph made; if that was too, the last run of user messages, of
    which a question that begins an earlier turn is none: nobody answered that one. In an unfinished
    turn, new begins with the first message after the accepted ones that the graph cannot have made.
    An archived message that stands before its question has an id of an earlier one, in whose place
    LangGraph put it.
    """
    asked = _asked(messages, state)
    starts = _starts(asked)
    last_id = state.get("archived")
    archived = next((at for at, m in enumerate(messages) if m.id and m.id == last_id), None)
    accepted = max((at for at, n in asked.items() if n == state.get("turn")), default=None)
    foreign = None if accepted is None else _first_foreign(messages, accepted + 1)
    running = state.get("turn", 0) > state.get("persisted", 0)
    if archived is not None and accepted is not None and archived < accepted and not running:
        return Incoming(None, foreign or 0, foreign or 0)
    if archived is not None:
        end = archived + 1
    elif running:
        end = starts.get(state["turn"], question(messages))
    elif foreign is not None:
        end = foreign
    else:
        begun = _first_foreign(messages, max(asked) + 1) if asked else 0
        end = max(question(messages), begun)
    last = starts.get(state.get("persisted", 0), end)
    new = foreign if running and foreign is not None else end
    return Incoming(last if last < end else None, end, new)


def _asked(messages: Sequence[BaseMessage], state: TurnState) -> dict[int, int]:
    """Return the turns' numbers by the positions of the messages with which they were begun."""
    numbers = state.get("asked", {})
    return {at: numbers[m.id] for at, m in enumerate(messages) if m.id in numbers}


def _starts(asked: Mapping[int, int]) -> dict[int, int]:
    """Return where turns begin by their numbers, given the numbers by position."""
    return {number: at for at, number in reversed([*asked.items()])}


def _first_foreign(messages: Sequence[BaseMessage], start: int) -> int:
    positions = range(start, len(messages))
    return next((at for at in positions if messages[at].type not in MADE_HERE), len(messages))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The messages in state. `past` are the archived turns by their numbers.

    `last` is the one of them that was archived last, None if it is not among the messages; `left`
    is what a broken turn left, its calls answered.
    """

    past: Mapping[int, list[BaseMessage]]
    last: list[BaseMessage] | None
    left: list[BaseMessage]
    new: list[BaseMessage]

    def kept_turns(self, persisted: int, window: int) -> dict[int, list[BaseMessage]]:
        """Return the earlier turns that stay in `messages`; `persisted` is the newest's number."""
        turns = {**self.past, **({persisted: self.left} if self.left else {})}
        return dict([*turns.items()][max(0, len(turns) - window) :])


def arrivals(state: TurnState, owner: Owner, archive: Archive) -> Arrivals:
    """Tell the messages in state apart; raises `InputError` if nothing is new."""
    arrived = _with_repeated(told_apart(state), state, past(archive, owner, tip_of(state)))
    if not arrived.new and arrived.left and not answered(to_dicts(arrived.left)):
        asked = (message for message in arrived.left if isinstance(message, HumanMessage))
        return replace(arrived, new=_renamed(asked))
    if not arrived.new:
        raise InputError(len(state.get("messages", [])))
    return arrived


def told_apart(state: TurnState) -> Arrivals:
    """Divide the messages in state by their ids; there may be no new ones."""
    messages: list[BaseMessage] = [*state.get("messages", [])]
    parts = incoming(messages, state)
    archived = messages[: parts.left]
    starts = sorted(_starts(_asked(archived, state)).items(), key=itemgetter(1))
    turns = {
        turn: archived[begin:end] for (turn, begin), (_, end) in pairwise([*starts, (0, None)])
    }
    return Arrivals(
        past=turns,
        last=None if parts.last is None else archived[parts.last :],
        left=closed(messages[parts.left : parts.new]),
        new=[with_ids(cleaned(message)) for message in messages[parts.new :]],
    )


def unarchived(state: TurnState) -> list[BaseMessage]:
    """Return the messages in state that the archive does not have, as they are."""
    messages = [*state.get("messages", [])]
    return [*messages[incoming(messages, state).left :]]


def asked_in(turns: Mapping[int, Sequence[BaseMessage]]) -> dict[str, int]:
    """Return by id the numbers of turns: of their first messages, and what no agent has made."""
    return {
        str(message.id): number
        for number, turn in turns.items()
        for at, message in enumerate(turn)
        if not at or message.type not in MADE_HERE
    }


def _with_repeated(arrived: Arrivals, state: TurnState, view: ArchiveView) -> Arrivals:
    """Treat a message that repeats an archived id as new, and restore the archived one.

    With a new message beside it, another text in the last turn is an edit of that turn instead.
    """
    edited = arrived.new and arrived.last is not None
    settled = {n: turn for n, turn in arrived.past.items() if not edited or turn != arrived.last}
    records = view.turns(sorted(settled))
    archived = {record.turn: from_dicts(shown(view.messages(record))) for record in records}
    repeated = [
        message
        for number, turn in settled.items()
        for message in turn
        if isinstance(message, HumanMessage) and archived.get(number)
        if not _is_archived(message, archived[number])
    ]
    if not repeated:
        return arrived
    return Arrivals(
        past={n: turn for n, turn in {**arrived.past, **archived}.items() if turn},
        last=arrived.last if edited or arrived.last is None else archived[state["persisted"]],
        left=arrived.left,
        new=[*map(cleaned, _renamed(repeated)), *arrived.new],
    )


def _is_archived(message: BaseMessage, turn: Sequence[BaseMessage]) -> bool:
    """Tell whether a message is one of an archived turn; a history may give it another id."""
    same = next((other for other in turn if other.id == message.id), None)
    if same is not None:
        return to_dicts([message]) == to_dicts([same])
    return message.content in [other.content for other in turn if other.type == message.type]


def _renamed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": str(uuid4())}) for message in messages]
