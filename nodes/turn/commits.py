"""Commit turns: what a run left, edited turns once more, a history that no turn has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, ToolMessage
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ...memory.archive.index import language_event
from ...memory.archive.protocol import Archive
from ...memory.archive.rows import mark
from ...memory.attachments import data_of
from ...memory.errors import ArchiveLockedError, TipNotFoundError
from ...memory.history import (
    READ,
    Place,
    align,
    asked_from,
    id_digest,
    known_of,
    question_start,
    sign,
    turns_of,
)
from ...memory.recalled import stored
from ...memory.search.embeddings import Embedder
from ...memory.serialised import digest, stored_form
from ...memory.state_block import as_stored, as_users_see, with_blocks
from ...memory.turn import Session, StoredTurn, Tip
from ...memory.view import ArchiveView, view_at
from .arrivals import Arrival, standing
from .langchain_messages import closed, copied, stored_messages, time_of
from .state import TurnState, updated
from .turn import NO_ROUNDS, left_rounds, memory_at, turn_to_store
from .updates import commit_update, is_running, not_aged, tip_of, tip_update

_BRANCHES = 32
"""Turns with the same end that are tried as the last of a history, the newest first."""

# The next attempt reopens a lost connection, and stores nothing twice. The waits are short because
# the archive has waited for the lock already, and random so that writers do not meet again. A fault
# that outlasts three attempts will stay.
_RETRYING = Retrying(
    retry=retry_if_exception_type((OSError, ArchiveLockedError)),
    stop=stop_after_attempt(3),
    wait=wait_random_exponential(multiplier=0.05, max=0.5),
    reraise=True,
)


def commit(
    archive: Archive, session: Session, tip: Tip, turn: StoredTurn, embedder: Embedder | None = None
) -> StoredTurn:
    """Commit a turn after `tip`, or the turn of `tip` itself once more if it has that number.

    `tip` has its turn's own number, which somebody may have edited in the state. A turn that is
    committed again with other messages begins a new branch. Raises `TipNotFoundError` if the
    archive does not hold the turn of `tip`, and what the archive raises: `OSError` and
    `ArchiveLockedError` only after three attempts, any other error at once.
    """
    if turn.number <= tip.turn and turn.status != "command":
        tip, turn = _replacing(archive, session, tip, turn)
    return _RETRYING(archive.commit, session, tip, turn, embedder)


def _replacing(
    archive: Archive, session: Session, tip: Tip, turn: StoredTurn
) -> tuple[Tip, StoredTurn]:
    """Return the tip before the turn of `tip`, and that turn with the messages of `turn`.

    It keeps its events and efforts, and its status if nothing new happened in it.
    """
    turns = archive.load(session, tip).turns([tip.turn])
    if not turns or turns[-1].number != tip.turn:
        raise TipNotFoundError(tip.id, tip.turn)
    original = turns[-1]
    parent = Tip(original.number - 1, original.parent)
    # The state blocks, which users do not see, as the archive has them.
    hidden = {one.id: one.content for one in original.messages if one.id}
    efforts = tuple(dict.fromkeys((*turn.efforts, *original.efforts)))
    keeps_status = not turn.events and original.status != "erased"
    again = replace(
        turn,
        number=original.number,
        messages=with_blocks(turn.messages, hidden),
        events=(*original.events, *turn.events),
        efforts=efforts if turn.events else original.efforts,
        status=original.status if keeps_status else turn.status,
        nonce=archive.keyed_digest(f"{session} {original.id} {digest(turn.messages)}"),
        origin=original.root,
    )
    return parent, again


def commit_arrival(
    state: TurnState, session: Session, arrived: Arrival, archive: Archive
) -> dict[str, Any]:
    """Commit edited turns and an unfinished one; return the state's update."""
    tip = tip_of(state)
    if arrived.edits:
        tip = _edited(archive, session, tip, arrived)
    # Rounds that left are kept, though an application may have removed all other messages.
    left = left_rounds(archive, session, state) if is_running(state) else NO_ROUNDS
    if not arrived.unfinished and not left.messages:
        return {**tip_update(tip), "events": []}
    return commit_update(
        commit(archive, session, tip, turn_to_store(state, arrived.unfinished, left))
    )


def _edited(archive: Archive, session: Session, tip: Tip, arrived: Arrival) -> Tip:
    """Commit edited turns beside the archived ones, and after them what followed; return the tip.

    Their nonces follow from what is committed, so that a retry commits nothing twice.
    """
    past, after = archive.load(session, tip), None
    for turn in past.commits(range(min(arrived.edits), tip.turn + 1)):
        before = after or Tip(turn.number - 1, turn.parent)
        new = arrived.edits.get(turn.number, {}) if turn.status != "command" else {}
        messages = tuple(
            _as_archived(new[at], one) if at in new else one for at, one in enumerate(turn.messages)
        )
        again = replace(
            turn,
            messages=messages,
            content=None,
            origin=turn.root,
            state=archive.load(session, turn.tip).saved(),
            nonce=archive.keyed_digest(f"{session} {before.id} {turn.id} {digest(messages)}"),
            attachments=data_of(message.content for message in new.values()),
        )
        after = commit(archive, session, before, again).tip
    return after or tip


def _as_archived(message: BaseMessage, original: BaseMessage) -> BaseMessage:
    """Return an edited message as the archive stores it, with the state block of the original."""
    plain = as_stored(stored_form([message]))
    (whole,) = with_blocks(plain, {str(message.id): original.content})
    return stored(whole) if message.type == "tool" else whole


