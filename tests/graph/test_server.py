"""`langgraph dev` from the repository: it starts with no key, and answers through its own API."""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import NotFoundError
from starlette.applications import Starlette
from starlette.authentication import AuthenticationBackend
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.routing import Route

from ebbtide import DiskArchive
from ebbtide.graph.commands.registry import COMMANDS
from ebbtide.graph.server import routes
from ebbtide.graph.studio import make_graph
from ebbtide.inspector.server import app
from tests.acceptance.test_state import NODES
from tests.cli.test_registry import SAID, STEPS, check, schema_of
from tests.conftest import SECRETS
from tests.processes import begun

CONFIG = Path(__file__).parents[2] / "langgraph.json"
QUIET = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
}
AUTH = """
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def who(authorization: str | None) -> str:
    if not authorization:
        raise Auth.exceptions.HTTPException(401)
    return authorization
"""
_TIMEOUT = 60.0
# The server in memory looks every half second for a run that waits: with some 60 runs, a minute.
SOON = """
import asyncio

from langgraph_cli.cli import cli
from langgraph_runtime_inmem import ops

following = ops.Runs.next


async def soon(wait, limit=1):
    await asyncio.sleep(0.02 if wait else 0)
    async for run in following(False, limit):
        yield run


ops.Runs.next = soon
cli()
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(url: str, server: BaseProcess, log: Path) -> None:
    """Wait for the server to answer at a URL; raise with its log if it does not."""
    end = time.monotonic() + _TIMEOUT
    while time.monotonic() < end and server.is_alive():
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError(f"the server did not start:\n{log.read_text('utf-8')}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working directory of the server."""
    return tmp_path_factory.mktemp("server")


@contextmanager
def served(folder: Path, config: Path) -> Iterator[str]:
    """Start a server without keys, and return its URL."""
    port, log = free_port(), folder / "server.log"
    url = f"http://127.0.0.1:{port}"
    kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
    kept = {name: value for name, value in kept.items() if not name.startswith("EBBTIDE_")}
    options = ["--no-browser", "--no-reload", "--port", str(port), "--config", str(config)]
    streams = [os.devnull, os.devnull, str(log)]
    server = begun(["-c", SOON, "dev", *options], folder, {**kept, **QUIET}, streams)
    try:
        wait_until_healthy(f"{url}/ok", server, log)
        yield url
    finally:
        server.kill()
        server.join()


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[SyncLangGraphClient]:
    """Return a client of a server that runs as the repository has it."""
    with served(folder, CONFIG) as url, get_sync_client(url=url) as connected:
        yield connected


def said(words: str) -> Mapping[str, Any]:
    """Return the input of a run: one user message."""
    return {"messages": [{"role": "user", "content": words}]}


def say(client: SyncLangGraphClient, thread: str, words: str, **options: Any) -> dict[str, Any]:
    """Run a turn on a thread and return the state."""
    found = client.runs.wait(thread, "ebbtide", input=said(words), **options)
    assert isinstance(found, dict)
    return found


@pytest.mark.thorough
def test_a_turn_is_answered_with_the_state_that_clients_read(client: SyncLangGraphClient) -> None:
    """A run opens an effort and returns answer, banners and the report of its context."""
    thread = client.threads.create()["thread_id"]

    found = say(client, thread, "Let's work on the auth bug: tokens live 3600 seconds.")

    assert found["messages"][-1]["content"] == "Opened auth-bug."
    assert found["memory"]["banners"] == ["--- Started effort: auth-bug ---"]
    assert (found["memory"]["turn"], found["memory"]["active_effort"]) == (1, "auth-bug")
    assert found["memory"]["context_report"]["total"] == sum(
        found["memory"]["context_report"]["tokens"].values()
    )
    assert "context" not in found


def test_banners_and_tokens_are_streamed(client: SyncLangGraphClient) -> None:
    """A stream carries the banner as it happens and the answer in pieces."""
    thread = client.threads.create()["thread_id"]
    asked = said("Let's work on the auth bug.")

    parts = [
        *client.runs.stream(thread, "ebbtide", input=asked, stream_mode=["custom", "messages"])
    ]

    assert {"banner": "--- Started effort: auth-bug ---"} in [part.data for part in parts]
    assert [part.event for part in parts].count("messages/partial") > 1


