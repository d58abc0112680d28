"""The registry: each command on each surface, among them a new one, and what each result is."""

import ast
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from inspect import isfunction, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.schemas import SchemaGenerator
from starlette.testclient import TestClient

import ebbtide.commands
from ebbtide import CommandError, SettingsError, SqlArchive, commands, create_memory_agent
from ebbtide.cli.chat_commands import completions, parsed, usages
from ebbtide.graph import all_commands
from ebbtide.graph.commands.registry import COMMANDS, Action, Command, command
from ebbtide.graph.commands.threads import Agent
from ebbtide.graph.server import Call, responding
from ebbtide.inspector import page
from ebbtide.inspector.server import Inspected, local_app
from ebbtide.testing import ScriptedModel
from tests.agents import THREAD
from tests.cli.commands_run import chat

ALL = [commands.COMMANDS[name] for name in sorted(commands.COMMANDS)]
OURS = {"X-Ebbtide": "1"}
SAID = ("Let's work on the gate.", "The key hangs behind the clock, at the porter's.")
ANN: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ann"}}
GATE, MEMORY = {"effort": "gate"}, {"memory": "t/gate"}
STEPS: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("set_window", {"turns": "3"}, {"turns": 3}),
    ("close_effort", {}, {"turn": 2}),
    ("expand_effort", {**GATE, "turns": "1"}, {"turn": 2}),
    ("collapse_effort", GATE, {"turn": 2}),
    ("reopen_effort", GATE, {"turn": 2}),
    ("open_effort", {"effort": "more", "goal": "go on"}, {"turn": 2}),
    ("switch_effort", GATE, {"turn": 2}),
    ("rebuild_anchor", {}, {"source": "none"}),
    ("show_context", {"message": "And now?"}, {"turn": 3, "unfinished": False}),
    ("messages", {}, {"page": 1, "pages": 1}),
    ("efforts", {}, {"more": 0}),
    ("transcript", {"limit": "1"}, {"more": True}),
    ("search", {"query": "porter"}, {"query": "porter", "why": ""}),
    ("stats", {}, {"searches": 0}),
    ("verify", {}, {}),
    ("attention", {}, {}),
    ("explain", MEMORY, {"id": "t/gate"}),
    ("suppress", MEMORY, {"suppressed": True}),
    ("unsuppress", MEMORY, {"suppressed": False}),
    ("forget", MEMORY, {"id": "t/gate"}),
    ("greet", {**GATE, "times": "2"}, {"said": "hello hello gate"}),
    ("undo", {}, {"turn": 2}),
    ("restore", {}, {"turn": 2}),
    ("erase", {"turn": "1"}, {"turn": 1}),
    ("delete_session", {}, {}),
    ("delete_user", {"user_id": "ann"}, {"sessions": []}),
]
"""Every command with what a person gives, and some of what JSON has of its result."""


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
    words = r"(\S+)\s*(.*)"
    command(changes=True, words=words, states=("open",), action=action)(greet)
    yield COMMANDS["greet"]
    del COMMANDS["greet"]


def agent_on(archive: Any, checkpointer: Any) -> Agent:
    """Return an agent with a model that needs no key."""
    return create_memory_agent(ScriptedModel(), archive=archive, checkpointer=checkpointer)


@contextmanager
def talked(root: Path) -> Iterator[tuple[SqlArchive, Agent]]:
    """Give an archive and its agent, to which Ann has said something."""
    with SqlArchive(root / "kept") as archive:
        agent = agent_on(archive, InMemorySaver())
        for words in SAID:
            agent.invoke({"messages": words}, ANN)
        yield archive, agent


def check(name: str, told: Mapping[str, Any], answer: Any, schema: Any) -> None:
    """Compare what JSON has of a result with its schema and with a part of it."""
    jsonschema_rs.validate(schema, answer)
    found = {key: answer[key] for key in told} if told else {}
    assert (name, found) == (name, told)


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_functions(tmp_path: Path, greeted: Command, way: str) -> None:
    """Each form returns a dataclass; the asynchronous one does so with any checkpointer."""
    module: Any = commands
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as saver:
        with SqlArchive(tmp_path / "kept") as archive:
            agent = agent_on(archive, InMemorySaver() if way == "sync" else saver)
            for words in SAID:
                await agent.ainvoke({"messages": words}, ANN)
            if way == "async":
                with pytest.raises(CommandError, match="asynchronous form: atranscript"):
                    commands.transcript(agent, ANN)

            for name, given, told in STEPS:
                each = COMMANDS[name]
                around = () if name == "delete_user" else (ANN,)
                arguments = each.arguments(given)
                if way == "sync":
                    done = getattr(module, name)(agent, *around, **arguments)
                else:
                    done = await getattr(module, f"a{name}")(agent, *around, **arguments)
                answer = each.result.dump_python(done, mode="json")
                check(name, told, answer, each.result.json_schema(mode="serialization"))

    assert {name for name, *_ in STEPS} == COMMANDS.keys()
    assert {"greet", "agreet"} <= {*dir(commands)}
    assert greeted.changes


