"""The user and the session of a run."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import Runtime

from ...memory.serialised import clean
from ...memory.settings import Settings, user_named
from ...memory.turn import ANONYMOUS, Session
from .state import TurnState

_NONCE = 16
"""Hexadecimal digits of a nonce in the name of a run without a thread."""

_session = lru_cache(maxsize=256)(Session)  # each node asks for it, and its ids are checked once


def session_of(state: TurnState, runtime: Runtime[Settings], settings: Settings) -> Session:
    """Return the session of the run: its user, its thread, and the path of the agent in a graph.

    A run without a thread is a session of its own, named by the nonce of its turn.
    """
    server = runtime.server_info
    if server is not None and server.user is not None:
        configurable = {"langgraph_auth_user": server.user}
    else:
        configurable = get_config().get("configurable", {}) if settings.user_id is None else {}
    info = runtime.execution_info
    thread = info.thread_id if info else None
    namespace = info.checkpoint_ns.split("|")[:-1] if info else []
    path = "|".join([part.split(":")[0] for part in namespace]) if namespace else ""
    user = user_of(settings, configurable)
    name = f"run-{state.get('nonce', '')[:_NONCE]}" if thread is None else str(thread)
    name = name if name.isascii() else clean(name)
    return _session(user, name, path)


def user_of(settings: Settings, configurable: Mapping[str, Any]) -> str:
    """Return the user authenticated by the server, else named by the run; raise `SettingsError`."""
    user = getattr(configurable.get("langgraph_auth_user"), "identity", settings.user_id)
    if user is None:
        user = configurable.get("user_id")
    return ANONYMOUS if user is None or user == "" else user_named(user)
