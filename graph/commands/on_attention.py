"""The commands on attention: list it, explain a memory, suppress or forget one."""

from langchain_core.runnables import RunnableConfig

from ...memory.attention.law import Explanation as Explanation  # noqa: PLC0414 (exported with the commands)
from ...memory.errors import CommandError
from ...memory.memories import UserMemories
from ...memory.turn import Session
from ...nodes.turn.session import user_of
from .registry import Action, command
from .threads import Agent, place_of


@command(path="attention", slash="/attention")
def attention(agent: Agent, config: RunnableConfig) -> tuple[Explanation, ...]:
    """List the memories in the user's attention, strongest first, then the suppressed ones.

    Like all commands on attention, raises `CommandError` if `config` names no user, and
    `AttentionError` if attention cannot be reached.
    """
    return _of(agent, config).in_attention()


@command(path="attention/explain", slash="/attention explain MEMORY")
def explain(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Explain why a memory is in attention or not, and when it will fade.

    Raises `CommandError` if the user has no such memory.
    """
    return _of(agent, config).explain(memory_id)


@command(
    changes=True,
    path="attention/suppress",
    slash="/attention suppress MEMORY",
    states=("attended",),
    action=Action("memory", "Suppress"),
)
def suppress(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Take a memory out of attention until it is unsuppressed.

    Search still finds it. Raises `CommandError` if the user has no such memory.
    """
    return _of(agent, config).suppress(memory_id)


@command(
    changes=True,
    path="attention/unsuppress",
    slash="/attention unsuppress MEMORY",
    states=("suppressed",),
    action=Action("memory", "Unsuppress"),
)
def unsuppress(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Let a suppressed memory enter attention again.

    Raises `CommandError` if the user has no such memory.
    """
    return _of(agent, config).unsuppress(memory_id)


@command(
    changes=True,
    path="attention/forget",
    slash="/attention forget MEMORY",
    action=Action(
        "memory",
        "Forget …",
        "Forget {memory}? It leaves the attention of this user for good; its session stays.",
    ),
)
def forget(agent: Agent, config: RunnableConfig, memory_id: str) -> Explanation:
    """Delete a memory, but not what its session said.

    The turns of its session stay, and search still finds them. This also works for a memory whose
    session was deleted. Raises `CommandError` if the user has no such memory.
    """
    return _of(agent, config).delete(memory_id)


def nobody() -> CommandError:
    """Return the error for a command on attention without a user."""
    return CommandError(
        "the run has no user, so it has no memory across sessions: pass a user_id (in the terminal "
        "`--user NAME`)"
    )


def _of(agent: Agent, config: RunnableConfig) -> UserMemories:
    parts = place_of(agent).parts
    session = Session(user_of(parts.settings, config.get("configurable", {})), "")
    stored = parts.attention_of(session, parts.settings)
    if stored is None:
        raise nobody()
    return UserMemories(parts.archive, session.user, stored)