def test_a_run_may_have_settings_of_its_own(client: SyncLangGraphClient) -> None:
    """Context that a run brings is validated, and decides whose session it is."""
    thread = client.threads.create()["thread_id"]

    say(client, thread, "Hello!", context={"user_id": "ann", "ambient_window": 3})

    turns = asked(client, "GET", f"threads/{thread}/messages", user_id="ann").json()
    assert [line["turn"] for line in turns["lines"]] == [1]


def test_the_server_keeps_its_archive_where_it_was_started(
    client: SyncLangGraphClient, folder: Path
) -> None:
    """Sessions lie in the working directory, not in the repository."""
    thread = client.threads.create()["thread_id"]

    say(client, thread, "Hello!")

    refused = asked(client, "GET", f"threads/{thread}/messages", user_id="default")

    with DiskArchive(folder / "sessions") as archive:
        assert [session.thread for session in archive.sessions("")].count(thread) == 1
    assert refused.status_code == 404
    assert (folder / ".langgraph_api").exists()


def test_a_user_is_known_in_the_next_thread(client: SyncLangGraphClient, folder: Path) -> None:
    """What ann concludes on one thread is surfaced on her next, from the store of the server."""
    ann = {"context": {"user_id": "ann"}}
    first, next_one, other = (client.threads.create()["thread_id"] for _ in range(3))
    say(client, first, "Let's work on the gate.", **ann)
    say(client, first, "The key hangs behind the clock, at the porter's.", **ann)
    say(client, first, "That's done.", **ann)

    found = say(client, next_one, "Hello!", **ann)
    nothing = say(client, other, "Hello!", context={"user_id": "bob"})

    assert [*found["memory"]["summaries"]] == [f"{first}/gate"]
    assert nothing["memory"]["summaries"] == {}
    assert not (folder / "sessions" / ".ebbtide").exists()


def asked(client: SyncLangGraphClient, method: str, path: str, **query: Any) -> httpx.Response:
    """Return what a route of the commands answers."""
    headers = {"X-Ebbtide": "1"}
    return client.http.client.request(method, f"/ebbtide/{path}", params=query, headers=headers)


@pytest.fixture
def user() -> str:
    """Return a user who has said nothing yet."""
    return f"user-{uuid4()}"


@pytest.fixture
def thread(client: SyncLangGraphClient, user: str) -> str:
    """Return a thread of the user's on which two turns were said."""
    found: str = client.threads.create()["thread_id"]
    for words in ("Let's work on the auth bug.", "The staging host listens on port 8123."):
        say(client, found, words, context={"user_id": user})
    return found


def test_every_command_is_a_route(client: SyncLangGraphClient, user: str) -> None:
    """Each works on the server's own threads, and answers what the served schema says."""
    thread = client.threads.create()["thread_id"]
    for words in SAID:
        say(client, thread, words, context={"user_id": user})
    described = client.http.client.get("/openapi.json").json()["paths"]
    steps = json.loads(
        json.dumps([one for one in STEPS if one[0] in COMMANDS]).replace("t/gate", f"{thread}/gate")
    )

    for name, given, told in steps:
        path, method = COMMANDS[name].path, COMMANDS[name].method
        place = path.format(thread_id=thread, **given)
        answer = asked(client, method, place, **{**given, "user_id": user})
        assert answer.status_code == 200, (name, answer.text)
        check(name, told, answer.json(), schema_of(described[f"/ebbtide/{path}"][method.lower()]))
        if name == "restore":
            found = say(client, thread, "Which key?", context={"user_id": user})
            assert found["memory"]["turn"] == 3


