"""What holds for every working context, and the steps of a turn that lead to one."""

import json
from collections.abc import Sequence
from typing import Any

from ebbtide.memory.messages import Message, calls
from ebbtide.memory.tiers import WorkingContext
from ebbtide.memory.tokens import count_message
from tests.memory.desks import Conversation, call, tool


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


def take(talk: Conversation, kind: str, what: Any) -> None:
    """Take one step of a turn."""
    if kind == "look":
        asked = [call("look_up", call_id=f"c{at}", key=said) for at, said in enumerate(what)]
        results = tuple(tool(f"c{at}", said) for at, said in enumerate(what))
        talk.messages += ({"type": "ai", "data": {"content": "", "tool_calls": asked}}, *results)
    elif kind == "open":
        talk.call("open_effort", name=what, goal=what * 40)
    elif kind == "close":
        talk.call("close_effort")
    elif kind == "read":
        talk.call("read_log", turn=what)
    elif kind != "say":
        talk.call(f"{kind}_effort", effort_id=what)
