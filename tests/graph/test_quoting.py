"""What a turn quotes of others is put together once, and is what an agent would read anew."""

import json
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, commands
from ebbtide.memory.running_turn import Made, laid_out_cache
from ebbtide.memory.turn import StoredTurn
from tests.agents import THREAD, Talk, talk
from tests.doubles import call

ROOM = Settings(context_budget=20_000)


def again(root: Path, chat: Talk) -> list[str]:
    """Return what an agent that holds nothing yet would send."""
    fresh = talk(root, [], checkpointer=chat.agent.checkpointer, settings=ROOM)
    return [one.text for one in commands.show_context(fresh.agent, THREAD, "?").messages]


def held(chat: Talk) -> list[Any]:
    """Return what is held of turns as they were sent."""
    graph: Any = chat.agent.builder
    kept = graph.parts.laid_out.items()
    return [made.value for key, made in kept if key[0] == "sent"]


def test_a_quote_is_put_together_once(tmp_path: Path) -> None:
    """A result of `read_log` is held with its text after the turn."""
    answers = ["Noted.", call("read_log", turns="1"), "Read.", "Yes."]
    chat = talk(tmp_path, answers, checkpointer=InMemorySaver(), settings=ROOM)
    chat.say_all(("The gate is red.", "Read turn 1.", "And now?"))

    quoting = [one for messages in held(chat) for one in messages if one.type == "tool"]
    shown = [one.text for one in commands.show_context(chat.agent, THREAD, "?").messages]
    assert "The gate is red." in json.dumps([one.content for one in quoting])
    assert shown == again(tmp_path, chat)


def test_a_quote_of_a_turn_to_come_is_read_anew(tmp_path: Path) -> None:
    """A client may hand over a result that names one; after an undo that turn is another."""
    chat = talk(tmp_path, lambda _: "Fine.", checkpointer=InMemorySaver(), settings=ROOM)
    chat.say("Hello.")
    quoted = {"recalled": [{"turn": 3, "offset": 0, "end": 400}]}
    body = json.dumps(
        {"turns": [{"turn": 3, "messages": [{"speaker": "user", "text": "x"}]}], "next": None}
    )
    asked = [
        HumanMessage("Look."),
        AIMessage("", tool_calls=[{"name": "read_log", "args": {"turns": "3"}, "id": "c1"}]),
        ToolMessage(body, name="read_log", tool_call_id="c1", artifact=quoted),
        HumanMessage("So?"),
    ]
    chat.agent.invoke({"messages": asked}, THREAD)
    chat.say("The plan is magenta.")
    commands.show_context(chat.agent, THREAD, "?")
    commands.undo(chat.agent, THREAD)
    chat.say("The plan is yellow.")

    shown = [one.text for one in commands.show_context(chat.agent, THREAD, "?").messages]
    assert not any("magenta" in one for one in shown)
    assert shown == again(tmp_path, chat)


def test_large_turns_do_not_fill_the_memory() -> None:
    """A large one counts as several of those that are held."""
    cache = laid_out_cache()
    large = StoredTurn(1, (HumanMessage("a" * 200_000),), "", id="id")

    for number in range(300):
        cache[number] = Made(large, is_alone=True, value=number)

    assert 10 < len(cache) < 100