def test_commands_are_answered_to_the_threads_user_alone(
    client: SyncLangGraphClient, thread: str, user: str
) -> None:
    """Errors of ours have a status and their text; another user learns nothing."""
    refused = asked(client, "GET", f"threads/{thread}/messages", user_id="bob")
    erased = asked(client, "DELETE", f"threads/{thread}/turns/2", user_id="bob")
    deleted = asked(client, "DELETE", f"threads/{thread}", user_id="bob")
    nowhere = asked(client, "GET", f"threads/{thread}/messages", page=9, user_id=user)
    before = asked(client, "GET", f"threads/{thread}/messages", page=0, user_id=user)
    nothing = asked(client, "GET", f"threads/{thread}/messages", page="x", user_id=user)
    unknown = asked(client, "GET", f"threads/{uuid4()}/messages", user_id=user)
    nobody = asked(client, "DELETE", "user")

    answers = (refused, erased, deleted, nowhere, before, nothing, unknown, nobody)
    assert [one.status_code for one in answers] == [404, 404, 404, 400, 400, 422, 404, 422]
    assert refused.json()["error"] == "SessionNotFoundError"
    assert nowhere.json()["detail"] == "there is no page 9: the pages are 1-1"


def test_a_thread_on_which_nothing_was_said(client: SyncLangGraphClient, user: str) -> None:
    """Its next context is shown; there is nothing else to look at."""
    new = client.threads.create(graph_id="ebbtide")["thread_id"]

    context = asked(client, "GET", f"threads/{new}/context", message="Hi", user_id=user)
    turns = asked(client, "GET", f"threads/{new}/messages", user_id=user)

    assert (context.json()["turn"], turns.status_code) == (1, 404)


def test_a_running_turn_is_left_alone(client: SyncLangGraphClient, thread: str, user: str) -> None:
    """While a turn runs or is not finished, nothing is undone or deleted; one may look."""
    path = f"threads/{thread}"
    say(client, thread, "And?", context={"user_id": user}, interrupt_before=["persist"])
    unfinished = asked(client, "POST", f"{path}/undo", user_id=user)
    context = asked(client, "GET", f"{path}/context", user_id=user)
    run = client.runs.create(thread, "ebbtide", context={"user_id": user}, after_seconds=60)
    running = asked(client, "DELETE", path, user_id=user)
    client.runs.cancel(thread, run["run_id"])

    assert (unfinished.status_code, running.status_code) == (409, 409)
    assert (unfinished.json()["error"], running.json()["error"]) == ("TurnRunningError",) * 2
    assert context.json()["unfinished"] is True


def test_a_state_of_another_archive_is_refused_and_restored_over_http(
    client: SyncLangGraphClient, thread: str, user: str
) -> None:
    """The next run is told why, and goes on once the thread was restored from the archive."""
    forged = {"archive": "ab" * 16, "tip": "cd" * 16}
    client.threads.update_state(thread, {"bookkeeping": forged})

    with pytest.raises(Exception, match=r"TipNotFoundError: .*`restore`"):
        say(client, thread, "And?", context={"user_id": user})
    restored = asked(client, "POST", f"threads/{thread}/restore", user_id=user)

    found = say(client, thread, "And now?", context={"user_id": user})
    assert restored.json() == {"turn": 2}
    assert found["memory"]["turn"] == 3


def test_a_memory_that_a_client_edits_is_taken(
    client: SyncLangGraphClient, thread: str, user: str
) -> None:
    """What makes sense stays, what is wrong is put right and named."""
    edited = {"anchor": {"Goal": "tea at five"}, "active_effort": "nobody"}
    client.threads.update_state(thread, {"memory": edited})

    found = say(client, thread, "And now?", context={"user_id": user})

    assert (found["memory"]["anchor"], found["memory"]["turn"]) == (edited["anchor"], 3)
    assert "active_effort" in "".join(found["memory"]["banners"])


def test_a_turn_is_erased_over_http(client: SyncLangGraphClient, thread: str, user: str) -> None:
    """Archive, checkpoints and runs have lost its text, and the thread goes on."""
    done = asked(client, "DELETE", f"threads/{thread}/turns/2", user_id=user)

    found = say(client, thread, "Which port does it listen on?", context={"user_id": user})

    assert (done.status_code, done.json()["turn"]) == (200, 2)
    assert found["memory"]["turn"] == 3
    assert "port 8123" not in json.dumps(found)
    assert "port 8123" not in json.dumps(client.threads.get_history(thread, limit=100))
    assert "port 8123" not in json.dumps(client.runs.list(thread))


