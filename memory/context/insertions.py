"""What the calls of a turn put into the context: logs, hints, and attachments brought back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..names import is_qualified, parted
from ..running_turn import Turn
from ..spans import kept, narrowed
from ..tokens import count_messages
from ..turn import StoredTurn
from .attached import CallKey, log_results, log_rounds, results_of, turns_of_log, with_calls
from .budget import PartName, log_limit
from .forms import PREVIEW, edges, has_long_results, is_whole
from .plan import Plan
from .quotes import Quoted, log_quote
from .rounds import RESULT_SHARE

Piece: TypeAlias = tuple[
    PartName, BaseMessage
]  # a message, and the part of the context that it is in
Load: TypeAlias = tuple[str, int]  # an effort, and a turn of it that a log shows


@dataclass(frozen=True, slots=True)
class Insertion:
    """Notes that stand after the result of a call, and what they show of logs."""

    pieces: tuple[Piece, ...]
    loaded: frozenset[Load] = frozenset()


Insertions: TypeAlias = dict[CallKey, Insertion]


def hint_notes(work: Turn, turn: StoredTurn, names: Sequence[str]) -> list[BaseMessage]:
    """Return hints as a note; none if the efforts were erased."""
    stored = work.view.as_of(turn.number - 1).efforts_named(names, ())
    lines = [f"- {effort.id}" for effort in stored if effort.summary or effort.goal]
    return [work.fences.note(render("hints", quote="\n".join(lines)))] if lines else []


def finished_rounds(turn: StoredTurn, plan: Plan) -> frozenset[int]:
    """Return the places of a past turn's rounds of efforts that are concluded.

    The rounds that brought a log which is shown are not among them.
    """
    if turn.number > plan.after_turn:
        return frozenset()
    last = len(turn.messages) - 1
    places = frozenset(
        at
        for name, begin, end in kept(turn)
        if name and name not in plan.open
        for at in range(begin, end)
        if turn.messages[at].type != "human" and at != last
    )
    return places - shown_log_rounds(turn, plan) if places else places


def newest_fitting(insertions: Insertions, free: int, work: Turn) -> Insertions:
    """Return the newest insertions that have at most `free` tokens together."""
    kept = Insertions()
    for call, insertion in reversed([*insertions.items()]):
        free -= tokens_of(work, insertion)
        if free >= 0:
            kept[call] = insertion
    return kept


def tokens_of(work: Turn, insertion: Insertion) -> int:
    """Return the tokens of an insertion."""
    return count_messages([note for _, note in insertion.pieces], work.run.count)


def shown_log_rounds(turn: StoredTurn, plan: Plan) -> set[int]:
    """Return the places of the messages of the rounds that brought a log which is shown."""
    logs = {effort for effort, place in plan.logs.items() if place == turn.number}
    return log_rounds(turn.messages, logs)


def with_insertions(
    messages: Sequence[BaseMessage], insertions: Insertions, name: PartName
) -> Iterator[Piece]:
    """Yield messages, and after all results of a round the insertions that belong to them."""
    waiting: list[Piece] = []
    for message, call in with_calls(messages):
        if call is None:
            yield from waiting
            waiting = []
        yield name, message
        if call is not None and call in insertions:
            waiting += insertions[call].pieces
    yield from waiting


def with_back(
    insertions: Insertions, turn: StoredTurn, back: Mapping[CallKey, BaseMessage]
) -> Insertions:
    """Return the insertions of a turn's calls, in their order, with attachments brought back."""
    found: Insertions = {}
    for _, call in with_calls(turn.messages):
        if call is None:
            continue
        insertion = insertions.get(call, Insertion(()))
        notes: tuple[Piece, ...] = (("expanded", back[call]),) if call in back else ()
        if pieces := (*insertion.pieces, *notes):
            found[call] = replace(insertion, pieces=pieces)
    return found


