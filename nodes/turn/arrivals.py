"""The messages in state, told apart: archived turns, an unfinished turn, and what is new."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ...memory.errors import InputError
from ...memory.messages import answered
from ...memory.serialised import stored_form
from ...memory.view import ArchiveView
from .edits import MOST_TURNS, Compared, compared, identity
from .langchain_messages import (
    MADE_HERE,
    accepted,
    closed,
    completed,
    question_start,
    stored_messages,
    with_call_ids,
    with_tool_name,
)
from .state import TurnState
from .updates import is_running


class Boundaries(NamedTuple):
    """Where an unfinished turn begins, and the new one: what comes before them is of the past."""

    unfinished: int
    new: int


def boundaries(messages: Sequence[BaseMessage], state: TurnState) -> Boundaries:
    """Tell the parts of the messages apart by what the state says of earlier turns.

    New is what follows the last archived message. If that one was removed, new is what follows the
    question of its turn and the graph's answer to it. If that question was removed too, new is the
    last run of user messages, without the question of an earlier turn, which nobody answered. In an
    unfinished turn, new begins with the first message after the accepted ones that the graph cannot
    have made. An archived message that stands before its question repeats an earlier id: LangGraph
    put it in the place of that message. One behind an unfinished turn was sent again.
    """
    turn_at = _turn_positions(messages, state)
    last_id = state.get("archived")
    archived = next((at for at, m in enumerate(messages) if m.id and m.id == last_id), None)
    accepted = max((at for at, n in turn_at.items() if n == state.get("turn")), default=None)
    foreign = None if accepted is None else _first_foreign(messages, accepted + 1)
    running = is_running(state)
    repeats = archived is not None and accepted is not None and archived < accepted
    if repeats and not running:
        return Boundaries(foreign or 0, foreign or 0)
    began = next((at for at, n in turn_at.items() if n == state.get("turn")), None)
    if archived is not None and not (running and began is not None and began < archived):
        end = archived + 1
    elif running:
        end = question_start(messages) if began is None else began
    elif foreign is not None:
        end = foreign
    else:
        after_turns = _first_foreign(messages, max(turn_at) + 1) if turn_at else 0
        end = max(question_start(messages), after_turns)
    return Boundaries(end, foreign if running and foreign is not None else end)


def _turn_positions(messages: Sequence[BaseMessage], state: TurnState) -> dict[int, int]:
    """Return the numbers of the turns by the positions of the messages that began them."""
    numbers = state.get("asked", {})
    return {at: numbers[m.id] for at, m in enumerate(messages) if m.id in numbers}


def _first_foreign(messages: Sequence[BaseMessage], start: int) -> int:
    """Return the first position from `start` of a message that no agent adds, else the end."""
    positions = range(start, len(messages))
    return next((at for at in positions if messages[at].type not in MADE_HERE), len(messages))


@dataclass(frozen=True, slots=True)
class SplitInput:
    """The messages in state: `past` is before the last turn, and `unfinished` what broke off left.

    It has an error result for each open call. `known` is the past beside the archived turns.
    """

    past: list[BaseMessage]
    unfinished: list[BaseMessage]
    new: list[BaseMessage]
    known: Compared = field(default_factory=Compared)

    def kept_turns(self, persisted: int, window: int) -> dict[int, list[BaseMessage]]:
        """Return the earlier turns that stay in `messages`; `persisted` is the newest's number."""
        unfinished = {persisted: self.unfinished} if self.unfinished else {}
        turns = {**self.known.turns, **unfinished}
        return dict([*turns.items()][max(0, len(turns) - window) :])


