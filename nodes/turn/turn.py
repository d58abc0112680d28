"""The running turn: what is read of the archive, loaded once, and what is written, once."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from operator import attrgetter, itemgetter
from time import monotonic
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import get_callback_manager_for_config
from langgraph.config import get_config
from langgraph.runtime import Runtime

from ...memory.archive.protocol import Archive
from ...memory.attachments import data_of
from ...memory.banners import banner_of
from ...memory.compressions import Compression
from ...memory.context.budget import TURN_SHARE, room
from ...memory.context.changes import made
from ...memory.context.plan import Plan
from ...memory.context.rounds import left_until
from ...memory.dates import stamp
from ...memory.efforts import EffortState, changes, happened
from ...memory.errors import ArchiveError, InputError, SessionNotFoundError
from ...memory.messages import Message, answered, clean
from ...memory.names import is_qualified, span
from ...memory.recalled import restored, stored
from ...memory.record import (
    ANONYMOUS,
    Event,
    Group,
    Owner,
    Part,
    Record,
    Tip,
    first_round,
    memberships,
)
from ...memory.running_turn import RunningTurn
from ...memory.salience.compress import adoptable
from ...memory.settings import Settings, resolve, user_named
from ...memory.spans import event_of
from ...memory.state_block import as_stored, calls_sent
from ...memory.view import ArchiveView, fence_key, past
from ..ask import Call
from .langchain_messages import to_dicts
from .parts import STEADY, AgentParts, Frame
from .state import SUMMARIES, Bookkeeping, Memory, Texts, TurnState, unpacked, updated

_log = logging.getLogger("ebbtide.archive")

SUMMARY_LENGTH = 80
"""Characters of a summary in the state; the archive has all of it."""

GOAL_LENGTH = 160
"""Characters of a goal or a constraint in the state, which each step of a turn writes again."""

_LEAST_FREE = 256
"""Tokens that a tool's result may have in a full context: fewer could not say anything."""

_NONCE = 16
"""Hexadecimal digits of a nonce that are random: 64 bits. As many tell its user from others."""

_SAVED = frozenset(
    {
        *("turn", "active_effort", "open_efforts", "expanded", "summaries", "anchor"),
        *("window", "compressed", "plan"),
    }
)
"""Keys of the state that are saved with a turn; the others are columns of its row, or of a run."""


@dataclass(frozen=True, slots=True)
class TurnKey:
    """By what a node knows the turn that it runs in: its session, its tip and its nonce."""

    session: Owner
    tip: Tip
    nonce: str