def test_a_session_and_a_user_are_deleted_over_http(
    client: SyncLangGraphClient, thread: str, user: str, folder: Path
) -> None:
    """Nothing is left of the thread, nor after that of the user."""
    other: str = client.threads.create()["thread_id"]
    say(client, other, "Hello!", context={"user_id": "cleo"})

    named = asked(client, "DELETE", f"threads/{thread}", user_id=user)
    cleo = asked(client, "DELETE", "user", user_id="cleo")

    assert [one["thread"] for one in named.json()["sessions"]] == [thread]
    assert [one["thread"] for one in cleo.json()["sessions"]] == [other]
    with DiskArchive(folder / "sessions") as archive:
        assert thread not in [session.thread for session in archive.sessions(user)]
        assert archive.sessions("cleo") == ()
    for gone in (thread, other):
        with pytest.raises(NotFoundError):
            client.threads.get(gone)


def test_a_fork_goes_on_from_an_older_checkpoint(
    client: SyncLangGraphClient, thread: str, user: str
) -> None:
    """It sees its own past and nothing of its sibling, which stays as it was."""
    history = client.threads.get_history(thread, limit=100)
    rested = [one for one in history if not one["next"] and _turn(one["values"]) == 1]
    older = rested[0]["checkpoint"]["checkpoint_id"]

    found = say(
        client,
        thread,
        "Which port does it listen on?",
        checkpoint_id=older,
        context={"user_id": user},
    )

    assert found["memory"]["turn"] == 2
    assert "8123" not in found["messages"][-1]["content"]
    assert any("8123" in json.dumps(one["values"]) for one in history)


def test_a_copy_of_a_thread_goes_on(client: SyncLangGraphClient, thread: str, user: str) -> None:
    """Both know what was said before, and each has its own next turn."""
    client.threads.copy(thread)
    copies = client.threads.search(limit=100, sort_by="created_at", sort_order="desc")
    copied = next(one["thread_id"] for one in copies if one["thread_id"] != thread)
    ask = "Which port does the staging host listen on?"

    copy = say(client, copied, ask, context={"user_id": user})
    original = say(client, thread, "It listens on port 9000 now.", context={"user_id": user})

    assert "8123" in copy["messages"][-1]["content"]
    assert [one["memory"]["turn"] for one in (original, copy)] == [3, 3]
    assert original["bookkeeping"]["tip"] != copy["bookkeeping"]["tip"]


def test_an_assistant_has_settings_of_its_own(client: SyncLangGraphClient, user: str) -> None:
    """They hold for its runs, and for the context that is shown of its threads."""
    context: Any = {"user_id": user, "context_budget": 3_000, "anchor": "off"}
    small = client.assistants.create("ebbtide", context=context)["assistant_id"]
    thread: str = client.threads.create()["thread_id"]

    found = client.runs.wait(thread, small, input=said("Words. " * 5_000))

    assert isinstance(found, dict)
    shown = asked(client, "GET", f"threads/{thread}/context", message="And?", user_id=user).json()
    assert found["memory"]["context_report"]["total"] <= 3_000
    assert shown["total"] <= 3_000
    turns = asked(client, "GET", f"threads/{thread}/messages", user_id=user).json()
    assert [line["turn"] for line in turns["lines"]] == [1]


@pytest.mark.thorough
def test_an_interrupted_run_is_resumed(client: SyncLangGraphClient, thread: str, user: str) -> None:
    """At a breakpoint before any node the state shows what follows; each turn is stored once."""
    how: Any = {"context": {"user_id": user}}
    stops = [*NODES[:3], *NODES[5:8]]
    for node in stops:
        say(client, thread, f"Which port, {node}?", interrupt_before=[node], **how)
        assert client.threads.get_state(thread)["next"] == [node]
        found: Any = client.runs.wait(thread, "ebbtide", input=None, **how)
        assert found["messages"][-1]["type"] == "ai"

    turns = asked(client, "GET", f"threads/{thread}/messages", user_id=user).json()
    assert [line["turn"] for line in turns["lines"]] == [*range(2 + len(stops), 0, -1)]


