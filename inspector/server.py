"""The inspector's page and the routes of its data, on a local server and on a LangGraph server.

On a local server only who knows the token sees anything. It comes once in the address, and is
exchanged for another secret, in a cookie that no script reads and no other site's request carries.
On a LangGraph server the server authenticates, and each user sees their own sessions.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import anyio
from langchain_core.runnables import RunnableConfig
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..graph.all_commands import COMMANDS
from ..graph.commands.threads import Agent, thread_at
from ..graph.server import (
    HEADER,
    HEADERS,
    Call,
    Endpoint,
    Make,
    answering,
    asking_user,
    responding,
    routes,
)
from ..graph.studio import make_graph
from ..memory.archive.protocol import Archive
from ..memory.attention.law import Attention, effective
from ..memory.errors import (
    ArchiveLockedError,
    ArchiveUnavailableError,
    CommandError,
    RequestError,
    SessionNotFoundError,
    SettingsError,
)
from ..memory.memories import UserMemories
from ..memory.metrics import prices_of
from ..memory.search.embeddings import Embedder
from ..memory.settings import Settings
from ..memory.turn import ANONYMOUS, Session, Tip
from . import page, payload, prompts

_HOSTS = ("127.0.0.1", "localhost")

_AHEAD = 60  # days from now that the curve of a memory goes on
_DIGITS = 18  # of a number in a request: databases take no longer ones
_WATCH = 1.0  # seconds between two looks for a new turn

Opened: TypeAlias = Callable[[str], AbstractContextManager[Agent]]
"""Opens the agent that has the threads of a user."""

Users: TypeAlias = Callable[[], Sequence[str]]
"""Returns the users whose sessions may be seen."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is inspected: an archive, the users whose sessions are shown, and the settings."""

    archive: Archive
    users: Users
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    attention: Attention | None = None
    embedder: Embedder | None = None

    def session(self, user: str, name: str) -> Session:
        """Return a session by its name; another user's does not exist."""
        for known in self.users():
            if payload.encodable(known) == user:
                for session in self.archive.sessions(known):
                    if payload.encodable(payload.named(session)["name"]) == name:
                        return session
        raise SessionNotFoundError(name)

    def attending(self, user: str) -> UserMemories:
        """Return the attention of a user; raises `RequestError` for one who may not be seen."""
        if user not in self.users():
            raise RequestError(f"user {user!r} not found: choose a session of the list")
        threshold = self.settings.attention_threshold
        attention = self.attention or self.archive.attention(threshold)
        return UserMemories(self.archive, user, attention)


def local_app(inspected: Inspected, token: str, opened: Opened | None = None) -> Starlette:
    """Return the application of `ebbtide inspect`, which who knows the token may see.

    With `opened` the page can change what it shows.
    """
    # Ports share their cookies: each inspector has one of its own, whose value is no token.
    cookie, secret = f"ebbtide-inspector-{secrets.token_hex(6)}", secrets.token_urlsafe(32)

    async def of(request: Request) -> Inspected:
        del request
        return inspected

    def guarded(route: Endpoint) -> Endpoint:
        async def respond(request: Request) -> Response:
            given = request.cookies.get(cookie, "")
            if not secrets.compare_digest(given.encode(), secret.encode()):
                raise RequestError("open the address that `ebbtide inspect` printed")
            return await route(request)

        return answering(respond)

    async def entrance(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is None:
            return await guarded(_shell("on" if opened else ""))(request)
        if not secrets.compare_digest(given.encode(), token.encode()):
            raise RequestError("this token is of another run: open the address printed last")
        entered = RedirectResponse("/", 303, headers=HEADERS)
        entered.set_cookie(cookie, secret, httponly=True, samesite="strict")
        return entered

    routes = [
        Route("/", answering(entrance)),
        *(Route(f"/{path}", guarded(to)) for path, to in _routes(of)),
    ]
    if opened:
        opening = _opening(inspected, opened)
        routes += [
            Route(
                "/" + command.path.replace("{thread_id}", "{thread_id:path}"),
                guarded(responding(command, opening)),
                methods=[command.method],
            )
            for command in COMMANDS.values()
            if command.action
        ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[*_HOSTS], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts])


