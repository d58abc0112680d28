"""What the page of a local server changes, if it was started with `--actions`.

The paths are those of the commands' routes on a LangGraph server (`graph/server.py`), and so is the
header that a change asks for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..graph.commands import by_hand
from ..graph.commands.threads import Agent, thread_at
from ..graph.erase.erase import erase
from ..graph.server import HEADER, status_of
from ..memory.errors import CommandError, EbbtideError, RequestError
from ..memory.memories import UserMemories
from ..memory.turn import ANONYMOUS
from .payload import as_json

Opened: TypeAlias = Callable[[str], AbstractContextManager[Agent]]
"""Opens the agent that has the threads of a user."""

Attending: TypeAlias = Callable[[str], UserMemories]
"""Returns the attention of a user; raises `RequestError` for one who may not be seen."""

_ON_EFFORTS: Mapping[str, Callable[..., Any]] = {
    "close": by_hand.close_effort,
    "expand": by_hand.expand_effort,
}
_ON_MEMORIES: Mapping[str, Callable[..., Any]] = {
    "suppress": UserMemories.suppress,
    "unsuppress": UserMemories.unsuppress,
    "forget": UserMemories.delete,
}


def action_routes(
    opened: Opened,
    attending: Attending,
    guarded: Callable[[Callable[[Request], Awaitable[Response]]], Any],
) -> list[Route]:
    """Return the routes; `guarded` refuses those who do not know the token."""

    def on_effort(request: Request) -> Any:
        verb, effort = _verb(request, _ON_EFFORTS), request.query_params.get("effort", "")
        with opened(attending(_user(request)).user) as agent:
            return _ON_EFFORTS[verb](agent, _thread(agent, request), effort)

    def on_turn(request: Request) -> Any:
        with opened(attending(_user(request)).user) as agent:
            return erase(agent, _thread(agent, request), request.path_params["turn"])

    def on_memory(request: Request) -> Any:
        attention, memory = attending(_user(request)), request.query_params.get("memory", "")
        return _ON_MEMORIES[_verb(request, _ON_MEMORIES)](attention, memory)

    paths: Mapping[str, tuple[str, Callable[[Request], Any]]] = {
        "/threads/{thread_id:path}/efforts/{verb}": ("POST", on_effort),
        "/threads/{thread_id:path}/turns/{turn:int}": ("DELETE", on_turn),
        "/attention/{verb}": ("POST", on_memory),
    }
    return [
        Route(path, guarded(_changing(function)), methods=[method])
        for path, (method, function) in paths.items()
    ]


def _changing(function: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return a route that changes something: only a page of this server can send its header."""

    async def respond(request: Request) -> Response:
        try:
            if HEADER not in request.headers:
                raise RequestError(f"a change needs the header {HEADER}; nothing was changed")
            done = await asyncio.to_thread(function, request)
        except EbbtideError as error:
            answer = {"error": type(error).__name__, "detail": str(error)}
            return JSONResponse(answer, status_of(error))
        return Response(as_json(done), media_type="application/json")

    return respond


def _verb(request: Request, verbs: Mapping[str, Any]) -> str:
    verb = str(request.path_params["verb"])
    if verb not in verbs:
        raise CommandError(f"there is no {verb!r}: use one of {', '.join(verbs)}")
    return verb


def _user(request: Request) -> str:
    return str(request.query_params.get("user_id", ANONYMOUS))


def _thread(agent: Agent, request: Request) -> RunnableConfig:
    """Return the config of a thread; raises `CommandError` if its checkpoints are elsewhere."""
    chosen = {"thread_id": request.path_params["thread_id"], "user_id": _user(request)}
    config: RunnableConfig = {"configurable": chosen}
    if not thread_at(agent, config).has_checkpoints:
        raise CommandError(
            f"thread {chosen['thread_id']!r} has no checkpoints of `ebbtide chat`: use "
            "ebbtide.commands in the application that runs it, or the page on its server; nothing "
            "was changed"
        )
    return config