def state_at(archive: Archive, session: Session, tip: Tip, window: int) -> TurnState:
    """Return the state after a turn, with the messages of the last `window` turns.

    System messages of older turns are there too, also those that the application had removed.
    """
    view, turns = view_at(archive, session, tip), cast("dict[int, list[BaseMessage]]", {})
    for turn in view.past.turns(range(max(1, tip.turn - window + 1), tip.turn + 1)):
        if messages := stored_messages(view, turn):
            for message in messages:
                message.id = message.id or str(uuid4())
            turns[turn.number] = messages
    kept = [message for messages in turns.values() for message in messages]
    older = (one for one in view.past.every_turn() if one.number not in turns)
    said = copied([one for turn in older for one in turn.messages if one.type == "system"])
    turns = {0: standing(said, kept), **turns}
    memory = memory_at(archive, session, tip)
    memory.pop("plan", None)  # what is shown may have changed, or no provider has its prefix cached
    messages = [message for some in turns.values() for message in some]
    return updated(memory, {"messages": messages, "known": known_of(turns)})


def recovered(state: TurnState, seen: ArchiveView, window: int) -> TurnState:
    """Return the state of a run; `seen` is the view of its tip.

    A state without memory goes on from the archived turn that its messages end, one whose turn the
    user does not have from the newest of its session. Raises `TipNotFoundError` if it is of another
    archive.
    """
    tip, archive, session = tip_of(state), seen.archive, seen.session
    if (found := seen.past.tip) is not None:
        return updated(state, tip_update(found))
    if not tip.id:
        if "tip" in state and is_running(state):  # the first turn broke off
            return state
        return remembered(state, archive, session, window)
    if state.get("archive", archive.id) != archive.id:
        raise TipNotFoundError(tip.id, tip.turn)
    messages: list[BaseMessage] = [*state.get("messages", [])]
    newest = archive.load(session).tip
    if newest is None:  # the messages are adopted
        return cast("TurnState", {"messages": messages})
    before = state_at(archive, session, newest, window)
    new = messages[question_start(messages) :]
    return updated(before, {"messages": [*before["messages"], *new], "lost": True})


def remembered(state: TurnState, archive: Archive, session: Session, window: int) -> TurnState:
    """Return the state of a thread without memory, as the archive has it; see `recovered`.

    It continues the archived turn that its messages end; without one, the turn that an erasure
    noted for it. Else its state is as it was, with the newest archived turn as `unseen`.
    """
    given: list[BaseMessage] = [*state.get("messages", [])]
    messages = [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in given]
    sent, newest = messages[: asked_from(messages)], archive.load(session)
    if sent and newest.tip and (end := _end(sent, archive, session, newest.tip)) is not None:
        tip, places = end
        known = list[list[Any]]()
        for at, place in sorted(places.items()):
            (archived,) = as_users_see([place.turn.messages[place.at]])
            known.append([id_digest(messages[at].id), sign(archived), place.turn.number])
        memory = memory_at(archive, session, tip)
        return updated(memory, {"messages": messages, "known": known, "whole": True})
    if newest.reseed is not None:
        before = state_at(archive, session, newest.reseed, window)
        return updated(before, {"messages": [*before["messages"], *messages]})
    state = updated(state, {"messages": messages})
    return state if sent or newest.tip is None else updated(state, {"unseen": newest.tip})


def _end(
    sent: Sequence[BaseMessage], archive: Archive, session: Session, newest: Tip
) -> tuple[Tip, dict[int, Place]] | None:
    """Return the turn that a history ends, and the places of its messages; None for no turn.

    The newest branch comes first, then those that have a turn with the end of one of the messages.
    Erased turns and commands that follow the turn are of its past too.
    """
    best = dict[int, Place]()
    tip, most = newest, (-1, 0)
    for end in _branches(sent, archive, session, newest):
        past = archive.load(session, end)
        places = align(sent, past.turns, end.turn)
        same = [at for at, place in places.items() if not place.is_edited]
        if not same or (max(same), len(same)) <= most:
            continue
        best, most, last = places, (max(same), len(same)), places[max(places)].turn
        later = past.turns(range(last.number + 1, min(end.turn, last.number + READ) + 1))
        is_end = all(turn.status == "erased" for turn in later)
        tip = end if is_end else last.tip
        if [*range(min(same), len(sent))] == sorted(same):
            break
    return (tip, best) if best else None


def _branches(
    sent: Sequence[BaseMessage], archive: Archive, session: Session, newest: Tip
) -> Iterator[Tip]:
    yield newest
    marks = [mark([message]) for message in stored_form(sent)]
    ends = archive.ended(session, [*dict.fromkeys(marks)])
    yield from islice((tip for _, tip in ends), _BRANCHES)


def adopted(
    state: TurnState,
    session: Session,
    history: Sequence[BaseMessage],
    archive: Archive,
    language: str,
) -> tuple[TurnState, dict[int, list[BaseMessage]]]:
    """Commit a history as ambient turns; return the state after them, and them by number."""
    tip, numbers = tip_of(state), dict[int, list[BaseMessage]]()
    for said in turns_of(history):
        nonce = archive.keyed_digest(f"{session} {tip.id} {digest(stored_form(said))}")
        turn = closed(said, nonce)
        # A tool answered directly, or with structured output.
        is_done = isinstance(said[-1], ToolMessage) and len(turn) == len(said)
        running = updated(state, {"turn": tip.turn + 1, "nonce": nonce})
        ambient = turn_to_store(running, turn, is_done=is_done)
        if ambient.status == "aborted":
            state = updated(state, not_aged(running))
        # Not filed under today: at the time that its messages carry, or at none.
        ambient = replace(ambient, at=time_of(said), efforts=(), events=language_event(language))
        tip = commit(archive, session, tip, ambient).tip
        numbers[tip.turn] = turn
    update = {**tip_update(tip), "archive": archive.id, "turn": tip.turn, "adopted": len(numbers)}
    return updated(state, update), numbers
