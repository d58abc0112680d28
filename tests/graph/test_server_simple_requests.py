"""Requests that a page of another site can send: forms and `fetch` without CORS change nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection

from ebbtide import commands
from ebbtide.graph.server import routes
from tests.agents import Talk, talk
from tests.doubles import call
from tests.web_server import serving

ANN: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}
OURS = {"X-Ebbtide": "1"}
SIMPLE: list[dict[str, Any]] = [
    {"data": {"memory": "t/auth-bug"}},
    {"files": {"memory": b"t/auth-bug"}},
    {"content": "memory=t/auth-bug", "headers": {"Content-Type": "text/plain"}},
    {},
]
"""The bodies that a page may send anywhere, as `application/x-www-form-urlencoded` and others."""


class Cookie(AuthenticationBackend):
    """Knows a user by a cookie, which a browser sends with requests of any site."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """Return the user that the cookie names."""
        name = conn.cookies.get("user")
        return (AuthCredentials(), SimpleUser(name)) if name else None


@pytest.fixture
def chat(tmp_path: Path) -> Talk:
    """Return an agent for whose user Ann a memory is in attention."""
    answers = [call("open_effort", name="auth-bug"), "opened", call("close_effort"), "closed"]
    found = talk(tmp_path, answers)
    found.say("Tokens expire too early, after a minute, in staging.", ANN)
    found.say("That is done.", ANN)
    return found


@pytest.fixture
def client(chat: Talk) -> Iterator[httpx.Client]:
    """Return a client of the agent's routes."""

    async def make(_config: Any) -> Any:
        return chat.agent

    guard = Middleware(AuthenticationMiddleware, backend=Cookie())
    app = Starlette(routes=routes(make), middleware=[guard])
    with serving(app) as url, httpx.Client(base_url=url, cookies={"user": "ann"}) as connected:
        yield connected


def remembered(chat: Talk) -> list[str]:
    """Return the memories in Ann's attention."""
    return [memory.id for memory in commands.attention(chat.agent, ANN)]


@pytest.mark.parametrize(
    "path", ["attention/forget?memory=t/auth-bug", "attention/suppress?memory=t/auth-bug"]
)
def test_a_simple_post_changes_nothing(chat: Talk, client: httpx.Client, path: str) -> None:
    """It is refused, and the answer says which header is missing."""
    answers = [client.post(f"/ebbtide/{path}", **body) for body in SIMPLE]

    assert {(one.status_code, one.json()["error"]) for one in answers} == {(403, "RequestError")}
    assert all("send X-Ebbtide: 1 with it" in one.json()["detail"] for one in answers)
    assert remembered(chat) == ["t/auth-bug"]


def test_a_user_is_deleted_by_nobody_else(chat: Talk, client: httpx.Client) -> None:
    """A `user_id` that is not the caller's is an error, and deletes neither of them."""
    for named in ("bob", "ann&user_id=bob", "Ann"):
        found = client.delete(f"/ebbtide/user?user_id={named}", headers=OURS)
        assert (found.status_code, found.json()["error"]) == (403, "RequestError")
    assert len(chat.archive.sessions("ann")) == 1

    own = client.delete("/ebbtide/user?user_id=ann&user=bob", headers=OURS)

    assert [one["thread"] for one in own.json()["sessions"]] == ["t"]
    assert chat.archive.sessions("ann") == ()
