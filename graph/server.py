"""The commands as routes of a LangGraph server: `http.app` in `langgraph.json` names `app`.

Threads are read and written over the server's own API, as who asks: with his headers, so that its
rules of access hold. Whose memory it is says the server's authentication, else `user_id`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
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
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..memory.errors import (
    ArchiveLockedError,
    ArchiveUnavailableError,
    CommandError,
    EbbtideError,
    SettingsError,
    TipNotFoundError,
    TurnRunningError,
)
from ..memory.settings import Settings
from ..nodes.turn.values import user_of
from .commands import change, look, on_attention
from .commands.threads import Agent, thread_at
from .erase.erase import delete_session, delete_user, erase
from .studio import make_graph

Make: TypeAlias = Callable[[RunnableConfig], Awaitable[Agent]]
"""What gives the agent of a run, as a server calls it."""

_MESSAGES: TypeAdapter[list[AnyMessage]] = TypeAdapter(list[AnyMessage])
"""Makes messages of what a server's API gives for them."""

_OF_THE_BODY = {"content-length", "content-type", "host", "transfer-encoding"}
"""Headers that belong to one request and not to who asks."""

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (TurnRunningError, 409),
    (TipNotFoundError, 409),
    (ArchiveLockedError, 503),
    (ArchiveUnavailableError, 503),
    (LookupError, 404),
    (CommandError, 400),
    (ValueError, 422),
)
"""The HTTP status of an error, by the first class that it is of; 500 for any other."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A command that a client asks for: the agent and the config that commands take.

    `context` are the settings of the assistant that the thread ran with last.
    """

    request: Request
    agent: Agent
    config: RunnableConfig
    context: Mapping[str, Any]

    def run(self, command: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a command for the thread."""
        return command(self.agent, self.config, *args, **options)

    def query(self, name: str) -> str:
        """Return what the query says of a name, empty for nothing."""
        return str(self.request.query_params.get(name, ""))

    def chosen(self, **verbs: Any) -> Any:
        """Return what the path names; raises `CommandError` if it is none of these."""
        verb = self.request.path_params["verb"]
        if verb not in verbs:
            raise CommandError(f"there is no {verb!r}: use one of {', '.join(verbs)}")
        return verbs[verb]

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a number of the query or the path; raises `SettingsError` if it is none."""
        given = self.request.path_params.get(name, self.query(name))
        if not given:
            return default
        if not given.isdecimal():
            raise SettingsError(f"{name}: pass a whole number (got {given!r})")
        return int(given)


class _Served:
    """An agent whose threads a server keeps, in the form that commands take; used on a thread."""

    def __init__(self, agent: Agent, client: LangGraphClient, metadata: Mapping[str, Any]) -> None:
        self._agent, self.client, self._metadata = agent, client, metadata
        self._loop = asyncio.get_running_loop()
        self._remote = RemoteGraph(str(metadata.get("graph_id", "")), client=client)
        self.checkpointer = _ServerCheckpoints(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return a state as the server has it; an empty one if nothing was said on the thread."""
        nothing = StateSnapshot({}, (), config, None, None, None, (), ())
        try:
            thread = self.client.threads.get(config["configurable"]["thread_id"])
            if not self.wait(thread)["values"]:
                return nothing  # of which a RemoteGraph can make no state
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
        """Write a state on the server, where the thread may have been deleted just now."""
        thread, metadata = str(config["configurable"]["thread_id"]), dict(self._metadata)
        create = self.client.threads.create
        self.wait(create(thread_id=thread, metadata=metadata, if_exists="do_nothing"))
        written = self._remote.aupdate_state(config, values, as_node)
        return cast("RunnableConfig", self.wait(written))

    def invoke(
        self, given: None, config: RunnableConfig, *, context: Any, durability: Any
    ) -> dict[str, Any]:
        """Let the server end a turn, and return the state."""
        thread = str(config["configurable"]["thread_id"])
        assistant = str(self._metadata.get("assistant_id") or self._metadata.get("graph_id", ""))
        ended = self.client.runs.wait(
            thread, assistant, input=given, context=context, durability=durability
        )
        return cast("dict[str, Any]", self.wait(ended))

    def wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Run a call on the server's event loop, and return what it answers."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


class _ServerCheckpoints(BaseCheckpointSaver[str]):
    """The checkpoints of a server: it lets them be deleted, and shows states alone."""

    def __init__(self, served: _Served) -> None:
        """Take the agent that reaches the server."""
        super().__init__()
        self._served = served

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return None: a server shows states, and no checkpoints."""
        del config
        return None

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its checkpoints and its runs, which hold what was said as well."""
        self._served.wait(self._served.client.threads.delete(thread_id))


def routes(make: Make) -> list[Route]:
    """Return the routes of the commands for an agent, for an application's own `http.app`."""
    thread = "/ebbtide/threads/{thread_id}"
    answers: dict[tuple[str, str], Callable[[_Asked], Any]] = {
        ("GET", f"{thread}/context"): _context,
        ("GET", f"{thread}/messages"): lambda it: it.run(look.messages, it.number("page", 1)),
        ("GET", f"{thread}/transcript"): lambda it: messages_to_dict(
            it.run(look.transcript, before=it.number("before"))
        ),
        ("GET", f"{thread}/efforts"): lambda it: it.run(look.efforts),
        ("GET", f"{thread}/search"): lambda it: it.run(look.search, it.query("query")),
        ("GET", f"{thread}/stats"): lambda it: it.run(look.stats),
        ("POST", f"{thread}/undo"): _undo,
        ("POST", f"{thread}/restore"): _restore,
        ("POST", f"{thread}/window"): _window,
        ("POST", f"{thread}/anchor"): lambda it: it.run(
            change.rebuild_anchor, model=it.query("model") == "true", context=it.context
        ),
        ("POST", f"{thread}/efforts/{{verb}}"): _by_hand,
        ("DELETE", f"{thread}/turns/{{turn}}"): lambda it: it.run(erase, it.number("turn")),
        ("DELETE", thread): lambda it: it.run(delete_session),
        ("DELETE", "/ebbtide/user"): _delete_user,
        ("GET", "/ebbtide/attention"): lambda it: it.run(on_attention.attention),
        ("GET", "/ebbtide/attention/{verb}"): _memory,
        ("POST", "/ebbtide/attention/{verb}"): _memory,
    }
    return [_route(method, path, make, run) for (method, path), run in answers.items()]


def _route(method: str, path: str, make: Make, command: Callable[[_Asked], Any]) -> Route:
    """Return the route of a command, which runs on a thread; its errors are answers."""

    async def respond(request: Request) -> Response:
        headers = {k: v for k, v in request.headers.items() if k not in _OF_THE_BODY}
        transport = httpx.ASGITransport(app=request.app)
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://server", headers=headers
            ) as http:
                asked = await _asked(request, make, LangGraphClient(http))
                answer = await asyncio.to_thread(command, asked)
                return JSONResponse(to_jsonable_python(answer))
        except APIStatusError as error:
            return _refused(error, error.status_code)
        except EbbtideError as error:
            return _refused(error, next((n for kind, n in _STATUS if isinstance(error, kind)), 500))

    return Route(path, respond, methods=[method])


def _refused(error: Exception, status: int) -> Response:
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status)


