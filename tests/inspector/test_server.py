"""The inspector's local server: who sees what, and what a browser may load."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import httpx
import pytest
from starlette.testclient import TestClient

from ebbtide.inspector.server import Inspected, local_app
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.record import ANONYMOUS, Group, Owner, Tip

TOKEN = "the-token"  # noqa: S105 (of these tests)
WORDS = {"type": "human", "data": {"content": "Mine alone", "id": "1"}}


def client(archive: SqlArchive, *users: str) -> TestClient:
    """Return a client of the inspector, for these users or for all."""
    seen = (lambda: users) if users else archive.users
    return TestClient(local_app(Inspected(archive, seen), TOKEN), base_url="http://127.0.0.1")


@pytest.fixture
def entered(archive: SqlArchive, owner: Owner) -> Iterator[TestClient]:
    """Return a client that has the cookie, of an archive with one session."""
    assert owner.thread
    with client(archive) as opened:
        opened.get("/", params={"token": TOKEN})
        yield opened


@pytest.mark.parametrize(
    "path", ["/", "/api/sessions", "/api/session", "/static/inspector.js", "/api/live"]
)
def test_nothing_without_the_token(archive: SqlArchive, owner: Owner, path: str) -> None:
    """Neither the page nor data nor a script is given to who does not know the token."""
    answer = client(archive).get(path)

    assert answer.status_code == 403
    assert owner.thread not in answer.text


def test_wrong_token(archive: SqlArchive) -> None:
    """A token of another run opens nothing, and sets no cookie."""
    answer = client(archive).get("/", params={"token": "another"})

    assert answer.status_code == 403
    assert not answer.cookies


def test_token_leaves_the_address(archive: SqlArchive) -> None:
    """The token is exchanged for a cookie that scripts and other sites cannot use."""
    answer = client(archive).get("/", params={"token": TOKEN}, follow_redirects=False)

    assert answer.headers["location"] == "/"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "samesite=strict" in answer.headers["set-cookie"].lower()


def test_another_host_is_refused(entered: TestClient) -> None:
    """A page of another site that points its name at this machine reads nothing."""
    assert entered.get("/api/sessions", headers={"Host": "evil.example"}).status_code == 400


def test_policy(entered: TestClient) -> None:
    """The page may load its own files and nothing else, and nobody may frame it."""
    policy = entered.get("/").headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_payload_of_a_session(entered: TestClient, owner: Owner) -> None:
    """The overview has each turn's tokens, and the efforts with the turns of their changes."""
    session = entered.get("/api/sessions").json()[0]

    found = entered.get("/api/session", params={"session": session["name"]}).json()

    assert session["label"] == owner.thread
    assert [turn["turn"] for turn in found["turns"]] == [1, 2, 3, 4, 5, 6]
    assert [len(turn["calls"]) for turn in found["turns"]] == [2, 1, 2, 1, 2, 1]
    assert {call["budget"] for turn in found["turns"] for call in turn["calls"]} == {16_000}
    (effort,) = found["efforts"]
    states = [(change["turn"], change["state"]) for change in effort["changes"]]
    assert states == [(1, "open"), (3, "concluded"), (5, "expanded")]


def test_search(entered: TestClient) -> None:
    """Results have scores, and those that the model would get are marked."""
    session = entered.get("/api/sessions").json()[0]["name"]

    found = entered.get("/api/search", params={"session": session, "query": "token expires"}).json()

    assert "3600 s" in found["results"][0]["text"]
    assert found["results"][0]["score"] > 0
    assert any(result["shown"] for result in found["results"])


def test_sessions_of_one_user(archive: SqlArchive) -> None:
    """Narrowed to a user, the sessions of others do not exist."""
    for user in ("ann", "bob"):
        archive.commit(Owner(user, "t"), Tip(), Group(1, (WORDS,), "2026-03-01T10:00:00+00:00"))
    narrowed = client(archive, "ann")
    narrowed.get("/", params={"token": TOKEN})

    listed = narrowed.get("/api/sessions").json()
    others = narrowed.get("/api/session", params={"user": "bob", "session": "t"})
    nobodys = narrowed.get("/api/session", params={"user": "eve", "session": "t"})

    assert [entry["user"] for entry in listed] == ["ann"]
    assert others.status_code == 404
    assert others.json() == nobodys.json()


@pytest.fixture
def command(tmp_path: Path, owner: Owner) -> Iterator[Popen[str]]:
    """Start `ebbtide inspect` as a process of its own, for an archive with one session."""
    assert owner.thread
    words = [sys.executable, "-m", "ebbtide.cli.main", "inspect", "--no-browser"]
    root = ["--root", str(tmp_path / "sessions")]
    with Popen([*words, *root], stdout=PIPE, stderr=PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def test_interrupt_with_an_open_page(command: Popen[str]) -> None:
    """Ctrl-C ends the command although a page still waits for new turns."""
    assert command.stdout is not None
    address = httpx.URL(command.stdout.readline().rpartition(": ")[2].strip())
    with httpx.Client(follow_redirects=True, timeout=10) as opened:
        opened.get(address)
        session = opened.get(address.join("/api/sessions")).json()[0]["name"]
        live = address.join("/api/live").copy_set_param("session", session)
        with opened.stream("GET", live) as stream:
            assert stream.status_code == 200
            command.send_signal(signal.SIGINT)

            assert command.communicate(timeout=10)[1] == ""


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("turn", {"turn": "99"}),
        ("turn", {"turn": "-1"}),
        ("turn", {"turn": "x"}),
        ("session", {"tip": "3:none-such"}),
        ("session", {"session": "none-such"}),
    ],
)
def test_bad_requests(entered: TestClient, path: str, values: dict[str, str]) -> None:
    """What does not exist is named, with what to do."""
    session = entered.get("/api/sessions").json()[0]["name"]

    answer = entered.get(f"/api/{path}", params={"session": session, "user": ANONYMOUS, **values})

    assert answer.status_code == 404
    assert answer.json()["detail"]
