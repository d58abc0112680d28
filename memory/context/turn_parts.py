"""One turn as parts of the context, shown as the plan says."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..messages import Growing, answered, calls, without_thoughts
from ..messages import text as text_of
from ..names import is_qualified, numbers, parted
from ..running_turn import Turn
from ..spans import kept, narrowed
from ..state_block import each_block_once
from ..tokens import count_message, count_messages
from ..turn import StoredTurn
from ..valid_history import valid_history
from .attached import (
    CallKey,
    attached,
    log_results,
    placeholders,
    results_of,
    turns_of_log,
    with_calls,
)
from .budget import Part, PartName, high_water, log_limit
from .forms import PREVIEW, as_past, edges, has_long_results, is_whole, rounds_left_out
from .plan import HINTS, Plan
from .previews import UNLIMITED, Limits, has_files, previewed, previewed_each
from .quotes import Quoted, log_quote
from .rounds import RESULT_SHARE, cut_turn
from .summaries import learned_notes

Piece: TypeAlias = tuple[PartName, BaseMessage]
"""A message, and the part of the context that it is in."""

Before: TypeAlias = tuple[int, tuple[BaseMessage, ...]]
"""The tokens of what stands above a turn after the plan, and the state block if it stands in it.

In a turn that was cut it stands behind the request and the index, so that a new one leaves both.
"""

Added: TypeAlias = dict[CallKey, list[Piece]]
"""By call the notes that stand after the results of its round."""

Log: TypeAlias = tuple[str, Collection[int], int]
"""An effort, turns of its log, and where in a single turn that is too long it is quoted from."""

_POINTER = 40  # tokens around head and tail of a result: its message, and the pointer between them
_BRIEF_SHARE = 8  # one in how many tokens of the room request and answer may have of a brief turn
_NOTES_SHARE = 8  # one in how many tokens of the room the hints before a turn that was cut may have


@dataclass(frozen=True, slots=True)
class _Sent:
    """A turn, and its messages as they are sent whole.

    `back` has what its calls brought back. `above` are the tokens of what stands above them, in a
    turn that the plan did not know, and `block` is the state block that it takes along.
    """

    turn: StoredTurn
    messages: tuple[BaseMessage, ...]
    back: Mapping[CallKey, BaseMessage]
    above: int = 0
    block: tuple[BaseMessage, ...] = ()


def committed_parts(
    work: Turn,
    stored: StoredTurn,
    plan: Plan,
    marker: BaseMessage | None = None,
    before: Before = (0, ()),
) -> list[Part]:
    """Return a committed turn in parts; they are cached if they depend on its turn alone."""

    def make_parts(stored: StoredTurn) -> list[Part]:
        return turn_parts(work, replace(stored, messages=work.messages(stored)), plan, before)

    turn, is_next = stored.number, stored.number == plan.after_turn + 1
    noted = _block_above(work, plan, turn)
    form = (
        *(work.run.count, work.run.provider, work.run.refused),
        *(turn <= plan.after_turn, turn <= plan.previews),
        *(turn in plan.brief, is_whole(stored, plan), plan.room, work.room, before[0]),
        (plan.rounds, plan.within) if is_next else None,
        *noted.items(),
        *(str(message.content) for message in before[1]),
        finished_rounds(stored, plan),
    )
    events = stored.events if stored.number > plan.after_turn else ()
    is_alone = not any(
        one["type"] in {"hinted", "learned", "expanded"} or "related" in one for one in events
    )
    parts = work.once(form, stored, make_parts) if is_alone else make_parts(stored)
    if marker is None:
        return parts
    first, *later = parts or [Part("turns", (), 0)]
    tokens = count_message(marker, work.run.count) + first.tokens
    return [Part("turns", (marker, *first.messages), tokens, turn), *later]


def turn_parts(work: Turn, turn: StoredTurn, plan: Plan, before: Before = (0, ())) -> list[Part]:
    """Return the parts of a turn: notes before it, its messages, and logs and hints in it.

    Before a turn that was cut the notes have a share of the room. A note after a turn that was
    broken off says so.
    """
    (above, block), opening = before, list[BaseMessage]()
    # Providers want a user's message first.
    kinds = (message.type for message in turn.messages if message.type != "system")
    if turn.messages and next(kinds, "ai") == "ai":
        why = "unasked" if turn.number == 1 else "unasked_later"
        opening.append(work.fences.note(render(why)))
    rounds = plan.rounds if turn.number == plan.after_turn + 1 else None
    limit = plan.room_or(work.room)
    if rounds is not None and rounds.limits:
        limit = 0 if plan.lacks(HINTS) else limit // _NOTES_SHARE
    for event in turn.events if turn.number > plan.after_turn else ():
        if event["type"] == "dated":
            notes = [work.fences.note(render("today", day=event["day"]))]
        elif event["type"] == "hinted":
            notes = hint_notes(work, turn, event["hints"])
        elif event["type"] == "learned":
            notes = learned_notes(work, event["efforts"], plan.room_or(work.room))
        else:
            continue
        limit -= count_messages(notes, work.run.count)
        opening += notes if limit >= 0 else []
    name: PartName = "turn" if turn.number == work.view.running.number else "turns"
    notes_tokens = count_messages(opening, work.run.count) if opening else 0
    sent = replace(_as_sent(work, turn, plan), above=above + notes_tokens, block=block)
    pieces = [*zip(repeat(name), opening), *_pieces(work, sent, plan, name)]
    if turn.id and turn.is_aborted:
        pieces.append((name, work.fences.note(render("broken_off", turn=turn.number))))
    parts: list[Part] = []
    for part_name, same_part in groupby(pieces, key=itemgetter(0)):
        parts.append(Part.of(part_name, map(itemgetter(1), same_part), work.run.count, turn.number))
    return parts


def _pieces(work: Turn, sent: _Sent, plan: Plan, name: PartName) -> Iterator[Piece]:
    """Yield a turn's messages with the logs and hints in it, in the form that the plan says."""
    turn, begun = sent.turn, tuple[BaseMessage, ...]()
    if not is_whole(turn, plan):
        limits = _brief_limit(work, plan) if turn.number in plan.brief else UNLIMITED
        short = previewed(turn, sent.messages, limits, work.run.count)
        both = [*valid_history([short[at] for at in edges(sent.messages)], work.fences)]
        if left := rounds_left_out(turn, sent.messages):
            both.insert(len(both) - answered(both), work.fences.note(left))
        yield from zip(repeat(name), both)
        return
    end, is_bare = 0, False
    if plan.rounds is not None and turn.number == plan.after_turn + 1:
        end = min(plan.rounds.until, len(sent.messages))  # an application may have removed some
        # What came until the plan was made may say what else is active.
        so_far = replace(turn, messages=turn.messages[: max(end, plan.within)])
        room, is_bare = plan.room_or(work.room), plan.lacks(HINTS)
        head, rest = cut_turn(so_far, sent.messages[:end], plan.rounds, room, work.fences)
        begun = (*head, *sent.block, *rest)
        sent = replace(sent, above=sent.above + count_messages(begun, work.run.count))
    added = {} if is_bare else _added(work, turn, plan, name)
    for call, note in sent.back.items():
        added.setdefault(call, []).append(("expanded", note))
    shown, finished = _messages_after(work, sent, plan, end, added), finished_rounds(turn, plan)
    if finished:
        shown = tuple(message for at, message in enumerate(shown, end) if at not in finished)
    history = [*begun, *valid_history(shown, work.fences)]
    blocks = {*map(id, sent.block)}
    for own, message in _with_added(history, added, name) if added else zip(repeat(name), history):
        yield "anchor" if id(message) in blocks else own, message


