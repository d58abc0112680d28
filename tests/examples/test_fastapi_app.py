"""The application behind FastAPI, with plain `create_agent` and with Ebbtide, driven over HTTP."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import SECRETS
from tests.databases import Database, Server
from tests.graph.test_server import free_port, wait_until_healthy
from tests.processes import ROOT, begun

FOLDER = ROOT / "examples" / "fastapi_app"
PAID = "Order A-17 was paid back."
_TIMEOUT = 60.0

Event = tuple[str, Any]


@dataclass(frozen=True)
class Chat:
    """A server that runs, and the database in which it keeps everything."""

    client: httpx.Client
    database: Database

    def ask(self, user: str, thread: str = "monday", **body: str) -> list[Event]:
        """Post to a thread; return the streamed events as name and data."""
        answer = self.client.post(f"/{thread}", json=body, headers={"x-user": user})
        answer.raise_for_status()
        blocks = [
            dict(_fields(block)) for block in answer.text.split("\n\n") if block.strip(" :\n")
        ]
        return [(one["event"], json.loads(one["data"])) for one in blocks if "event" in one]

    def said(self, user: str, words: str) -> str:
        """Say something; return the text of the answer, as it was streamed."""
        return "".join(data for name, data in self.ask(user, said=words) if name == "text")

    def read(self, user: str, thread: str = "monday", **asked: Any) -> list[dict[str, Any]]:
        """Return the messages of a page of a conversation."""
        answer = self.client.get(f"/{thread}", headers={"x-user": user}, params=asked)
        answer.raise_for_status()
        return [message["data"] for message in answer.json()]


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for line in block.splitlines():
        name, _, value = line.partition(": ")
        yield name, value


@contextmanager
def running(module: str, database: Database, log: Path) -> Iterator[Chat]:
    """Run an application on a database until all is done."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
    options = ["--app-dir", str(FOLDER), "--port", str(port), f"{module}:app"]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        server = begun(
            ["-m", "uvicorn", *options],
            Path.cwd(),
            {**kept, "DATABASE_URL": database.uri},
            [os.devnull, os.devnull, str(log)],
        )
        try:
            wait_until_healthy(f"{client.base_url}/openapi.json", server, log)
            yield Chat(client, database)
        finally:
            server.terminate()
            server.join(_TIMEOUT)
            server.kill()  # else the end of the tests waits for it
            server.join(_TIMEOUT)


@pytest.fixture(scope="module", params=["plain", "app"])
def chat(
    request: pytest.FixtureRequest, postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chat]:
    """Run each of both applications, one after the other, on a database of its own."""
    log = tmp_path_factory.mktemp("server") / "log"
    with running(request.param, postgres.database(), log) as server:
        yield server


@pytest.fixture(scope="module")
def remembering(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    """Run the application with Ebbtide, after a conversation that is longer than the state."""
    log = tmp_path_factory.mktemp("server") / "log"
    with running("app", postgres.database(), log) as server:
        for number in range(1, 25):
            server.said("ann", f"Crate {number} holds {number * 7} lamps.")
        yield server


@pytest.mark.thorough
def test_answers_are_streamed(chat: Chat) -> None:
    """A question is answered from the conversation, once and in pieces."""
    chat.said("cora", "The token expires after 3600 s.")

    pieces = chat.ask("cora", said="When does the token expire?")

    assert len(pieces) > 1
    assert {name for name, _ in pieces} == {"text"}
    assert "".join(data for _, data in pieces).count("The token expires after 3600 s.") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_refund_waits_for_a_person(chat: Chat, decision: str) -> None:
    """Nothing is paid before the decision, and what follows it is streamed."""
    user = f"dora-{decision}"
    asked = chat.ask(user, said="use refund with order=A-17")
    waiting = [message["content"] for message in chat.read(user)]

    followed = chat.ask(user, decision=decision)

    assert [name for name, _ in asked if name != "text"] == ["approval"]
    assert asked[-1][1]["action_requests"][0]["args"] == {"order": "A-17"}
    assert PAID not in waiting
    paid = PAID in [message["content"] for message in chat.read(user)]
    assert paid == (decision == "approve")
    assert [name for name, _ in followed if name != "text"] == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("POST", {"json": {"said": ""}}),
        ("POST", {"json": {"said": ["hi"]}}),
        ("POST", {"json": {"decision": "maybe"}}),
        ("POST", {"content": b"{said", "headers": {"content-type": "application/json"}}),
        ("POST", {"json": {"said": "hi"}, "headers": {"x-user": ""}}),
        ("GET", {"params": {"before": "x"}}),
    ],
)
def test_a_request_that_means_nothing_is_refused(
    chat: Chat, method: str, asked: dict[str, Any]
) -> None:
    """It has a status of its own, which a stream that breaks off has not."""
    kim = {"x-user": "kim"}
    given = {**asked, "headers": {**kim, **asked.get("headers", {})}}

    assert chat.client.request(method, "/odd", **given).status_code in (404, 422)
    assert chat.client.get("/odd", headers=kim).status_code == 404


def test_a_client_that_goes_away_leaves_a_thread_that_goes_on(chat: Chat) -> None:
    """Whatever was written of the turn by then, the next message is answered."""
    asked: Any = {"json": {"said": "The attic is dry. " * 200}, "headers": {"x-user": "mia"}}
    with chat.client.stream("POST", "/monday", **asked) as stream:
        next(stream.iter_text())

    answer = chat.said("mia", "And now?")

    assert answer
    assert chat.read("mia")[-1]["content"] == answer


def test_a_user_is_deleted(chat: Chat) -> None:
    """Nothing of what was said is left in the database, and another user's words are."""
    chat.said("ida", "Ida's cellar is damp.")
    chat.said("joe", "Joe's attic is dry.")

    before = chat.database.holding(["Ida's cellar is damp."])
    chat.client.delete("/", headers={"x-user": "ida"}).raise_for_status()

    chat.database.run("ANALYZE")
    assert before
    assert chat.database.holding(["Ida's cellar is damp."]) == []
    assert chat.read("joe")[0]["content"] == "Joe's attic is dry."
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        chat.read("ida")


@pytest.mark.thorough
def test_the_whole_conversation_can_be_read(remembering: Chat) -> None:
    """The state has the last turns only, the pages have all, oldest first on each."""
    last = remembering.read("ann")
    turn = last[0]["response_metadata"]["ebbtide"]["turn"]

    first = remembering.read("ann", before=turn)

    said = [one["content"] for one in (*first, *last) if one["content"].startswith("Crate ")]
    assert turn == 5
    assert said[:2] == ["Crate 1 holds 7 lamps.", "Crate 2 holds 14 lamps."]
    assert {one["response_metadata"]["ebbtide"]["turn"] for one in (*first, *last)} == {
        *range(1, 25)
    }


@pytest.mark.thorough
def test_a_decision_may_come_after_a_restart(postgres: Server, tmp_path: Path) -> None:
    """What waits for a person is in the database, not in the process."""
    database = postgres.database()
    with running("app", database, tmp_path / "one") as chat:
        chat.ask("ann", said="use refund with order=A-17")

    with running("app", database, tmp_path / "two") as chat:
        chat.ask("ann", decision="approve")

        assert PAID in [message["content"] for message in chat.read("ann")]