def _opening(
    inspected: Inspected, opened: Opened
) -> Callable[[Request], AbstractAsyncContextManager[Call]]:
    """Return what opens the agent of `ebbtide chat` for a change by the page."""

    def call(request: Request, stack: ExitStack) -> Call:
        if HEADER not in request.headers:
            raise RequestError(f"a change needs the header {HEADER}; nothing was changed")
        user = inspected.attending(request.query_params.get("user_id", ANONYMOUS)).user
        thread = request.path_params.get("thread_id")
        config: RunnableConfig = {"configurable": {"thread_id": thread, "user_id": user}}
        agent = stack.enter_context(opened(user))
        if thread and not thread_at(agent, config).has_checkpoints:
            raise CommandError(
                f"thread {thread!r} has no checkpoints of `ebbtide chat`: use ebbtide.commands in "
                "the application that runs it, or the page on its server; nothing was changed"
            )
        return Call(agent, config)

    @asynccontextmanager
    async def opening(request: Request) -> AsyncIterator[Call]:
        with ExitStack() as stack:
            yield await asyncio.to_thread(call, request, stack)

    return opening


def served_routes(make: Make) -> list[Route]:
    """Return the page and its data under `/ebbtide/`, for the `http.app` of a LangGraph server.

    `make` returns the agent as the server calls it. The user is the one whom the server
    authenticated, else `user_id` of the query, else the anonymous one.
    """

    async def of(request: Request) -> Inspected:
        user = asking_user(request)
        agent: Any = await make({"configurable": {}})
        parts = agent.builder.parts
        return Inspected(
            parts.archive, lambda: (user,), parts.settings, parts.attention, parts.embedder
        )

    def checked(route: Endpoint) -> Endpoint:
        async def respond(request: Request) -> Response:
            asking_user(request)
            return await route(request)

        return answering(respond)

    async def with_slash(request: Request) -> Response:
        return RedirectResponse(f"ebbtide/?{request.query_params}".rstrip("?"), headers=HEADERS)

    paths = [("", _shell("off")), *_routes(of)]
    routes = [Route(f"/ebbtide/{path}", checked(to)) for path, to in paths]
    return [Route("/ebbtide", with_slash), *routes]


def _routes(of: Callable[[Request], Awaitable[Inspected]]) -> list[tuple[str, Endpoint]]:
    """Return path and function of what the page loads; `of` returns what a request may see."""
    read: Mapping[str, Callable[[Inspected, Request], Any]] = {
        "api/sessions": lambda seen, _: payload.sessions(seen.archive, seen.users()),
        "api/session": lambda seen, request: payload.overview(
            *_session(seen, request), seen.settings, _prices(request)
        ),
        "api/turn": lambda seen, request: payload.turn(
            *_session(seen, request),
            _number(request, "turn"),
            seen.settings,
            prices=_prices(request),
        ),
        "api/prompt": _prompt,
        "api/search": lambda seen, request: payload.search(
            *_session(seen, request),
            request.query_params.get("query", ""),
            seen.settings,
            seen.embedder,
        ),
        "api/memories": _memories,
    }

    async def live(request: Request) -> Response:
        stopping = anyio.Event()
        events = await _turns(await of(request), request)
        return EventSourceResponse(
            events(stopping),
            headers=dict(HEADERS),
            shutdown_event=stopping,
            shutdown_grace_period=1,
        )

    return [
        *((path, _json(function, of)) for path, function in read.items()),
        ("api/live", live),
        ("static/{name}", _static),
    ]


def _json(
    function: Callable[[Inspected, Request], Any], of: Callable[[Request], Awaitable[Inspected]]
) -> Endpoint:
    """Return a route that answers with JSON; it reads the archive on a worker thread."""

    async def respond(request: Request) -> Response:
        answer = await asyncio.to_thread(function, await of(request), request)
        return Response(payload.as_json(answer), media_type="application/json", headers=HEADERS)

    return respond


