"""The inspector's local server: who sees what, and what a browser may load."""

import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import httpx
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient

from ebbtide import create_memory_agent
from ebbtide.inspector.export import export_html
from ebbtide.inspector.payload import branches
from ebbtide.inspector.server import Inspected, local_app, served_routes
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import ANONYMOUS, Session, StoredTurn, Tip
from ebbtide.testing import ScriptedModel
from tests.web_server import serving

TOKEN = "the-token"  # noqa: S105 (of these tests)
WORDS = HumanMessage("Mine alone", id="1")


def client(archive: SqlArchive, *users: str) -> TestClient:
    """Return a client of the inspector, for these users or for all."""
    seen = (lambda: users) if users else archive.users
    return TestClient(local_app(Inspected(archive, seen), TOKEN), base_url="http://127.0.0.1")


@pytest.fixture
def entered(archive: SqlArchive, session: Session) -> Iterator[TestClient]:
    """Return a client that has the cookie, of an archive with one session."""
    assert session.thread
    with client(archive) as opened:
        opened.get("/", params={"token": TOKEN})
        yield opened


def test_nothing_without_the_token(archive: SqlArchive, session: Session) -> None:
    """Neither the page nor data nor a script is given to who does not know the token."""
    paths = ("/", "/api/sessions", "/api/session", "/static/inspector.js", "/api/live")

    answers = [client(archive).get(path) for path in paths]

    assert [answer.status_code for answer in answers] == [403] * len(paths)
    assert not any(session.thread in answer.text for answer in answers)


def test_wrong_token(archive: SqlArchive) -> None:
    """A token of another run opens nothing, and sets no cookie."""
    answer = client(archive).get("/", params={"token": "another"})

    assert answer.status_code == 403
    assert not answer.cookies


def test_token_leaves_the_address(archive: SqlArchive) -> None:
    """The token is exchanged for a cookie that scripts and other sites cannot use."""
    answer = client(archive).get("/", params={"token": TOKEN}, follow_redirects=False)

    assert answer.headers["location"] == "/"
    assert TOKEN not in answer.headers["set-cookie"]
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


def test_payload_of_a_session(entered: TestClient, session: Session) -> None:
    """The overview has each turn's tokens, and the efforts with the turns of their changes."""
    shown = entered.get("/api/sessions").json()[0]

    found = entered.get("/api/session", params={"session": shown["name"]}).json()

    assert (shown["label"], shown["said"]) == (session.thread, "The weather is fine.")
    assert [turn["turn"] for turn in found["turns"]] == [1, 2, 3, 4, 5, 6]
    assert [len(turn["calls"]) for turn in found["turns"]] == [2, 1, 2, 1, 2, 1]
    assert {call["budget"] for turn in found["turns"] for call in turn["calls"]} == {16_000}
    (effort,) = found["efforts"]
    states = [(change["turn"], change["state"]) for change in effort["changes"]]
    assert states == [(1, "open"), (3, "concluded"), (5, "expanded")]


def test_countdown(entered: TestClient) -> None:
    """After each turn a log and a summary have turns left, from the settings of the turn."""
    session = entered.get("/api/sessions").json()[0]["name"]

    after = [
        entered.get("/api/turn", params={"session": session, "turn": str(turn)}).json()["standing"]
        for turn in (1, 3, 4, 5, 6)
    ]

    assert [(*one["auth-bug"].values(),) for one in after] == [
        ("open", 1, "when it is concluded"),
        ("concluded", 3, "in 20 to 25 turns"),
        ("concluded", 3, "in 19 to 24 turns"),
        ("expanded", 5, "in 3 turns"),
        ("expanded", 5, "in 2 turns"),
    ]