async def _asked(request: Request, make: Make, client: LangGraphClient) -> _Asked:
    """Return what is asked for; raises `TurnRunningError` for a change while a run is going on."""
    if "user" not in request.scope:
        raise SettingsError(
            "the server does not say who asks: set http.enable_custom_route_auth to true in "
            "langgraph.json"
        )
    chosen: dict[str, Any] = {}
    if request.user.is_authenticated:
        chosen["langgraph_auth_user"] = request.user
    elif named := request.query_params.get("user_id"):
        chosen["user_id"] = named
    metadata: Mapping[str, Any] = {}
    context: Mapping[str, Any] = {}
    if "thread_id" in request.path_params:
        chosen["thread_id"] = request.path_params["thread_id"]
        thread = await client.threads.get(chosen["thread_id"])
        metadata = thread["metadata"] or {}
        if request.method != "GET" and thread["status"] == "busy":
            raise TurnRunningError(chosen["thread_id"], _turn_in(thread["values"]))
        if "assistant_id" in metadata:
            assistant = await client.assistants.get(metadata["assistant_id"])
            context = dict(cast("Mapping[str, Any]", assistant.get("context") or {}))
    config: RunnableConfig = {"configurable": chosen}
    served = _Served(await make(config), client, metadata)
    return _Asked(request, cast("Agent", served), config, context)


