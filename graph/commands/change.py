"""The commands that change a thread: window, undo, restore, rebuild the anchor."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from ...memory.anchor import ANCHOR_TOKENS, limited, newest
from ...memory.context.timeline import Part
from ...memory.errors import (
    CommandError,
    SessionNotFoundError,
    SettingsError,
    StateError,
    TipNotFoundError,
)
from ...memory.messages import fenced
from ...memory.questions import Question
from ...memory.record import Record
from ...memory.settings import settings
from ...memory.tokens import TokenCounter, fit_end
from ...memory.tools.summary import call_overhead, readable
from ...memory.transcript import transcript
from ...nodes.llm.calls import ask
from ...nodes.turn.arrivals import at_rest, told_apart
from ...nodes.turn.recovery import state_at
from ...nodes.turn.settling import settle
from ...nodes.turn.state import TurnState
from ...nodes.turn.values import sealed
from ...prompts.loader import render
from .look import rehearsed, resting, thread_at
from .threads import (
    Agent,
    Thread,
    handed_over,
    named,
    newest_config,
    on_a_thread,
    owner_in,
    parts_of,
    seed,
    tip_named,
    write,
)


def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive; return its new config.

    `config` names the thread, and the user if there is one; `branch` names another branch. `agent`
    may be the graph around it, whose own keys of the state stay as they are. Raises
    `SessionNotFoundError` if the archive holds no such session, `SettingsError` if the graph is not
    one of Ebbtide's, or if there is no such branch.
    """
    parts = parts_of(agent)
    try:
        owner = owner_in(agent, config)
    except (StateError, TipNotFoundError):  # what restoring mends
        owner = named(agent, config)
    tip = parts.archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    if branch is not None:
        tip = tip_named(parts.archive, owner, branch)
    state = state_at(parts.archive, owner, tip, parts.settings.messages_window + 1)
    asked = newest_config(config)
    written = seed(agent, asked, sealed(state, {}, parts.archive))
    return {**written, "configurable": {**asked["configurable"], **written["configurable"]}}


arestore = on_a_thread(restore)


def _visible(parts: Sequence[Part]) -> list[int]:
    """Return the turns that stand in a context as real messages, ascending.

    >>> _visible([Part("turns", (), 0, turn) for turn in (1, 1, 2)])
    [1, 2]
    """
    turns = {part.turn for part in parts if part.name == "turns"}
    return sorted(turn for turn in turns if turn is not None)


def _newest_block(records: Sequence[Record]) -> dict[str, str] | None:
    """Return the newest complete state block that the model said in these turns, else None."""
    said = (m for one in reversed(records) for m in reversed(one.messages) if m["type"] == "ai")
    found = (newest(message["data"].get("content", "")) for message in said)
    return next((fields for fields in found if fields), None)


def _quoted(records: Sequence[Record], limit: int, count: TokenCounter) -> str:
    """Return these turns as a quote of at most `limit` tokens, its fences aside; the end stays."""
    log = transcript(records)
    return fenced("conversation", log[fit_end(log, limit, count) :])


def _keeping(agent: Agent) -> None:
    """Raise `SettingsError` if the graph around an agent keeps nothing of the memory."""
    if not handed_over(agent):
        raise SettingsError(
            "the graph around the agent keeps messages alone: mix MemoryState into its state, with "
            "an agent of create_memory_agent in it"
        )


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread keeps in its context; 0 is all, None the settings'.

    It wins over settings of the agent and of runs. It is kept in the state and nowhere else: it
    goes back with time travel, and a thread that is rebuilt from the archive begins without it.
    Raises `SettingsError` if it is out of range, `TurnRunningError` if a turn is not finished.
    """
    window = None if turns is None else settings(ambient_window=turns).ambient_window
    _keeping(agent)
    thread = resting(agent, config)
    write(agent, config, thread.changed(window=window))


aset_window = on_a_thread(set_window)


def undo(agent: Agent, config: RunnableConfig) -> int:
    """Make the state before the last turn the newest of the thread; return its turn, 0 for none.

    The turn stays where it is, in the archive and in the checkpoints; what is said next begins a
    branch beside it. A turn that is not finished is archived as aborted and left behind. Raises
    `CommandError` if there is no turn, or no older checkpoint to go back to.
    """
    thread, older = thread_at(agent, config), agent.get_state(config)
    if not thread.turn:
        raise CommandError("there is no turn to undo")
    while not _precedes(older, before := _before(agent, config, older), thread):
        older = _older(agent, older, thread)
    _keep(thread)
    write(agent, older.config, {})
    return before.state.get("turn", 0)


aundo = on_a_thread(undo)


def _before(agent: Agent, config: RunnableConfig, older: StateSnapshot) -> Thread:
    """Return the thread as an older checkpoint has it."""
    place = {**config.get("configurable", {}), **older.config["configurable"]}
    return thread_at(agent, {**config, "configurable": place})


def _precedes(older: StateSnapshot, before: Thread, thread: Thread) -> bool:
    """Tell whether a checkpoint is from before the last turn: at rest, or the thread's first."""
    if older.next or before.unfinished:
        return older.parent_config is None and not older.values.get("messages")
    return before.turn < thread.turn