def test_routes(tmp_path: Path, greeted: Command) -> None:
    """Each is a path with a schema of what it takes and answers; it converts what it is given."""
    with talked(tmp_path) as (_, agent):

        @asynccontextmanager
        async def opened(_: Request) -> AsyncIterator[Call]:
            yield Call(agent, ANN)

        routes = [
            Route(f"/{each.path}", responding(each, opened), methods=[each.method])
            for each in COMMANDS.values()
        ]
        client, described = TestClient(Starlette(routes=routes)), paths_of(routes)
        for name, given, told in STEPS:
            each = COMMANDS[name]
            operation = described[f"/{each.path}"][each.method.lower()]
            answer = client.request(
                each.method, f"/{each.path.format(thread_id='t', **given)}", params=given
            )
            takes = {one["name"]: one["in"] for one in operation["parameters"]}
            assert ("path" in takes.values(), given.keys() - takes) == ("{" in each.path, set())
            check(name, told, answer.json(), schema_of(operation))
        bad = client.post("/threads/t/greet", params={"times": "x"})

    operation = described["/threads/{thread_id}/greet"]["post"]
    assert (bad.status_code, bad.json()["error"]) == (422, "SettingsError")
    assert "effort is missing; times: Input should be a valid integer" in bad.json()["detail"]
    assert operation["summary"] == greeted.help == "Greet an effort, some times."
    assert [(one["name"], one["in"], one["required"]) for one in operation["parameters"]] == [
        ("thread_id", "path", True),
        ("effort", "query", True),
        ("times", "query", False),
        ("X-Ebbtide", "header", True),
    ]


def paths_of(routes: Any) -> Any:
    """Return the description of routes."""
    return SchemaGenerator({"openapi": "3.1.0"}).get_schema(routes)["paths"]


def schema_of(operation: Any) -> Any:
    """Return the schema of what a route answers."""
    return operation["responses"]["200"]["content"]["application/json"]["schema"]


def line_of(each: Command, given: Mapping[str, str]) -> str:
    """Return a command as it is written in the chat."""
    words = (": " if ":" in each.usage else " ").join(given.values())
    return f"{each.slash} {words}".strip() + (" --yes" if each.method == "DELETE" else "")


def test_slash_commands(greeted: Command) -> None:
    """Each that the chat has is parsed, helped with and completed; its result is shown, or JSON."""
    written = [(name, given, told) for name, given, told in STEPS if COMMANDS[name].usage]
    lines = [*SAID, *(line_of(COMMANDS[name], given) for name, given, _ in written)]
    printed = chat(*lines, "/undo 3", options=("--user", "ann", "--thread", "t", "--json"))
    shown = chat(*lines, options=("--root", "shown", "--user", "ann", "--thread", "t"))

    *results, bad = [json.loads(line) for line in printed.stdout.splitlines()][len(SAID) :]
    for (name, _, told), answer in zip(written, results, strict=True):
        check(name, told, answer["result"], COMMANDS[name].result.json_schema(mode="serialization"))
        assert usages()[COMMANDS[name].usage] == COMMANDS[name].help
    assert bad == {"error": "/undo takes no argument, got '3'"}
    assert (shown.exit_code, '"said": "hello hello gate"' in shown.stdout) == (0, True)
    assert parsed("/greet tea 2") == (greeted, "tea 2")
    assert {one.slash for one in ALL if one.usage} | {"/greet tea"} <= {*completions({"tea": True})}
    assert "/greet old" not in completions({"old": False})


def test_buttons(tmp_path: Path, greeted: Command) -> None:
    """The page has each action with its question, and its route works on a local server."""
    with talked(tmp_path) as (archive, agent):

        @contextmanager
        def opened(_user: str) -> Iterator[Any]:
            yield agent

        app = local_app(Inspected(archive, archive.users), "token", opened)
        client = TestClient(app, base_url="http://127.0.0.1")
        client.get("/", params={"token": "token"})
        told = {}
        for name, given, expected in STEPS:
            if (each := COMMANDS[name]).action:
                path = f"/{each.path.format(thread_id='t', **given)}"
                asked: Callable[..., Any] = client.request
                done = asked(each.method, path, params={**given, "user_id": "ann"}, headers=OURS)
                told[name] = (done.status_code, expected.items() <= done.json().items())

    label = json.dumps(greeted.action.label if greeted.action else "")
    assert label in page.shell("on").replace("&quot;", '"')
    assert set(told.values()) == {(200, True)}
    assert {"greet", "close_effort", "erase", "forget"} <= told.keys()


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.name)
def test_every_command(tmp_path: Path, each: Command) -> None:
    """It says what it does, refuses graphs that have no memory, and its result has a name."""
    del tmp_path
    graph = StateGraph(MessagesState)
    graph.add_node("n", lambda _: {})
    graph.add_edge(START, "n")
    given = next(given for name, given, _ in STEPS if name == each.name)

    for foreign, name in (
        (RemoteGraph("ebbtide", url="http://127.0.0.1:1"), "RemoteGraph.*routes"),
        (graph.compile(), "StateGraph"),
    ):
        with pytest.raises(SettingsError, match=name):
            each.answered(foreign, THREAD, **each.arguments(given))  # type: ignore[arg-type]  # on purpose

    hint = get_type_hints(each.function)["return"]
    (named,) = {one for one in (hint, *get_args(hint)) if isinstance(one, type)} - {tuple}
    assert each.changes is (each.method != "GET")
    assert len(each.help) > 10
    assert named.__module__.startswith("ebbtide")
    assert named.__name__ in commands.__all__


def test_the_module() -> None:
    """Both names lead to one module; `__all__` names what it has, and the stub each form."""
    names = {each.name for each in ALL}
    stub = ast.parse(Path(all_commands.__file__).with_suffix(".pyi").read_text("utf-8"))
    typed = {node.targets[0].id for node in stub.body if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]  # a name
    typed |= {node.name for node in stub.body if isinstance(node, ast.AsyncFunctionDef)}

    assert ebbtide.commands is commands
    assert commands.__all__ == sorted(commands.__all__)
    assert {f"a{name}" for name in names} == typed
    functions = {name for name in commands.__all__ if isfunction(getattr(commands, name))}
    assert functions == names | typed
    assert all("agent" in signature(each.function).parameters for each in ALL)
