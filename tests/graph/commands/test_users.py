"""Commands on one agent of many users: none asks, or shows, what is another user's."""

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ebbtide import (
    DiskArchive,
    SettingsError,
    commands,
    create_memory_agent,
    delete_session,
    delete_user,
    erase,
    restore,
)
from tests.cli.test_registry import STEPS
from tests.doubles import ScriptedModel
from tests.graph.test_middleware_users import (
    USERS,
    Service,
    Tenant,
    leaks,
    model_of,
    other,
    service,
    thread,
    wire,
)
from tests.openai_server import Say, serving


def talked(root: Path, **options: Any) -> Service:
    """Return a service in whose threads both users have an open effort; bob spoke last."""
    served = service(root, **options)
    for words in ("open it", "The code is {}-code, as I said. " * 9, "And now?"):
        served.both_say("in turns", words)
    return served


def asked(model: ScriptedModel) -> int:
    """Return how often a model was asked anything."""
    return len(model.sent) + len(model.asked)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_every_command(tmp_path: Path, way: str) -> None:
    """Between commands of one user the other talks; models and results stay apart."""
    served = talked(tmp_path, summary_model=model_of("carol", []))
    results: list[tuple[str, str, str]] = []

    others = {"greet", "restore", "erase", "delete_session", "delete_user"}
    written = json.dumps([step for step in STEPS if step[0] not in others])
    for was, here in (("t/gate", "of-{}/gate"), ("gate", "work"), ("porter", "code")):
        written = written.replace(was, here)
    for name, args, _ in json.loads(written):
        with_context = "context" in signature(getattr(commands, name)).parameters
        for user in USERS:
            served.say(other(user), "And now?")
            before = {one: asked(model) for one, model in served.models.items()}
            given = {field: text.format(user) for field, text in args.items()}
            options = commands.COMMANDS[name].arguments(given)
            options |= {"context": Tenant(user)} if with_context else {}
            form = getattr(commands, name if way == "sync" else f"a{name}")
            done = form(served.agent, thread(user), **options)
            done = await done if way == "async" else done
            results.append((name, user, repr(done)))
            assert {one: asked(model) for one, model in served.models.items()} == before

    assert [(name, found) for name, user, text in results if (found := leaks(text, user))] == []
    for user, model in served.models.items():
        assert leaks(wire(model), user) == []


@pytest.mark.parametrize("context", [None, Tenant("ann")])
def test_a_command_asks_for_a_model(tmp_path: Path, context: Any) -> None:
    """Which one the turns had is not known to a command: it changes nothing and says what to do."""
    served = talked(tmp_path)
    before = served.agent.get_state(thread("ann"))
    counts = [asked(model) for model in served.models.values()]

    for command in (
        commands.close_effort,
        lambda *a, **k: commands.rebuild_anchor(*a, model=True, **k),
    ):
        with pytest.raises(SettingsError, match="summary_model="):
            command(served.agent, thread("ann"), context=context)

    assert served.agent.get_state(thread("ann")) == before
    assert [asked(model) for model in served.models.values()] == counts


def test_erase_asks_no_unknown_model(tmp_path: Path) -> None:
    """It erases all the same, and names the effort whose summary is empty."""
    served = talked(tmp_path)
    served.both_say("in turns", "close it")
    counts = [asked(model) for model in served.models.values()]

    report = erase(served.agent, thread("ann"), 2)

    assert (report.resummarised, report.stale) == ((), ("work",))
    assert [asked(model) for model in served.models.values()] == counts


def test_what_else_takes_an_agent(tmp_path: Path) -> None:
    """Restoring and deleting ask no model and touch nothing of the other user."""
    served = talked(tmp_path)
    counts = [asked(model) for model in served.models.values()]

    restore(served.agent, thread("ann"))
    delete_session(served.agent, thread("ann"))
    delete_user(served.agent, "ann")

    assert [asked(model) for model in served.models.values()] == counts
    assert served.archive.sessions("ann") == ()
    assert [session.thread for session in served.archive.sessions("bob")] == ["of-bob"]


@pytest.mark.parametrize("explicit", [True, False])
def test_a_turn_that_goes_on_in_another_process(tmp_path: Path, *, explicit: bool) -> None:
    """Before its first call there a given model concludes the effort; else the tool fails."""
    asking, saver = HumanInTheLoopMiddleware({"book": True}), InMemorySaver()
    first = service(tmp_path, asking, checkpointer=saver)
    for words in ("open it", "The code is ann-code. " * 9, "both"):
        first.say("ann", words)
    given = model_of("ann", [])
    there = service(
        tmp_path, asking, checkpointer=saver, **{"summary_model": given} if explicit else {}
    )
    there.say("bob", "hello")

    approve: Any = Command(resume={"decisions": [{"type": "approve"}]})
    state = there.agent.invoke(approve, thread("ann"), context=Tenant("ann"))

    results = [m.text for m in state["messages"] if m.type == "tool" and m.name == "close_effort"]
    assert [asked(given), asked(there.models["bob"])] == [int(explicit), 1]
    assert ("summary_model=" in results[-1]) is not explicit


@pytest.mark.thorough
def test_a_configurable_model(tmp_path: Path) -> None:
    """An agent of `create_memory_agent` whose model the config names: commands ask that one."""
    block = "---STATE---\nGoal: ship\n---END STATE---"
    summary = json.dumps({"summary": "Noted.", "keywords": ["code"], "importance": 50})
    talk = [Say(calls=[("open_effort", {"name": "work"})]), Say("Opened."), Say("Noted. " * 90)]
    closing = [Say(calls=[("close_effort", {})]), Say(summary), Say(f"Closed.\n\n{block}")]
    with serving(*talk, *closing, Say(f"Yes.\n\n{block}"), *[Say(summary)] * 2) as server:
        model: Any = init_chat_model(
            "openai:everybody", configurable_fields=("model",), base_url=server.url, api_key="x"
        )
        archive = DiskArchive(tmp_path, durable=False)
        agent = create_memory_agent(model, archive=archive, checkpointer=InMemorySaver())
        config: RunnableConfig = {"configurable": {"thread_id": "t", "model": "openai:of-ann"}}
        for words in ("open it", "the code is 7", "close it"):
            agent.invoke({"messages": words}, config)

        anchor = commands.rebuild_anchor(agent, config, model=True)
        report = erase(agent, config, 1)

        assert (anchor.source, report.resummarised) == ("model", ("work",))
        assert {request.body["model"] for request in server.requests} == {"of-ann"}
