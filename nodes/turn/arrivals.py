"""The messages in state, told apart: archived turns, an unfinished turn, and what is new."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from operator import itemgetter
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ...memory.archive.protocol import Archive
from ...memory.attachments import without_facts
from ...memory.errors import InputError
from ...memory.messages import answered
from ...memory.record import Owner
from ...memory.state_block import shown
from ...memory.transcript import OWN_TOOLS
from ...memory.view import ArchiveView, past
from .langchain_messages import (
    MADE_HERE,
    cleaned,
    closed,
    completed,
    from_dicts,
    question_start,
    to_dicts,
    with_ids,
)
from .state import TurnState
from .turn import tip_of


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Where the parts of the messages begin: the last archived turn, an unfinished one, the new.

    Each part ends where the next begins. `last` is None if the archived turn is not there.
    """

    last: int | None
    unfinished: int
    new: int


def boundaries(messages: Sequence[BaseMessage], state: TurnState) -> Boundaries:
    """Tell the parts of the messages apart by what the state says of earlier turns.

    New is what follows the last archived message. If that one was removed, new is what follows the
    question of its turn and the graph's answer to it. If that question was removed too, new is the
    last run of user messages, without the question of an earlier turn, which nobody answered. In an
    unfinished turn, new begins with the first message after the accepted ones that the graph cannot
    have made. An archived message that stands before its question repeats an earlier id: LangGraph
    put it in the place of that message.
    """
    turn_at = _turn_positions(messages, state)
    starts = _starts(turn_at)
    last_id = state.get("archived")
    archived = next((at for at, m in enumerate(messages) if m.id and m.id == last_id), None)
    accepted = max((at for at, n in turn_at.items() if n == state.get("turn")), default=None)
    foreign = None if accepted is None else _first_foreign(messages, accepted + 1)
    running = state.get("turn", 0) > state.get("persisted", 0)
    if archived is not None and accepted is not None and archived < accepted and not running:
        return Boundaries(None, foreign or 0, foreign or 0)
    if archived is not None:
        end = archived + 1
    elif running:
        end = starts.get(state["turn"], question_start(messages))
    elif foreign is not None:
        end = foreign
    else:
        after_turns = _first_foreign(messages, max(turn_at) + 1) if turn_at else 0
        end = max(question_start(messages), after_turns)
    last = starts.get(state.get("persisted", 0), end)
    new = foreign if running and foreign is not None else end
    return Boundaries(last if last < end else None, end, new)


def _turn_positions(messages: Sequence[BaseMessage], state: TurnState) -> dict[int, int]:
    """Return the numbers of the turns by the positions of the messages that began them."""
    numbers = state.get("asked", {})
    return {at: numbers[m.id] for at, m in enumerate(messages) if m.id in numbers}


def _starts(turn_at: Mapping[int, int]) -> dict[int, int]:
    """Return the first position of each turn by its number, from the numbers by position."""
    return {number: at for at, number in reversed([*turn_at.items()])}


def _first_foreign(messages: Sequence[BaseMessage], start: int) -> int:
    """Return the first position from `start` of a message that no agent adds, else the end."""
    positions = range(start, len(messages))
    return next((at for at in positions if messages[at].type not in MADE_HERE), len(messages))


@dataclass(frozen=True, slots=True)
class SplitInput:
    """The messages in state; `past` has the archived turns by their numbers.

    `last` is the newest archived turn, None if it is not among the messages. `unfinished` is what
    a turn that broke off left, with an error result for each open call.
    """

    past: Mapping[int, list[BaseMessage]]
    last: list[BaseMessage] | None
    unfinished: list[BaseMessage]
    new: list[BaseMessage]

    def kept_turns(self, persisted: int, window: int) -> dict[int, list[BaseMessage]]:
        """Return the earlier turns that stay in `messages`; `persisted` is the newest's number."""
        turns = {**self.past, **({persisted: self.unfinished} if self.unfinished else {})}
        return dict([*turns.items()][max(0, len(turns) - window) :])