def _turn_in(values: Any) -> int:
    """Return the last turn that values of a thread have, whatever else a client wrote into them."""
    memory = values.get("memory") if isinstance(values, Mapping) else None
    turn = memory.get("turn") if isinstance(memory, Mapping) else None
    return turn if isinstance(turn, int) else 0


def _context(asked: _Asked) -> dict[str, Any]:
    """Answer with the next context, if the user said `message` if there is one."""
    message = asked.request.query_params.get("message")
    shown = asked.run(look.show_context, message, context=asked.context)
    return {
        "turn": shown.turn,
        "unfinished": shown.unfinished,
        "total": shown.total,
        "parts": [{"name": p.name, "turn": p.turn, "tokens": p.tokens} for p in shown.parts],
        "messages": messages_to_dict(shown.messages),
        "tools": shown.tools,
    }


def _delete_user(asked: _Asked) -> Any:
    """Delete all of the user who asks; who is named by nobody is not known."""
    chosen = asked.config["configurable"]
    if not chosen:
        raise SettingsError("no user is named: pass user_id")
    return delete_user(asked.agent, user_of(Settings(), chosen))


def _undo(asked: _Asked) -> dict[str, Any]:
    """Undo the last turn; it must be finished, since the server shows only part of another."""
    asked.run(thread_at).at_rest()
    return {"turn": asked.run(change.undo)}


def _restore(asked: _Asked) -> dict[str, Any]:
    """Rebuild the thread from the archive, from a branch if one is named."""
    asked.run(change.restore, branch=asked.query("branch") or None)
    return {"turn": asked.run(thread_at).turn}


def _window(asked: _Asked) -> dict[str, Any]:
    """Set the ambient window of the thread; without a number it is that of the settings."""
    turns = asked.number("turns")
    asked.run(change.set_window, turns)
    return {"turns": turns}


def _by_hand(asked: _Asked) -> Any:
    """Run the tool that the path names, with what the query says of its arguments."""
    command, *names = asked.chosen(
        open=(change.open_effort, "effort", "goal"),
        close=(change.close_effort, "effort"),
        switch=(change.switch_effort, "effort"),
        reopen=(change.reopen_effort, "effort"),
        expand=(change.expand_effort, "effort", "turns"),
        collapse=(change.collapse_effort, "effort"),
    )
    user = asked.config["configurable"].get("user_id")
    context = {**asked.context, "user_id": user} if user else asked.context
    return asked.run(command, *map(asked.query, names), context=context)


def _memory(asked: _Asked) -> Any:
    """Explain a memory in attention, or change what is kept of it."""
    changes = (on_attention.suppress, on_attention.unsuppress, on_attention.forget)
    verbs = (on_attention.explain,) if asked.request.method == "GET" else changes
    command = asked.chosen(**{verb.__name__: verb for verb in verbs})
    return asked.run(command, asked.query("memory"))


app = Starlette(routes=routes(make_graph))
"""The commands for the agent of `studio`."""
