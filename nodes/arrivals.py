"""The messages in state by what they are: turns that are settled, a broken one, a new one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from ..memory.anchor import shown
from ..memory.archive.protocol import Archive
from ..memory.errors import InputError
from ..memory.incoming import Marks, Message, incoming
from ..memory.messages import answered, unanswered
from ..memory.record import Owner
from ..memory.view import View, past
from ..memory.wellformed import no_result
from ..prompts.loader import text as prompt
from .answers import with_ids
from .plain import cleaned, plain, real
from .session import tip_of
from .state import TurnState


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
    found = told_apart(state)
    if not found.new and found.left and not answered(plain(found.left)):
        return replace(found, new=_renamed(m for m in found.left if isinstance(m, HumanMessage)))
    found = _with_repeated(found, state, past(archive, owner, tip_of(state)))
    if not found.new:
        raise InputError(len(state.get("messages", [])))
    return found


def told_apart(state: TurnState) -> Arrivals:
    """Tell the messages in state apart by their ids; there may be nothing new among them."""
    messages: list[BaseMessage] = [*state.get("messages", [])]
    parts = incoming(
        [Message(message.id or "", message.type) for message in messages], _marks(state)
    )
    turns = _turns(messages[: parts.left], state.get("turn_starts", []))
    return Arrivals(
        past=tuple(turns),
        last=None if parts.last is None else messages[parts.last : parts.left],
        left=closed(messages[parts.left : parts.new]),
        new=[with_ids(cleaned(message)) for message in messages[parts.new :]],
    )


def at_rest(state: TurnState) -> bool:
    """Tell whether all that the messages in state hold is in the archive."""
    found = told_apart(state)
    return not (found.left or found.new)


def kept_turns(arrived: Arrivals, window: int) -> tuple[list[BaseMessage], ...]:
    """Return the earlier turns that stay in `messages`."""
    turns = tuple(filter(None, (*arrived.past, arrived.left)))
    return turns[max(0, len(turns) - window) :]


def _marks(state: TurnState) -> Marks:
    return Marks(
        archived=state.get("archived", ""),
        accepted=state.get("accepted", ""),
        starts=tuple(state.get("turn_starts", ())),
        running=state.get("turn", 0) > state.get("persisted", 0),
    )


def closed(left: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what a broken turn left, with an error result for each call that has none."""
    why = prompt("no_result")
    results = [ToolMessage(**no_result(call, why)["data"]) for call in unanswered(plain(left))]
    return [*left, *(result.model_copy(update={"id": str(uuid4())}) for result in results)]


def _turns(messages: Sequence[BaseMessage], starts: Sequence[str]) -> Iterator[list[BaseMessage]]:
    """Yield the turns that begin with these ids; what is before is not ours."""
    firsts = [at for at, message in enumerate(messages) if message.id in starts]
    for begin, end in pairwise([*firsts, len(messages)]):
        yield list(messages[begin:end])


def _with_repeated(found: Arrivals, state: TurnState, view: View) -> Arrivals:
    """Take as new what came in with the id of an archived message, and show that one again.

    With a new message beside it, another text in the last turn is an edit of that turn instead.
    """
    persisted, settled = state.get("persisted", 0), len(found.past)
    edited = 1 if found.new and found.last is not None else 0
    records = view.turns(range(persisted - settled + 1, persisted - edited + 1))
    turns = [real(shown(view.messages(record))) for record in records]
    known = {message.id: message for turn in turns for message in turn}
    repeated = [
        message
        for turn in found.past
        for message in turn
        if isinstance(message, HumanMessage) and message.id in known
        if plain([message]) != plain([known[message.id]])
    ]
    if not repeated:
        return found
    kept = (*turns, *found.past[settled - edited :])
    new = [*(cleaned(message) for message in _renamed(repeated)), *found.new]
    last = found.last if edited else None
    return Arrivals(past=kept, last=last, left=found.left, new=new)


def _renamed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": str(uuid4())}) for message in messages]