def _added(work: Turn, turn: StoredTurn, plan: Plan, name: PartName) -> Added:
    """Return by call the logs and hints that it put into the context since the plan was made.

    Hints at other sessions' work on an opened effort stay until the next turn's plan.
    """
    added: Added = {}
    if turn.number <= plan.after_turn or "tool" not in map(attrgetter("type"), turn.messages):
        return added
    related = {event["effort"]: event["related"] for event in turn.events if "related" in event}
    for _, call, result in results_of(turn.messages, ("open_effort",)) if related else ():
        for note in hint_notes(work, turn, related.get(str(result.get("effort_id")), ())):
            added[call] = [(name, note)]
    since = [*_logs_since(turn, plan)]
    loaded = _loaded_before(work, turn, plan) if since else {}
    for call, (effort, turns, begin) in since:
        quoted = quoted_log(work, plan, (effort, turns, begin), loaded)
        if quoted.shown:
            limit = log_limit(plan.room_or(work.room))
            log = log_quote(effort, "concluded", quoted, limit, work.fences)
            added[call] = [("expanded", log)]
        loaded[effort] = {*loaded.get(effort, ()), *turns}
    return added


def _loaded_before(work: Turn, turn: StoredTurn, plan: Plan) -> dict[str, Collection[int]]:
    """Return by effort the turns in the logs that stand above a turn after the plan."""
    loaded: dict[str, Collection[int]] = {one: numbers(shown) for one, shown in plan.logs.items()}
    earlier = work.view.past.turns(range(plan.after_turn + 1, turn.number))
    for _, (effort, turns, _) in (log for one in earlier for log in _logs_since(one, plan)):
        loaded[effort] = {*loaded.get(effort, ()), *turns}
    return loaded


