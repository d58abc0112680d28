"""The registry: what holds for every command on every surface, and what a new one needs."""

import ast
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isfunction, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.schemas import SchemaGenerator
from starlette.testclient import TestClient

import ebbtide.commands
from ebbtide import CommandError, SettingsError, commands
from ebbtide.cli.chat_commands import completions, parsed, usages
from ebbtide.graph import all_commands
from ebbtide.graph.commands.registry import COMMANDS, Action, Command, command
from ebbtide.graph.commands.threads import Agent
from ebbtide.graph.server import routes
from ebbtide.inspector import page
from ebbtide.inspector.server import Inspected, local_app
from ebbtide.memory.archive.sql import SqlArchive
from tests.agents import THREAD, talk
from tests.cli.commands_run import chat
from tests.doubles import call
from tests.graph.commands.test_users import STEPS
from tests.graph.test_server import Nobody

ALL = [commands.COMMANDS[name] for name in sorted(commands.COMMANDS)]
OURS = {"X-Ebbtide": "1"}
GIVEN = {"name": "a", "effort": "a", "memory": "a", "query": "words", "turns": "3", "turn": "1"}


@dataclass(frozen=True)
class Greeting:
    """The result of the command of these tests."""

    said: str


def greet(agent: Agent, config: RunnableConfig, effort_id: str, times: int = 1) -> Greeting:
    """Greet an effort, some times."""
    assert agent.checkpointer
    assert config["configurable"]["thread_id"]
    return Greeting(f"{'hello ' * times}{effort_id}")


@pytest.fixture
def greeted() -> Iterator[Command]:
    """Register a command, which is all that its author does."""
    action = Action("effort", "Greet it …", "Greet {effort}?")
    command(changes=True, states=("open",), action=action)(greet)
    yield COMMANDS["greet"]
    del COMMANDS["greet"]


def served(agent: Any) -> TestClient:
    """Return a client of an agent's routes beside those of a server with an idle thread."""

    async def make(_config: Any) -> Any:
        return agent

    idle = {"thread_id": "t", "status": "idle", "metadata": {}, "values": {}}
    own = Route("/threads/{thread_id}", lambda _: JSONResponse(idle))
    guard = Middleware(AuthenticationMiddleware, backend=Nobody())
    return TestClient(Starlette(routes=[own, *routes(make)], middleware=[guard]))


async def test_new_command_is_a_function(tmp_path: Path, greeted: Command) -> None:
    """It stands in `ebbtide.commands`, with a form for asynchronous code."""
    agent = talk(tmp_path, []).agent

    assert commands.COMMANDS["greet"] is greeted
    module: Any = commands
    assert module.greet(agent, THREAD, "a") == Greeting("hello a")
    assert await module.agreet(agent, THREAD, "a", times=2) == Greeting("hello hello a")
    assert {"greet", "agreet"} <= {*dir(commands)}


def test_new_command_is_a_slash_command(greeted: Command) -> None:
    """It has completion and help; its result is shown, and printed as JSON."""
    lines = ("/open tea", "/greet tea", "/greet")
    shown, printed = chat(*lines), chat(*lines, options=("--json", "--thread", "other"))

    assert parsed("/greet tea") == (greeted, "tea")
    assert {"/greet", "/greet tea"} <= {*completions({"tea": True, "old": False})}
    assert "/greet old" not in completions({"old": False})
    assert usages()["/greet EFFORT"] == "Greet an effort, some times."
    assert '"said": "hello tea"' in shown.stdout
    assert "write /greet EFFORT (effort is missing)" in shown.stderr
    assert json.loads(printed.stdout.splitlines()[1]) == {"result": {"said": "hello tea"}}


def test_new_command_is_a_route(tmp_path: Path, greeted: Command) -> None:
    """It has a schema, converts what it is given, and changes nothing without our header."""
    client = served(talk(tmp_path, []).agent)
    path = f"/ebbtide/{greeted.path.format(thread_id='t')}"

    done = client.post(path, params={"effort": "a", "times": "2"}, headers=OURS)
    bad = client.post(path, params={"times": "x"}, headers=OURS)
    schemas = SchemaGenerator({"openapi": "3.1.0"}).get_schema(client.app.routes)  # type: ignore[attr-defined]  # a Starlette
    operation = schemas["paths"]["/ebbtide/threads/{thread_id}/greet"]["post"]

    assert done.json() == {"said": "hello hello a"}
    assert (bad.status_code, bad.json()["error"]) == (422, "SettingsError")
    assert "effort is missing; times: Input should be a valid integer" in bad.json()["detail"]
    assert operation["summary"] == "Greet an effort, some times."
    assert [(one["name"], one["required"]) for one in operation["parameters"]] == [
        ("effort", True),
        ("times", False),
    ]


