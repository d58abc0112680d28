"""The inspector on a local server: its page and the routes of its data.

Only who knows the token sees anything. It comes once in the address, and is exchanged for a cookie
that no script reads and no other site's request carries.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ..graph.commands.on_attention import UserAttention
from ..memory.archive.protocol import Archive
from ..memory.attention.law import Attention
from ..memory.errors import EbbtideError, RequestError, SettingsError
from ..memory.record import ANONYMOUS, Owner, Tip
from ..memory.settings import Settings
from . import page, payload, prompts

COOKIE = "ebbtide-inspector"
HOSTS = ("127.0.0.1", "localhost")

_WATCH = 1.0  # seconds between two looks for a new turn

_HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

Users: TypeAlias = Callable[[], Sequence[str]]
"""Returns the users whose sessions may be seen."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is inspected: an archive, the users whose sessions are shown, and the settings."""

    archive: Archive
    users: Users
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    attention: Attention | None = None

    def owner(self, user: str, name: str) -> Owner:
        """Return a session by its name; another user's does not exist."""
        if user in self.users():
            for owner in self.archive.sessions(user):
                if payload.named(owner)["name"] == name:
                    return owner
        raise RequestError(f"session {name!r} not found: choose one of the list")


def local_app(inspected: Inspected, token: str) -> Starlette:
    """Return the application of `ebbtide inspect`, which who knows the token may see."""

    def guarded(route: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            cookie = request.cookies.get(COOKIE, "")
            if not secrets.compare_digest(cookie.encode(), token.encode()):
                return _refused("open the address that `ebbtide inspect` printed", 403)
            response: Response = await route(request)
            return response

        return respond

    async def opened(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is None:
            response: Response = await guarded(_shell)(request)
            return response
        if not secrets.compare_digest(given.encode(), token.encode()):
            return _refused("this token is of another run: open the address printed last", 403)
        entered = RedirectResponse("/", 303, headers=_HEADERS)
        entered.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return entered

    routes = [
        Route("/", opened),
        *(Route(f"/{path}", guarded(to)) for path, to in _routes(inspected)),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[*HOSTS], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts])


def _routes(inspected: Inspected) -> list[tuple[str, Callable[[Request], Any]]]:
    """Return path and function of what the page loads."""
    read: Mapping[str, Callable[[Request], Any]] = {
        "api/sessions": lambda _: payload.sessions(inspected.archive, inspected.users()),
        "api/session": lambda request: payload.session(*_session(inspected, request)),
        "api/turn": lambda request: payload.turn(
            *_session(inspected, request), _number(request, "turn")
        ),
        "api/prompt": lambda request: prompts.prompt(
            *_seen(inspected, request), _number(request, "turn"), _number(request, "call")
        ),
        "api/search": lambda request: payload.search(
            *_session(inspected, request), request.query_params.get("query", ""), inspected.settings
        ),
        "api/memories": lambda request: _memories(inspected, request),
    }

    async def live(request: Request) -> Response:
        return EventSourceResponse(_turns(inspected, request), headers=dict(_HEADERS))

    return [
        *((path, _json(function)) for path, function in read.items()),
        ("api/live", live),
        ("static/{name}", _static),
    ]


def _json(function: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return a route that answers with JSON; it reads the archive on a worker thread."""

    async def respond(request: Request) -> Response:
        try:
            answer = await asyncio.to_thread(function, request)
        except (EbbtideError, LookupError) as error:
            return _refused(str(error), 404)
        return JSONResponse(to_jsonable_python(answer), headers=_HEADERS)

    return respond


async def _shell(_: Request) -> Response:
    headers = {**_HEADERS, "Content-Security-Policy": page.content_policy()}
    return Response(page.shell(), media_type="text/html", headers=headers)


async def _static(request: Request) -> Response:
    try:
        content, kind = page.static(request.path_params["name"])
    except KeyError:
        return _refused("there is no such file", 404)
    return Response(content, media_type=kind, headers=_HEADERS)


def _refused(detail: str, status: int) -> Response:
    return JSONResponse({"detail": detail}, status, headers=_HEADERS)


def _session(inspected: Inspected, request: Request) -> tuple[Archive, Owner, Tip | None]:
    """Return the session that a request names, and the branch, None for the newest."""
    query = request.query_params
    owner = inspected.owner(query.get("user", ANONYMOUS), query.get("session", ""))
    turn, _, id_ = query.get("tip", "").partition(":")
    return inspected.archive, owner, Tip(int(turn), id_) if turn.isdecimal() and id_ else None


def _seen(inspected: Inspected, request: Request) -> tuple[Archive, Owner, Tip]:
    """Return what `_session` does, with the tip of the newest branch if none is named."""
    archive, owner, tip = _session(inspected, request)
    return archive, owner, payload.seen_from(archive, owner, tip)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not text.isdecimal():
        raise SettingsError(f"{name}: pass a whole number (got {text!r})")
    return int(text)


def _memories(inspected: Inspected, request: Request) -> dict[str, Any]:
    user = request.query_params.get("user", ANONYMOUS)
    if user == ANONYMOUS or user not in inspected.users():
        return {"memories": []}
    threshold = inspected.settings.attention_threshold
    attention = inspected.attention or inspected.archive.attention(threshold)
    listed = UserAttention(attention, user).listed()
    return {"threshold": threshold, "now": datetime.now(UTC), "memories": [*map(asdict, listed)]}


async def _turns(inspected: Inspected, request: Request) -> AsyncIterator[ServerSentEvent]:
    """Yield an event for each new turn of a session."""
    archive, owner, _ = await asyncio.to_thread(_session, inspected, request)
    newest = await asyncio.to_thread(archive.newest, owner)
    while not await request.is_disconnected():
        await asyncio.sleep(_WATCH)
        found = await asyncio.to_thread(archive.newest, owner)
        if found != newest and found is not None:
            newest = found
            yield ServerSentEvent(str(found.turn), event="turn")