def _logs_since(turn: StoredTurn, plan: Plan) -> Iterator[tuple[CallKey, Log]]:
    """Yield the calls of a turn that expanded a log since the plan was made, and what they show."""
    known = plan.within if turn.number == plan.after_turn + 1 else 0
    for at, call, result in log_results(turn.messages):
        if at >= known and result["status"] == "expanded":
            yield call, (result["effort_id"], turns_of_log(result), _begin(result))


def log_begin(work: Turn, effort: str) -> int:
    """Return from where in a turn the log of an expanded effort is quoted, 0 for the beginning."""
    number = work.efforts.expanded.get(effort, {"expanded_turn": 0})["expanded_turn"]
    running, messages = work.view.running, [*work.view.running.messages]
    if number != running.number:  # results of tools as they came
        messages = [message for turn in work.view.past.turns([number]) for message in turn.messages]
    results = [result for _, _, result in log_results(messages)]
    return next((_begin(one) for one in results[::-1] if one["effort_id"] == effort), 0)


def _begin(result: Mapping[str, Any]) -> int:
    return result["offset"] if isinstance(result.get("offset"), int) else 0


def _with_added(messages: Sequence[BaseMessage], added: Added, name: PartName) -> Iterator[Piece]:
    """Yield messages, and after all results of a round what its calls put into the context."""
    waiting: list[Piece] = []
    for message, call in with_calls(messages):
        if call is None:
            yield from waiting
            waiting = []
        yield name, message
        waiting += added.get(call, ()) if call is not None else ()
    yield from waiting


def quoted_log(work: Turn, plan: Plan, log: Log, loaded: Mapping[str, Collection[int]]) -> Quoted:
    """Return turns of a log, and what of them stands above it in the turns and in other logs.

    `loaded` has by effort the turns of these logs.
    """
    name, wanted, begin = log
    whole = work.view.whole_turns_of(name, sorted(wanted))
    turns = tuple(narrowed(turn, parted(name)[1]) for turn in whole)
    above: dict[int, Collection[int]] = {}
    for turn, full in zip(turns, whole, strict=True):
        if turn.number in loaded.get(name, ()):
            above[turn.number] = {*map(id, full.messages)}
        elif not is_qualified(name):  # its turns would have the numbers of another session
            above[turn.number] = _standing(work, full, plan)
            others = (shown for one, shown in loaded.items() if not is_qualified(one))
            if any(turn.number in shown for shown in others):
                # The log of another effort has other rounds, unless the turn is of one effort.
                both = [one for one in full.messages if one.type == "human" or not kept(full)]
                above[turn.number] = {*above[turn.number], *map(id, both)}
    return Quoted(turns, above, whole, begin)


def _standing(work: Turn, turn: StoredTurn, plan: Plan) -> frozenset[int]:
    """Return the `id`s of the messages of a turn that stand whole in the context."""
    if not plan.shows(turn.number) or turn.status == "erased":
        return frozenset()
    most = _most_of_result(work, turn, plan)
    is_cut = turn.number == plan.after_turn + 1 and plan.rounds is not None
    places = {*range(len(turn.messages))} - finished_rounds(turn, plan)
    if is_cut or not is_whole(turn, plan) or has_long_results(work, turn, most):
        places = {*edges(turn.messages)}
    if turn.number in plan.brief:
        limit = _brief_limit(work, plan).texts or 0
        places = {at for at in places if work.run.count(text_of(turn.messages[at])) <= limit}
    return frozenset(id(turn.messages[at]) for at in places)


def _most_of_result(work: Turn, turn: StoredTurn, plan: Plan) -> int:
    """Return the tokens that a result of a past turn may have whole."""
    return PREVIEW if turn.number <= plan.previews else plan.room_or(work.room) // RESULT_SHARE


