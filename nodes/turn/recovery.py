"""Turns in the archive: committed, committed again, found again by the messages of a history."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice, pairwise
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ...memory.anchor import shown, with_blocks
from ...memory.archive.protocol import Archive
from ...memory.archive.records import mark
from ...memory.embeddings import Embedder
from ...memory.errors import ArchiveLockedError, TipNotFoundError
from ...memory.messages import Message, calls, digest
from ...memory.record import Group, Owner, Record, Tip
from ...memory.transcript import OWN_TOOLS
from ...memory.view import past
from .arrivals import Arrivals, turn_numbers
from .langchain_messages import (
    MADE_HERE,
    cleaned,
    closed,
    from_dicts,
    question_start,
    to_dicts,
    with_ids,
)
from .state import TurnState
from .values import committed, group, memory_at, tip_of, tip_update

_CHUNK = 100
"""Turns that are read at once when a history is compared with them."""

_ENDS, _ALIKE = 32, 1_000
"""So many messages of a history, the newest, are taken for the end of a turn, one after the other.
Each is compared with so many archived turns that end alike; a history that follows none of them is
adopted as a whole."""


def commit(
    archive: Archive, owner: Owner, tip: Tip, turn: Group, embedder: Embedder | None = None
) -> Record:
    """Commit a turn after `tip`; the turn of `tip` itself as it is now, with what happened in it.

    With other messages that begins a new branch. Raises `TipNotFoundError` if the archive does not
    hold the turn of `tip`, and after three attempts that failed what the archive raised.
    """
    if turn.turn <= tip.turn:
        tip, turn = _again(archive, owner, tip, turn)
    # The next attempt opens a lost connection anew, and stores nothing twice. The waits are short
    # since the archive has itself waited for a lock, and random to part writers; what fails thrice
    # will last.
    retrying = Retrying(
        retry=retry_if_exception_type((OSError, ArchiveLockedError)),
        stop=stop_after_attempt(3),
        wait=wait_random_exponential(multiplier=0.05, max=0.5),
        reraise=True,
    )
    return retrying(archive.commit, owner, tip, turn, embedder)


def _again(archive: Archive, owner: Owner, tip: Tip, turn: Group) -> tuple[Tip, Group]:
    """Return the tip before the turn of `tip`, and that turn as `turn` now has it.

    Its events and efforts stay; its status does if nothing new happened in it.
    """
    before = archive.turns(owner, tip, [tip.turn - 1, tip.turn])
    if not before or before[-1].turn != tip.turn:
        raise TipNotFoundError(tip.branch, tip.turn)
    original = before[-1]
    parent = before[0].tip if len(before) > 1 else Tip(original.branch, 0, "")
    efforts = tuple(dict.fromkeys((*turn.efforts, *original.efforts)))
    as_it_was = not turn.events and original.status != "erased"
    again = replace(
        turn,
        turn=original.turn,
        messages=_with_blocks_again(turn.messages, [original]),
        events=(*original.events, *turn.events),
        efforts=efforts if turn.events else original.efforts,
        status=original.status if as_it_was else turn.status,
    )
    return parent, again


def settle(state: TurnState, owner: Owner, arrived: Arrivals, archive: Archive) -> dict[str, Any]:
    """Commit an edited last turn and an unfinished turn; return what state says of it then."""
    tip, ended = tip_of(state), {}
    if arrived.last is not None and (again := _edited(state, owner, arrived.last, archive)):
        tip = commit(archive, owner, tip, again).tip
        ended = {"archived": str(arrived.last[-1].id)}
    if not arrived.unfinished:  # what a pass did after the last commit is stored with the next turn
        events = [event for event in state.get("events", []) if event["type"] == "compressed"]
        return {**tip_update(tip), **ended, "events": events}
    record = commit(archive, owner, tip, group(state, arrived.unfinished))
    return committed(record, str(arrived.unfinished[-1].id))


def _edited(
    state: TurnState, owner: Owner, last: Sequence[BaseMessage], archive: Archive
) -> Group | None:
    """Return the last archived turn as its messages are now, None if they are as archived.

    An erasure may have taken text from what is archived: both, with it and without it, are no edit.
    Nor is it one that calls and their results are missing, which clients do not keep.
    """
    tip, now = tip_of(state), group(state, last)
    if digest(now.messages) == tip.digest:
        return None
    records = archive.turns(owner, tip, [tip.turn])
    known = {tip.digest, *(digest(record.messages) for record in records)}
    if known & {digest(now.messages), digest(_with_blocks_again(now.messages, records))}:
        return None
    for record in records:  # as a client keeps it: without calls, or with other ids
        retold = _before_turn(now.messages, record.messages) == 0
        if retold and _ids(now.messages) != _ids(record.messages):
            return None
    return replace(now, turn=tip.turn, events=())


def _with_blocks_again(
    messages: Sequence[Message], records: Sequence[Record]
) -> tuple[Message, ...]:
    """Return messages that were archived with the state blocks that users do not see."""
    archived = (message["data"] for record in records for message in record.messages)
    return with_blocks(messages, {data.get("id"): data.get("content") for data in archived})


def _before_turn(history: Sequence[Message], turn: Sequence[Message]) -> int | None:
    """Return how much of a history comes before a turn, None if it does not end in that turn."""
    left = len(history)
    for message in reversed(turn):
        if left and _known_by(message) == _known_by(history[left - 1]):
            left -= 1
        elif left and message["type"] != "tool" and not calls(message):
            return None
    return left


def _known_by(message: Message) -> list[Any]:
    """Return the key by which a message is recognised; results of memory tools by name alone."""
    data = message["data"]
    name = data.get("name") if message["type"] == "tool" else None
    said = "" if name in OWN_TOOLS else mark([message])
    called = [(call.get("name"), call.get("args")) for call in calls(message)]
    return [message["type"], said, called]


def state_at(archive: Archive, owner: Owner, tip: Tip, window: int) -> TurnState:
    """Return the state after a turn, with the messages of the last `window` turns."""
    view, turns = past(archive, owner, tip), cast("dict[int, list[BaseMessage]]", {})
    for record in view.turns(range(max(1, tip.turn - window + 1), tip.turn + 1)):
        if messages := from_dicts(shown(view.messages(record))):
            for message in messages:
                message.id = message.id or str(uuid4())
            turns[record.turn] = messages
    newest = turns[max(turns)] if turns else []
    state = {
        **memory_at(archive, owner, tip),
        "messages": [message for turn in turns.values() for message in turn],
        "asked": turn_numbers(turns),
        "archived": newest[-1].id if newest else "",
    }
    state.pop("view", None)  # what is shown may have changed, or no provider has its prefix
    return cast("TurnState", state)


def recovered(state: TurnState, archive: Archive, owner: Owner, window: int) -> TurnState:
    """Return the state of a run; if it has none, restore it from the archive by its messages.

    History that the archive does not know is committed as turns first. Raises `TipNotFoundError` if
    the state was made with another archive.
    """
    if "session" in state:
        tip = tip_of(state)
        if tip.turn and not archive.holds(owner, tip):
            raise TipNotFoundError(tip.branch, tip.turn)
        return state
    return _adopted(remembered(state, archive, owner, window), archive, owner)


def remembered(state: TurnState, archive: Archive, owner: Owner, window: int) -> TurnState:
    """Return the state, restored from the archive if the thread lost it.

    The newest message that ends an archived turn says where it goes on.
    """
    messages = [*state.get("messages", [])]
    known = _end(messages, archive, owner)
    noted = archive.reseeding(owner) if known is None else None
    if noted is not None:
        before = state_at(archive, owner, noted, window)
        return cast("TurnState", {**before, "messages": [*before["messages"], *messages]})
    if known is None:
        newest = None if question_start(messages) else archive.newest(owner)
        return cast("TurnState", {**state, "unseen": newest}) if newest else state
    at, tip = known
    turns = _aligned(messages[: at + 1], archive, owner, tip)
    restored = {
        **memory_at(archive, owner, tip),
        "messages": messages,
        "asked": turn_numbers(dict(islice(turns.items(), window))),
        "archived": messages[at].id or "",
    }
    return cast("TurnState", restored)


def _aligned(
    history: Sequence[BaseMessage], archive: Archive, owner: Owner, tip: Tip
) -> dict[int, Sequence[BaseMessage]]:
    """Return the turns of a history, newest first, by the numbers that the archive gave them."""
    turns: dict[int, Sequence[BaseMessage]] = {}
    plain, end = to_dicts(history), len(history)
    numbers = range(max(1, tip.turn - _CHUNK + 1), tip.turn + 1)
    for record in reversed(archive.turns(owner, tip, numbers)):
        begin = _before_turn(plain[:end], record.messages) if record.messages else end
        if begin is None:
            break
        if begin < end:
            turns[record.turn], end = history[begin:end], begin
    return turns


def _end(messages: Sequence[BaseMessage], archive: Archive, owner: Owner) -> tuple[int, Tip] | None:
    """Return the position of the newest message that ends an archived turn, and that turn.

    All messages up to it are in the past of that turn. What the user said last is never an end: a
    turn that failed may be asked again.
    """
    plain, asked = to_dicts(messages), question_start(messages)
    marks = [mark([message]) for message in plain]
    answer = max((n for n, m in enumerate(messages, 1) if isinstance(m, HumanMessage)), default=0)
    ends = [*range(asked), *range(answer, len(messages))]
    tips: dict[str, list[Tip]] = {}
    wanted = list(dict.fromkeys(marks[at] for at in ends))
    for end, tip in archive.ended(owner, wanted) if wanted else ():
        tips.setdefault(end, []).append(tip)
    for at in islice((end for end in reversed(ends) if marks[end] in tips), _ENDS):
        history = plain[: at + 1]
        for tip in _by_likelihood(archive, owner, tips[marks[at]][:_ALIKE], history):
            if _is_past_of(history, archive, owner, tip):
                # What stands between that turn and the question may be what was erased.
                return at, tip if at + 1 < asked else _after_erased(archive, owner, tip)
    return None


def _after_erased(archive: Archive, owner: Owner, tip: Tip) -> Tip:
    """Return the end of its branch if all turns after `tip` are erased, else `tip`."""
    newest, end = archive.newest(owner), tip
    while newest is not None and newest.branch == tip.branch and end.turn < newest.turn:
        after = archive.turns(owner, newest, [end.turn + 1])
        if not after or after[0].status != "erased":
            return tip
        end = after[0].tip
    return end


def _by_likelihood(
    archive: Archive, owner: Owner, tips: Sequence[Tip], history: Sequence[Message]
) -> list[Tip]:
    """Return the turns in which a history may end; first those whose last message has its id."""
    likely: list[tuple[bool, int, Tip]] = []
    place = {tip: at for at, tip in enumerate(tips)}
    for branch in dict.fromkeys(tip.branch for tip in tips):
        on_it = [tip for tip in tips if tip.branch == branch]
        newest = max(on_it, key=lambda tip: tip.turn)
        for first in range(0, len(on_it), _CHUNK):
            numbers = [tip.turn for tip in on_it[first : first + _CHUNK]]
            for record in archive.turns(owner, newest, numbers):
                if _before_turn(history, record.messages) is not None:
                    renamed = _ids(record.messages[-1:]) != _ids(history[-1:])
                    likely.append((renamed, place[record.tip], record.tip))
    return [tip for *_, tip in sorted(likely, key=lambda entry: entry[:2])]


def _is_past_of(history: Sequence[Message], archive: Archive, owner: Owner, tip: Tip) -> bool:
    """Tell whether a history is the end of what a turn sees, the turn included.

    It may lack calls and results, which clients do not keep. What was erased may be any turn, or
    none. If it has the archive's own messages of the last turn, something else, such as a summary,
    may stand in place of earlier ones.
    """
    lefts, own = {len(history)}, False
    for last in range(tip.turn, 0, -_CHUNK):
        numbers = range(max(1, last - _CHUNK + 1), last + 1)
        records = archive.turns(owner, tip, numbers)
        for record in reversed(records):
            before = lefts
            if record.status == "erased":
                lefts = before | {_begin(history, left) for left in before}
            else:
                rests = (_before_turn(history[:left], record.messages) for left in before)
                lefts = {rest for rest in rests if rest is not None}
            if not lefts:
                return own and any(_replaced(history[:left], records) for left in before)
            if before == {len(history)}:
                own = {*_ids(history[min(lefts) :])} <= {*_ids(record.messages)}
            if 0 in lefts:
                return True
    return False


def _replaced(history: Sequence[Message], records: Sequence[Record]) -> bool:
    """Tell whether a history has messages that the turns do not know, and none that was edited."""
    archived = (message for record in records for message in record.messages)
    known = {message["data"].get("id"): _known_by(message) for message in archived}
    same = [known.get(message_id) for message_id in _ids(history)]
    keys = map(_known_by, history)
    return None in same and all(old in (None, key) for old, key in zip(same, keys, strict=True))


def _ids(messages: Sequence[Message]) -> list[str | None]:
    return [message["data"].get("id") for message in messages]


def _begin(history: Sequence[Message], end: int) -> int:
    """Return where the turn begins that ends before `end`."""
    at = end - 1
    while at and not (history[at]["type"] == "human" and history[at - 1]["type"] != "human"):
        at -= 1
    return at


def _adopted(state: TurnState, archive: Archive, owner: Owner) -> TurnState:
    """Commit history that the archive does not know as turns; return the state after it."""
    messages: list[Any] = [*state.get("messages", [])]
    ids = [message.id for message in messages]
    known = ids.index(state["archived"]) + 1 if state.get("archived") in ids else 0
    asked = question_start(messages)
    if asked <= known:
        return state
    before = [with_ids(cleaned(message)) for message in messages[:asked]]
    turns = [closed(turn) for turn in _turns(before[known:])]
    tip, numbers = tip_of(state), {}
    for turn in turns:
        numbered = cast("TurnState", {**state, "turn": tip.turn + 1})
        ambient = replace(group(numbered, turn), efforts=(), events=())
        tip = commit(archive, owner, tip, ambient).tip
        numbers[tip.turn] = turn
    adopted = [message for turn in turns for message in turn]
    after = {
        **state,
        **tip_update(tip),
        "session": asdict(owner),
        "turn": tip.turn,
        "messages": [*before[:known], *adopted, *messages[asked:]],
        "asked": {**state.get("asked", {}), **turn_numbers(numbers)},
        "archived": turns[-1][-1].id,
        "adopted": len(turns),
    }
    return cast("TurnState", after)


def _turns(history: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """Return a history as turns: each begins with what is said after an answer."""
    firsts = [
        at
        for at in range(1, len(history))
        if history[at].type not in MADE_HERE and history[at - 1].type in MADE_HERE
    ]
    bounds = [0, *firsts, len(history)] if history else []
    turns = [list(history[begin:end]) for begin, end in pairwise(bounds)]
    if len(turns) > 1 and not any(isinstance(m, HumanMessage) for m in turns[0]):
        turns[:2] = [[*turns[0], *turns[1]]]  # a greeting belongs to the first question
    return turns