def _shell(actions: str) -> Endpoint:
    """Return the route of the page; its actions are "on", "off" until they are chosen, or ""."""

    async def respond(_: Request) -> Response:
        headers = {**HEADERS, "Content-Security-Policy": page.content_policy()}
        return Response(page.shell(actions), media_type="text/html", headers=headers)

    return respond


async def _static(request: Request) -> Response:
    content, kind = page.static(request.path_params["name"])
    return Response(content, media_type=kind, headers=HEADERS)


def _session(inspected: Inspected, request: Request) -> tuple[Archive, Session, Tip | None]:
    """Return the session that a request names, and the branch, None for the newest."""
    query = request.query_params
    session = inspected.session(query.get("user", ANONYMOUS), query.get("session", ""))
    given = query.get("tip", "")
    turn, _, id_ = given.partition(":")
    if given and not (_is_number(turn) and id_):
        raise SettingsError(
            f'tip: pass the turn and the id of a branch, "42:1f0c" (got {given[:40]!r})'
        )
    return inspected.archive, session, Tip(int(turn), id_) if given else None


def _prompt(inspected: Inspected, request: Request) -> dict[str, Any]:
    """Return the prompt of a call, or why it is `missing`."""
    turn, call = _number(request, "turn"), _number(request, "call")
    try:
        archive, session, tip = _session(inspected, request)
        seen = payload.seen_from(archive, session, tip)
        return prompts.prompt(archive, session, seen, turn, call)
    except prompts.NoCallError as error:
        return {"missing": str(error)}


def _prices(request: Request) -> payload.Prices:
    given = request.query_params.get("prices")
    return prices_of(given) if given else ()


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not _is_number(text):
        raise SettingsError(f"{name}: pass a whole number (got {text[:40]!r})")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS


def _memories(inspected: Inspected, request: Request) -> dict[str, Any]:
    user = request.query_params.get("user", ANONYMOUS)
    if user == ANONYMOUS or user not in inspected.users():
        return {"memories": []}
    listed = inspected.attending(user).in_attention()
    threshold = inspected.settings.attention_threshold
    memories = [
        {
            **asdict(memory),
            "state": "suppressed" if memory.suppressed else "attended",
            "standing": "suppressed" if memory.suppressed else f"in attention, {memory.level}",
            # The attention by day from now, with the accesses that the memory has now.
            "curve": [
                (day - memory.days, round(effective(memory.base, day, memory.accesses), 1))
                for day in range(int(memory.days) + _AHEAD + 1)
            ],
        }
        for memory in listed
    ]
    return {"threshold": threshold, "memories": memories}


async def _turns(
    inspected: Inspected, request: Request
) -> Callable[[anyio.Event], AsyncIterator[ServerSentEvent]]:
    """Return what yields the events of a session, one for each new turn, until the server stops.

    `tip` in the request is what the page shows: a turn that came since then is told at once. A
    session that is deleted ends with turn 0.
    """
    archive, session, drawn = await asyncio.to_thread(_session, inspected, request)

    async def read() -> Tip | None:
        return (await asyncio.to_thread(archive.load, session)).tip

    newest = await read()

    async def watched(stopping: anyio.Event) -> AsyncIterator[ServerSentEvent]:
        last, found = drawn or newest, newest
        while not await request.is_disconnected():
            if found != last:
                last = found
                yield ServerSentEvent(str(found.turn if found else 0), event="turn")
            with anyio.move_on_after(_WATCH):
                await stopping.wait()
            if stopping.is_set():
                return
            with suppress(ArchiveLockedError, ArchiveUnavailableError):  # it may come back
                found = await read()

    return watched


app = Starlette(routes=[*routes(make_graph), *served_routes(make_graph)])
"""The commands and the page for the agent of `studio`."""