def hint_notes(work: Turn, turn: StoredTurn, names: Sequence[str]) -> list[BaseMessage]:
    """Return hints as a note; none if the efforts were erased."""
    stored = work.view.as_of(turn.number - 1).efforts_named(names, ())
    lines = [f"- {effort.id}" for effort in stored if effort.summary or effort.goal]
    return [work.fences.note(render("hints", quote="\n".join(lines)))] if lines else []


def finished_rounds(turn: StoredTurn, plan: Plan) -> frozenset[int]:
    """Return the places of a past turn's rounds of efforts that are concluded."""
    if turn.number > plan.after_turn:
        return frozenset()
    last = len(turn.messages) - 1
    return frozenset(
        at
        for name, begin, end in kept(turn)
        if name and name not in plan.open
        for at in range(begin, end)
        if turn.messages[at].type != "human" and at != last
    )


def _messages_after(
    work: Turn, sent: _Sent, plan: Plan, end: int, added: Added
) -> tuple[BaseMessage, ...]:
    turn, messages = sent.turn, sent.messages
    if turn.number <= plan.after_turn:
        most = [_most_of_result(work, turn, plan)] * len(messages)
    else:
        most = [0] * end + [*_free_for_each(work, sent, plan, end, added)]
    limits = {at: Limits(most[at]) for at in range(end, len(messages))}
    shown = previewed_each(turn, messages, limits, work.run.count)[end:]
    if turn.id or shown == messages[end:]:
        return shown
    # Whether its attachments are sent was decided for the turn.
    return tuple(
        old if has_files(old) and work.run.count(text_of(old)) <= limit else new
        for old, new, limit in zip(messages[end:], shown, most[end:], strict=True)
    )


def _free_for_each(work: Turn, sent: _Sent, plan: Plan, end: int, added: Added) -> Iterator[int]:
    """Yield what a result may have at each place of a turn after the plan, from `end` on.

    That is what is free below high water, shared with the results of its round that follow, and at
    least a quarter of the room. It follows from what stands above the result, and of that nothing
    changes until the plan does: what was shown once stays as it is.
    """
    room, count, waiting = plan.room_or(work.room), work.run.count, 1
    free = high_water(room, 0) - sent.above
    for message, call in with_calls(sent.messages[end:]):
        tokens, most = count_message(message, count), room // RESULT_SHARE
        if message.type == "ai":
            waiting = len(calls(message))
        elif call is not None:
            most = max(most, free // max(1, waiting) - _POINTER)
            tokens, waiting = min(tokens, most + _POINTER), waiting - 1
            free -= count_messages([note for _, note in added.get(call, ())], count)
        free -= tokens
        yield most


def _as_sent(work: Turn, turn: StoredTurn, plan: Plan) -> _Sent:
    past, back = turn.number <= plan.after_turn, dict[CallKey, BaseMessage]()
    if turn.id:
        said = as_past(turn.messages) if past else turn.messages
        said = placeholders(work, said, turn.number)
    else:
        running = attached(work, plan)
        said, back = running.messages, {**running.back}
    if work.run.provider and not (past and turn.id):
        said = tuple(  # a provider refuses the thoughts of another one's models
            without_thoughts(message) if by and by != work.run.provider else message
            for message, by in zip(said, _providers(said), strict=True)
        )
    if not past:
        # Newer answers keep their state blocks: the one before them in the context is older.
        within = plan.within if turn.number == plan.after_turn + 1 else 0
        said = each_block_once(said, _block_above(work, plan, turn.number), within)
    return _Sent(turn, said, back)


def anchor_of(work: Turn, plan: Plan) -> Mapping[str, str]:
    """Return the state block that the note has: the newest one when the plan was made."""
    return work.efforts.anchor if plan.anchor is None else plan.anchor


def _block_above(work: Turn, plan: Plan, number: int) -> Mapping[str, str]:
    """Return the newest state block that stands above a turn after the plan, {} for none."""
    if work.run.settings.anchor == "off" or number <= plan.after_turn:
        return {}
    for turn in reversed(work.view.past.turns(range(plan.after_turn + 1, number))):
        events = turn.events[plan.events if turn.number == plan.after_turn + 1 else 0 :]
        blocks: list[Mapping[str, str]] = [
            event["anchor"] for event in events if event["type"] == "anchored"
        ]
        if blocks:
            return blocks[-1]
    return anchor_of(work, plan)


_providers = Growing[Any](
    lambda messages, _: [
        (message.response_metadata or {}).get("model_provider") for message in messages
    ]
)


def _brief_limit(work: Turn, plan: Plan) -> Limits:
    return Limits(texts=plan.room_or(work.room) // _BRIEF_SHARE)
