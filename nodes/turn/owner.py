"""Whose a thread is: the user and session of a run, and what tells them of a state."""

from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import Runtime

from ...memory.archive.protocol import Archive
from ...memory.messages import clean
from ...memory.record import ANONYMOUS, Owner
from ...memory.settings import Settings, user_named
from .state import TurnState
from .updates import tip_of

_NONCE = 16
"""Hexadecimal digits of a nonce that are random: 64 bits. As many tell its user from others."""


def owner_of(state: TurnState, runtime: Runtime[Settings], settings: Settings) -> Owner:
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
    return Owner(user, name, path)


def draw_nonce(archive: Archive, owner: Owner, random: str) -> str:
    """Return the nonce of a turn: random digits, and digits by which its user is told from others.

    Until its first turn is committed nothing else tells whose a thread is.
    """
    return random + archive.keyed_digest(f"{owner.user} {random}")[:_NONCE]


def is_own(state: TurnState, archive: Archive, owner: Owner) -> bool:
    """Tell whether the user has the last turn of a state, or began the first one, if it runs."""
    tip, nonce = tip_of(state), state.get("command") or state.get("nonce", "")
    if tip.id:
        return archive.at(owner, tip).tip() is not None
    return not nonce or nonce == draw_nonce(archive, owner, nonce[:_NONCE])


def is_anothers(state: TurnState, archive: Archive, owner: Owner) -> bool:
    """Tell whether a state is of another user of the archive: its last turn, or its first one."""
    if is_own(state, archive, owner):
        return False
    tip = tip_of(state)
    return archive.has_of_another(owner, tip) if tip.id else state.get("archive") == archive.id


def user_of(settings: Settings, configurable: Mapping[str, Any]) -> str:
    """Return the user authenticated by the server, else named by the run; raise `SettingsError`."""
    user = getattr(configurable.get("langgraph_auth_user"), "identity", settings.user_id)
    if user is None:
        user = configurable.get("user_id")
    return ANONYMOUS if user is None or user == "" else user_named(user)