def split_input(state: TurnState, owner: Owner, archive: Archive) -> SplitInput:
    """Tell the messages in state apart; raises `InputError` if nothing is new."""
    arrived = _with_repeated(split_messages(state), state, past(archive, owner, tip_of(state)))
    if not arrived.new and arrived.unfinished and not answered(to_dicts(arrived.unfinished)):
        # The run that broke off is tried again: its question is asked once more.
        questions = (m for m in arrived.unfinished if isinstance(m, HumanMessage))
        return replace(arrived, new=_renamed(questions))
    if not arrived.new:
        raise InputError(len(state.get("messages", [])))
    # A client may refer to a file, and say anything of it: it is read again.
    return replace(arrived, new=completed(archive, owner, arrived.new))


def split_messages(state: TurnState) -> SplitInput:
    """Return the messages in state told apart by their ids; there may be no new ones."""
    messages: list[BaseMessage] = [*state.get("messages", [])]
    parts = boundaries(messages, state)
    archived = messages[: parts.unfinished]
    starts = sorted(_starts(_turn_positions(archived, state)).items(), key=itemgetter(1))
    turns = {
        turn: archived[begin:end] for (turn, begin), (_, end) in pairwise([*starts, (0, None)])
    }
    return SplitInput(
        past=turns,
        last=None if parts.last is None else archived[parts.last :],
        unfinished=closed(messages[parts.unfinished : parts.new], state.get("nonce", "")),
        new=[with_ids(cleaned(message)) for message in messages[parts.new :]],
    )


def results_of_client(state: TurnState) -> list[BaseMessage]:
    """Return the results at the end of the running turn that answer its waiting calls.

    None if something else is new: a client sends them as the input of a run. A result has the name
    of the tool that was called.
    """
    if state.get("turn", 0) <= state.get("persisted", 0) or split_messages(state).new:
        return []
    messages = [*state.get("messages", [])]
    sent = [*takewhile(lambda message: message.type == "tool", reversed(messages))][::-1]
    asking = messages[-len(sent) - 1] if len(sent) < len(messages) else None
    calls = asking.tool_calls if isinstance(asking, AIMessage) else []
    names = {call["id"]: call["name"] for call in calls}
    results = [message for message in sent if isinstance(message, ToolMessage)]
    if not results or any(result.tool_call_id not in names for result in results):
        return []
    return [cleaned(under_its_name(one, names[one.tool_call_id])) for one in results]


def under_its_name(result: ToolMessage, tool: str) -> ToolMessage:
    """Return a result with its tool's name instead of none or that of one of the memory's tools."""
    if result.name in OWN_TOOLS and result.name != tool:
        return result.model_copy(update={"name": tool, "artifact": None})
    return result if result.name else result.model_copy(update={"name": tool})


def unarchived(state: TurnState) -> list[BaseMessage]:
    """Return the messages in state that the archive does not have, unchanged."""
    messages = [*state.get("messages", [])]
    return [*messages[boundaries(messages, state).unfinished :]]


def turn_numbers(turns: Mapping[int, Sequence[BaseMessage]]) -> dict[str, int]:
    """Return the turns' numbers by the ids of their first messages and of all that users sent."""
    return {
        str(message.id): number
        for number, turn in turns.items()
        for at, message in enumerate(turn)
        if not at or message.type not in MADE_HERE
    }


def _with_repeated(arrived: SplitInput, state: TurnState, view: ArchiveView) -> SplitInput:
    """Take a message that repeats an archived id as new, and restore the archived message.

    If new messages came as well, another text in the last turn is an edit of that turn instead.
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
    return SplitInput(
        past={n: turn for n, turn in {**arrived.past, **archived}.items() if turn},
        last=arrived.last if edited or arrived.last is None else archived[state["persisted"]],
        unfinished=arrived.unfinished,
        new=[*map(cleaned, _renamed(repeated)), *arrived.new],
    )


def _is_archived(message: BaseMessage, turn: Sequence[BaseMessage]) -> bool:
    """Tell whether a message is one of an archived turn; a history may give it another id."""
    namesake = next((archived for archived in turn if archived.id == message.id), None)
    if namesake is not None:
        same = [
            one.model_copy(update={"content": without_facts(one.content)})
            for one in (message, namesake)
        ]
        return same[0] == same[1] or to_dicts(same[:1]) == to_dicts(same[1:])
    return any((m.type, m.content) == (message.type, message.content) for m in turn)


def _renamed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": str(uuid4())}) for message in messages]
