"""The prompt of a past call, made again from its plan and the archive.

What is made again is exact if its digest is that of what was sent.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, cast

from langchain_core.messages import BaseMessage

from ..memory.application import noted, open_todos
from ..memory.archive.protocol import Archive
from ..memory.context.budget import Part, fixed_parts
from ..memory.context.fit import WorkingContext, assemble
from ..memory.context.plan import Plan
from ..memory.efforts import Efforts, happened
from ..memory.errors import ArchiveError, EbbtideError, TurnNotFoundError
from ..memory.messages import calls, text
from ..memory.running_turn import Run, Turn
from ..memory.serialised import fingerprint
from ..memory.settings import Settings
from ..memory.tokens import REPLY_OVERHEAD, count_message, count_tools, exact
from ..memory.transcript import role, speaker
from ..memory.turn import Event, Session, StoredTurn, Tip, memberships
from ..memory.view import fences_of, view_at
from ..nodes.turn.state import TurnState, efforts_of
from ..nodes.turn.turn import memory_at

_CHANGED = (
    "another middleware changed the request, what it was made of was edited or erased, or another "
    "version rendered it"
)


class NoCallError(ArchiveError, LookupError):
    """A turn has no such call, or the archive does not keep what it was made of."""


def prompt(archive: Archive, session: Session, tip: Tip, turn: int, call: int) -> dict[str, Any]:
    """Return the messages of a call, each as it stood in the call before, came, or left.

    `call` counts from 0. Raises `TurnNotFoundError`, `NoCallError`.
    """
    place = turn, call
    context, tools, event = _context(archive, session, tip, place)
    is_exact = fingerprint([context.sent]) == event.get("digest")
    try:
        before = _before(archive, session, tip, place)
        earlier = _lines(*_context(archive, session, tip, before)[:2])
    except EbbtideError:
        earlier = []
    messages = [*_compared(earlier, _lines(context, tools))]
    return {
        "exact": is_exact,
        "why": "" if is_exact else _CHANGED,
        "beside": Counter(message["change"] for message in messages),
        "messages": messages,
    }


def listed(
    archive: Archive, session: Session, tip: Tip, turns: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the prompts of all calls of these turns, each of their messages once in `lines`."""
    places: dict[str, int] = {}
    lines: list[Mapping[str, Any]] = []
    found: dict[str, Any] = {}
    for number, call in ((turn["turn"], at) for turn in turns for at in range(len(turn["calls"]))):
        try:
            made = prompt(archive, session, tip, number, call)
        except NoCallError as error:
            found[f"{number}/{call}"] = {"missing": str(error)}
            continue
        messages = []
        for line in made["messages"]:
            content = {key: line[key] for key in line if key not in {"change", "part"}}
            place = places.setdefault(fingerprint(content), len(lines))
            if place == len(lines):
                lines.append(content)
            messages.append((place, line["change"], line["part"]))
        found[f"{number}/{call}"] = {**made, "messages": messages}
    return {"lines": lines, "prompts": found}


def _context(
    archive: Archive, session: Session, tip: Tip, place: tuple[int, int]
) -> tuple[WorkingContext, Any, Event]:
    """Return the prompt of a call as it is made now, its tools, and the event that tells of it."""
    number, call = place
    turn = _record(archive, session, tip, number)
    sent = [event for event in turn.events if event["type"] == "sent"]
    answers = [at for at, message in enumerate(turn.messages) if message.type == "ai"]
    if not 0 <= call < min(len(sent), len(answers)):
        raise NoCallError(f"turn {number} has {len(sent)} calls whose prompt can be made again")
    event = sent[call]
    before = Tip(number - 1, turn.parent)
    state = _state(archive, session, before, turn, event)
    messages = view_at(archive, session, turn.tip).messages(turn)[: answers[call]]
    running = StoredTurn(number, messages, "", memberships(state.active, state.events))
    plan = _plan(archive, session, before, event)
    said: list[BaseMessage] = []
    if plan.application or plan.todos:
        said = [m for one in archive.load(session, before).every_turn() for m in one.messages]
    said += messages
    args = (call.get("args") for one in said for call in calls(one))
    lists = (open_todos(one.get("todos")) for one in args if isinstance(one, Mapping))
    todos = {fingerprint(one): one for one in lists}
    plan = replace(plan, todos=todos.get(plan.todos, ""))
    settings = Settings(context_budget=event.get("budget", Settings().context_budget))
    work = Turn(
        Run(settings, exact, fences_of(archive, session, exact)),
        replace(view_at(archive, session, before), running=running),
        state,
        room=plan.room,
        free=0,
        plan=plan,
        application=noted(plan.application, said),
    )
    fixed, tools = _fixed(archive, session, turn, event)
    return assemble(work, fixed), tools, event