def test_a_state_sent_back_as_it_was_read_changes_nothing(
    client: SyncLangGraphClient, thread: str, user: str
) -> None:
    """A client that edits nothing makes no branch, and the tokens of its turns are counted."""
    how: Any = {"context": {"user_id": user}}
    say(client, thread, "And?", interrupt_before=["decay"], **how)
    client.threads.update_state(thread, client.threads.get_state(thread)["values"])
    client.runs.wait(thread, "ebbtide", input=None, **how)

    found = say(client, thread, "Which port does it listen on?", **how)

    figures = asked(client, "GET", f"threads/{thread}/stats", user_id=user).json()
    told = asked(client, "GET", f"threads/{thread}/transcript", user_id=user).json()["messages"]
    assert (found["memory"]["turn"], found["memory"]["banners"]) == (4, [])
    assert {cost["unreported"] for cost in figures["costs"]} == {0}
    assert not any(one["data"].get("additional_kwargs") for one in told)
    assert [one["data"]["content"] for one in told if one["type"] == "human"][2] == "And?"


def test_an_update_of_a_node_is_sent_back_as_it_was_streamed(
    client: SyncLangGraphClient, thread: str, user: str
) -> None:
    """A fork from the update of `begin_turn` ends its turn and goes on."""
    how: Any = {"context": {"user_id": user}}
    options: Any = {"stream_mode": "updates", "interrupt_before": ["decay"], **how}
    parts = [*client.runs.stream(thread, "ebbtide", input=said("And?"), **options)]
    update = next(part.data["begin_turn"] for part in parts if "begin_turn" in part.data)
    history = client.threads.get_history(thread, limit=20)
    before = next(one for one in history if one["next"] == ["begin_turn"])["checkpoint"]
    client.threads.update_state(
        thread, update, as_node="begin_turn", checkpoint_id=before["checkpoint_id"]
    )

    found: Any = client.runs.wait(thread, "ebbtide", input=None, **how)

    assert update["messages"]["type"] == "__overwrite__"
    assert (found["memory"]["turn"], found["messages"][-1]["type"]) == (3, "ai")
    assert say(client, thread, "And now?", **how)["memory"]["turn"] == 4


@pytest.mark.thorough
def test_a_server_that_was_killed_has_its_archive(tmp_path: Path) -> None:
    """Whatever is left of its checkpoints, the thread is restored and goes on."""
    with served(tmp_path, CONFIG) as url, get_sync_client(url=url) as before:
        thread: str = before.threads.create()["thread_id"]
        say(before, thread, "The staging host listens on port 8123.")

    with served(tmp_path, CONFIG) as url, get_sync_client(url=url) as after:
        after.threads.create(thread_id=thread, graph_id="ebbtide", if_exists="do_nothing")
        restored = asked(after, "POST", f"threads/{thread}/restore")
        told = asked(after, "GET", f"threads/{thread}/transcript").json()["messages"]
        found = say(after, thread, "Which port does the staging host listen on?")

    assert restored.json() == {"turn": 1}
    assert told[0]["data"]["content"] == "The staging host listens on port 8123."
    assert ("8123" in found["messages"][-1]["content"], found["memory"]["turn"]) == (True, 2)


def _turn(values: Any) -> int:
    return int(values.get("memory", {}).get("turn", 0))


