"""Commit turns, commit edited ones again, and find the turn that the messages of a thread end."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ...memory.archive.index import language_event
from ...memory.archive.protocol import Archive
from ...memory.archive.rows import mark
from ...memory.attachments import data_of
from ...memory.errors import ArchiveLockedError, TipNotFoundError
from ...memory.messages import calls
from ...memory.search.embeddings import Embedder
from ...memory.serialised import digest, stored_form
from ...memory.state_block import with_blocks
from ...memory.turn import Session, StoredTurn, Tip
from ...memory.view import ArchiveView, every_turn, view_at
from .arrivals import SplitInput, boundaries, standing, turn_numbers
from .edits import MOST_TURNS, Compared, identity
from .langchain_messages import (
    MADE_HERE,
    accepted,
    closed,
    copied,
    question_start,
    stored_messages,
    time_of,
    with_call_ids,
)
from .state import TurnState, updated
from .turn import NO_ROUNDS, left_rounds, memory_at, turn_to_store
from .updates import commit_update, is_running, not_aged, tip_of, tip_update

_TELLING = 2
"""Turns at the end of a history that tell which one it is, whatever stands before them."""

_ENDS, _ALIKE = 32, 1_000
"""How many of a history's newest messages are tried as the end of an archived turn, and with how
many archived turns of the same end each is compared. Both bound the work for a history that the
archive does not know: it is adopted as a whole."""


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
    # The next attempt reopens a lost connection, and stores nothing twice. The waits are short
    # because the archive has waited for the lock already, and random so that writers do not meet
    # again. A fault that outlasts three attempts will stay.
    retrying = Retrying(
        retry=retry_if_exception_type((OSError, ArchiveLockedError)),
        stop=stop_after_attempt(3),
        wait=wait_random_exponential(multiplier=0.05, max=0.5),
        reraise=True,
    )
    return retrying(archive.commit, session, tip, turn, embedder)


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
    )
    return parent, again


def commit_unfinished(
    state: TurnState, session: Session, arrived: SplitInput, archive: Archive
) -> dict[str, Any]:
    """Commit edited turns and an unfinished one; return the state's update."""
    tip, archived = tip_of(state), dict[str, Any]()
    if arrived.known.edits:
        tip = _edited(archive, session, tip, arrived.known)
    if last := arrived.known.turns.get(tip.turn):
        archived = {"archived": str(last[-1].id)}
    # Rounds that left are kept, though an application may have removed all other messages.
    left = left_rounds(archive, session, state) if is_running(state) else NO_ROUNDS
    if not arrived.unfinished and not left.messages:
        return {**tip_update(tip), **archived, "events": []}
    turn = commit(archive, session, tip, turn_to_store(state, arrived.unfinished, left))
    return commit_update(turn, str(arrived.unfinished[-1].id) if arrived.unfinished else "")


def _edited(archive: Archive, session: Session, tip: Tip, known: Compared) -> Tip:
    """Commit edited turns beside the archived ones, and after them what followed; return the tip.

    Their nonces follow from what is committed, so that a retry commits nothing twice.
    """
    branch, after, edits = archive.load(session, tip), None, known.edits
    for turn in branch.commits(range(min(edits), tip.turn + 1)):
        before = after or Tip(turn.number - 1, turn.parent)
        is_turn = turn.status != "command"
        messages = edits.get(turn.number, turn.messages) if is_turn else turn.messages
        said = known.turns[turn.number] if is_turn and turn.number in edits else ()
        saved = archive.load(session, turn.tip).saved()
        again = replace(
            turn,
            messages=messages,
            content=None,
            state=saved,
            nonce=archive.keyed_digest(f"{session} {before.id} {turn.id} {digest(messages)}"),
            attachments=data_of(message.content for message in said),
        )
        after = commit(archive, session, before, again).tip
    return after or tip


def _before_turn(history: Sequence[BaseMessage], turn: Sequence[BaseMessage]) -> int | None:
    """Return how many messages precede a turn that ends a history, None if the turn does not.

    A history may lack the turn's calls and results.
    """
    start = len(history)
    for message in reversed(turn):
        if start and identity(message) == identity(history[start - 1]):
            start -= 1
        elif start and message.type != "tool" and not calls(message):
            return None
    return start


