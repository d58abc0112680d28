"""The running turn: what its nodes load from the archive, once, and what they store, once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime

from ...memory.application import Application, in_effect, open_todos
from ...memory.archive.protocol import Archive
from ...memory.banners import banner_of
from ...memory.context.budget import LEAST_ROOM, TURN_SHARE
from ...memory.context.plan import Plan
from ...memory.context.rounds import left_until
from ...memory.dates import stamp
from ...memory.efforts import EMPTY, ENTRIES
from ...memory.errors import ArchiveError, InputError, SessionNotFoundError
from ...memory.history import numbers_of, question_start
from ...memory.locks import CACHES
from ...memory.messages import answered
from ...memory.put_right import put_right
from ...memory.recalled import restored, stored
from ...memory.running_turn import Converted, Turn
from ...memory.serialised import stored_form
from ...memory.settings import Settings, resolve
from ...memory.spans import event_of
from ...memory.state_block import as_stored, calls_sent
from ...memory.turn import Event, Part, Session, StoredTurn, Tip, first_round, memberships
from ...memory.view import ArchiveView, fences_of, view_at
from .parts import AgentParts
from .session import session_of
from .state import (
    CHANNELS,
    Bookkeeping,
    Memory,
    TurnState,
    efforts_of,
    unpacked,
    updated,
)
from .updates import TEXTS, efforts_update, not_aged, tip_of, tip_update, with_texts

_log = logging.getLogger("ebbtide.archive")

_LEAST_FREE = 256
"""Tokens that a tool's result may have in a full context: fewer could not say anything."""

_READ_CACHE_SECONDS = 2.0
"""Seconds for which a turn relies on what it read of its session, instead of reading it again.

The steps before a model's answer take a few milliseconds. What another process erases meanwhile is
in that call, as it would be in a call that was sent just before. A slower answer expires it.
"""

_SAVED = frozenset(
    {
        *("turn", "active_effort", "open_efforts", "expanded", "summaries", "anchor"),
        *("window", "limit", "plan"),
    }
)
"""Keys of the state that are saved with a turn; the others are columns of its row, or of a run."""


@dataclass(frozen=True, slots=True)
class LeftRounds:
    """Rounds that left `messages`, as they are stored, and the events of the calls that made them.

    They lie in the archive as parts of the running turn. The first answer that is still in
    `messages` stands behind them.
    """

    messages: tuple[BaseMessage, ...] = ()
    events: tuple[Event, ...] = ()


NO_ROUNDS = LeftRounds()


def left_rounds(archive: Archive, session: Session, state: TurnState) -> LeftRounds:
    """Return the rounds of a turn that left its state; none, with a warning, if they are gone."""
    last = state.get("round", "")
    if not last:
        return NO_ROUNDS
    parts = archive.parts(session, last)
    if not parts:
        _log.warning(
            "the archive has no part %s of a running turn of thread %r: it goes on without the "
            "rounds that left its messages",
            last,
            session.thread,
        )
    return LeftRounds(
        tuple(message for part in parts for message in part.messages),
        tuple(event for part in parts for event in part.events),
    )


def put_back(
    messages: Sequence[BaseMessage], left: Sequence[BaseMessage]
) -> tuple[BaseMessage, ...]:
    """Return messages of a turn with those that left at their place."""
    at = first_round(messages)
    return (*messages[:at], *left, *messages[at:])