def test_thresholds_of_a_run(archive: SqlArchive) -> None:
    """Settings of one run count for its turn, though others are in force."""
    agent = create_memory_agent(ScriptedModel(), archive=archive, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    for words in ("Let's work on the auth bug", "That's done"):
        agent.invoke({"messages": words}, thread, context={"summary_eviction_threshold": 7})

    with client(archive) as page:
        page.get("/", params={"token": TOKEN})
        found = page.get("/api/session", params={"session": "t"}).json()

    assert found["standing"]["auth-bug"]["leaves"] == "in 7 to 12 turns"


def test_branches(archive: SqlArchive) -> None:
    """The longest branch is the trunk; another one tells at which turn it left it."""
    session, at = Session(ANONYMOUS, "t"), "2026-03-01T10:00:00+00:00"
    tips = [Tip()]
    for number, before in ((1, 0), (2, 1), (3, 2), (2, 1)):
        said = HumanMessage("Hi", id=f"{len(tips)}")
        nonce = f"{len(tips):032x}"
        tips.append(
            archive.commit(session, tips[before], StoredTurn(number, (said,), at, nonce=nonce)).tip
        )

    trunk, other = branches(archive, session)

    assert trunk == {"turn": 3, "id": tips[3].id}
    assert other == {"turn": 2, "id": tips[4].id, "from": {"turn": 1, "id": tips[3].id}}


def test_search(entered: TestClient) -> None:
    """Results have scores, and those that the model would get are marked."""
    session = entered.get("/api/sessions").json()[0]["name"]

    found = entered.get("/api/search", params={"session": session, "query": "token expires"}).json()

    assert "expires" in found["results"][0]["pieces"][1::2]
    assert "3600 s" in "".join(found["results"][0]["pieces"])
    assert found["results"][0]["score"] > 0
    assert any(result["shown"] for result in found["results"])


def test_sessions_of_one_user(archive: SqlArchive) -> None:
    """Narrowed to a user, the sessions of others do not exist."""
    for user in ("ann", "bob"):
        archive.commit(
            Session(user, "t"), Tip(), StoredTurn(1, (WORDS,), "2026-03-01T10:00:00+00:00")
        )
    narrowed = client(archive, "ann")
    narrowed.get("/", params={"token": TOKEN})

    listed = narrowed.get("/api/sessions").json()
    others = narrowed.get("/api/session", params={"user": "bob", "session": "t"})
    nobodys = narrowed.get("/api/session", params={"user": "eve", "session": "t"})

    assert [entry["user"] for entry in listed] == ["ann"]
    assert others.status_code == 404
    assert others.json() == nobodys.json()


class ByHeader(AuthenticationBackend):
    """Knows a user by a header, as a LangGraph server does by what its `auth` returns."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """Return the user whom the header names."""
        name = conn.headers.get("authorization")
        return (AuthCredentials(), SimpleUser(name)) if name else None


@pytest.mark.parametrize("asked", [{"user": "bob"}, {"user": "ann"}, {"user_id": "bob"}])
def test_users_of_a_server(archive: SqlArchive, asked: dict[str, str]) -> None:
    """On a server with authentication no request of Ann shows that Bob has a session."""
    agent = create_memory_agent(ScriptedModel(), archive=archive, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "bobs", "user_id": "bob"}}
    agent.invoke({"messages": "The code is 4711."}, thread)

    async def make(_: Any) -> Any:
        return agent

    guard = Middleware(AuthenticationMiddleware, backend=ByHeader())
    app = Starlette(routes=served_routes(make), middleware=[guard])
    with TestClient(app, headers={"Authorization": "ann"}) as ann:
        listed = ann.get("/ebbtide/api/sessions").json()
        answers = [
            ann.get(f"/ebbtide/api/{path}", params={"session": "bobs", **values, **asked})
            for path, values in (
                ("session", {}),
                ("turn", {"turn": "1"}),
                ("prompt", {"turn": "1", "call": "0"}),
                ("search", {"query": "code"}),
                ("live", {}),
            )
        ]
        bob = ann.get(
            "/ebbtide/api/session",
            params={"session": "bobs", "user": "bob"},
            headers={"Authorization": "bob"},
        )

    assert listed == []
    assert {answer.status_code for answer in answers} <= {403, 404}
    assert not any("4711" in answer.text for answer in answers)
    assert bob.status_code == 200


@pytest.fixture
def command(tmp_path: Path, session: Session) -> Iterator[Popen[str]]:
    """Start `ebbtide inspect` as a process of its own, for an archive with one session."""
    assert session.thread
    words = [sys.executable, "-m", "ebbtide.cli.main", "inspect", "--no-browser"]
    root = ["--root", str(tmp_path / "sessions")]
    with Popen([*words, *root], stdout=PIPE, stderr=PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.thorough
def test_a_turn_before_the_page_listens(command: Popen[str]) -> None:
    """A turn that was committed after the page was drawn is told, though the page listens late.

    Ctrl-C ends the command although the page still waits for new turns.
    """
    assert command.stdout is not None
    address = httpx.URL([command.stdout.readline() for _ in range(2)][1].strip())
    with httpx.Client(follow_redirects=True, timeout=60) as opened:
        opened.get(address)
        session = opened.get(address.join("/api/sessions")).json()[0]["name"]
        asked = {"session": session, "tip": "1:the-turn-that-the-page-shows"}
        with opened.stream("GET", address.join("/api/live"), params=asked) as stream:
            lines = stream.iter_lines()

            assert {next(lines), next(lines)} == {"event: turn", "data: 6"}
            command.send_signal(signal.SIGINT)
            assert command.communicate(timeout=60)[1] == ""


def test_two_inspectors(archive: SqlArchive) -> None:
    """Two inspectors on two ports of one browser do not take each other's cookie."""
    inspected = Inspected(archive, archive.users)
    with (
        serving(local_app(inspected, "one")) as one,
        serving(local_app(inspected, "two")) as two,
        httpx.Client(follow_redirects=True, timeout=60) as browser,
    ):
        entered = [
            browser.get(one, params={"token": "one"}),
            browser.get(two, params={"token": "two"}),
        ]
        after = [browser.get(f"{address}/api/sessions") for address in (one, two)]

    assert [answer.status_code for answer in (*entered, *after)] == [200] * 4


@pytest.mark.parametrize("name", ["\ud800", "..", "a/../b", "~%2F?#", "<b>\u202e😀", "n" * 3_000])
def test_hostile_names(archive: SqlArchive, tmp_path: Path, name: str) -> None:
    """Each name of a user and a thread opens, is searched and is exported, whatever it holds."""
    session, said = Session(name, name), "The budget is \ud83d \0 </script> \u2028"
    message = HumanMessage(said, id="1")
    tip = archive.commit(session, Tip(), StoredTurn(1, (message,), "2026-03-01T10:00:00+00:00")).tip
    with client(archive) as page:
        page.get("/", params={"token": TOKEN})
        (listed,) = page.get("/api/sessions").json()
        chosen = {"user": listed["user"], "session": listed["name"]}
        answers = [
            page.get("/api/session", params=chosen),
            page.get("/api/turn", params=chosen | {"turn": "1"}),
            page.get("/api/search", params=chosen | {"query": "budget"}),
        ]
    export_html(archive, session, tip, tmp_path / "session.html")

    assert [answer.status_code for answer in answers] == [200] * 3
    assert "The budget is" in (tmp_path / "session.html").read_text(encoding="utf-8")


BAD = (
    ("turn", {"turn": "99"}),
    ("turn", {"turn": "-1"}),
    ("turn", {"turn": "x"}),
    ("turn", {"turn": "9" * 5_000}),
    ("session", {"tip": "nonsense"}),
    ("session", {"tip": f"{'9' * 5_000}:x"}),
    ("live", {"tip": "1:"}),
    ("session", {"tip": "3:none-such"}),
    ("session", {"session": "none-such"}),
)


def test_bad_requests(entered: TestClient) -> None:
    """What does not exist is named, with what to do."""
    known = {"session": entered.get("/api/sessions").json()[0]["name"], "user": ANONYMOUS}

    answers = [entered.get(f"/api/{path}", params={**known, **values}) for path, values in BAD]

    assert {answer.status_code for answer in answers} == {404, 422}
    assert all(answer.json()["detail"] for answer in answers)


def test_search_by_meaning(archive: SqlArchive) -> None:
    """With embeddings, what was said in other words is found too."""

    class Colours(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return [1.0, 0.0] if {"azure", "blue"} & {*text.lower().split()} else [0.0, 1.0]

    agent = create_memory_agent(
        ScriptedModel(), archive=archive, checkpointer=InMemorySaver(), embeddings=Colours()
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": "The sky was blue all day."}, thread)
    asked = {"session": "t", "query": "azure"}
    found = {}
    for embedder in (None, Embedder(Colours())):
        inspected = Inspected(archive, archive.users, embedder=embedder)
        with TestClient(local_app(inspected, TOKEN), base_url="http://127.0.0.1") as page:
            page.get("/", params={"token": TOKEN})
            found[embedder is not None] = page.get("/api/search", params=asked).json()

    assert found[False]["results"] == []
    assert "blue" in "".join(found[True]["results"][0]["pieces"])
    assert (found[False]["meaning"], found[True]["meaning"]) == (False, True)


def test_memories(archive: SqlArchive) -> None:
    """Each memory has its curve, which crosses the threshold on the day it fades."""
    agent = create_memory_agent(ScriptedModel(), archive=archive, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}
    for words in ("Let's work on the auth bug", "The token expires.", "That's done"):
        agent.invoke({"messages": words}, thread)

    with client(archive) as page:
        page.get("/", params={"token": TOKEN})
        found = page.get("/api/memories", params={"user": "ann"}).json()

    (memory,) = found["memories"]
    below = next(day for day, attention in memory["curve"] if attention < found["threshold"])
    fades = datetime.fromisoformat(memory["fades"]) - datetime.now(UTC)
    assert below == pytest.approx(fades / timedelta(days=1), abs=0.01)
