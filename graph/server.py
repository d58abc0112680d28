"""The commands as routes of a LangGraph server, for its `http.app`.

Threads are read and written over the server's own API with the headers of the request, so that
the server's access rules hold. The user is the one it authenticated, else `user_id`. What changes
something asks for the header `X-Ebbtide`: a page of another site cannot send one without leave.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import httpx
from langchain_core.messages import AnyMessage, messages_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import StateSnapshot
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, NotFoundError
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..memory.errors import (
    ArchiveLockedError,
    ArchiveUnavailableError,
    CommandError,
    EbbtideError,
    RequestError,
    SettingsError,
    TipNotFoundError,
    TurnRunningError,
)
from ..memory.settings import Settings
from ..nodes.turn.session import user_of
from .commands import by_hand, change, look, on_attention
from .commands.threads import Agent, thread_at
from .erase.erase import delete_session, delete_user, erase

Make: TypeAlias = Callable[[RunnableConfig], Awaitable[Agent]]
"""A function that returns the agent of a run, as a server calls it."""

_MESSAGES: TypeAdapter[list[AnyMessage]] = TypeAdapter(list[AnyMessage])
"""Validates messages from the JSON of a server's API."""

_OF_THE_BODY = {"content-length", "content-type", "host", "transfer-encoding"}
"""Headers of one request that are not passed on: its body is not sent again."""

HEADER = "X-Ebbtide"
"""A header that forms and simple requests of browsers cannot have; any value will do."""

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (TurnRunningError, 409),
    (TipNotFoundError, 409),
    (ArchiveLockedError, 503),
    (ArchiveUnavailableError, 503),
    (LookupError, 404),
    (RequestError, 403),
    (CommandError, 400),
    (ValueError, 422),
)
"""The HTTP status of an error, by its first matching class; 500 for all others."""


