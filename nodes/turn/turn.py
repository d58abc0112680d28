"""The running turn: what its nodes load from the archive, once, and what they store, once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime

from ...memory.application import Application, in_effect, open_todos
from ...memory.archive.protocol import Archive
from ...memory.banners import banner_of
from ...memory.context.budget import LEAST_ROOM, TURN_SHARE, room
from ...memory.context.plan import Plan
from ...memory.context.rounds import left_until
from ...memory.dates import stamp
from ...memory.errors import ArchiveError, InputError, SessionNotFoundError
from ...memory.fences import Fences
from ...memory.locks import CACHES
from ...memory.messages import answered
from ...memory.put_right import put_right
from ...memory.recalled import restored, stored
from ...memory.running_turn import Turn
from ...memory.serialised import stored_form
from ...memory.settings import Settings
from ...memory.spans import event_of
from ...memory.state_block import as_stored, calls_sent
from ...memory.turn import Event, Part, Session, StoredTurn, Tip, first_round, memberships
from ...memory.view import ArchiveView, fences_of, view_at
from .parts import READ_CACHE_SECONDS, AgentParts
from .session import session_of
from .state import ENTRIES, TEXTS, Bookkeeping, Memory, TurnState, efforts_of, unpacked, updated
from .updates import efforts_update, not_aged, tip_of, tip_update, with_texts

_log = logging.getLogger("ebbtide.archive")

_LEAST_FREE = 256
"""Tokens that a tool's result may have in a full context: fewer could not say anything."""

_SAVED = frozenset(
    {
        *("turn", "active_effort", "open_efforts", "expanded", "summaries", "anchor"),
        *("window", "limit", "plan"),
    }
)
"""Keys of the state that are saved with a turn; the others are columns of its row, or of a run."""


@dataclass(frozen=True, slots=True)
class TurnKey:
    """By what a node knows the turn that it runs in: its session, its tip and its nonce."""

    session: Session
    tip: Tip
    nonce: str


