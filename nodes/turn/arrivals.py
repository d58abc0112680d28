"""The messages in state, told apart: earlier turns, a turn that broke off, and what is new."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ...memory.history import (
    KNOWN,
    align,
    asked_from,
    boundaries,
    edits_of,
    entries,
    id_digest,
    in_long_turns,
    numbers_of,
    question_start,
)
from ...memory.messages import answered
from ...memory.view import ArchiveView
from .langchain_messages import accepted, closed, stored_messages, with_call_ids, with_tool_name
from .state import TurnState
from .updates import is_running


@dataclass(frozen=True, slots=True)
class Arrival:
    """The messages in state, told apart.

    `turns` has by number those of earlier turns, and `edits` the edited ones of a turn by their
    place in it. `unfinished` is what a run left that broke off, with an error result for each open
    call. `history` is in no turn and must be adopted before what is `new`, of which the first
    `unknown` ones stood before or between earlier turns. `system` has all earlier system messages.
    """

    turns: Mapping[int, list[BaseMessage]] = field(default_factory=dict)
    edits: Mapping[int, Mapping[int, BaseMessage]] = field(default_factory=dict)
    unfinished: Sequence[BaseMessage] = ()
    history: Sequence[BaseMessage] = ()
    new: Sequence[BaseMessage] = ()
    unknown: int = 0
    system: Sequence[BaseMessage] = ()

    def kept(self, number: int, window: int) -> dict[int, list[BaseMessage]]:
        """Return the earlier turns that stay in `messages`; `number` is the newest's number."""
        turns = {**self.turns, number: [*self.unfinished]} if self.unfinished else self.turns
        return dict(sorted(turns.items())[max(0, len(turns) - window) :])


def arrival(state: TurnState, view: ArchiveView) -> Arrival:
    """Tell the messages in state apart; nothing is new if there is nothing to answer.

    `view` is that of the state's tip. In a larger graph what follows the last known message is new,
    whoever said it: other agents may have spoken.
    """
    past, unfinished, rest = _parts(state)
    found = _of_known(past, state, view)
    if view.session.namespace and (past or unfinished):
        found = replace(found, new=[*found.new, *rest])
    elif rest:
        found = _handed_over(rest, view, found, is_after=bool(past) or is_running(state))
    found = replace(found, unfinished=closed(unfinished, state.get("nonce", "")))
    if len(found.new) == found.unknown:
        found = _asked_again(found, view)
    return replace(
        found,
        history=[with_call_ids(accepted(message)) for message in found.history],
        new=[with_call_ids(accepted(message)) for message in found.new],
    )


def _parts(
    state: TurnState,
) -> tuple[list[BaseMessage], list[BaseMessage], list[BaseMessage]]:
    """Return the messages of earlier turns, those of a turn that broke off, and the others."""
    messages: list[BaseMessage] = [*state.get("messages", [])]
    known = state.get("known", ())
    begin, end = boundaries(messages, known, state.get("turn", 0), state.get("number", 0))
    return messages[:begin], messages[begin:end], messages[end:]


def _of_known(past: Sequence[BaseMessage], state: TurnState, view: ArchiveView) -> Arrival:
    """Tell the messages apart up to the last known one: what nobody knows there is new."""
    known = state.get("known", ())
    numbers = in_long_turns(numbers_of(past, known), known)
    digests = {own: said for own, said, _ in known}
    oldest = next((number for number in numbers if number is not None), None)
    first = 0 if oldest is None else numbers.index(oldest)
    if len(known) >= KNOWN and not state.get("whole"):
        there = {id_digest(message.id) for message in state.get("messages", ())}
        if digests.keys() <= there:  # older ones are not on the list
            numbers[:first] = [oldest] * first
    said = {at: entries([message], 0)[0] for at, message in enumerate(past) if at >= first}
    edited = [at for at, (own, digest, _) in said.items() if digests.get(own, digest) != digest]
    edits: dict[int, dict[int, BaseMessage]] = {}
    if edited or None in numbers:
        places = align(past, view.past.turns, view.tip.turn, whole=numbers[0] is not None)
        places = {at: places[at] for at in places if numbers[at] is None or at in edited}
        edits = edits_of(past, places)
        for at in edited:  # one that is nowhere is stored with the new turn
            numbers[at] = None
        for at, place in places.items():
            numbers[at] = place.turn.number
    turns: dict[int, list[BaseMessage]] = {}
    unknown: list[BaseMessage] = []
    for message, number in zip(past, numbers, strict=True):
        here = unknown if number is None else turns.setdefault(number, [])
        here.append(message)
    turns.pop(0, None)  # system messages of turns that left
    system = [message for message in past if message.type == "system"]
    return Arrival(turns, edits, new=unknown, unknown=len(unknown), system=system)