@dataclass(frozen=True, slots=True)
class Turn:
    """The past of a turn, which its user may see, and the secret of its session's fences.

    It is in no channel, so that no client is streamed it. Where it is missing, as in a run that was
    resumed in another process, the next node loads it again.
    """

    past: ArchiveView
    fence_key: bytes
    began: str = field(default_factory=stamp)
    """When it was loaded: what is committed to its session meanwhile was said at the same time."""
    left: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """Messages that left the state, as they were sent, by the id of the last part of them."""
    _stored: dict[int, tuple[BaseMessage, dict[str, Any], Message]] = field(default_factory=dict)
    _plans: dict[str, tuple[Any, Plan | None]] = field(default_factory=dict)
    _read: dict[str, tuple[float, dict[int, Record]]] = field(default_factory=dict)

    def plan(self, packed: Mapping[str, Any] | None) -> Plan | None:
        """Return the plan of the state; the nodes unpack it again only where it changed."""
        known = self._plans.get("newest")
        if known is None or known[0] != packed:
            known = self._plans["newest"] = packed, Plan.unpacked(packed)
        return known[1]

    def read(self) -> dict[int, Record]:
        """Return the committed turns that nodes read, for as long as a turn relies on them."""
        at, records = self._read.get("newest", (0.0, {}))
        if (now := monotonic()) - at > STEADY:
            at, records = self._read["newest"] = now, {}
        return records

    def leave(self, part: str, left: tuple[Message, ...], leaving: Sequence[BaseMessage]) -> None:
        """Keep the messages that left up to a part, and drop those that are leaving now."""
        self.left[part] = left
        for message in leaving:
            self._stored.pop(id(message), None)

    def stored(self, messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
        """Return the running messages as the archive stores them, each converted once.

        A message that was changed meanwhile is converted again.
        """
        plain = []
        for message in messages:
            entry = self._stored.get(id(message))
            fields = vars(message)
            if entry is None or entry[0] is not message or entry[1] != fields:
                (converted,) = as_stored(to_dicts([message]))
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

    messages: tuple[Message, ...] = ()
    events: tuple[Event, ...] = ()


NO_ROUNDS = LeftRounds()


def left_rounds(archive: Archive, owner: Owner, state: TurnState) -> LeftRounds:
    """Return the rounds of a turn that left its state; none, with a warning, if they are gone."""
    last = state.get("part", "")
    if not last:
        return NO_ROUNDS
    parts = archive.parts(owner, last)
    if not parts:
        _log.warning(
            "the archive has no part %s of a running turn of thread %r: it goes on without the "
            "rounds that left its messages",
            last,
            owner.thread,
        )
    return LeftRounds(
        tuple(message for part in parts for message in part.messages),
        tuple(event for part in parts for event in part.events),
    )


def put_back(messages: Sequence[Message], left: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages of a turn with those that left at their place."""
    at = first_round(messages)
    return (*messages[:at], *left, *messages[at:])


def owner_of(state: TurnState, runtime: Runtime[Settings], settings: Settings) -> Owner:
    """Return the session of the run: its user, its thread, and the path of the agent in a graph.

    A run without a thread is a session of its own, named by the nonce of its turn.
    """
    server = runtime.server_info
    if server is not None and server.user is not None:
        configurable = {"langgraph_auth_user": server.user}
    else:
        configurable = get_config().get("configurable", {}) if settings.user_id is None else {}
    info = runtime.execution_info
    thread = info.thread_id if info else None
    namespace = info.checkpoint_ns.split("|")[:-1] if info else []
    path = "|".join([part.split(":")[0] for part in namespace]) if namespace else ""
    user = user_of(settings, configurable)
    name = f"run-{state.get('nonce', '')[:_NONCE]}" if thread is None else str(thread)
    name = name if name.isascii() else clean(name)
    return Owner(user, name, path)


def drawn(archive: Archive, owner: Owner, random: str) -> str:
    """Return the nonce of a turn: random digits, and digits by which its user is told from others.

    Until its first turn is committed nothing else tells whose a thread is.
    """
    return random + archive.keyed_digest(f"{owner.user} {random}")[:_NONCE]


def is_anothers(state: TurnState, archive: Archive, owner: Owner) -> bool:
    """Tell whether a state is of another user of the archive: its last turn, or its first one."""
    tip, nonce = tip_of(state), state.get("command") or state.get("nonce", "")
    if tip.id:
        return archive.at(owner, tip).tip() is None and archive.has_of_another(owner, tip)
    is_ours = state.get("archive") == archive.id
    return bool(nonce) and is_ours and nonce != drawn(archive, owner, nonce[:_NONCE])


def user_of(settings: Settings, configurable: Mapping[str, Any]) -> str:
    """Return the user authenticated by the server, else named by the run; raise `SettingsError`."""
    user = getattr(configurable.get("langgraph_auth_user"), "identity", settings.user_id)
    if user is None:
        user = configurable.get("user_id")
    return ANONYMOUS if user is None or user == "" else user_named(user)


def tip_of(state: TurnState) -> Tip:
    """Return the last turn that this state has committed."""
    return Tip(state.get("persisted", 0), state.get("tip", ""))


def tip_update(tip: Tip) -> dict[str, Any]:
    """Return the update that says which turn was committed last; the inverse of `tip_of`."""
    return {"persisted": tip.turn, "tip": tip.id}


def effort_state(state: TurnState) -> EffortState:
    """Return the part of the state that the memory tools change."""
    return EffortState(
        turn=state.get("turn", 0),
        active=state.get("active_effort"),
        open=cast("Mapping[str, Mapping[str, int]]", state.get("open_efforts", {})),
        expanded=state.get("expanded", {}),
        summaries=cast("Mapping[str, int]", state.get("summaries", {})),
        anchor=state.get("anchor", {}),
        compressed=state.get("compressed", {}),
        events=tuple(state.get("events", ())),
        banners=tuple(state.get("banners", ())),
    )


def traced(state: TurnState) -> dict[str, Any]:
    """Return the metadata of model calls: the turn, and the active effort if there is one."""
    effort = state.get("active_effort")
    return {"ebbtide_turn": state.get("turn", 0)} | ({"ebbtide_effort": effort} if effort else {})


def packed(efforts: EffortState) -> dict[str, Any]:
    """Return the update with the efforts' state; the inverse of `effort_state`."""
    return {
        "active_effort": efforts.active,
        "open_efforts": dict(efforts.open),
        "expanded": dict(efforts.expanded),
        "summaries": dict(efforts.summaries),
        "anchor": dict(efforts.anchor),
        "compressed": dict(efforts.compressed),
        "events": list(efforts.events),
        "banners": list(efforts.banners),
    }


def changed(before: EffortState, after: EffortState, runtime: Runtime[Settings]) -> dict[str, Any]:
    """Return the update of the efforts' state, and stream the banners that are new in it."""
    for banner in after.banners_since(before):
        runtime.stream_writer({"banner": banner})
    return packed(after)


def _saved(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the state that is saved with a turn, without empty values."""
    saved: dict[str, Any] = {}
    for channel, kind in (("memory", Memory), ("bookkeeping", Bookkeeping)):
        for key in kind.__annotations__:
            value = state.get(key)
            if key not in _SAVED or value in (None, {}, ""):
                continue
            if key != "plan" or "anchor" not in value:  # erasing looks for it in one place alone
                saved.setdefault(channel, {})[key] = value
    return saved


def memory_at(archive: Archive, owner: Owner, tip: Tip) -> dict[str, Any]:
    """Return the memory after a turn as it was saved, an empty one before the first turn."""
    place = {"archive": archive.id, "turn": tip.turn, "part": "", **tip_update(tip)}
    row = archive.at(owner, tip).saved()
    state = unpacked(row.state if row else {})
    efforts = effort_state(state)
    texts = texts_of(efforts, past(archive, owner, tip), {})
    return {**state, **packed(efforts), **place, "texts": texts}


def committed(record: Record, last: str) -> dict[str, Any]:
    """Return the update after a commit; `last` is the id of the turn's last message."""
    return {**tip_update(record.tip), "archived": last, "events": []}


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


def question_id(state: TurnState) -> str:
    """Return the id of what the user said last in the running turn, "" for none."""
    turn, asked = state.get("turn"), state.get("asked", {})
    return next((name for name in reversed(asked) if asked[name] == turn), "")


def group(state: TurnState, messages: Sequence[BaseMessage], left: LeftRounds = NO_ROUNDS) -> Group:
    """Return messages of a turn as the archive stores them, with their state blocks.

    Those that left the state are joined with them.
    """
    efforts, dicts = effort_state(state), to_dicts(messages)
    archived = as_archived(dicts, left)
    several = event_of(archived, efforts)
    owners = [name for name, _, _ in several[0]["spans"] if name] if several else []
    return Group(
        turn=efforts.turn,
        messages=archived,
        at=stamp(),
        efforts=tuple(dict.fromkeys([*memberships(efforts.active, efforts.events), *owners])),
        events=(*efforts.events, *several, *left.events, *calls_sent(dicts)),
        status="done" if answered(archived) else "aborted",
        state=_saved(state),
        nonce=state.get("nonce", ""),
        attachments=data_of(map(attrgetter("content"), messages)),
        part=state.get("part", "") if left.messages else "",
    )


def as_archived(messages: Sequence[Message], left: LeftRounds = NO_ROUNDS) -> tuple[Message, ...]:
    """Return the messages of a turn as the archive stores them, those that left the state too."""
    stored_now = tuple(map(_stored, as_stored(messages)))
    return put_back(stored_now, left.messages) if left.messages else stored_now


def _stored(message: Message) -> Message:
    """Return a message without the texts that it quotes, which only results do."""
    return stored(message) if message["type"] == "tool" else message


def command_group(state: TurnState) -> Group:
    """Return the command that waits in the state as the archive stores it."""
    # What the context shows is made anew after it.
    after = _saved({key: value for key, value in state.items() if key != "plan"})
    events, nonce = tuple(state.get("events", ())), state.get("command", "")
    turn = state.get("persisted", 0)
    return Group(turn, (), stamp(), events=events, status="command", state=after, nonce=nonce)


def loaded(state: TurnState, archive: Archive, owner: Owner) -> Turn:
    """Load a turn from the archive.

    Raises `SessionNotFoundError` if its last turn is another user's.
    """
    tip = tip_of(state)
    with archive.together(STEADY):
        found = archive.at(owner, tip).tip() if tip.id else not is_anothers(state, archive, owner)
        if not found:
            raise SessionNotFoundError(owner.thread)
        return Turn(past(archive, owner, tip), fence_key(archive, owner))


def key_of(state: TurnState, runtime: Runtime[Settings], settings: Settings) -> TurnKey:
    """Return by what the nodes of a run know the turn that they run in."""
    return TurnKey(owner_of(state, runtime, settings), tip_of(state), state.get("nonce", ""))


def _carried(key: TurnKey, state: TurnState, parts: AgentParts) -> Turn:
    """Return the turn that runs, loaded if no node of this process has loaded it."""
    with parts.lock:
        turn: Turn | None = parts.turns.get(key)
    if turn is None:
        turn = loaded(state, parts.archive, key.session)
        with parts.lock:
            parts.turns[key] = turn
    return turn


def running_turn(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> RunningTurn:
    """Return the running turn as the memory tools and the context read it."""
    frame = parts.frame(runtime.context, state.get("window"))
    key = key_of(state, runtime, frame.settings)
    turn = _carried(key, state, parts)
    number, efforts = (
        state.get("turn", 0),
        memberships(state.get("active_effort"), state.get("events", ())),
    )
    now = Group(number, _whole(turn, state), at="", efforts=efforts)
    # A turn may run again after its commit; it then follows the turn before it.
    tip = replace(key.tip, turn=min(key.tip.turn, number - 1))
    view = replace(turn.past, tip=tip, running=now, read=turn.read())
    return _work(state, parts, frame, turn, view)


def _whole(turn: Turn, state: TurnState) -> tuple[Message, ...]:
    """Return the messages of the running turn as they were sent, those that left included."""
    messages, last = turn.stored(running(state)), state.get("part", "")
    if not last:
        return messages
    if last not in turn.left:
        view = turn.past
        left = left_rounds(view.archive, view.owner, state).messages
        now = Group(state.get("turn", 0), put_back(messages, left), at="")
        recall = replace(view, running=now).recall  # they may quote the turn itself
        turn.left[last] = tuple(restored(message, recall) for message in left)
    return put_back(messages, turn.left[last])


def leave(
    state: TurnState,
    runtime: Runtime[Settings],
    parts: AgentParts,
    work: RunningTurn | None = None,
) -> dict[str, Any]:
    """Store the rounds that left the prompt as a part of the turn, and take them out of the state.

    None leaves if the archive cannot store them now, nor inside a larger graph, whose other nodes
    read its messages. Call it with the plan of the prompt in the state, or in the turn.
    """
    work = work or running_turn(state, runtime, parts)
    owner, whole = work.view.owner, work.view.running.messages
    stay = owner.namespace or work.settings.messages_window is None
    if stay or work.plan is None or work.plan.rounds is None:
        return {}
    messages, until = running(state), left_until(work.plan.rounds, whole)
    first, gone = first_round(whole), len(whole) - len(messages)
    leaving = messages[first : max(first, until - gone)]
    if not leaving:
        return {}
    before = state.get("part", "") if gone else ""
    said = tuple(map(_stored, whole[first + gone : until]))
    part = Part(state.get("nonce", ""), before, said, calls_sent(to_dicts(leaving)))
    try:
        last = parts.archive.add_part(owner, part)
    except (OSError, ArchiveError) as error:
        _log.warning("rounds of thread %r stay in its messages: %s", owner.thread, error)
        return {}
    turn = _carried(key_of(state, runtime, work.settings), state, parts)
    turn.leave(last, whole[first:until], leaving)
    ids = {message.id for message in leaving}
    return {"part": last, "messages": [m for m in state["messages"] if m.id not in ids]}


def turn_at_rest(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> RunningTurn:
    """Return the turn after its commit, when no message of it is running any more.

    Raises what `loaded` raises.
    """
    frame = parts.frame(runtime.context, state.get("window"))
    turn = loaded(state, parts.archive, owner_of(state, runtime, frame.settings))
    return _work(state, parts, frame, turn, turn.past)


def _work(
    state: TurnState, parts: AgentParts, frame: Frame, turn: Turn, view: ArchiveView
) -> RunningTurn:
    used = state.get("context_report", {}).get("total", 0)
    settings, fixed, refused = frame
    space_left = room(settings.context_budget, fixed)
    return RunningTurn(
        effort_state(state),
        view,
        settings,
        parts.count,
        room=space_left,
        free=max(_LEAST_FREE, settings.context_budget - used, int(TURN_SHARE * space_left) // 2),
        used=max(0, used - fixed),
        plan=turn.plan(state.get("plan")),
        embedder=parts.embedder,
        refused=refused,
        provider=parts.provider,
        laid_out=parts.laid_out,
        fence_key=turn.fence_key,
    )


def planned(work: RunningTurn, before: Plan | None = None) -> dict[str, Any]:
    """Return the update with the plan of the context, if it is another one than before."""
    return {} if work.plan is None or work.plan is before else {"plan": work.plan.packed()}


def costing(work: RunningTurn, calls: Iterable[Call]) -> RunningTurn:
    """Return the turn with an event for each call of a model that was not for an answer."""
    events = tuple(call.as_event() for call in calls)
    return work.put(replace(work.state, events=(*work.state.events, *events)))


def compression_shown(
    work: RunningTurn, compression: Compression, details: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the update with which the context shows a compression; its event has the `details`."""
    names = ("effort", "turn", "through", "method")
    event = {"type": "compressed", **{n: getattr(compression, n) for n in names}, **details}
    first = next(iter(work.view.log_turns(compression.effort)), compression.through)
    turns = span(first, compression.through)
    kind, quotes = ("left_out" if "left_out" in details else "shortened"), details.get("left_out")
    line = banner_of(kind, effort=compression.effort, turns=turns, quotes=quotes)
    work = work.put(happened(work.state, event, line))
    update = packed(work.state)
    plan = made(work, "compressed").packed()
    return {key: update[key] for key in ("compressed", "events", "banners")} | {"plan": plan}


def resumed(state: TurnState, runtime: Runtime[Settings], parts: AgentParts) -> TurnState:
    """Return a recovered state with the compression that was made after its last turn, if any."""
    if not state.get("plan"):
        return state
    compression = adoptable(work := turn_at_rest(state, runtime, parts))
    return (
        state if compression is None else updated(state, compression_shown(work, compression, {}))
    )


def texts_of(efforts: EffortState, view: ArchiveView, known: Texts) -> dict[str, Any]:
    """Return the texts of the efforts in the context: what changed in this turn or is not known.

    Those of other sessions have none: erasing there does not reach the checkpoints of this thread.
    """
    changed = {*map(attrgetter("id"), changes(efforts.events, 0))}
    texts, wanted = dict[str, Any](), list[str]()
    for name in dict.fromkeys([*efforts.open, *[*efforts.summaries][-SUMMARIES:]]):
        if not is_qualified(name):
            texts[name] = known.get(name)
            wanted += [name] if name in changed or name not in known else []
    for effort in view.efforts_named(wanted, efforts.events):
        texts[effort.id] = {
            "goal": _beginning(effort.goal, GOAL_LENGTH),
            "constraints": [_beginning(text, GOAL_LENGTH) for text in effort.constraints],
            "summary": _beginning(effort.summary, SUMMARY_LENGTH),
        }
    return dict(filter(itemgetter(1), texts.items()))


def _beginning(words: str, length: int) -> str:
    """Return the beginning of a text; an ellipsis says that it goes on.

    >>> _beginning("tracking number 4711", 18), _beginning("number 4711", 18)
    ('tracking number 4…', 'number 4711')
    """
    return words if len(words) <= length else f"{words[: length - 1]}…"


def mentioned(efforts: EffortState) -> list[dict[str, Any]]:
    """Return the references of the turn with their reasons; concluding an effort is one too."""
    found: list[dict[str, Any]] = []
    for event in efforts.events:
        if event["type"] == "concluded":
            found.append({"effort": event["effort"], "kind": "tool", "words": ["close_effort"]})
        elif event["type"] == "referenced":
            found.append({key: event[key] for key in ("effort", "kind", "words")})
    return found


_Step = Callable[..., dict[str, Any]]


def spanned(step: _Step) -> _Step:
    """Return a node that tells tracers, in a span inside its own, what it did.

    The span's metadata have the session, the turn, the active effort, the turn's events, and which
    efforts it referenced, with kind and words.
    """

    @wraps(step)
    def run(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
        update = step(state, runtime, parts=parts)
        manager = get_callback_manager_for_config(get_config()).copy()
        if manager.handlers:
            after = updated(state, update)
            owner = owner_of(state, runtime, resolve(runtime.context, parts.settings))
            events = [*(after.get("events") or state.get("events", ()))]
            about = {"ebbtide_session": owner.thread, "ebbtide_events": events, **traced(after)}
            about["ebbtide_references"] = [*(after.get("references") or ())]
            manager.add_metadata(about, inherit=False)
            span = manager.on_chain_start(None, {}, name=f"{step.__name__}.events")
            span.on_chain_end({"events": events})
        return update

    return run