def standing(past: Iterable[BaseMessage], kept: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the system messages of turns that leave: they hold until they are removed."""
    ids, old = {message.id for message in kept}, dict[str, BaseMessage]()
    for message in past:
        if message.type == "system" and message.id not in ids:
            old.setdefault(str(message.text), message)
    return [*old.values()]


def split_input(state: TurnState, view: ArchiveView) -> SplitInput:
    """Tell the messages in state apart; raises `InputError` if nothing is new.

    `view` is that of the state's tip.

    An edited question is a new one if nothing follows: LangGraph puts a message that repeats an id
    in the place of the old one.
    """
    arrived = told_apart(state, view)
    if not arrived.new and arrived.known.questions:
        return _with_repeated(arrived, view)
    if not arrived.new and arrived.unfinished and not answered(arrived.unfinished):
        # The run that broke off is tried again: its question is asked once more.
        questions = (m for m in arrived.unfinished if isinstance(m, HumanMessage))
        return replace(arrived, new=_renamed(questions))
    if not arrived.new:
        raise InputError(len(state.get("messages", [])))
    # A client may refer to a file, and say anything of it: it is read again.
    return replace(arrived, new=completed(view.archive, view.session, arrived.new))


def told_apart(state: TurnState, view: ArchiveView) -> SplitInput:
    """Tell the messages in state apart, and compare what is past with the archive."""
    arrived, session = split_messages(state), view.session
    numbers, past_messages = state.get("asked", {}), arrived.past
    first = next((at for at, one in enumerate(past_messages) if one.id in numbers), 0)
    # The system messages of turns that left stand before the others.
    before = [one for one in past_messages[:first] if one.type != "system"]
    past_messages = [*before, *past_messages[first:]]
    known = compared(past_messages, numbers, view)
    if known.unknown and not session.namespace:
        known = _sent_again(past_messages, known, view)
    arrived = replace(arrived, known=known)
    if session.namespace:  # other agents may have spoken before the question
        return arrived
    if _is_history(arrived.new, view):
        return replace(arrived, new=[])
    if start := _new_question(arrived.new, view):
        return _without_history(arrived, start, view)
    return arrived


def is_all_answered(state: TurnState, view: ArchiveView) -> bool:
    """Tell whether a run has nothing to answer: no unfinished turn, no new or edited question."""
    if is_running(state):
        return False
    arrived = told_apart(state, view)
    return not (arrived.new or arrived.unfinished or arrived.known.questions)


def _sent_again(messages: Sequence[BaseMessage], known: Compared, view: ArchiveView) -> Compared:
    """Return what is known of the past, of which messages were removed, after the last turn.

    A history without ids may follow it then, which begins with the first unknown message.
    """
    first = next(at for at, message in enumerate(messages) if message is known.unknown[0])
    again = compared(messages[first:], {}, view)
    is_history = again.newest == view.tip.turn and not again.before and not again.named
    return again if is_history else known


def _is_history(new: Sequence[BaseMessage], view: ArchiveView) -> bool:
    """Tell whether a client sent archived messages with their ids, and no question after them.

    LangGraph adds those that `messages` does not have any more; the last question stays before.
    """
    if not new or new[-1].type not in MADE_HERE:
        return False
    again = compared(new, {}, view)
    return len(again.named) == len(new) and not again.edits


def _new_question(new: Sequence[BaseMessage], view: ArchiveView) -> int:
    """Return the position where the new question begins, 0 if nothing stands before it.

    A history may end with archived questions whose answers LangGraph left at their place, or with
    those of the newest turns, which nobody answered.
    """
    start = question_start(new)
    last = max((at for at, message in enumerate(new) if message.type == "human"), default=0)
    start = _after_unanswered(new, start, last, view) if 0 < start < last else start
    if not any(message.type == "human" for message in new[start:last]):
        return start
    known = {message.id for message in compared(new[start:last], {}, view).named}
    return start + len([*takewhile(lambda message: message.id in known, new[start:last])])


def _after_unanswered(new: Sequence[BaseMessage], start: int, last: int, view: ArchiveView) -> int:
    """Return the position, from `start` on, behind those that repeat questions without an answer.

    A client may have left some of them out.
    """
    turns = _unanswered(view)
    for end in range(min(last, start + len(turns)), start, -1):
        again = compared(new[:end], {}, view)
        kept = (again.turns.get(turn, ()) for turn in {*turns} - again.edits.keys())
        if not again.unknown and any(one is new[end - 1] for turn in kept for one in turn):
            return end
    return start


def _unanswered(view: ArchiveView) -> list[int]:
    """Return the turn of each question behind the last answer."""
    found: list[int] = []
    for turn in range(view.tip.turn, 0, -1):
        for stored in view.turns([turn]):
            kinds = [message.type for message in reversed(stored.messages)]
            asked = [*takewhile(lambda kind: kind == "human", kinds)]
            found += [turn] * len(asked)
            if len(asked) < len(kinds):
                return found
    return found


def _without_history(arrived: SplitInput, start: int, view: ArchiveView) -> SplitInput:
    """Tell apart what is new if a client hands over its whole history before its question.

    It does if the last turn is in it, was erased, or had no answer: a client may keep no question
    that failed, or ask it again. Edits in it are edits of the archived turns.
    Of a history with ids, LangGraph leaves what `messages` has at its place, before the rest.
    """
    known, last = arrived.known, view.tip.turn
    sent, question = arrived.new[:start], arrived.new[start:]
    again = compared(sent, {}, view)
    if last and again.newest >= max(1, _last_answered(view)):
        known = again if again.edits or again.unknown else known
        question = _without_unfinished(question, arrived.unfinished)
        return replace(arrived, new=[*again.before, *question], known=known)
    if not again.named or not (known.newest == last or last in {*known.turns, *again.turns}):
        return arrived
    # Without the turns between them, only ids tell which turns these are of.
    ids = {message.id for message in again.named}
    first = next(at for at, message in enumerate(sent) if message.id in ids)
    if last > MOST_TURNS:  # what stands before is of turns that are too old to be compared
        sent = [*(m for m in sent[:first] if m.type == "system"), *sent[first:]]
    rest = [message for message in sent if message.id not in ids]
    again = compared(again.named, {}, view)
    known = again.joined(known) if again.edits else known
    return replace(arrived, new=[*rest, *question], known=known)


def _last_answered(view: ArchiveView) -> int:
    """Return the number of the newest turn that has an answer, 0 without any."""
    for turn in range(view.tip.turn, 0, -1):
        for stored in view.turns([turn]):
            if any(message.type in MADE_HERE for message in stored.messages):
                return turn
    return 0


def _without_unfinished(
    question: list[BaseMessage], unfinished: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return a question that follows a history without the question of the turn that broke off."""
    asked = stored_form(takewhile(lambda message: message.type == "human", unfinished))
    first = stored_form(question[: len(asked)])
    is_there = len(asked) < len(question) and [*map(identity, asked)] == [*map(identity, first)]
    return question[len(asked) :] if is_there else question


def split_messages(state: TurnState) -> SplitInput:
    """Return the messages in state told apart by their ids; there may be no new ones."""
    messages: list[BaseMessage] = [*state.get("messages", [])]
    parts = boundaries(messages, state)
    return SplitInput(
        past=messages[: parts.unfinished],
        unfinished=closed(messages[parts.unfinished : parts.new], state.get("nonce", "")),
        new=[with_call_ids(accepted(message)) for message in messages[parts.new :]],
    )


def results_of_client(state: TurnState) -> list[BaseMessage]:
    """Return the results at the end of the running turn that answer its waiting calls.

    A client sends them as the input of a run; there are none if anything else is new. A result has
    the name of the tool that was called.
    """
    if not is_running(state) or split_messages(state).new:
        return []
    messages = [*state.get("messages", [])]
    sent = [*takewhile(lambda message: message.type == "tool", reversed(messages))][::-1]
    asking = messages[-len(sent) - 1] if len(sent) < len(messages) else None
    calls = asking.tool_calls if isinstance(asking, AIMessage) else []
    names = {call["id"]: call["name"] for call in calls}
    results = [message for message in sent if isinstance(message, ToolMessage)]
    if not results or any(result.tool_call_id not in names for result in results):
        return []
    return [with_tool_name(accepted(one), names[one.tool_call_id]) for one in results]


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


def _with_repeated(arrived: SplitInput, view: ArchiveView) -> SplitInput:
    """Take the edited questions as new, and restore the archived turns."""
    known = arrived.known
    turns = view.turns(sorted(known.questions))
    restored = {stored.number: stored_messages(view, stored) for stored in turns}
    edits = {turn: edit for turn, edit in known.edits.items() if turn not in restored}
    whole = replace(known, turns={**known.turns, **restored}, edits=edits, questions={})
    said = [message for turn in known.questions.values() for message in turn]
    return replace(arrived, known=whole, new=[*map(accepted, _renamed(said))])


def _renamed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": str(uuid4())}) for message in messages]
