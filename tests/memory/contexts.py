"""What holds for every working context, and the steps of a turn that lead to one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.memory.leaving_out import LEFT_OUT_TOKENS
from ebbtide.memory.messages import Message, calls, text
from ebbtide.memory.tiers import WorkingContext
from ebbtide.memory.tokens import MESSAGE_OVERHEAD, count_message, count_messages
from ebbtide.prompts.loader import text as prompt
from tests.memory.desks import Conversation, call, human, tool

LEFT_OUT = prompt("left_out_note", said="|").partition("|")[0]
"""How the note begins that says what was left out."""

TOOLS: Mapping[str, tuple[str, str]] = {
    "open": ("open_effort", "name"),
    "close": ("close_effort", ""),
    "reopen": ("reopen_effort", "effort_id"),
    "switch": ("switch_effort", "effort_id"),
    "expand": ("expand_effort", "effort_id"),
    "collapse": ("collapse_effort", "effort_id"),
    "goal": ("update_goal", "goal"),
    "read": ("read_log", "turn"),
}
"""The tool of a step, and what its argument is called, if it has one."""


def tokens(context: WorkingContext, talk: Conversation) -> int:
    """Count a context again, from the messages that would be sent."""
    said = sum(count_message(message, talk.count) for message in context.messages[1:])
    return said + talk.fixed


def well_formed(messages: Sequence[Message]) -> bool:
    """Tell whether every call is followed by its results and no result stands alone."""
    waiting: list[Any] = []
    for message in messages:
        if message["type"] == "tool":
            if message["data"]["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["data"]["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = [asked["id"] for asked in calls(message)]
    return not waiting


def before_the_notes(context: WorkingContext) -> str:
    """Return what stands before the notes, as text, without the end of the list."""
    tiers = (one for one in context.tiers if one.name not in {"notes", "turn"})
    messages = [message for one in tiers for message in one.messages]
    return json.dumps(messages, ensure_ascii=False).removesuffix("]")


def room_left(talk: Conversation) -> int:
    """Return how many tokens can still be said in this turn before something is cut for it."""
    context = talk.context
    left: int = talk.settings.context_budget - context.report["total"]
    said = (message for tier in context.tiers for message in tier.messages)
    noted = [message for message in said if text(message).startswith(LEFT_OUT)]
    return left - (LEFT_OUT_TOKENS if context.cuts else 0) + count_messages(noted, talk.count)


def fill(talk: Conversation, more: int, *, result: bool = False) -> None:
    """Say as many words as there is room for and `more`, in a question or in a tool's result."""
    if result:
        talk.look_up("")
        *before, last = talk.messages
        talk.messages = (
            *before,
            tool(last["data"]["tool_call_id"], _words(room_left(talk) + more)),
        )
    else:
        said = _words(room_left(talk) + more - MESSAGE_OVERHEAD)
        talk.messages += (human(said),) if said else ()


def take(talk: Conversation, kind: str, what: Any) -> None:
    """Take one step of a turn."""
    if kind == "look":
        asked = [call("look_up", call_id=f"c{at}", key=said) for at, said in enumerate(what)]
        results = tuple(tool(f"c{at}", said) for at, said in enumerate(what))
        talk.messages += ({"type": "ai", "data": {"content": "", "tool_calls": asked}}, *results)
    elif kind == "anchor":
        talk.space = replace(talk.space, anchor={"Goal": what})
    elif kind.startswith("fill"):
        fill(talk, what, result=kind == "fill result")
    elif kind in TOOLS:
        tool_name, name = TOOLS[kind]
        goal = {"goal": what * 40} if kind == "open" else {}
        talk.call(tool_name, **({name: what} if name else {}), **goal)


def everything(talk: Conversation, turn: int) -> str:
    """Read a turn from its beginning, as long as there is a next offset."""
    parts, offset = [], 0
    while offset is not None:
        result = talk.call("read_log", turn=turn, offset=offset)
        parts.append(result["text"])
        offset = result["next_offset"]
    return "".join(parts)


def _words(number: int) -> str:
    """Return so many words of a token each."""
    return " ".join(["a"] * number)
