"""Tell by digests which archived messages a state has, which were edited, and what is unknown.

Ids alone do not tell: models repeat them, clients choose them, and an edit keeps them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from ...memory.archive.rows import mark
from ...memory.messages import calls
from ...memory.recalled import stored
from ...memory.serialised import digest, fingerprint, stored_form
from ...memory.state_block import as_stored, as_users_see, with_blocks
from ...memory.tool_names import MEMORY_TOOLS
from ...memory.turn import StoredTurn
from ...memory.view import ArchiveView
from .langchain_messages import MADE_HERE

MOST_TURNS = 100
"""Archived turns read at once, and the most that messages are compared with."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Messages of a state beside the archived turns.

    `turns` has by number those that are of archived turns, `edits` all messages of the turns that
    differ now, as the archive stores them, and `questions` the edited ones of users in these.
    `unknown` are in no turn; `before` stand before all that are. `newest` is the last turn that
    they have as it is archived, or the last of the erased ones that follow it. `named` have the id
    of the archived one.
    """

    turns: Mapping[int, list[BaseMessage]] = field(default_factory=dict)
    edits: Mapping[int, tuple[BaseMessage, ...]] = field(default_factory=dict)
    questions: Mapping[int, list[BaseMessage]] = field(default_factory=dict)
    unknown: Sequence[BaseMessage] = ()
    before: Sequence[BaseMessage] = ()
    newest: int = 0
    named: Sequence[BaseMessage] = ()

    def joined(self, later: "Compared") -> "Compared":
        """Return what is known of these messages and of later ones; edits among these count."""
        turns = {**self.turns, **later.turns, **{n: self.turns[n] for n in self.edits}}
        return replace(
            later,
            turns={number: turns[number] for number in sorted(turns)},
            edits={**later.edits, **self.edits},
            unknown=[*self.unknown, *later.unknown],
        )


class _Archived(NamedTuple):
    """A message of an archived turn, as it is stored and as users see it."""

    turn: StoredTurn
    at: int
    stored: BaseMessage
    shown: BaseMessage


def compared(
    messages: Sequence[BaseMessage], numbers: Mapping[str, int], view: ArchiveView
) -> Compared:
    """Compare the messages before a new turn with the archived turns, each at its place.

    `numbers` are those of turns by the ids of messages, as far as they are known. A message that
    is missing is no edit. What stands before all known messages, such as a summary, is left alone.
    """
    last = view.tip.turn
    if not messages or not last:
        return Compared(unknown=messages)
    known = [min(numbers[key], last) for one in messages if (key := one.id or "") in numbers]
    oldest = max(1, last - MOST_TURNS + 1)
    first = max(oldest, min(known, default=1))
    found = _compared_from(first, messages, numbers, view)
    if found.unknown and first > oldest:  # as in a history that is sent again with ids
        return _compared_from(oldest, messages, numbers, view)
    return found


def _compared_from(
    first: int, messages: Sequence[BaseMessage], numbers: Mapping[str, int], view: ArchiveView
) -> Compared:
    """Compare messages with the archived turns from the first one on."""
    last = view.tip.turn
    stored_turns = view.turns(range(first, last + 1))
    erased = {turn.number for turn in stored_turns if turn.status == "erased"}
    messages = _without_erased(messages, numbers, erased)
    if not messages:
        return Compared()
    archived = [
        _Archived(turn, at, *forms)
        for turn in stored_turns
        for at, forms in enumerate(zip(turn.messages, as_users_see(turn.messages), strict=True))
    ]
    messages = _in_order(messages, archived)
    plain = stored_form(messages)
    begun = bool(plain[0].id in numbers)
    places = {at: archived[place] for at, place in _places(archived, plain, begun=begun)}
    turns: dict[int, list[BaseMessage]] = {}
    for at, original in sorted(places.items()):
        turns.setdefault(original.turn.number, []).append(messages[at])
    edited = {at: one for at, one in places.items() if _is_edited(plain[at], one)}
    questions: dict[int, list[BaseMessage]] = {}
    for at, original in edited.items():
        if plain[at].type == "human":
            questions.setdefault(original.turn.number, []).append(messages[at])
    edits = dict(_edits(edited, plain))
    newest = max(turns.keys() - edits, default=first - 1)
    while newest + 1 in erased:
        newest += 1
    before = messages[: min(places, default=len(messages))]
    if first > 1:  # of the turns before those that were read
        before = [message for message in before if message.type == "system"]
    unknown = _unknown(messages, places, archived)
    named = [
        messages[at]
        for at, one in places.items()
        if _type_and_id(plain[at]) == _type_and_id(one.stored)
    ]
    return Compared(turns, edits, questions, unknown, before, newest, named)


def _without_erased(
    messages: Sequence[BaseMessage], numbers: Mapping[str, int], erased: Collection[int]
) -> list[BaseMessage]:
    """Return the messages of a state without those that it has of erased turns.

    They are there if an erasure was interrupted.
    """
    left, number = list[BaseMessage](), 0
    for message in messages:
        number = numbers.get(message.id or "", number)
        left += [] if number in erased else [message]
    return left


def _in_order(
    messages: Sequence[BaseMessage], archived: Sequence[_Archived]
) -> Sequence[BaseMessage]:
    """Return messages in the order of the archived ones whose ids they have.

    LangGraph puts those of a history that were missing behind those that were there.
    """
    keys = [_type_and_id(one.stored) for one in archived]
    times, place_of = Counter(keys), {key: at for at, key in enumerate(keys)}
    places, at = list[int](), -1
    for message in messages:
        key = message.type, message.id
        at = place_of[key] if times[key] == 1 else at
        places.append(at)
    return [messages[at] for at in sorted(range(len(messages)), key=places.__getitem__)]


def _places(
    archived: Sequence[_Archived], plain: Sequence[BaseMessage], *, begun: bool
) -> Iterator[tuple[int, int]]:
    """Yield the positions of messages that are archived, each with its place in `archived`.

    With `begun` the first message is known to have begun a turn, and is no summary.
    """
    once = {
        key for key, n in Counter(_type_and_id(one.stored) for one in archived).items() if n == 1
    }
    once &= {_type_and_id(message) for message in plain}
    all_once = all(_type_and_id(message) in once for message in plain)

    def symbol(message: BaseMessage) -> Any:
        key = _type_and_id(message)
        return key if all_once or key in once else fingerprint(identity(message))

    before, now = [symbol(one.shown) for one in archived], [*map(symbol, plain)]
    elsewhere = {*before}
    for kind, i, end, j, until in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        kinds = [one.shown.type for one in archived[i:end]]
        if kind == "equal":
            yield from zip(range(j, until), range(i, end), strict=True)
        elif kind == "replace" and (j or begun or kinds == [m.type for m in plain[j:until]]):
            next_one = 0
            for at in range(j, until):
                # A model that repeats an id puts its answer in the place of an earlier one.
                if plain[at].type in kinds[next_one:] and now[at] not in elsewhere:
                    place = kinds.index(plain[at].type, next_one)
                    if at == until - 1 and plain[at].type == "human":
                        place = _asked(archived, i + place, end) - i
                    yield at, i + place
                    next_one = place + 1


def _asked(archived: Sequence[_Archived], first: int, end: int) -> int:
    """Return the question, from `first` on, that the message at `end` answers, else `first`."""
    for at in range(end - 1, first, -1):
        if archived[at].shown.type == "human":
            is_answer = end < len(archived) and archived[end].shown.type in MADE_HERE
            return (
                at if is_answer and archived[at].turn.number == archived[end].turn.number else first
            )
    return first


def _is_edited(message: BaseMessage, original: _Archived) -> bool:
    """Tell whether a message differs from the archived one, as it is stored or as users see it."""
    if _type_and_id(message) != _type_and_id(original.stored) and identity(message) == identity(
        original.shown
    ):
        return False  # a client may leave out more than the ids
    if message.type == "tool" and message.name in MEMORY_TOOLS:
        return False  # it quotes what may be erased since
    if message == original.shown or digest([message]) == (known := digest([original.shown])):
        return False
    return digest([_as_archived(message, original)]) not in {known, digest([original.stored])}


def _as_archived(message: BaseMessage, original: _Archived) -> BaseMessage:
    """Return a message as the archive stores it, with state block and call ids of the original."""
    plain = as_stored([_with_given_ids(message, original.stored)])
    raw = {str(message.id): original.stored.content}
    (whole,) = with_blocks(plain, raw) if message.type == "ai" else plain
    return stored(whole) if message.type == "tool" else whole


def _with_given_ids(message: BaseMessage, original: BaseMessage) -> BaseMessage:
    """Return a message whose calls without an id of their own have those of the original."""
    if not (isinstance(message, AIMessage) and isinstance(original, AIMessage)):
        return message
    new: dict[str, Any] = {}
    for kind in ("tool_calls", "invalid_tool_calls"):
        own, given = getattr(message, kind), getattr(original, kind)
        if own and len(own) == len(given):
            ids = [call.get("id") for call in own]
            new[kind] = [  # a model may repeat an id
                {**call, "id": known.get("id")} if ids[at] in {None, "", *ids[:at]} else call
                for at, (call, known) in enumerate(zip(own, given, strict=True))
            ]
    return message.model_copy(update=new) if new else message


def _edits(
    edited: Mapping[int, _Archived], plain: Sequence[BaseMessage]
) -> Iterator[tuple[int, tuple[BaseMessage, ...]]]:
    """Yield the number and all messages of each turn of which some were edited."""
    for turn in {one.turn.number: one.turn for one in edited.values()}.values():
        new = {
            one.at: _as_archived(plain[at], one)
            for at, one in edited.items()
            if one.turn.number == turn.number
        }
        yield turn.number, tuple(new.get(at, one) for at, one in enumerate(turn.messages))


def _unknown(
    messages: Sequence[BaseMessage],
    places: Mapping[int, _Archived],
    archived: Sequence[_Archived],
) -> tuple[BaseMessage, ...]:
    """Return those that no turn has, but for those before all known ones."""
    ids = {_type_and_id(one.stored) for one in archived}
    first = min(places, default=0)
    return tuple(
        message
        for at, message in enumerate(messages[first:], first)
        if at not in places and (message.type, message.id) not in ids
    )


def identity(message: BaseMessage) -> list[Any]:
    """Return what two copies of a message share; of a memory tool's result only its name."""
    name = message.name if message.type == "tool" else None
    words = "" if name in MEMORY_TOOLS else mark([message])
    called = [(call.get("name"), call.get("args")) for call in calls(message)]
    return [message.type, words, called]


def _type_and_id(message: BaseMessage) -> tuple[str, str | None]:
    """Return by what a message is known, if no other one has it."""
    return message.type, message.id