def _handed_over(
    rest: Sequence[BaseMessage], view: ArchiveView, found: Arrival, *, is_after: bool
) -> Arrival:
    """Tell apart what follows the known messages: a history that is sent again, then what is new.

    The last messages of users are always new. What no turn has is new too, or adopted if nothing is
    known before it (not `is_after`).
    """
    end = asked_from(rest)
    places = align(rest[:end], view.past.turns, view.tip.turn)
    if not places:
        at = 0 if is_after else end if end < len(rest) else question_start(rest)
        return replace(found, history=rest[:at], new=[*found.new, *rest[at:]])
    last = max(places)
    new = [message for at, message in enumerate(rest) if at not in places]
    before = last + 1 - len(places)
    if last == len(rest) - 1 and view.session.namespace:
        new.append(rest[-1])
    turns: dict[int, list[BaseMessage]] = {}
    for at, place in sorted(places.items()):
        turns.setdefault(place.turn.number, []).append(rest[at])
    edits = edits_of(rest, places)
    turns = {**turns, **found.turns, **{number: turns[number] for number in edits}}
    return replace(
        found,
        turns=turns,
        edits={**found.edits, **edits},
        new=[*found.new, *new],
        unknown=found.unknown + before,
    )


def _asked_again(found: Arrival, view: ArchiveView) -> Arrival:
    """Return what is asked although nothing is new: an edited question, or that which broke off.

    LangGraph puts a message that repeats an id in the place of the old one, which gets its archived
    text back.
    """
    edited = [
        (number, at)
        for number, messages in found.edits.items()
        for at, message in messages.items()
        if message.type == "human"
    ]
    if not edited:
        is_open = found.unfinished and not answered(found.unfinished)
        asked = [m for m in found.unfinished if isinstance(m, HumanMessage)] if is_open else []
        new = [*found.new, *_renamed(asked)] if asked else []
        return replace(found, new=new, unknown=found.unknown if asked else 0)
    number, place = max(edited)
    question = found.edits[number][place]
    (turn,) = view.past.turns([number])
    original = stored_messages(view, turn)[place].model_copy(update={"id": question.id})
    turns = [original if one is question else one for one in found.turns[number]]
    others = {at: one for at, one in found.edits[number].items() if at != place}
    edits = {**found.edits, number: others}
    return replace(
        found,
        turns={**found.turns, number: turns},
        edits={turn: some for turn, some in edits.items() if some},
        new=[*found.new, *_renamed([question])],
    )


def _renamed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": str(uuid4())}) for message in messages]


def standing(system: Iterable[BaseMessage], kept: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the system messages of turns that leave: they hold until they are removed."""
    ids, old = {message.id for message in kept}, dict[str, BaseMessage]()
    for message in system:
        if message.id not in ids:
            old.setdefault(str(message.text), message)
    return [*old.values()]


def is_all_answered(state: TurnState, view: ArchiveView) -> bool:
    """Tell whether a run has nothing to answer: no unfinished turn, no new or edited question."""
    if is_running(state):
        return False
    arrived = arrival(state, view)
    return not (arrived.new or arrived.unfinished)


def edited_turns(state: TurnState, view: ArchiveView) -> tuple[int, ...]:
    """Return the numbers of the turns of which the state has messages that were edited."""
    return tuple(_of_known(_parts(state)[0], state, view).edits)


def new_messages(state: TurnState) -> list[BaseMessage]:
    """Return the messages that follow the known ones."""
    return _parts(state)[2]


def unarchived(state: TurnState) -> list[BaseMessage]:
    """Return the messages in state that the archive does not have, unchanged."""
    _, unfinished, new = _parts(state)
    return [*unfinished, *new]


def results_of_client(state: TurnState) -> list[BaseMessage]:
    """Return the results at the end of the running turn that answer its waiting calls.

    A client sends them as the input of a run; there are none if anything else is new. A result has
    the name of the tool that was called.
    """
    if not is_running(state) or new_messages(state):
        return []
    messages = [*state.get("messages", [])]
    sent = [*takewhile(lambda message: message.type == "tool", reversed(messages))][::-1]
    asking = messages[-len(sent) - 1] if len(sent) < len(messages) else None
    calls = asking.tool_calls if isinstance(asking, AIMessage) else []
    names = {call["id"]: call["name"] for call in calls}
    results = [message for message in sent if isinstance(message, ToolMessage)]
    if {*names} != {result.tool_call_id for result in results}:
        return []
    return [with_tool_name(accepted(one), names[one.tool_call_id]) for one in results]