def _record(archive: Archive, session: Session, tip: Tip, number: int) -> StoredTurn:
    turns = archive.load(session, tip).turns([number])
    if not turns:
        raise TurnNotFoundError(number, tip.turn)
    return turns[0]


def _state(
    archive: Archive, session: Session, before: Tip, turn: StoredTurn, event: Event
) -> Efforts:
    """Return the efforts as they were when the call was made."""
    state = _saved(archive, session, before) if before.id else Efforts(0, None, {}, {}, {})
    state = replace(state, turn=turn.number, events=(), banners=())
    if state.active is not None:
        state = state.activated(state.active)
    for change in turn.events[: event.get("after_events", 0)]:
        state = happened(state, change)
    return state


def _saved(archive: Archive, session: Session, tip: Tip) -> Efforts:
    return efforts_of(cast("TurnState", memory_at(archive, session, tip)))


def _plan(archive: Archive, session: Session, before: Tip, event: Event) -> Plan:
    """Return the plan of the call, with the state block that it still showed."""
    plan = Plan.unpacked(event.get("plan"))
    if plan is None:
        raise NoCallError("the archive does not have the plan of this call")
    if plan.anchor is None:
        return plan
    made_after = replace(before, turn=min(before.turn, plan.after_turn))
    return replace(plan, anchor=_saved(archive, session, made_after).anchor)


def _fixed(
    archive: Archive, session: Session, turn: StoredTurn, event: Event
) -> tuple[tuple[Part, Part], Any]:
    """Return the parts of the system message and of the tools of a call, and those tools.

    They are the last that were stored before it. Raises `NoCallError` if they were erased with the
    turn that has them.
    """
    system = event["tokens"].get("system", 0) - event.get("application", 0)
    sizes = system, event["tokens"].get("tools")
    for stored in _stored_last(archive, session, turn):
        tools = count_tools(stored["tools"], exact)
        parts = fixed_parts(stored["system"], tools, exact)
        if (parts[0].tokens, tools) == sizes:
            return parts, stored["tools"]
    raise NoCallError("the archive does not keep the instructions of this call any more")


def _stored_last(
    archive: Archive, session: Session, turn: StoredTurn
) -> Iterator[Mapping[str, Any]]:
    """Yield what was stored of the instructions: with this turn, the first one, then any."""
    first = archive.load(session, turn.tip).turns([1])
    for one in (turn, *first):
        yield from _of(one)
    for one in reversed([*archive.load(session, turn.tip).every_commit()]):
        yield from _of(one)


def _of(turn: StoredTurn) -> Iterator[Mapping[str, Any]]:
    return (event for event in turn.events if event["type"] == "fixed")


def _before(
    archive: Archive, session: Session, tip: Tip, place: tuple[int, int]
) -> tuple[int, int]:
    """Return the place of the call before, in this turn or the one before it."""
    number, call = place
    if call:
        return number, call - 1
    earlier = _record(archive, session, tip, number - 1)
    return number - 1, sum(event["type"] == "sent" for event in earlier.events) - 1


def _lines(context: WorkingContext, tools: Any) -> list[dict[str, Any]]:
    """Return the messages of a prompt as the page shows them, with the tools as the second one.

    Their tokens add up to those of the call: what begins the reply counts with the instructions.
    """
    names = [part.name for part in context.parts for _ in part.messages]
    lines: list[dict[str, Any]] = [
        {
            "part": name,
            "speaker": speaker(message),
            "role": role(message),
            "tokens": count_message(message, exact) + (REPLY_OVERHEAD if name == "system" else 0),
            "text": text(message),
            "calls": [{"name": one.get("name"), "args": one.get("args")} for one in calls(message)],
        }
        for name, message in zip(names, context.messages, strict=True)
    ]
    sizes = [part.tokens for part in context.parts if part.name == "tools"]
    if tools:
        schemas = json.dumps(tools, ensure_ascii=False, indent=1)
        told = dict.fromkeys(("part", "speaker", "role"), "tools")
        lines.insert(1, {**told, "tokens": sum(sizes), "text": schemas, "calls": []})
    return lines


def _compared(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the messages of both in order, marked as the same, as come, or as left.

    A message of the running turn is the same in the turn after it, though in another part.
    """
    old, new = ([fingerprint({**line, "part": ""}) for line in lines] for lines in (before, after))
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, old_begin, old_end, new_begin, new_end in steps:
        if kind == "equal":
            yield from ({**line, "change": "same"} for line in after[new_begin:new_end])
            continue
        yield from ({**line, "change": "left"} for line in before[old_begin:old_end])
        yield from ({**line, "change": "came"} for line in after[new_begin:new_end])