@pytest.mark.thorough
def test_no_route_takes_the_id_of_another_user(tmp_path: Path) -> None:
    """With authentication the routes know who asks, and do nothing in the name of anybody else."""
    (tmp_path / "who.py").write_text(AUTH, "utf-8")
    config = json.loads(CONFIG.read_text("utf-8"))
    config["auth"] = {"path": "./who.py:auth", "disable_studio_auth": True}
    (tmp_path / "langgraph.json").write_text(json.dumps(config), "utf-8")

    with (
        served(tmp_path, tmp_path / "langgraph.json") as url,
        get_sync_client(url=url, headers={"Authorization": "ann"}) as ann,
        get_sync_client(url=url, headers={"Authorization": "bob"}) as bob,
    ):
        thread: str = ann.threads.create()["thread_id"]
        say(ann, thread, "Hello!", context={"user_id": "bob"})
        values = {"thread_id": thread, "turn": "1", "verb": "forget", "name": "inspector.js"}
        named = [
            asked(ann, method, route.path.format(**values)[len("/ebbtide/") :], user_id="bob")
            for route in app.routes
            if isinstance(route, Route)
            for method in (route.methods or set()) - {"HEAD"}
        ]
        foreign = asked(bob, "GET", f"threads/{thread}/messages")
        unknown = httpx.get(f"{url}/ebbtide/threads/{thread}/messages")
        own = asked(ann, "GET", f"threads/{thread}/messages", user_id="ann")
        deleted = asked(ann, "DELETE", "user")

    assert len(named) > 20
    assert {(one.status_code, one.json()["error"]) for one in named} == {(403, "RequestError")}
    assert "user_id is 'bob', but you are 'ann'" in named[0].json()["detail"]
    assert [one.status_code for one in (foreign, unknown, own)] == [404, 401, 200]
    assert [one["thread"] for one in deleted.json()["sessions"]] == [thread]


async def test_a_server_that_does_not_say_who_asks_is_refused() -> None:
    """Without the server's authentication in front of them the routes answer nobody."""
    transport = httpx.ASGITransport(app=app)

    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        found = await http.get("/ebbtide/threads/t/messages")

    assert found.status_code == 422
    assert "set http.enable_custom_route_auth" in found.json()["detail"]


class Nobody(AuthenticationBackend):
    """Knows nobody."""

    async def authenticate(self, conn: HTTPConnection) -> None:
        """Let everyone in as a stranger."""


@pytest.mark.parametrize("memory", [{"turn": "two"}, "mine", None])
async def test_a_busy_thread_is_refused_whatever_is_in_its_memory(memory: Any) -> None:
    """That a run is going on is told first, also where the memory is none of ours."""
    kept = {"thread_id": "t", "status": "busy", "metadata": {}, "values": {"memory": memory}}
    own = Route("/threads/{thread_id}", lambda _: JSONResponse(kept))
    guard = Middleware(AuthenticationMiddleware, backend=Nobody())
    busy = Starlette(routes=[own, *routes(make_graph)], middleware=[guard])
    transport = httpx.ASGITransport(app=busy)

    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        found = await http.post("/ebbtide/threads/t/undo", headers={"X-Ebbtide": "1"})

    assert (found.status_code, found.json()["error"]) == (409, "TurnRunningError")


def test_errors_of_ours_are_told_to_a_client(client: SyncLangGraphClient) -> None:
    """Who resumes another user's turn reads why it is refused."""
    thread = client.threads.create()["thread_id"]
    ann, bob = {"user_id": "ann"}, {"user_id": "bob"}
    say(client, thread, "Hello!", context=ann, interrupt_before=["call_model"])

    with pytest.raises(Exception, match=r"SessionNotFoundError: session .* not found: check the"):
        client.runs.wait(thread, "ebbtide", input=None, context=bob)


def test_the_inspector_is_served(client: SyncLangGraphClient, thread: str, user: str) -> None:
    """The page is there, and shows the user's own sessions and nobody else's."""
    page = asked(client, "GET", "", user_id=user)
    without_slash = client.http.client.get("/ebbtide", params={"user_id": user})
    own = asked(client, "GET", "api/sessions", user_id=user)
    session = asked(client, "GET", "api/session", user_id=user, user=user, session=thread)
    others = asked(client, "GET", "api/session", user_id="eve", user=user, session=thread)

    assert without_slash.next_request is not None
    assert without_slash.next_request.url.raw_path == f"/ebbtide/?user_id={user}".encode()
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert thread in {one["label"] for one in own.json()}
    assert session.json()["turns"]
    assert 'data-actions="off"' in page.text
    assert session.json()["session"]["thread"] == thread  # the routes of its commands name it so
    assert others.status_code == 404
