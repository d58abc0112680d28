"""What traces say: tools and nodes by their names, and what each call of a model is for."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler

from tests.agents import THREAD, Talk, talk
from tests.doubles import call

SCRIPT = [call("open_effort", name="a"), "opened", call("close_effort"), "closed it now"]
WORDS = ("The refresh token expires after 3600 seconds, and nobody renews it.", "done")


class Heard(BaseCallbackHandler):
    """Keeps what the calls of models and tools are said to be."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.asked: list[tuple[Any, ...]] = []
        self.tools: list[tuple[Any, ...]] = []

    def on_chat_model_start(self, *_: Any, metadata: Any = None, **__: Any) -> None:
        """Keep what the metadata say."""
        names = ("ebbtide_purpose", "ebbtide_turn", "ebbtide_effort")
        self.asked.append(tuple(metadata.get(name) for name in names))

    def on_tool_start(self, serialized: Any, *_: Any, **more: Any) -> None:
        """Keep the name and the arguments."""
        self.tools.append((serialized["name"], more["inputs"]))

    def on_tool_end(self, output: Any, **_: Any) -> None:
        """Keep the answer."""
        self.tools.append(("end", output.name))

    def on_tool_error(self, error: BaseException, **_: Any) -> None:
        """Keep what is wrong."""
        self.tools.append(("error", str(error)))


async def heard(chat: Talk, entry: str) -> Heard:
    """Open an effort and close it, and return what callbacks were told."""
    found = Heard()
    config: Any = {**THREAD, "callbacks": [found]}
    for words in WORDS:
        if entry == "sync":
            chat.say(words, config)
        else:
            await chat.agent.ainvoke({"messages": words}, config)
    return found


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_calls_of_models_say_what_they_are_for(tmp_path: Path, way: str) -> None:
    """Metadata name the purpose of a call, the turn and the effort that is active."""
    found = await heard(talk(tmp_path, [*SCRIPT]), way)

    assert found.asked == [
        ("answer", 1, None),
        ("answer", 1, "a"),
        ("answer", 2, "a"),
        ("summary", 2, "a"),
        ("answer", 2, None),
    ]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("way", ["async"])
async def test_memory_tools_are_told_as_tools(tmp_path: Path, way: str) -> None:
    """Callbacks hear of a memory tool's call and result, as they do of any tool's."""
    found = await heard(talk(tmp_path, [*SCRIPT]), way)

    assert found.tools == [
        ("open_effort", {"name": "a"}),
        ("end", "open_effort"),
        ("close_effort", {}),
        ("end", "close_effort"),
    ]


@pytest.mark.usefixtures("entry")
async def test_a_wrong_call_is_told_as_an_error(tmp_path: Path) -> None:
    """The error is what the model reads."""
    found = await heard(talk(tmp_path, [call("close_effort"), "none", "ok"]), "sync")

    assert found.tools[0] == ("close_effort", {})
    assert found.tools[1][0] == "error"
    assert "no effort is" in found.tools[1][1]


async def test_events_name_tools_and_nodes(tmp_path: Path) -> None:
    """The stream of events has the tools, and each node's runnable by the node's name."""
    chat = talk(tmp_path, [*SCRIPT])

    events = [
        (one["event"], one["name"])
        async for one in chat.agent.astream_events({"messages": WORDS[0]}, THREAD, version="v2")
    ]

    assert [event for event, name in events if name == "open_effort"] == [
        "on_tool_start",
        "on_tool_end",
    ]
    started = {name for event, name in events if event == "on_chain_start"}
    nodes = {"begin_turn", "call_model", "memory_tools", "decay", "persist"}
    assert nodes <= started
    assert "run" not in started


class Spans(BaseCallbackHandler):
    """Keeps the spans of steps that call no model."""

    def __init__(self) -> None:
        """Begin with none."""
        self.seen: list[tuple[Any, ...]] = []

    def on_chain_start(self, *_: Any, metadata: Any = None, name: Any = None, **__: Any) -> None:
        """Keep session, turn and the types of the events."""
        if str(name).endswith(".events"):
            every = [event["type"] for event in metadata["ebbtide_events"]]
            events = [kind for kind in every if kind != "dated"]
            self.seen.append((name, metadata["ebbtide_session"], metadata["ebbtide_turn"], events))


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_steps_say_what_they_did(tmp_path: Path, way: str) -> None:
    """Tracers see the session, the turn and its events in the steps that call no model."""
    chat, found = talk(tmp_path, [*SCRIPT]), Spans()
    config: Any = {**THREAD, "callbacks": [found]}
    if way == "sync":
        chat.say(WORDS[0], config)
    else:
        await chat.agent.ainvoke({"messages": WORDS[0]}, config)

    steps = ("detect_references", "decay", "persist")
    assert found.seen == [(f"{step}.events", "t", 1, ["opened"]) for step in steps]


class References(BaseCallbackHandler):
    """Keeps the references in the span of `detect_references`."""

    def __init__(self) -> None:
        """Begin with none."""
        self.seen: list[Any] = []

    def on_chain_start(self, *_: Any, metadata: Any = None, name: Any = None, **__: Any) -> None:
        """Keep what the turn referenced."""
        if name == "detect_references.events":
            self.seen += metadata["ebbtide_references"]


@pytest.mark.usefixtures("entry")
def test_tracers_see_why_an_effort_was_referenced(tmp_path: Path) -> None:
    """The span has kind and words, as the state has them."""
    script = [call("open_effort", name="auth bug"), "opened", "It is about tokens."]
    chat, found = talk(tmp_path, script), References()
    chat.say(WORDS[0])
    state = chat.say("What about auth-bug?", {**THREAD, "callbacks": [found]})

    assert [(one["kind"], one["words"]) for one in found.seen] == [("id", ["auth-bug"])]
    assert found.seen == state["memory"]["references"]
