"""What holds for every working context, and the steps of a turn that lead to one."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from ebbtide.memory.context.budget import TURN_SHARE, high_water
from ebbtide.memory.context.fit import WorkingContext
from ebbtide.memory.context.forms import whole_tokens
from ebbtide.memory.context.plan import Plan, keeping_anchor
from ebbtide.memory.messages import call_id, calls
from ebbtide.memory.serialised import to_dict
from ebbtide.memory.tokens import MESSAGE_OVERHEAD, count_message, count_messages
from tests.memory.conversations import Conversation, call, human, tool, words_of

TOOLS: Mapping[str, tuple[str, str]] = {
    "open": ("open_effort", "name"),
    "close": ("close_effort", ""),
    "reopen": ("reopen_effort", "effort_id"),
    "switch": ("switch_effort", "effort_id"),
    "expand": ("expand_effort", "effort_id"),
    "collapse": ("collapse_effort", "effort_id"),
    "goal": ("update_goal", "goal"),
    "read": ("read_log", "turns"),
}
"""The tool of a step, and what its argument is called, if it has one."""


def tokens(context: WorkingContext, talk: Conversation) -> int:
    """Count a context again, from the messages that would be sent."""
    said = sum(count_message(message, talk.count) for message in context.messages[1:])
    return said + talk.fixed


def well_formed(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether every call is followed by its results and no result stands alone."""
    waiting: list[Any] = []
    for message in messages:
        if message.type == "tool":
            if call_id(message) not in waiting:
                return False
            waiting.remove(call_id(message))
        elif waiting:
            return False
        else:
            waiting = [asked["id"] for asked in calls(message)]
    return not waiting


def prompt_of(context: WorkingContext) -> str:
    """Return all that is sent, as text, without the end of the list."""
    return json.dumps([*map(to_dict, context.messages)], ensure_ascii=False).removesuffix("]")


def begins(context: WorkingContext, before: WorkingContext) -> bool:
    """Tell whether a context begins with all bytes of the one before."""
    return prompt_of(context).startswith(prompt_of(before))


def unchanged(context: WorkingContext) -> Plan:
    """Return what stays the same between two changes of the plan."""
    return replace(context.plan, anchor=None)


def in_order(context: WorkingContext) -> bool:
    """Tell whether the turns stand in the order in which they were said."""
    turns = [part.turn for part in context.parts if part.turn is not None]
    return turns == sorted(turns)


def has_last_turn(context: WorkingContext, talk: Conversation) -> bool:
    """Tell whether the last turn is there uncut, or does not fit below high water.

    It has to fit beside two others, and beside the running turn, which may have half of the room if
    it is so large that it is shortened.
    """
    view, plan = talk.work.view, context.plan
    last = view.past.turns([talk.tip.turn, *plan.turns[-3:-1]])
    last = tuple(one for one in last if one.status != "erased")
    sizes = Counter[int | None]()  # with their markers
    for part in context.parts:
        sizes[None if part.name == "expanded" else part.turn] += part.tokens
    numbers = {one.number for one in last}
    if numbers <= {part.turn for part in context.parts} and not numbers & {*plan.brief}:
        return True
    now = view.running.number
    half = int(TURN_SHARE * talk.room) if now == plan.after_turn + 1 and plan.rounds else 0
    said = max(sizes[now], half, count_messages(talk.messages, talk.count))
    said += sum(map(max, (sizes[one.number] for one in last), whole_tokens(talk.work, last)))
    return said + sizes[None] - talk.fixed > high_water(talk.room, 0)


def room_left(talk: Conversation) -> int:
    """Return how many tokens can still be said in this turn before the context is cut for it."""
    context = talk.context
    said: int = context.report["total"] - talk.fixed
    return high_water(talk.room, context.plan.size) - said


def fill(talk: Conversation, more: int, *, result: bool = False) -> None:
    """Say as many words as there is room for and `more`, in a question or in a tool's result."""
    if result:
        talk.look_up("")
        *before, last = talk.messages
        talk.messages = (
            *before,
            tool(str(call_id(last)), _words(room_left(talk) + more)),
        )
    else:
        said = _words(room_left(talk) + more - MESSAGE_OVERHEAD)
        talk.messages += (human(said),) if said else ()


def take(talk: Conversation, kind: str, what: Any) -> None:
    """Take one step of a turn."""
    if kind == "look":
        asked = [call("look_up", call_id=f"c{at}", key=said) for at, said in enumerate(what)]
        results = tuple(tool(f"c{at}", said) for at, said in enumerate(what))
        talk.messages += (AIMessage("", tool_calls=asked), *results)
    elif kind == "anchor":
        packed = talk.plan.packed() if talk.plan else None
        talk.plan = Plan.unpacked(packed and keeping_anchor(packed, talk.state.anchor))
        talk.state = replace(talk.state, anchor={"Goal": what})
    elif kind.startswith("fill"):
        fill(talk, what, result=kind == "fill result")
    elif kind in TOOLS:
        tool_name, name = TOOLS[kind]
        goal = {"goal": what * 40} if kind == "open" else {}
        talk.call(tool_name, **({name: what} if name else {}), **goal)


def everything(talk: Conversation, turn: int) -> str:
    """Read a turn from its beginning, as long as the result says how to go on."""
    said, how = "", {"turns": str(turn)}
    while how:
        result = talk.call("read_log", **how)
        said += "\n" * (int(how.get("offset", 0)) - len(said)) + words_of(result["turns"][0])
        how = result["next"]
    return said


def _words(number: int) -> str:
    """Return so many words of a token each."""
    return " ".join(["a"] * number)