@dataclass(slots=True)
class TurnCache:
    """What the nodes of a turn share: the view of its past, its session's fences, conversions.

    It is in no channel, so that no client is streamed it. Where it is missing, as in a run that was
    resumed in another process, the next node loads it again.
    """

    view: ArchiveView
    fences: Fences
    read_at: float = field(default_factory=monotonic)
    """When the view was loaded; see `READ_CACHE_SECONDS`."""
    began: str = field(default_factory=stamp)
    """When it was loaded: what is committed to its session meanwhile was said at the same time."""
    left: dict[str, tuple[BaseMessage, ...]] = field(default_factory=dict)
    """Messages that left the state, as they were sent, by the id of the last part of them."""
    _stored: dict[int, tuple[BaseMessage, dict[str, Any], BaseMessage]] = field(
        default_factory=dict
    )
    _plan: tuple[Any, Plan | None] | None = None

    def plan(self, packed: Mapping[str, Any] | None) -> Plan | None:
        """Return the plan of the state; the nodes unpack it again only where it changed."""
        known = self._plan
        if known is None or known[0] != packed:
            known = self._plan = packed, Plan.unpacked(packed)
        return known[1]

    def seen(self) -> ArchiveView:
        """Return the view of what was committed before the turn, loaded again now and then."""
        if (now := monotonic()) - self.read_at > READ_CACHE_SECONDS:
            self.view, self.read_at = (
                view_at(self.view.archive, self.view.session, self.view.tip),
                now,
            )
        return self.view

    def keep_left(
        self, part: str, left: tuple[BaseMessage, ...], leaving: Sequence[BaseMessage]
    ) -> None:
        """Keep the messages that left up to a part, and drop those that are leaving now."""
        self.left[part] = left
        for message in leaving:
            self._stored.pop(id(message), None)

    def stored(self, messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
        """Return the running messages as the archive stores them, each converted once.

        A message that was changed meanwhile is converted again.
        """
        plain = []
        for message in messages:
            entry = self._stored.get(id(message))
            fields = vars(message)
            if entry is None or entry[0] is not message or entry[1] != fields:
                (converted,) = as_stored(stored_form([message]))
                # The message is kept too, so that no other one gets its id meanwhile.
                entry = self._stored[id(message)] = message, dict(fields), converted
            plain.append(entry[2])
        return tuple(plain)


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
    last = state.get("part", "")
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
    place = {"archive": archive.id, "turn": tip.turn, "part": "", **tip_update(tip)}
    view = view_at(archive, session, tip)
    state = unpacked(view.past.saved() or {})
    return {**state, **efforts_update(with_texts(efforts_of(state), view)), **place}


def correction(state: TurnState) -> tuple[str, ...]:
    """Return the banner that names what somebody edited in vain in the memory, if anything."""
    places = [".".join(map(str, path)) for path in state.get("put_right", ())]
    return (banner_of("put_right", places=", ".join(places)),) if places else ()


def read_state(
    values: Mapping[str, Any], runtime: Runtime[Settings], parts: AgentParts
) -> TurnState:
    """Return the state as nodes read it; if somebody edited it, put right from the archive.

    What the archive does not have either has its default. A banner names each place.
    """
    state, tip = unpacked(values, parts.secret), Tip()
    if state.get("memory") or not (values.get("memory") or values.get("bookkeeping")):
        return state
    session, tip = session_of(state, runtime, parts.settings_of(runtime.context)), tip_of(state)
    view, wrong = view_at(parts.archive, session, tip), [*state.get("put_right", ())]
    saved: dict[str, Any] = dict(unpacked(view.past.saved() or {}))
    keys, now = (*TEXTS, "anchor"), cast("dict[str, Any]", state)
    right: dict[str, Any] = {key: {**now.get(key, {})} for key in keys}
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
    if ("active_effort",) in wrong and saved.get("active_effort") in right["open_efforts"]:
        right["active_effort"] = saved["active_effort"]
    state = updated(state, right)
    if tip.id and view.past.tip is None:  # `begin_turn` finds out where it goes on
        return updated(state, {"put_right": tuple(wrong)})
    efforts, contradicted = put_right(efforts_of(state), view)
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


def running(state: TurnState) -> list[BaseMessage]:
    """Return the messages of the running turn; raise `InputError` if an edit removed them all."""
    messages: list[BaseMessage] = [*state["messages"]]
    turn, asked, start = state.get("turn", 0), state.get("asked", {}), 0
    for at, message in enumerate(messages):
        if asked.get(message.id or "") == turn:
            start = at
            break
        if message.id == state.get("archived"):
            start = start or at + 1
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
        part=state.get("part", "") if left.messages else "",
    )


def command_to_store(state: TurnState) -> StoredTurn:
    """Return the command that waits in the state as the archive stores it."""
    # What the context shows is made anew after it.
    after = _saved({key: value for key, value in state.items() if key != "plan"})
    events, nonce = tuple(state.get("events", ())), state.get("command", "")
    turn = state.get("persisted", 0)
    return StoredTurn(turn, (), stamp(), events=events, status="command", state=after, nonce=nonce)


def load_cache(state: TurnState, parts: AgentParts, session: Session) -> TurnCache:
    """Load what the nodes of a turn share from the archive.

    Raises `SessionNotFoundError` if the thread is another user's, or has no such turn.
    """
    archive = parts.archive
    tip = tip_of(state)
    view = view_at(archive, session, tip)
    if view.past.owner == "other" or (tip.id and view.past.tip is None):
        raise SessionNotFoundError(session.thread)
    return TurnCache(view, fences_of(archive, session, parts.count))


def key_of(state: TurnState, runtime: Runtime[Settings], settings: Settings) -> TurnKey:
    """Return by what the nodes of a run know the turn that they run in."""
    return TurnKey(session_of(state, runtime, settings), tip_of(state), state.get("nonce", ""))


def keep_view(view: ArchiveView, state: TurnState, parts: AgentParts) -> None:
    """Keep the view of what was committed before a turn for the nodes of the turn."""
    key = TurnKey(view.session, tip_of(state), state.get("nonce", ""))
    cache = TurnCache(view, fences_of(parts.archive, view.session, parts.count))
    with CACHES:
        parts.turn_caches[key] = cache


def expire_view(key: TurnKey, parts: AgentParts) -> None:
    """Let the next node load the past again: a compression was stored that it does not have."""
    with CACHES:
        if cache := parts.turn_caches.get(key):
            cache.read_at = -inf


