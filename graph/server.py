"""The commands as routes of a LangGraph server, for its `http.app`.

Threads are read and written over the server's own API with the headers of the request, so that
the server's access rules hold. The user is the one it authenticated, else `user_id`. What changes
something asks for the header `X-Ebbtide`: a page of another site cannot send one without leave.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import httpx
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import StateSnapshot
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, NotFoundError
from pydantic import TypeAdapter
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
from .all_commands import COMMANDS
from .commands.registry import Command
from .commands.threads import Agent

Make: TypeAlias = Callable[[RunnableConfig], Awaitable[Agent]]
"""A function that returns the agent of a run, as a server calls it."""

_MESSAGES: TypeAdapter[list[AnyMessage]] = TypeAdapter(list[AnyMessage])
"""Validates messages from the JSON of a server's API."""

_OF_THE_BODY = {"content-length", "content-type", "host", "transfer-encoding"}
"""Headers of one request that are not passed on: its body is not sent again."""

_STATES = 1_000
"""States of a thread that `verify` reads of a server, which returns them with their messages."""

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Headers of all answers."""

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
class Call:
    """What the command of a route is given: the agent, the config, and the assistant's context.

    The context is that of the assistant that the thread ran with last, None without one.
    """

    agent: Agent
    config: RunnableConfig
    context: Mapping[str, Any] | None = None


Opened: TypeAlias = Callable[[Request], AbstractAsyncContextManager[Call]]
"""Opens the agent for a request."""


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

    def get_state_history(self, config: RunnableConfig) -> Iterator[StateSnapshot]:
        """Yield the newest states of a thread, the newest first."""

        async def states() -> list[StateSnapshot]:
            return [one async for one in self._remote.aget_state_history(config, limit=_STATES)]

        yield from self.wait(states())

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

    @asynccontextmanager
    async def opened(request: Request) -> AsyncIterator[Call]:
        headers = {k: v for k, v in request.headers.items() if k not in _OF_THE_BODY}
        transport = httpx.ASGITransport(app=request.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://server", headers=headers
        ) as http:
            yield await _call(request, make, LangGraphClient(http))

    return [
        Route(f"/ebbtide/{command.path}", responding(command, opened), methods=[command.method])
        for command in COMMANDS.values()
        if command.path
    ]


def responding(command: Command, opened: Opened) -> Endpoint:
    """Return the endpoint of a command, which runs on a worker thread."""
    fields = command.parameters.model_json_schema()

    async def respond(request: Request) -> Response:
        query = request.query_params
        async with opened(request) as call:
            user = {"user_id": user_of(Settings(), call.config["configurable"])}
            given = {**command.given, **query, **user, **request.path_params}
            given |= {name: query.getlist(name) for name in query if name in lists}
            known = command.arguments({k: value for k, value in given.items() if value != ""})
            answer = await asyncio.to_thread(
                command.answered, call.agent, call.config, call.context, **known
            )
        return JSONResponse(answer, headers=HEADERS)

    properties = fields.get("properties", {})
    lists = {name for name, schema in properties.items() if schema.get("type") == "array"}
    needed = {*fields.get("required", ())} - command.given.keys()
    of_path = {name: {"type": "string"} for name in re.findall(r"{(\w+)}", command.path)}
    parameters = [
        {
            "name": name,
            "in": "path" if name in of_path else "query",
            "required": name in needed or name in of_path,
            "schema": schema,
        }
        for name, schema in {**of_path, **properties}.items()
    ]
    if command.changes:
        parameters.append({"name": HEADER, "in": "header", "required": True, "schema": {}})
    schema = command.result.json_schema(mode="serialization")
    content = {"application/json": {"schema": _inlined(schema, schema.get("$defs", {}))}}
    operation = {
        "summary": command.help,
        "operationId": command.name,
        "parameters": parameters,
        "responses": {"200": {"description": "Its result.", "content": content}},
    }
    endpoint = answering(respond)
    endpoint.__doc__ = json.dumps(operation)  # where Starlette and LangGraph look for the schema
    return endpoint


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema without references, which would not lead into an operation."""
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if name := schema.get("$ref"):
        return _inlined(definitions[name.rpartition("/")[2]], definitions)
    return {key: _inlined(part, definitions) for key, part in schema.items() if key != "$defs"}


def answering(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint whose errors become answers."""

    async def respond(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (APIStatusError, EbbtideError, LookupError) as error:
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
            if isinstance(error, APIStatusError):
                status = error.status_code
            detail = str(error).encode(errors="replace").decode()
            body = {"error": type(error).__name__, "detail": detail}
            return JSONResponse(body, status, headers=HEADERS)

    return respond


async def _call(request: Request, make: Make, client: LangGraphClient) -> Call:
    """Return the call of a command; raises `TurnRunningError` for a change of a busy thread."""
    chosen = _chosen_user(request)
    metadata: Mapping[str, Any] = {}
    context: Mapping[str, Any] = {}
    if "thread_id" in request.path_params:
        chosen["thread_id"] = request.path_params["thread_id"]
        thread = await client.threads.get(chosen["thread_id"])
        metadata = thread["metadata"] or {}
        if request.method != "GET" and thread["status"] == "busy":
            values = thread["values"]
            memory = values.get("memory") if isinstance(values, Mapping) else None
            turn = memory.get("turn") if isinstance(memory, Mapping) else None
            raise TurnRunningError(chosen["thread_id"], turn if isinstance(turn, int) else 0)
        if "assistant_id" in metadata:
            assistant = await client.assistants.get(metadata["assistant_id"])
            context = cast("Mapping[str, Any]", assistant.get("context") or {})
    if user := chosen.get("user_id"):
        context = {**context, "user_id": user}
    config: RunnableConfig = {"configurable": chosen}
    served = _ServedAgent(await make(config), client, metadata)
    return Call(cast("Agent", served), config, context or None)


def asking_user(request: Request) -> str:
    """Return who asks: the user whom the server authenticated, else `user_id`, else nobody's id."""
    return user_of(Settings(), _chosen_user(request))


def _chosen_user(request: Request) -> dict[str, Any]:
    """Return the user of a request as a config names one.

    Raises `SettingsError` if the server does not say who asks, and `RequestError` for a change
    without our header, and for another user's id.
    """
    if "user" not in request.scope:
        raise SettingsError(
            "this route is not authenticated: set http.enable_custom_route_auth to true in "
            "langgraph.json"
        )
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
    if request.user.is_authenticated:
        return {"langgraph_auth_user": request.user}
    user_id = request.query_params.get("user_id")
    return {"user_id": user_id} if user_id else {}
