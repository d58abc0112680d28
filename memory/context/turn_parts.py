"""One turn as parts of the context, shown as the plan says."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..messages import Growing, answered, without_thoughts
from ..messages import text as text_of
from ..running_turn import Turn
from ..state_block import each_block_once
from ..tokens import count_message, count_messages
from ..turn import StoredTurn
from ..valid_history import valid_history
from .attached import (
    LOG_TOOLS,
    CallKey,
    attached,
    log_results,
    placeholders,
    turns_of_log,
    with_calls,
)
from .budget import LOGS_SHARE, Part, PartName
from .forms import PREVIEW, as_past, edges, is_whole, shorten_edges
from .insertions import (
    Insertions,
    Load,
    Piece,
    finished_rounds,
    hint_notes,
    insertions_of,
    newest_fitting,
    shown_log_rounds,
    tokens_of,
    with_back,
    with_insertions,
)
from .plan import Plan, Rounds
from .rounds import RESULT_SHARE, cut_turn, hidden, within
from .shortening import (
    UNLIMITED,
    Limits,
    has_files,
    previewed,
    previewed_each,
    shorten_turn,
)

_NOTES_SHARE = 8  # one in how many tokens of the room the hints before a turn that was cut may have


@dataclass(frozen=True, slots=True)
class _Sent:
    """A turn, and its messages as they are sent whole.

    `back` has what its calls brought back, and `known` is how many of its messages the plan knew.
    """

    turn: StoredTurn
    messages: tuple[BaseMessage, ...]
    back: Mapping[CallKey, BaseMessage]
    known: int


def committed_parts(
    work: Turn, stored: StoredTurn, plan: Plan, marker: BaseMessage | None = None
) -> list[Part]:
    """Return a committed turn in parts; they are cached if they depend on its turn alone."""

    def make_parts(stored: StoredTurn) -> list[Part]:
        return turn_parts(work, replace(stored, messages=work.messages(stored)), plan)

    turn, is_next = stored.number, stored.number == plan.after_turn + 1
    noted = _block_above(work, plan, turn)
    form = (
        *(work.run.count, work.run.provider, work.run.refused),
        *(turn <= plan.after_turn, turn <= plan.previews),
        *(plan.short.get(turn), is_whole(stored, plan), plan.room, work.room),
        (plan.rounds, plan.within) if is_next else None,
        *noted.items(),
        finished_rounds(stored, plan),
    )
    is_alone = not _depends_on_others(stored, plan)
    parts = work.once(form, stored, make_parts) if is_alone else make_parts(stored)
    if marker is None:
        return parts
    first, *later = parts or [Part("turns", (), 0)]
    tokens = count_message(marker, work.run.count) + first.tokens
    return [Part("turns", (marker, *first.messages), tokens, turn), *later]


def _depends_on_others(turn: StoredTurn, plan: Plan) -> bool:
    """Tell whether a turn shows logs, or hints at efforts and other turns."""
    for message in turn.messages:
        if message.type == "tool" and message.name in LOG_TOOLS:
            return True
    for event in turn.events if turn.number > plan.after_turn else ():
        if event["type"] == "hinted" or "related" in event:
            return True
    return False


def turn_parts(work: Turn, turn: StoredTurn, plan: Plan) -> list[Part]:
    """Return the parts of a turn: notes before it, its messages, and logs and hints in it.

    The notes may have a quarter of a shortened turn, of any other one the whole room. A note after
    a turn that was broken off says so.
    """
    before: list[BaseMessage] = []
    # Providers want a user's message first.
    kinds = (message.type for message in turn.messages if message.type != "system")
    if turn.messages and next(kinds, "ai") == "ai":
        why = "unasked" if turn.number == 1 else "unasked_later"
        before.append(work.fences.note(render(why)))
    rounds = plan.rounds if turn.number == plan.after_turn + 1 else None
    limit = plan.short.get(turn.number, 4 * plan.room_or(work.room)) // 4
    if rounds is not None and rounds.limits:
        limit = 0 if rounds.bare else plan.room_or(work.room) // _NOTES_SHARE
    for event in turn.events if turn.number > plan.after_turn else ():
        if event["type"] == "dated":
            notes = [work.fences.note(render("today", day=event["day"]))]
        elif event["type"] == "hinted":
            notes = hint_notes(work, turn, event["hints"])
        else:
            continue
        limit -= count_messages(notes, work.run.count)
        before += notes if limit >= 0 else []
    name: PartName = "turn" if turn.number == work.view.running.number else "turns"
    notes_tokens = count_messages(before, work.run.count) if before else 0
    pieces = [*zip(repeat(name), before), *_pieces(work, turn, plan, name, notes_tokens)]
    if turn.id and turn.is_aborted:
        pieces.append((name, work.fences.note(render("broken_off", turn=turn.number))))
    parts: list[Part] = []
    for part_name, same_part in groupby(pieces, key=itemgetter(0)):
        parts.append(Part.of(part_name, map(itemgetter(1), same_part), work.run.count, turn.number))
    return parts


def _pieces(
    work: Turn, turn: StoredTurn, plan: Plan, name: PartName, notes: int
) -> Iterator[Piece]:
    """Yield a turn's messages with the logs and hints in it, shortened as the plan says.

    `notes` are the tokens of the notes before it, which count towards its limit.
    """
    sent = _as_sent(work, turn, plan)
    if not is_whole(turn, plan):
        yield from _edge_pieces(work, turn, plan, sent.messages)
        return
    end, loaded = 0, frozenset[Load]()
    if plan.rounds is not None and turn.number == plan.after_turn + 1:
        end = min(plan.rounds.until, len(sent.messages))  # an application may have removed some
        insertions = _insertions_of_cut(work, sent, plan, plan.rounds, end)
        # What came until the plan was made may say what else is active.
        so_far = replace(turn, messages=turn.messages[: max(end, plan.within)])
        room = plan.room_or(work.room)
        cut = cut_turn(so_far, sent.messages[:end], plan.rounds, room, work.fences)
        yield from with_insertions(cut, insertions, name)
        loaded = frozenset(load for one in insertions.values() for load in one.loaded)
    elif (limit := plan.short.get(turn.number)) is not None:
        limit = max(1, limit - notes)
        insertions = _insertions_of_short(work, sent, plan, limit)
        limit -= sum(tokens_of(work, one) for one in insertions.values())
        yield from with_insertions(_shortened(work, turn, sent.messages, limit), insertions, name)
        return
    shown, finished = _messages_after(work, sent, plan, end), finished_rounds(turn, plan)
    if finished:
        shown = tuple(message for at, message in enumerate(shown, end) if at not in finished)
    places = range(end, len(turn.messages))
    rest = _without(turn, places, finished) if end or finished else turn
    insertions = insertions_of(work, rest, plan, max(0, sent.known - end), loaded)
    if insertions or sent.back:
        insertions = with_back(insertions, rest, sent.back)
    history = valid_history(shown, work.fences)
    yield from (
        with_insertions(history, insertions, name) if insertions else zip(repeat(name), history)
    )


def _insertions_of_cut(work: Turn, sent: _Sent, plan: Plan, cut: Rounds, end: int) -> Insertions:
    """Return the insertions in the part of a turn that is cut, which goes to the place `end`."""
    # Of calls with one id a call is told by how many of those that are shown come after it.
    away = hidden(sent.turn.messages[:end], cut)
    head, early = (_without(sent.turn, range(to), away) for to in (end, min(end, sent.known)))
    insertions = insertions_of(work, head, plan, len(early.messages), frozenset())
    if cut.limits or cut.bare:
        free = 0 if cut.bare else int(LOGS_SHARE * plan.room_or(work.room))
        insertions = newest_fitting(insertions, free, work)
    return with_back(insertions, head, _back_in(sent, head)) if sent.back else insertions


def _back_in(sent: _Sent, head: StoredTurn) -> dict[CallKey, BaseMessage]:
    """Return what the calls in some messages of a turn brought back, by their keys in these."""
    kept = {id(message): call for message, call in with_calls(head.messages)}
    pairs = ((kept.get(id(one)), call) for one, call in with_calls(sent.turn.messages))
    return {
        own: sent.back[call]
        for own, call in pairs
        if own is not None and call is not None and call in sent.back
    }


def _insertions_of_short(work: Turn, sent: _Sent, plan: Plan, limit: int) -> Insertions:
    """Return the insertions in a turn that is shortened to `limit` tokens: half of them at most."""
    insertions = insertions_of(work, sent.turn, plan, sent.known, frozenset())
    return newest_fitting(insertions, limit // 2, work)


def shown_logs(work: Turn, plan: Plan, number: int) -> frozenset[Load]:
    """Return what the logs in a turn show that came into it before the plan was made."""
    turn = _turn(work, number)
    is_next = number == plan.after_turn + 1
    cut, limit, begin = plan.rounds if is_next else None, plan.short.get(number), 0
    loads = frozenset[Load]()
    if cut is not None:
        sent = _as_sent(work, turn, plan)
        begin = min(cut.until, len(sent.messages))
        insertions = _insertions_of_cut(work, sent, plan, cut, begin)
        loads = frozenset(load for one in insertions.values() for load in one.loaded)
    elif limit is not None:
        if not is_whole(turn, plan):
            return loads
        insertions = _insertions_of_short(work, _as_sent(work, turn, plan), plan, limit)
        return frozenset(load for one in insertions.values() for load in one.loaded)
    later = turn.messages[begin : plan.within if is_next else None]
    results = (result for _, _, result in log_results(later))
    return loads | {(one["effort_id"], turn) for one in results for turn in turns_of_log(one)}


def _turn(work: Turn, number: int) -> StoredTurn:
    """Return a turn with its messages."""
    if number == work.view.running.number:
        return work.view.running
    turn = work.view.turns([number])[0]
    return replace(turn, messages=work.messages(turn))


def _messages_after(work: Turn, sent: _Sent, plan: Plan, end: int) -> tuple[BaseMessage, ...]:
    """Return the messages of a turn from a place on, with previews of long results."""
    turn, messages = sent.turn, sent.messages
    most = PREVIEW if turn.number <= plan.previews else plan.room_or(work.room) // RESULT_SHARE
    limits = [UNLIMITED] * end + [Limits(most)] * (len(messages) - end)
    shown = previewed_each(turn, messages, limits, work.run.count)[end:]
    if turn.id or shown == messages[end:]:
        return shown
    # Whether its attachments are sent was decided for the turn.
    return tuple(
        old if has_files(old) and work.run.count(text_of(old)) <= most else new
        for old, new in zip(messages[end:], shown, strict=True)
    )


def _without(turn: StoredTurn, places: range, away: Collection[int]) -> StoredTurn:
    """Return a turn with the messages at some places, without those that are away."""
    return replace(turn, messages=tuple(turn.messages[at] for at in places if at not in away))


def _as_sent(work: Turn, turn: StoredTurn, plan: Plan) -> _Sent:
    """Return a turn as it is sent whole."""
    past, back = turn.number <= plan.after_turn, dict[CallKey, BaseMessage]()
    if turn.id:
        said = as_past(turn.messages) if past else turn.messages
        said = placeholders(work, said, turn.number)
    else:
        running = attached(work, plan)
        said, back = running.messages, {**running.back}
    if work.run.provider and not (past and turn.id):
        said = _without_foreign_thoughts(work, said)
    if not past:
        # Newer answers keep their state blocks: the one before them in the context is older.
        within = plan.within if turn.number == plan.after_turn + 1 else 0
        said = each_block_once(said, _block_above(work, plan, turn.number), within)
    known = len(turn.messages) if past else 0
    if turn.number == plan.after_turn + 1:
        known = plan.within
    return _Sent(turn, said, back, known)


def anchor_of(work: Turn, plan: Plan) -> Mapping[str, str]:
    """Return the state block that the note has: the newest one when the plan was made."""
    return work.efforts.anchor if plan.anchor is None else plan.anchor


def _block_above(work: Turn, plan: Plan, number: int) -> Mapping[str, str]:
    """Return the newest state block that stands above a turn after the plan, {} for none."""
    if work.run.settings.anchor == "off" or number <= plan.after_turn:
        return {}
    for turn in reversed(work.view.turns(range(plan.after_turn + 1, number))):
        events = turn.events[plan.events if turn.number == plan.after_turn + 1 else 0 :]
        blocks: list[Mapping[str, str]] = [
            event["anchor"] for event in events if event["type"] == "anchored"
        ]
        if blocks:
            return blocks[-1]
    return anchor_of(work, plan)


def _shortened(
    work: Turn, turn: StoredTurn, messages: Sequence[BaseMessage], limit: int
) -> tuple[BaseMessage, ...]:
    """Return a past turn within `limit` tokens; one that was broken off has no answer."""
    if answered(messages):
        return shorten_turn(turn, messages, limit, work.fences)
    return within(turn, messages, limit, work.room, work.fences)


def _without_foreign_thoughts(
    work: Turn, messages: Sequence[BaseMessage]
) -> tuple[BaseMessage, ...]:
    """Return messages without the thoughts of other providers' models, which refuse them."""
    providers = _providers(messages)
    if {*providers} <= {None, "", work.run.provider}:
        return tuple(messages)
    return tuple(
        without_thoughts(message) if by and by != work.run.provider else message
        for message, by in zip(messages, providers, strict=True)
    )


_providers = Growing[Any](
    lambda messages, _: [
        (message.response_metadata or {}).get("model_provider") for message in messages
    ]
)


def _edge_pieces(
    work: Turn, turn: StoredTurn, plan: Plan, messages: Sequence[BaseMessage]
) -> Iterator[Piece]:
    """Yield request and final answer of a past turn, and the rounds that brought a log back."""
    if turn.number in plan.short:
        limit = plan.short[turn.number]
        for message in shorten_edges(turn, messages, limit, work.fences):
            yield "turns", message
        return
    if turn.number <= plan.previews:
        messages = previewed(turn, messages, Limits(PREVIEW), work.run.count)
    kept = sorted({*edges(messages), *shown_log_rounds(turn, plan)})
    part = replace(turn, messages=tuple(turn.messages[at] for at in kept))
    insertions = insertions_of(work, part, plan, len(kept), frozenset())
    history = valid_history([messages[at] for at in kept], work.fences)
    yield from with_insertions(history, insertions, "turns")