def _cache_of(key: TurnKey, state: TurnState, parts: AgentParts) -> TurnCache:
    """Return the cache of the turn that runs, loaded if no node of this process has loaded it."""
    with CACHES:
        cache: TurnCache | None = parts.turn_caches.get(key)
    if cache is None:
        cache = load_cache(state, parts, key.session)
        with CACHES:
            parts.turn_caches[key] = cache
    return cache


def running_turn(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> Turn:
    """Return the running turn as the memory tools and the context read it."""
    settings = parts.run_settings(runtime, state)
    key = key_of(state, runtime, settings)
    cache, number = _cache_of(key, state, parts), state.get("turn", 0)
    efforts = memberships(state.get("active_effort"), state.get("events", ()))
    now = StoredTurn(number, _with_left(cache, state), at="", efforts=efforts)
    # A turn may run again after its commit; it then follows the turn before it.
    view = replace(cache.seen().as_of(number - 1), running=now)
    return _running_turn(state, parts, settings, cache, view)


def _with_left(cache: TurnCache, state: TurnState) -> tuple[BaseMessage, ...]:
    """Return the messages of the running turn as they were sent, those that left included."""
    messages, last = cache.stored(running(state)), state.get("part", "")
    if not last:
        return messages
    if last not in cache.left:
        view = cache.view
        left = left_rounds(view.archive, view.session, state).messages
        now = StoredTurn(state.get("turn", 0), put_back(messages, left), at="")
        recall = replace(view, running=now).recall  # they may quote the turn itself
        cache.left[last] = tuple(restored(message, recall) for message in left)
    return put_back(messages, cache.left[last])


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
    session, whole = work.view.session, work.view.running.messages
    stay = session.namespace or work.run.settings.messages_window is None
    if stay or work.plan is None or work.plan.rounds is None:
        return {}
    messages, until = running(state), left_until(work.plan.rounds, whole)
    first, gone = first_round(whole), len(whole) - len(messages)
    # What the application says stays, so that it can be removed.
    until = next((at for at in range(first, until) if whole[at].type == "system"), until)
    leaving = messages[first : max(first, until - gone)]
    if not leaving:
        return {}
    before = state.get("part", "") if gone else ""
    said = tuple(map(stored, whole[first + gone : until]))
    part = Part(state.get("nonce", ""), before, said, calls_sent(leaving))
    try:
        last = parts.archive.add_part(session, part)
    except (OSError, ArchiveError) as error:
        _log.warning("rounds of thread %r stay in its messages: %s", session.thread, error)
        return {}
    cache = _cache_of(key_of(state, runtime, work.run.settings), state, parts)
    cache.keep_left(last, whole[first:until], leaving)
    ids = {message.id for message in leaving}
    return {"part": last, "messages": [m for m in state["messages"] if m.id not in ids]}


def load_turn(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> Turn:
    """Return the last turn as it was committed, without running messages.

    Raises what `load_cache` raises.
    """
    settings = parts.run_settings(runtime, state)
    cache = load_cache(state, parts, session_of(state, runtime, settings))
    return _running_turn(state, parts, settings, cache, cache.view)


def _running_turn(
    state: TurnState, parts: AgentParts, settings: Settings, cache: TurnCache, view: ArchiveView
) -> Turn:
    report: Mapping[str, Any] = state.get("context_report", {})
    if not report:  # a larger graph that hands over messages alone does not keep it
        events = [event for turn in view.turns([view.tip.turn]) for event in turn.events]
        report = next((event for event in reversed(events) if event["type"] == "sent"), {})
    used = report.get("total", 0)
    run = parts.run(settings, cache.fences)
    said = [message for message in state["messages"] if message.type == "system"]
    space_left = room(settings.context_budget, run.fixed)
    application, todos = Application(), state.get("todos")
    if said:
        application = in_effect(said, space_left, LEAST_ROOM, cache.fences)
    fixed, space_left = run.fixed + application.tokens, space_left - application.tokens
    return Turn(
        run,
        view,
        efforts_of(state),
        room=space_left,
        free=max(_LEAST_FREE, settings.context_budget - used, int(TURN_SHARE * space_left) // 2),
        used=max(0, used - fixed),
        plan=cache.plan(state.get("plan")),
        application=application,
        todos=open_todos(todos) if todos else "",
    )
