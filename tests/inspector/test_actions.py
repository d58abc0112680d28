"""What the page of a local server changes, over real HTTP, and what is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import commands, create_memory_agent
from ebbtide.inspector.server import Inspected, local_app
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import Session, Tip
from ebbtide.testing import ScriptedModel
from tests.processes import ended, printing
from tests.web_server import serving

TOKEN = "the-token"  # noqa: S105 (of these tests)
OWN = {"X-Ebbtide": "1"}
ANN = {"user_id": "ann"}
THREAD: Any = {"configurable": {"thread_id": "t/1", "user_id": "ann"}}
PATH = "/threads/t%2F1"


@pytest.fixture
def agent(archive: SqlArchive) -> Any:
    """Talk as Ann: one effort is concluded, another is open."""
    agent = create_memory_agent(ScriptedModel(), archive=archive, checkpointer=InMemorySaver())
    for words in (
        "Let's work on the auth bug",
        "The token expires after 3600 s, and nobody refreshes it.",
        "That's done",
        "Let's work on the late parcel",
        "Parcel 4711 is three days late.",
    ):
        agent.invoke({"messages": words}, THREAD)
    return agent


def tip_of(archive: SqlArchive) -> Tip:
    """Return the end of Ann's session."""
    tip = archive.load(Session("ann", "t/1")).tip
    assert tip is not None
    return tip


@contextmanager
def page_on(archive: SqlArchive, agent: Any, *users: str) -> Iterator[httpx.Client]:
    """Serve the page with its actions, and yield a client that knows the token."""

    @contextmanager
    def opened(user: str) -> Iterator[Any]:
        assert user in {"ann", "bob"}
        yield agent

    seen = (lambda: users) if users else archive.users
    app = local_app(Inspected(archive, seen), TOKEN, opened if agent else None)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        client.get("/", params={"token": TOKEN})
        yield client


CHANGES = (
    ("POST", f"{PATH}/efforts/close?effort=late-parcel&user_id=ann"),
    ("DELETE", f"{PATH}/turns/2?user_id=ann"),
    ("POST", "/attention/suppress?memory=t%2F1/auth-bug&user_id=ann"),
)


def statuses(page: httpx.Client, **options: Any) -> set[int]:
    """Ask for all changes, and return the statuses of the answers."""
    return {page.request(method, path, **options).status_code for method, path in CHANGES}


def test_refused(archive: SqlArchive, agent: Any) -> None:
    """Without the switch, the token or the header, and for another user, nothing is changed."""
    before, memories = tip_of(archive), commands.attention(agent, THREAD)
    with page_on(archive, agent) as page:
        assert statuses(page) == {403}
        page.cookies.clear()
        assert statuses(page, headers=OWN) == {403}
    with page_on(archive, agent, "bob") as page:
        assert statuses(page, headers=OWN) == {403}
    with page_on(archive, None) as page:
        assert statuses(page, headers=OWN) == {404}

    assert tip_of(archive) == before
    assert [one.id for one in commands.attention(agent, THREAD)] == [one.id for one in memories]


IMPOSSIBLE = {
    f"{PATH}/efforts/open?effort=x": "Not Found",
    f"{PATH}/efforts/expand?effort=none-such": "none-such",
    "/threads/other/efforts/expand?effort=x": "no checkpoints",
    "/attention/forget?memory=none-such": "none-such",
}


def test_bad_changes(archive: SqlArchive, agent: Any) -> None:
    """What cannot be done is told, with the name."""
    with page_on(archive, agent) as page:
        answers = {path: page.post(f"{path}&user_id=ann", headers=OWN) for path in IMPOSSIBLE}

    assert {answer.status_code for answer in answers.values()} <= {400, 404}
    assert [why for path, why in IMPOSSIBLE.items() if why not in answers[path].text] == []


@pytest.mark.thorough
def test_command(tmp_path: Path) -> None:
    """`ebbtide inspect --actions` changes a conversation of `ebbtide chat`."""
    run = ["-m", "ebbtide.cli.main"]
    root = ["--root", str(tmp_path / "sessions")]
    said = "Let's work on the auth bug\nThe token expires.\n"
    chat = [*run, "chat", "--thread", "t", "--model", "scripted", *root]
    assert ended(chat, tmp_path, typed=said).code == 0
    inspect = [*run, "inspect", "--no-browser", "--actions", *root]
    with printing(inspect, tmp_path) as lines:
        address = httpx.URL([lines.readline() for _ in range(2)][1].strip())
        with httpx.Client(follow_redirects=True, timeout=60) as page:
            page.get(address)
            close = address.join("/threads/t/efforts/close?effort=auth-bug")
            answer = page.post(close, headers=OWN)

    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["status"] == "concluded"