def _older(agent: Agent, newer: StateSnapshot, thread: Thread) -> StateSnapshot:
    """Return the checkpoint before another; one that was deleted is named there, but empty."""
    found = agent.get_state(newer.parent_config) if newer.parent_config else None
    if found is None or found.created_at is None:
        raise CommandError(
            f"turn {thread.turn} cannot be undone: the thread has no checkpoint from before it, "
            "since it was rebuilt from the archive, something was erased, or none was kept"
        )
    return found


def _keep(thread: Thread) -> None:
    """Archive what there is of an unfinished turn, so that none of its messages is lost."""
    if at_rest(thread.state):
        return
    state, archive = thread.state, thread.parts.archive
    found = told_apart(state)
    settled = settle(state, thread.owner, found, archive)
    if found.new:
        begun = cast("TurnState", {**state, **settled, "turn": settled["persisted"] + 1})
        settle(begun, thread.owner, replace(found, last=None, left=found.new, new=[]), archive)


Source: TypeAlias = Literal["block", "model", "none"]

_log = logging.getLogger("ebbtide.anchor")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The anchor as it is now, and where it is from: "none" if nothing gave one, the old stays."""

    anchor: Mapping[str, str]
    source: Source


def rebuild_anchor(
    agent: Agent, config: RunnableConfig, *, model: bool = False, context: object = None
) -> Rebuilt:
    """Set the anchor to the newest complete block in the turns that the context shows.

    With `model` the model is asked for one first, about these turns; if it fails or answers
    without a block, the newest block is taken. The anchor is kept in the state and goes back with
    time travel; a thread that is rebuilt from the archive has the last one that a turn wrote.
    Raises `CommandError` if anchors are off, `TurnRunningError` if a turn is not finished.
    """
    _keeping(agent)
    thread = resting(agent, config, context)
    if thread.settings.anchor == "off":
        raise CommandError("anchors are off (setting anchor), so there is none to rebuild")
    records = thread.view.turns(_visible(rehearsed(thread, config, None, context).parts))
    answer = ""
    if model and records:
        try:
            answer = ask(thread.parts.model, _question(thread, records))
        except Exception as error:  # noqa: BLE001 (any provider's: the old anchor must stay)
            _log.warning("the model gave no anchor: %s", error)
    update, rebuilt = _rebuilt(thread, records, answer)
    if update:
        write(agent, config, update)
    return rebuilt


arebuild_anchor = on_a_thread(rebuild_anchor)


def _question(thread: Thread, records: tuple[Record, ...]) -> Question:
    settings, count = thread.settings, thread.parts.count
    told = render("rebuild_anchor", limit=ANCHOR_TOKENS)
    log = _quoted(
        records, readable(settings, call_overhead(told, _quoted((), 0, count), count)), count
    )
    return Question("anchor", told, log)


def _rebuilt(
    thread: Thread, records: tuple[Record, ...], answer: str
) -> tuple[dict[str, Any], Rebuilt]:
    """Return the update of the state, empty if nothing gave an anchor, and what to say of it."""
    said = newest(answer)
    fields = said or _newest_block(records)
    if fields is None:
        return {}, Rebuilt(thread.state.get("anchor", {}), "none")
    anchor = limited(fields, ANCHOR_TOKENS, thread.parts.count)
    return thread.changed(anchor=anchor, view=None), Rebuilt(anchor, "model" if said else "block")