def state_at(archive: Archive, session: Session, tip: Tip, window: int) -> TurnState:
    """Return the state after a turn, with the messages of the last `window` turns.

    System messages of older turns are there too, also those that the application had removed.
    """
    view, turns = view_at(archive, session, tip), cast("dict[int, list[BaseMessage]]", {})
    for stored in view.turns(range(max(1, tip.turn - window + 1), tip.turn + 1)):
        if messages := stored_messages(view, stored):
            for message in messages:
                message.id = message.id or str(uuid4())
            turns[stored.number] = messages
    messages = [message for turn in turns.values() for message in turn]
    older = (one for one in every_turn(archive, session, tip) if one.number not in turns)
    said = copied([one for turn in older for one in turn.messages if one.type == "system"])
    messages = [*standing(said, messages), *messages]
    memory = memory_at(archive, session, tip)
    memory.pop("plan", None)  # what is shown may have changed, or no provider has its prefix cached
    archived = messages[-1].id if messages else ""
    update = {"messages": messages, "asked": turn_numbers(turns), "archived": archived}
    return updated(memory, update)


def recovered(state: TurnState, seen: ArchiveView, window: int, language: str) -> TurnState:
    """Return the state of a run; restore it from the archive by its messages if it has none.

    `seen` is the view of its tip.

    Commits history that the archive does not know as turns first, to be found in a language too. A
    state whose turn the user does not have goes on from the session's newest turn. Raises
    `TipNotFoundError` if it is of another archive.
    """
    tip, archive, session = tip_of(state), seen.archive, seen.session
    known = seen.past.tip
    if known is not None:
        state = state if known == tip else updated(state, tip_update(known))
        return state if known.turn else _adopted(state, archive, session, language)
    if not tip.id:
        return _adopted(remembered(state, archive, session, window), archive, session, language)
    if state.get("archive", archive.id) != archive.id:
        raise TipNotFoundError(tip.id, tip.turn)
    messages: list[BaseMessage] = [*state.get("messages", [])]
    newest = archive.newest(session)
    if newest is None:
        adopted = _adopted(cast("TurnState", {"messages": messages}), archive, session, language)
        return updated(adopted, {"lost": True})
    before = state_at(archive, session, newest, window)
    new = messages[question_start(messages) :]
    return updated(before, {"messages": [*before["messages"], *new], "lost": True})


def remembered(state: TurnState, archive: Archive, session: Session, window: int) -> TurnState:
    """Return the state, restored from the archive if the thread lost it.

    The thread continues the archived turn that its messages end; without one, the turn that an
    erasure noted for it. Else its state is as it was, with the newest archived turn as `unseen`.
    """
    messages: list[BaseMessage] = [*state.get("messages", [])]
    question = question_start(messages)
    end = _end(messages, question, archive, session)
    if end is None:
        if (noted := archive.reseeding(session)) is not None:
            before = state_at(archive, session, noted, window)
            return updated(before, {"messages": [*before["messages"], *messages]})
        newest = None if question else archive.newest(session)
        return updated(state, {"unseen": newest}) if newest else state
    at, tip = end
    turns = _aligned(messages[: at + 1], archive, session, tip)
    update = {
        "messages": messages,
        "asked": turn_numbers(dict(islice(turns.items(), window))),
        "archived": messages[at].id or "",
    }
    return updated(memory_at(archive, session, tip), update)


def _aligned(
    history: Sequence[BaseMessage], archive: Archive, session: Session, tip: Tip
) -> dict[int, Sequence[BaseMessage]]:
    """Return the turns of a history by their numbers in the archive, newest first."""
    turns: dict[int, Sequence[BaseMessage]] = {}
    plain, end = stored_form(history), len(history)
    numbers = range(max(1, tip.turn - MOST_TURNS + 1), tip.turn + 1)
    for turn in reversed(archive.load(session, tip).turns(numbers)):
        begin = _before_turn(plain[:end], turn.messages)
        if begin is None:
            break
        if begin < end:
            turns[turn.number], end = history[begin:end], begin
    return turns


def _end(
    messages: Sequence[BaseMessage], question: int, archive: Archive, session: Session
) -> tuple[int, Tip] | None:
    """Return the position of the newest message that ends an archived turn, and that turn.

    All messages up to it belong to the past of that turn; the erased turns that follow it are of
    the past too. The user's last question, which begins at `question`, is never such an end:
    whoever tries a failed turn again repeats it.
    """
    plain = stored_form(messages)
    marks = [mark([message]) for message in plain]
    answer = max((n for n, m in enumerate(messages, 1) if isinstance(m, HumanMessage)), default=0)
    ends = [*range(question), *range(answer, len(messages))]
    tips: dict[str, list[Tip]] = {}
    end_marks = list(dict.fromkeys(marks[at] for at in ends))
    for end_mark, tip in archive.ended(session, end_marks) if end_marks else ():
        tips.setdefault(end_mark, []).append(tip)
    for at in islice((end for end in reversed(ends) if marks[end] in tips), _ENDS):
        history = plain[: at + 1]
        for tip in _by_likelihood(archive, session, tips[marks[at]][:_ALIKE], history):
            if _is_past_of(history, archive, session, tip):
                return at, _after_erased(archive, session, tip)
    return None


