"""Commands that use the memory's tools by hand. They change efforts and are not turns."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from pydantic import Field

from ...memory.errors import CommandError
from ...memory.serialised import clean
from ...memory.settings import Settings
from ...nodes.command import commit_command, run_command
from ...nodes.turn.parts import AgentParts
from ...nodes.turn.state import TurnState, unpacked
from ...nodes.turn.updates import tip_of
from ..build import Node
from .registry import Action, command
from .threads import Agent, channels, newest_config, resting


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: the turn before it (or 0), the tool's result, the banners."""

    turn: int
    result: dict[str, Any]
    banners: tuple[str, ...]


def _run_by_hand(
    agent: Agent,
    config: RunnableConfig,
    verb: str,
    arguments: Mapping[str, Any],
    context: object,
) -> CommandResult:
    """Run the memory tool of a command such as `/open auth-bug: its goal`.

    The tool runs on a copy of the state: if it fails, nothing is changed. Then the new state is
    written with the events, and these are committed; after a crash in between, the next run or
    command commits them. Raises `CommandError` if the tool fails, `TurnRunningError` if a turn is
    not finished.
    """
    for name, value in arguments.items():
        if not isinstance(value, str | None):
            raise CommandError(f"{name} must be a text, got {value!r}")
    thread = resting(agent, config, context)
    if verb == "close":
        thread.checked("summary")
    call = {"name": f"{verb}_effort", "args": clean(arguments), "id": f"call_{uuid4().hex}"}

    def by_hand(
        state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
    ) -> dict[str, Any]:
        return run_command(state, runtime, parts, call)

    done = thread.rehearse(thread.values, command=Node(thread.parts, by_hand))
    result: dict[str, Any] = json.loads(done["messages"][-1].text)
    if "error" in result:
        raise CommandError(result["error"])
    waiting, place = channels(done), thread.place
    if place.has_memory:
        place.write(thread.config, dict(waiting))
    commit = Node(thread.parts, commit_command)
    ended = thread.rehearse({**thread.values, **waiting}, commit_command=commit)
    if place.has_memory:
        place.write(newest_config(thread.config), channels(ended))
    else:  # the next run finds the command by the messages before it, or else by this note
        tip, archive = tip_of(unpacked(ended)), thread.parts.archive
        if not tip.turn or archive.load(thread.session).reseed is not None:
            archive.reseed(thread.session, tip)
        place.write(thread.config, {})
    memory = ended["memory"]
    return CommandResult(memory["turn"], result, tuple(memory["banners"]))


@command(
    changes=True,
    slash="/open NAME[: GOAL]",
    words="([^:]*):?(.*)",
)
def open_effort(
    agent: Agent,
    config: RunnableConfig,
    name: Annotated[str, Field(alias="effort")],
    goal: str = "",
    *,
    context: object = None,
) -> CommandResult:
    """Open an effort and make it active."""
    return _run_by_hand(agent, config, "open", {"name": name, "goal": goal}, context)


@command(
    changes=True,
    states=("open",),
    action=Action(
        "effort",
        "Conclude it …",
        "Conclude {effort}? The model summarises it, and the summary takes the place of its turns.",
    ),
)
def close_effort(
    agent: Agent, config: RunnableConfig, effort_id: str | None = None, *, context: object = None
) -> CommandResult:
    """Conclude an effort, by default the active one. A model writes its summary."""
    arguments = {"effort_id": effort_id} if effort_id else {}
    return _run_by_hand(agent, config, "close", arguments, context)


@command(changes=True, states=("open",))
def switch_effort(
    agent: Agent, config: RunnableConfig, effort_id: str = "", *, context: object = None
) -> CommandResult:
    """Make another open effort active; without a name, make none active."""
    return _run_by_hand(agent, config, "switch", {"effort_id": effort_id}, context)


@command(changes=True, states=("concluded", "evicted"))
def reopen_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Go on with a concluded effort: it is open and active again."""
    return _run_by_hand(agent, config, "reopen", {"effort_id": effort_id}, context)


@command(
    changes=True,
    slash="/expand EFFORT [TURNS]",
    words=r"(.*?)(?:\s+([0-9][0-9,\s–-]*))?",
    states=("concluded", "evicted"),
    action=Action("effort", "Expand its log"),
)
def expand_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, turns: str = "", *, context: object = None
) -> CommandResult:
    """Show the model the messages of a concluded effort, or of its turns such as "3-5,8"."""
    return _run_by_hand(agent, config, "expand", {"effort_id": effort_id, "turns": turns}, context)


@command(changes=True, states=("expanded",))
def collapse_effort(
    agent: Agent, config: RunnableConfig, effort_id: str, *, context: object = None
) -> CommandResult:
    """Show the model only the summary of an expanded effort again."""
    return _run_by_hand(agent, config, "collapse", {"effort_id": effort_id}, context)