def _saved(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the state that is saved with a turn, without empty values."""
    saved: dict[str, Any] = {}
    for channel, kind in (("memory", Memory), ("bookkeeping", Bookkeeping)):
        for key in kind.__annotations__:
            value = state.get(key)
            if key not in _SAVED or value in (None, {}, ""):
                continue
            # Erasing looks for texts in one place alone, and what is counted is counted again.
            if key in ENTRIES:
                known = ENTRIES[key].__required_keys__
                value = {
                    name: {field: entry[field] for field in entry if field in known}
                    for name, entry in value.items()
                }
            if key != "plan" or value.keys().isdisjoint({"anchor", "todos"}):
                saved.setdefault(channel, {})[key] = value
    return saved


def memory_at(archive: Archive, session: Session, tip: Tip) -> dict[str, Any]:
    """Return the memory after a turn as it was saved, an empty one before the first turn."""
    place = {"archive": archive.id, "turn": tip.turn, "round": "", **tip_update(tip)}
    view = view_at(archive, session, tip)
    state = unpacked(view.past.saved() or {})
    return {**state, **efforts_update(with_texts(efforts_of(state), view)), **place}


def correction(state: TurnState) -> tuple[str, ...]:
    """Return the banner that names what somebody edited in vain in the memory, if anything."""
    places = [".".join(map(str, path)) for path in state.get("put_right", ())]
    return (banner_of("put_right", places=", ".join(places)),) if places else ()


def corrected(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> TurnState:
    """Return a state that somebody edited put right from the archive.

    What the archive does not have either has its default. A banner names each place.
    """
    if state.keys() <= CHANNELS | {"todos"}:  # there is no memory yet
        return state
    session, tip = session_of(state, runtime, parts.settings_of(runtime.context)), tip_of(state)
    view, wrong = view_at(parts.archive, session, tip), [*state.get("put_right", ())]
    saved: dict[str, Any] = dict(unpacked(view.past.saved() or {}))
    keys, now = (*TEXTS, "anchor"), cast("dict[str, Any]", state)
    right: dict[str, Any] = {key: {**now.get(key, {})} for key in keys}
    wrong += [(key,) for key in (*keys, "active_effort") if key in saved and key not in state]
    for key, *place in wrong:
        before = saved.get(str(key), {})
        if key not in right:
            continue
        if not place:
            right[str(key)] = before
            continue
        name, *field = place
        if name in before:
            value, entry = before[name], right[str(key)].get(name)
            if field and isinstance(value, dict):
                value = {**entry, **{f: value[f] for f in field if f in value}}
            right[str(key)][name] = value
    if ("active_effort",) in wrong and "active_effort" in saved:
        right["active_effort"] = saved["active_effort"]
    state = updated(state, right)
    if tip.id and view.past.tip is None:  # `begin_turn` finds out where it goes on
        return updated(state, {"put_right": tuple(wrong)})
    efforts, contradicted = put_right(efforts_of(state), view, saved.get("open_efforts", {}))
    read, fresh = efforts_update(efforts), efforts_update(with_texts(efforts, view, anew=True))
    wrong += contradicted
    wrong += [
        (key, name, field)
        for key, fields in TEXTS.items()
        for name, entry in read[key].items()
        for field in fields
        if field in entry and entry[field] != fresh[key][name].get(field)
    ]
    if (plan := state.get("plan")) and plan["after_turn"] > state.get("turn", 0):
        fresh["plan"] = None
        wrong.append(("plan",))
    state = updated(state, {**fresh, "put_right": tuple(dict.fromkeys(wrong))})
    banners = dict.fromkeys([*state.get("banners", ()), *correction(state)])
    return updated(state, {"banners": [*banners]})


def read_state(values: Mapping[str, Any], runtime: Any, parts: AgentParts) -> TurnState:
    """Return the state as nodes read it, put right if somebody edited it."""
    state = unpacked(values, parts.secret)
    return state if state.get("memory") else corrected(state, runtime, parts)


def running(state: TurnState) -> list[BaseMessage]:
    """Return the messages of the running turn; raise `InputError` if an edit removed them all."""
    messages: list[BaseMessage] = [*state["messages"]]
    known, turn = state.get("known", ()), state.get("turn", 0)
    numbers, begun = numbers_of(messages, known), [number for *_, number in known]
    turn = turn if turn in begun else max(begun, default=turn)  # somebody edited the number
    start = numbers.index(turn) if turn in numbers else 0
    if turn not in numbers:
        last = (at for at, number in enumerate(numbers, 1) if number is not None)
        start = max(last, default=question_start(messages))
    if start == len(messages):
        raise InputError(len(messages))
    return messages[start:]


def turn_to_store(
    state: TurnState,
    messages: Sequence[BaseMessage],
    left: LeftRounds = NO_ROUNDS,
    *,
    is_done: bool = False,
) -> StoredTurn:
    """Return messages of a turn as the archive stores them, with their state blocks.

    Those that left the state are joined with them. A turn that is neither `is_done` nor answered is
    stored as aborted, with efforts that did not grow older in it.
    """
    efforts = efforts_of(state)
    archived = put_back(tuple(map(stored, as_stored(messages))), left.messages)
    several = event_of(archived, efforts)
    names = [name for name, _, _ in several[0]["spans"] if name] if several else []
    is_done = is_done or answered(archived)
    return StoredTurn(
        number=efforts.turn,
        messages=archived,
        at=stamp(),
        efforts=tuple(dict.fromkeys([*memberships(efforts.active, efforts.events), *names])),
        events=(*efforts.events, *several, *left.events, *calls_sent(messages)),
        status="done" if is_done else "aborted",
        state=_saved(state if is_done else updated(state, not_aged(state))),
        nonce=state.get("nonce", ""),
        part=state.get("round", "") if left.messages else "",
    )


def command_to_store(state: TurnState) -> StoredTurn:
    """Return the command that waits in the state as the archive stores it."""
    # What the context shows is made anew after it.
    after = _saved({key: value for key, value in state.items() if key != "plan"})
    events, nonce = tuple(state.get("events", ())), state.get("command", "")
    turn = state.get("number", 0)
    return StoredTurn(turn, (), stamp(), events=events, status="command", state=after, nonce=nonce)


def load_turn(
    state: TurnState,
    runtime: Runtime[Settings],
    parts: AgentParts,
    view: ArchiveView | None = None,
) -> Turn:
    """Return the turn of a state from what the archive has, without running messages.

    What the last node of the same turn loaded is taken from `AgentParts.turns`, but the state from
    the one given: a run that goes back inside a turn does not see what later nodes made of it.
    Where it is missing, as in a run that was resumed in another process, it is loaded again, if no
    `view` is given. Raises `SessionNotFoundError` if the thread is another user's, or has no such
    turn.
    """
    settings, tip = resolve(runtime.context, parts.settings), tip_of(state)
    session = session_of(state, runtime, settings)
    key, now = (session, tip, state.get("nonce", "")), monotonic()
    with CACHES:
        work: Turn | None = parts.turns.get(key)
    is_known = (
        work and work.view.past.until == tip.turn and now < work.read_at + _READ_CACHE_SECONDS
    )
    if view is None and not is_known:
        view = view_at(parts.archive, session, tip)
        if view.past.owner == "other" or (tip.id and view.past.tip is None):
            raise SessionNotFoundError(session.thread)
    given = parts, settings, state.get("window"), parts.limit_of(runtime, state)
    run = work.run if work else None
    if run is None or run.given != given:
        fences = run.fences if run else fences_of(parts.archive, session, parts.count)
        run = parts.run(runtime.context, given, fences)
    if work is None:
        work = Turn(run, cast("Any", view), EMPTY, room=0, free=0, key=key, began=stamp())
    past, packed, (shown, plan) = (view or work.view).past, state.get("plan"), work.packed
    if shown != packed:
        plan = Plan.unpacked(packed)
    report: Mapping[str, Any] = state.get("context_report", {})
    if not report:  # a larger graph that hands over messages alone does not keep it
        events = [event for turn in past.turns([past.until]) for event in turn.events]
        report = next((event for event in reversed(events) if event["type"] == "sent"), {})
    used, budget, todos = report.get("total", 0), run.settings.context_budget, state.get("todos")
    said = [message for message in state["messages"] if message.type == "system"]
    application = Application()
    if said:
        application = in_effect(said, run.room, LEAST_ROOM, run.fences)
    space_left = run.room - application.tokens
    return replace(
        work,
        run=run,
        view=ArchiveView(parts.archive, session, past),
        read_at=now if view else work.read_at,
        efforts=efforts_of(state),
        room=space_left,
        free=max(_LEAST_FREE, budget - used, int(TURN_SHARE * space_left) // 2),
        used=max(0, used - run.fixed - application.tokens),
        plan=plan,
        packed=(packed, plan),
        application=application,
        todos=open_todos(todos) if todos else "",
    )


def hold(work: Turn, parts: AgentParts) -> None:
    """Keep a running turn for the next node. It is in no channel, lest a client is streamed it."""
    with CACHES:
        parts.turns[work.key] = work


def running_turn(
    state: TurnState,
    runtime: Runtime[Settings],
    parts: AgentParts,
    view: ArchiveView | None = None,
) -> Turn:
    """Return the running turn as the memory tools and the context read it; see `load_turn`.

    Its messages are as they were sent, those that left the state included.
    """
    work = load_turn(state, runtime, parts, view)
    said, number, last = running(state), state.get("turn", 0), state.get("round", "")
    converted = as_archived(said, work.converted)
    messages, left = tuple([converted[id(message)][2] for message in said]), work.left
    # A turn may run again after its commit; it then follows the turn before it.
    view = work.view if work.view.past.until < number else work.view.as_of(number - 1)
    if last and last != work.part:
        left = left_rounds(view.archive, view.session, state).messages
        now = StoredTurn(number, put_back(messages, left), at="")
        recall = replace(view, running=now).recall  # they may quote the turn itself
        left = tuple(restored(message, recall) for message in left)
    if last:
        messages = put_back(messages, left)
    efforts = memberships(work.efforts.active, work.efforts.events)
    view = replace(view, running=StoredTurn(number, messages, at="", efforts=efforts))
    work = replace(work, view=view, converted=converted, part=last, left=left)
    hold(work, parts)
    return work


def as_archived(
    messages: Sequence[BaseMessage], known: Mapping[int, Converted]
) -> dict[int, Converted]:
    """Return messages as the archive stores them, by the identity of each.

    A `known` one is converted again only if it changed meanwhile.
    """
    converted: dict[int, Converted] = {}
    for message in messages:
        entry, fields = known.get(id(message)), vars(message)
        if entry is None or entry[0] is not message or entry[1] != fields:
            (plain,) = as_stored(stored_form([message]))
            # The message is kept too, so that no other one gets its id meanwhile.
            entry = message, dict(fields), plain
        converted[id(message)] = entry
    return converted


def archive_left_rounds(
    state: TurnState,
    runtime: Runtime[Settings],
    parts: AgentParts,
    work: Turn | None = None,
) -> dict[str, Any]:
    """Store the rounds that left the prompt as a part of the turn, and take them out of the state.

    They stay if the archive cannot store them now, and inside a larger graph, whose other nodes
    read its messages. Call it with the plan of the prompt in the state, or in the turn.
    """
    work = work or running_turn(state, runtime, parts)
    session, whole, plan = work.view.session, work.view.running.messages, work.plan
    stay = session.namespace or work.run.settings.messages_window is None
    if stay or plan is None or plan.rounds is None:
        return {}
    if plan.after_turn + 1 != work.view.running.number:  # an earlier turn was cut
        return {}
    messages, until = running(state), left_until(plan.rounds, whole)
    first, gone = first_round(whole), len(whole) - len(messages)
    # What the application says stays, so that it can be removed.
    until = next((at for at in range(first + gone, until) if whole[at].type == "system"), until)
    leaving = messages[first : max(first, until - gone)]
    if not leaving:
        return {}
    before = state.get("round", "") if gone else ""
    said = tuple(map(stored, whole[first + gone : until]))
    part = Part(state.get("nonce", ""), before, said, calls_sent(leaving))
    try:
        last = parts.archive.add_part(session, part)
    except (OSError, ArchiveError) as error:
        _log.warning("rounds of thread %r stay in its messages: %s", session.thread, error)
        return {}
    hold(replace(work, part=last, left=whole[first:until]), parts)
    ids = {message.id for message in leaving}
    return {"round": last, "messages": [m for m in state["messages"] if m.id not in ids]}