def _after_erased(archive: Archive, session: Session, tip: Tip) -> Tip:
    """Return the last turn of the branch if all turns after `tip` are erased, else `tip`."""
    newest, end = archive.newest(session), tip
    while newest is not None and end.turn < newest.turn:
        after = archive.load(session, newest).turns([end.turn + 1])
        if not after or after[0].status != "erased" or after[0].parent != end.id:
            return tip
        end = after[0].tip
    return end


def _by_likelihood(
    archive: Archive, session: Session, tips: Sequence[Tip], history: Sequence[BaseMessage]
) -> list[Tip]:
    """Return the turns that may end a history, those whose last message has the same id first."""
    renamed: dict[Tip, bool] = {}
    for tip in tips:
        for turn in archive.load(session, tip).turns([tip.turn]):
            if _before_turn(history, turn.messages) is not None:
                renamed[tip] = _ids(turn.messages[-1:]) != _ids(history[-1:])
    return sorted((tip for tip in tips if tip in renamed), key=renamed.__getitem__)


def _is_past_of(
    history: Sequence[BaseMessage], archive: Archive, session: Session, tip: Tip
) -> bool:
    """Tell whether a history consists of the newest turns up to `tip`.

    It may lack calls and results, which clients do not keep. If it has the last turn with the
    archive's message ids, or the last two turns, earlier turns may be missing, or other messages,
    such as a summary, may replace them.
    """
    end, has_own_ids, matched = len(history), False, 0
    for last in range(tip.turn, 0, -MOST_TURNS):
        numbers = range(max(1, last - MOST_TURNS + 1), last + 1)
        turns = archive.load(session, tip).turns(numbers)
        for turn in reversed(turns):
            start = _before_turn(history[:end], turn.messages)
            if start is None:
                is_telling = has_own_ids or matched >= _TELLING
                return is_telling and _unedited(history[:end], turns)
            matched += bool(turn.messages)
            if end == len(history):
                has_own_ids = {*_ids(history[start:])} <= {*_ids(turn.messages)}
            if start == 0:
                return True
            end = start
    return False


def _unedited(history: Sequence[BaseMessage], turns: Sequence[StoredTurn]) -> bool:
    """Tell whether no message of a history differs from the one of its id in the turns."""
    archived = {m.id: m for turn in turns for m in turn.messages}
    originals = [archived.get(message_id) for message_id in _ids(history)]
    pairs = zip(originals, history, strict=True)
    return all(
        original is None or identity(original) == identity(message) for original, message in pairs
    )


def _ids(messages: Sequence[BaseMessage]) -> list[str | None]:
    return [message.id for message in messages]


def _adopted(state: TurnState, archive: Archive, session: Session, language: str) -> TurnState:
    """Commit the history that the archive does not know as turns; return the state after them."""
    messages: list[Any] = [*state.get("messages", [])]
    ids = [message.id for message in messages]
    archived = ids.index(state["archived"]) + 1 if state.get("archived") in ids else 0
    question = question_start(messages)
    if is_running(state):  # a turn that broke off is no history
        question = min(question, boundaries(messages, state).unfinished)
    if question <= archived:
        return state
    if archived and not any(m.type not in MADE_HERE for m in messages[archived:question]):
        return state  # what other agents said after the turn begins the next one
    before = [with_call_ids(accepted(message)) for message in messages[:question]]
    after, numbers = adopted(state, session, before[archived:], archive, language)
    said = [message for turn in numbers.values() for message in turn]
    update = {
        "messages": [*before[:archived], *said, *messages[question:]],
        "asked": {**state.get("asked", {}), **turn_numbers(numbers)},
    }
    return updated(after, update)


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
    update = {
        **tip_update(tip),
        "archive": archive.id,
        "turn": tip.turn,
        "archived": numbers[tip.turn][-1].id,
        "adopted": len(numbers),
    }
    return updated(state, update), numbers


def adopted_beside(
    state: TurnState, session: Session, arrived: SplitInput, archive: Archive, language: str
) -> tuple[TurnState, SplitInput]:
    """Adopt what stands in no turn of the archive; while a turn runs, the next has it."""
    unknown = [with_call_ids(accepted(message)) for message in arrived.known.unknown]
    if not unknown:
        return state, arrived
    if is_running(state):
        return state, replace(arrived, new=[*unknown, *arrived.new])
    after, numbers = adopted(state, session, unknown, archive, language)
    turns = {**arrived.known.turns, **numbers}
    return after, replace(arrived, known=replace(arrived.known, turns=turns))


def turns_of(history: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
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