@dataclass(frozen=True, slots=True)
class _CommandCall:
    """A client's call of a command, with the agent and the config that commands take.

    `context` is that of the assistant that the thread ran with last, None without one.
    """

    request: Request
    agent: Agent
    config: RunnableConfig
    context: Mapping[str, Any] | None

    def run(self, command: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a command for the thread."""
        return command(self.agent, self.config, *args, **options)

    def query(self, name: str) -> str:
        """Return a parameter of the query, "" by default."""
        return str(self.request.query_params.get(name, ""))

    def chosen(self, **verbs: Any) -> Any:
        """Return the value of the path's verb; raises `CommandError` for an unknown one."""
        verb = self.request.path_params["verb"]
        if verb not in verbs:
            raise CommandError(f"there is no {verb!r}: use one of {', '.join(verbs)}")
        return verbs[verb]

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a number of the path or the query; raises `SettingsError` for other text."""
        text = self.request.path_params.get(name, self.query(name))
        if not text:
            return default
        if not text.isdecimal():
            raise SettingsError(f"{name}: pass a whole number (got {text!r})")
        return int(text)


class _ServedAgent:
    """An agent whose threads a server keeps, with the methods that commands call.

    Commands run on a worker thread; calls of the server run on its event loop.
    """

    def __init__(self, agent: Agent, client: LangGraphClient, metadata: Mapping[str, Any]) -> None:
        self._agent, self.client, self._metadata = agent, client, metadata
        self._loop = asyncio.get_running_loop()
        self._remote = RemoteGraph(str(metadata.get("graph_id", "")), client=client)
        self.checkpointer = _ServerCheckpoints(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return a state of the server, an empty one for a thread without messages."""
        nothing = StateSnapshot({}, (), config, None, None, None, (), ())
        try:
            thread = self.client.threads.get(config["configurable"]["thread_id"])
            if not self.wait(thread)["values"]:
                return nothing  # `RemoteGraph` fails on an empty state
            snapshot = self.wait(self._remote.aget_state(config, subgraphs=subgraphs))
        except NotFoundError:
            return nothing
        values = dict(snapshot.values or {})
        if "messages" in values:
            values["messages"] = _MESSAGES.validate_python(values["messages"])
        return cast("StateSnapshot", snapshot._replace(values=values))

    def update_state(
        self, config: RunnableConfig, values: dict[str, Any], as_node: str
    ) -> RunnableConfig:
        """Write a state on the server; create the thread again if it was just deleted."""
        thread, metadata = str(config["configurable"]["thread_id"]), dict(self._metadata)
        create = self.client.threads.create
        self.wait(create(thread_id=thread, metadata=metadata, if_exists="do_nothing"))
        new_config = self.wait(self._remote.aupdate_state(config, values, as_node))
        return cast("RunnableConfig", new_config)

    def invoke(
        self, turn_input: None, config: RunnableConfig, *, context: Any, durability: Any
    ) -> dict[str, Any]:
        """Let the server finish a turn, and return the state."""
        thread = str(config["configurable"]["thread_id"])
        assistant = str(self._metadata.get("assistant_id") or self._metadata.get("graph_id", ""))
        ended = self.client.runs.wait(
            thread, assistant, input=turn_input, context=context, durability=durability
        )
        return cast("dict[str, Any]", self.wait(ended))

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the server's event loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class _ServerCheckpoints(BaseCheckpointSaver[str]):
    """The checkpointer of a server, which can delete threads but shows no checkpoints."""

    def __init__(self, served: _ServedAgent) -> None:
        """Take the agent that reaches the server."""
        super().__init__()
        self._served = served

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return None: a server's API has states, no checkpoints."""
        del config
        return None

    def list(self, *args: Any, **kwargs: Any) -> Iterator[CheckpointTuple]:
        """Return nothing, as `get_tuple`."""
        del args, kwargs
        return iter(())

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its checkpoints and its runs, which hold messages too."""
        self._served.wait(self._served.client.threads.delete(thread_id))


def routes(make: Make) -> list[Route]:
    """Return the routes of an agent's commands, for an application's own `http.app`."""
    thread = "/ebbtide/threads/{thread_id}"
    commands: dict[tuple[str, str], Callable[[_CommandCall], Any]] = {
        ("GET", f"{thread}/context"): _context,
        ("GET", f"{thread}/messages"): lambda call: call.run(look.messages, call.number("page", 1)),
        ("GET", f"{thread}/transcript"): _transcript,
        ("GET", f"{thread}/efforts"): lambda call: call.run(look.efforts),
        ("GET", f"{thread}/search"): lambda call: call.run(
            look.search,
            call.query("query"),
            also=call.request.query_params.getlist("also"),
            limit=call.number("limit") or 0,
            since=call.query("since"),
            until=call.query("until"),
        ),
        ("GET", f"{thread}/stats"): lambda call: call.run(look.stats),
        ("POST", f"{thread}/undo"): _undo,
        ("POST", f"{thread}/restore"): _restore,
        ("POST", f"{thread}/window"): _window,
        ("POST", f"{thread}/anchor"): lambda call: call.run(
            change.rebuild_anchor, model=call.query("model") == "true", context=call.context
        ),
        ("POST", f"{thread}/efforts/{{verb}}"): _by_hand,
        ("DELETE", f"{thread}/turns/{{turn}}"): lambda call: call.run(erase, call.number("turn")),
        ("DELETE", thread): lambda call: call.run(delete_session),
        ("DELETE", "/ebbtide/user"): _delete_user,
        ("GET", "/ebbtide/attention"): lambda call: call.run(on_attention.attention),
        ("GET", "/ebbtide/attention/{verb}"): _memory,
        ("POST", "/ebbtide/attention/{verb}"): _memory,
    }
    return [_route(method, path, make, command) for (method, path), command in commands.items()]


def _route(method: str, path: str, make: Make, command: Callable[[_CommandCall], Any]) -> Route:
    """Return the route of a command; it runs on a worker thread, its errors become answers."""

    async def respond(request: Request) -> Response:
        headers = {k: v for k, v in request.headers.items() if k not in _OF_THE_BODY}
        transport = httpx.ASGITransport(app=request.app)
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://server", headers=headers
            ) as http:
                call = await _command_call(request, make, LangGraphClient(http))
                answer = await asyncio.to_thread(command, call)
                return JSONResponse(to_jsonable_python(answer))
        except APIStatusError as error:
            return _refused(error, error.status_code)
        except EbbtideError as error:
            return _refused(error, status_of(error))

    return Route(path, respond, methods=[method])


def status_of(error: EbbtideError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _refused(error: Exception, status: int) -> Response:
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status)


async def _command_call(request: Request, make: Make, client: LangGraphClient) -> _CommandCall:
    """Return the call of a command.

    Raises `TurnRunningError` for a change of a busy thread, and what `_check_request` raises.
    """
    chosen = _chosen_user(request)
    metadata: Mapping[str, Any] = {}
    context: Mapping[str, Any] | None = None
    if "thread_id" in request.path_params:
        chosen["thread_id"] = request.path_params["thread_id"]
        thread = await client.threads.get(chosen["thread_id"])
        metadata = thread["metadata"] or {}
        if request.method != "GET" and thread["status"] == "busy":
            raise TurnRunningError(chosen["thread_id"], _turn_in(thread["values"]))
        if "assistant_id" in metadata:
            assistant = await client.assistants.get(metadata["assistant_id"])
            context = cast("Mapping[str, Any] | None", assistant.get("context") or None)
    config: RunnableConfig = {"configurable": chosen}
    served = _ServedAgent(await make(config), client, metadata)
    return _CommandCall(request, cast("Agent", served), config, context)


def asking_user(request: Request) -> str:
    """Return who asks: the user whom the server authenticated, else `user_id`, else nobody's id.

    Raises `SettingsError` if the server does not say, and what `_check_request` raises.
    """
    return user_of(Settings(), _chosen_user(request))


def _chosen_user(request: Request) -> dict[str, Any]:
    """Return the user of a request as a config names one."""
    if "user" not in request.scope:
        raise SettingsError(
            "this route is not authenticated: set http.enable_custom_route_auth to true in "
            "langgraph.json"
        )
    _check_request(request)
    if request.user.is_authenticated:
        return {"langgraph_auth_user": request.user}
    user_id = request.query_params.get("user_id")
    return {"user_id": user_id} if user_id else {}


def _check_request(request: Request) -> None:
    """Raise `RequestError` for a change without our header, and for another user's id."""
    if request.method not in {"GET", "HEAD"} and HEADER not in request.headers:
        raise RequestError(
            f"{request.method} {request.url.path} has no header {HEADER}, so it may come from "
            f"another site: send {HEADER}: 1 with it; nothing was changed"
        )
    named = request.query_params.getlist("user_id")
    if request.user.is_authenticated and {*named} - {"", str(request.user.identity)}:
        raise RequestError(
            f"user_id is {named[-1]!r}, but you are {request.user.identity!r}: leave it out, the "
            "server knows who asks; nothing was changed"
        )


def _turn_in(values: Any) -> int:
    """Return the last turn in the values of a thread, 0 if a client wrote something else there."""
    memory = values.get("memory") if isinstance(values, Mapping) else None
    turn = memory.get("turn") if isinstance(memory, Mapping) else None
    return turn if isinstance(turn, int) else 0


def _transcript(call: _CommandCall) -> dict[str, Any]:
    """Return a page of messages, and whether there are earlier ones."""
    limit, before = call.number("limit", look.PAGE), call.number("before")
    messages, more = call.run(look.transcript, limit=limit, before=before)
    return {"messages": messages_to_dict(messages), "more": more}


def _context(call: _CommandCall) -> dict[str, Any]:
    """Answer with the next context, as if the user said the query's `message`."""
    message = call.request.query_params.get("message")
    context = call.run(look.show_context, message, context=call.context)
    return {
        "turn": context.turn,
        "unfinished": context.unfinished,
        "total": context.total,
        "parts": [{"name": p.name, "turn": p.turn, "tokens": p.tokens} for p in context.parts],
        "messages": messages_to_dict(context.messages),
        "tools": context.tools,
        "missing": context.missing,
    }


def _delete_user(call: _CommandCall) -> Any:
    """Delete the user who calls; raises `SettingsError` if no user is named."""
    chosen = call.config["configurable"]
    if not chosen:
        raise SettingsError("no user is named: pass user_id")
    return delete_user(call.agent, user_of(Settings(), chosen))


def _undo(call: _CommandCall) -> dict[str, Any]:
    """Undo the last turn; a running one is refused, since the server shows only part of it."""
    call.run(thread_at).at_rest()
    return {"turn": call.run(change.undo)}


def _restore(call: _CommandCall) -> dict[str, Any]:
    """Rebuild the thread from the archive, from the query's `branch` if there is one."""
    call.run(change.restore, branch=call.query("branch") or None)
    return {"turn": call.run(thread_at).turn}


def _window(call: _CommandCall) -> dict[str, Any]:
    """Set the ambient window of the thread; without a number the settings' one applies."""
    turns = call.number("turns")
    call.run(change.set_window, turns)
    return {"turns": turns}


def _by_hand(call: _CommandCall) -> Any:
    """Run the memory tool that the path names, with arguments from the query."""
    command, *names = call.chosen(
        open=(by_hand.open_effort, "effort", "goal"),
        close=(by_hand.close_effort, "effort"),
        switch=(by_hand.switch_effort, "effort"),
        reopen=(by_hand.reopen_effort, "effort"),
        expand=(by_hand.expand_effort, "effort", "turns"),
        collapse=(by_hand.collapse_effort, "effort"),
    )
    user = call.config["configurable"].get("user_id")
    context = {**(call.context or {}), "user_id": user} if user else call.context
    return call.run(command, *map(call.query, names), context=context)


def _memory(call: _CommandCall) -> Any:
    """Explain (GET), suppress, unsuppress or forget (POST) a memory in attention."""
    changes = (on_attention.suppress, on_attention.unsuppress, on_attention.forget)
    verbs = (on_attention.explain,) if call.request.method == "GET" else changes
    command = call.chosen(**{verb.__name__: verb for verb in verbs})
    return call.run(command, call.query("memory"))