def test_new_command_is_a_button(tmp_path: Path, greeted: Command) -> None:
    """The page has it with its question, and its route works on a local server."""
    agent = talk(tmp_path / "kept", ["hi"])
    agent.say("hello", {"configurable": {"thread_id": "t", "user_id": "ann"}})

    @contextmanager
    def opened(_user: str) -> Iterator[Any]:
        yield agent.agent

    with SqlArchive(tmp_path / "kept") as archive:
        app = local_app(Inspected(archive, archive.users), "token", opened)
        client = TestClient(app, base_url="http://127.0.0.1")
        client.get("/", params={"token": "token"})
        asked = {"effort": "a", "user_id": "ann"}
        done = client.post("/threads/t/greet", params=asked, headers=OURS)

    assert "Greet it …".encode("unicode_escape").decode() in page.shell("on")
    assert done.json() == {"said": "hello a"}
    assert greeted.action


@pytest.mark.thorough
@pytest.mark.parametrize("each", ALL, ids=lambda each: each.name)
def test_every_command(tmp_path: Path, each: Command) -> None:
    """It says what it does, refuses graphs that have no memory, and its result has a name."""
    graph = StateGraph(MessagesState)
    graph.add_node("n", lambda _: {})
    graph.add_edge(START, "n")
    client = served(talk(tmp_path, []).agent)
    path = f"/ebbtide/{each.path.format(thread_id='t', turn=1)}"

    for foreign, name in (
        (RemoteGraph("ebbtide", url="http://127.0.0.1:1"), "RemoteGraph.*routes"),
        (graph.compile(), "StateGraph"),
    ):
        arguments = each.arguments({**GIVEN, "user_id": "ann"})
        with pytest.raises(SettingsError, match=name):
            each.answered(foreign, THREAD, **arguments)  # type: ignore[arg-type]  # on purpose
    changed = client.request(each.method, path) if each.path else None

    assert each.changes is (each.method != "GET")
    assert len(each.help) > 10
    assert changed is None or (changed.status_code == 403) is each.changes
    hint = get_type_hints(each.function)["return"]
    named = {one for one in (hint, *get_args(hint)) if isinstance(one, type)}
    ours = {one.__name__ for one in named if one.__module__.startswith("ebbtide")}
    assert ours <= {*commands.__all__}


def test_the_module() -> None:
    """Both names lead to one module; `__all__` names what it has, and the stub each form."""
    names = {each.name for each in ALL}
    stub = ast.parse(Path(all_commands.__file__).with_suffix(".pyi").read_text("utf-8"))
    typed = {node.targets[0].id for node in stub.body if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]  # a name

    assert ebbtide.commands is commands
    assert commands.__all__ == sorted(commands.__all__)
    assert {f"a{name}" for name in names} == typed
    functions = {name for name in commands.__all__ if isfunction(getattr(commands, name))}
    assert functions == names | typed
    assert all("agent" in signature(each.function).parameters for each in ALL)


async def test_every_form_for_asynchronous_code(tmp_path: Path) -> None:
    """With checkpoints in SQLite, read and written asynchronously, each does the same."""
    config: RunnableConfig = {"configurable": {"thread_id": "of-ann", "user_id": "ann"}}
    script = [call("open_effort", name="work"), "Opened.", "Noted."]
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as saver:
        agent = talk(tmp_path / "kept", script, checkpointer=saver).agent
        await agent.ainvoke({"messages": "Begin."}, config)
        await agent.ainvoke({"messages": "The code is 7. " * 20}, config)
        with pytest.raises(CommandError, match="asynchronous form: atranscript"):
            commands.transcript(agent, config)

        done = {}
        for name, given in [*STEPS, ("restore", ()), ("erase", (1,)), ("delete_session", ())]:
            words = [one.format("ann") if isinstance(one, str) else one for one in given]
            done[name] = await getattr(commands, f"a{name}")(agent, config, *words)
        await commands.adelete_user(agent, "ann")

    assert done.keys() | {"delete_user"} == commands.COMMANDS.keys()
    assert done["close_effort"].result["status"] == "concluded"
    assert [line.turn for line in done["messages"].lines] == [2, 1]
    assert done["search"]["results"][0]["passages"][0]["turn"] == 2
    assert (done["show_context"].turn, len(done["stats"].turns)) == (3, 2)
    assert (done["undo"], done["erase"].turn) == (2, 1)
    assert [session.thread for session in done["delete_session"].sessions] == ["of-ann"]