def insertions_of(
    work: Turn, turn: StoredTurn, plan: Plan, known: int, loaded: frozenset[Load]
) -> Insertions:
    """Return the logs and hints that a turn's calls put into the context.

    Hints at other sessions' work on an opened effort stay until the plan changes. Of what the first
    `known` messages brought, only the logs that are still shown stay. What is `loaded` already is
    not loaded again.
    """
    insertions: Insertions = {}
    if "tool" not in map(attrgetter("type"), turn.messages):
        return insertions
    events = turn.events if turn.number > plan.after_turn else ()
    related = {event["effort"]: event["related"] for event in events if "related" in event}
    for _, call, result in results_of(turn.messages, ("open_effort",)) if related else ():
        efforts = related.get(str(result.get("effort_id")), ())
        for message in hint_notes(work, turn, efforts):
            name: PartName = "turn" if turn.number == work.view.running.number else "turns"
            insertions[call] = Insertion(((name, message),))
    logs = {effort for effort, place in plan.logs.items() if place == turn.number}
    for at, call, result in log_results(turn.messages):
        name, limit = result["effort_id"], log_limit(plan.room_or(work.room))
        new = {(name, number) for number in turns_of_log(result)} - loaded
        if not new or (at < known and name not in logs):
            continue
        quoted = quoted_log(work, turn, plan, result, loaded)
        if quoted.turns:
            is_open = name in plan.open if at < known else result["status"] == "reopened"
            status = "open" if is_open else "concluded"
            log = log_quote(name, status, quoted, limit, work.fences)
            insertions[call] = Insertion((("expanded", log),), frozenset(new))
            loaded |= new
    return insertions


def quoted_log(
    work: Turn,
    turn: StoredTurn,
    plan: Plan,
    result: Mapping[str, Any],
    loaded: frozenset[Load],
) -> Quoted:
    """Return the turns of a log that a call brings back, and which of them stand above it."""
    name = result["effort_id"]
    whole = work.view.whole_turns_of(name, turns_of_log(result))
    turns = tuple(narrowed(turn, parted(name)[1]) for turn in whole)
    numbers = {one.number for one in turns}
    by_calls = {number for effort, number in loaded if effort == name}
    begin = result["offset"] if isinstance(result.get("offset"), int) else 0
    if is_qualified(name):  # its turns have the numbers of another session
        return Quoted(turns, frozenset(by_calls & numbers), whole=whole, begin=begin)
    earlier = _in_earlier_logs(work, turn, plan, name)
    in_others = {number for effort, number in loaded if effort != name} | earlier
    # The log of another effort has other rounds of a turn, but for those of one effort.
    several = {one.number for one in whole if kept(one)}
    above = (by_calls | earlier) - (several - by_calls)
    standing = [one for one in whole if plan.shows(one.number) and one.status != "erased"]
    without = {
        one.number for one in standing if not is_whole(one, plan) or finished_rounds(one, plan)
    }
    above |= {one.number for one in standing if _stands_whole(work, one, plan)} - without
    without -= above | {*plan.short}
    requests = (several & in_others) - above
    partly: dict[int, frozenset[int]] = {}
    for one in whole:
        if one.number in without | requests:
            rounds = _standing(one, plan) if one.number in without else frozenset()
            partly[one.number] = rounds | (
                _requests(one) if one.number in requests else frozenset()
            )
    return Quoted(turns, frozenset(above & numbers), partly, whole, begin)


def _in_earlier_logs(work: Turn, turn: StoredTurn, plan: Plan, effort: str) -> set[int]:
    """Return the turns in the logs of other efforts that were expanded before a turn."""
    numbers: set[int] = set()
    for other, entry in work.efforts.expanded.items():
        is_shown = plan.logs.get(other, entry["expanded_turn"]) == entry["expanded_turn"]
        is_before = entry["expanded_turn"] < turn.number and other != effort
        if is_shown and is_before and not is_qualified(other):
            numbers |= {*entry["turns"]}
    return numbers


def _requests(turn: StoredTurn) -> frozenset[int]:
    """Return the `id`s of what the user said in a turn, which each log of the turn has."""
    return frozenset(id(message) for message in turn.messages if message.type == "human")


def _standing(turn: StoredTurn, plan: Plan) -> frozenset[int]:
    """Return the `id`s of the messages of a past turn that stand in the context."""
    places = {*range(len(turn.messages))} - finished_rounds(turn, plan)
    if not is_whole(turn, plan):
        places = {*edges(turn.messages)} | shown_log_rounds(turn, plan)
    return frozenset(id(turn.messages[at]) for at in places)


def _stands_whole(work: Turn, turn: StoredTurn, plan: Plan) -> bool:
    most = PREVIEW if turn.number <= plan.previews else plan.room_or(work.room) // RESULT_SHARE
    is_preview = has_long_results(work, turn, most)
    return is_whole(turn, plan) and turn.number not in plan.short and not is_preview
