"""The commands that change a thread: window, undo, restore, rebuild the anchor."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from langchain_core.runnables import RunnableConfig

from ...memory.anchor import ANCHOR_TOKENS, limited, newest
from ...memory.errors import (
    CommandError,
    SessionNotFoundError,
    SettingsError,
    StateError,
    TipNotFoundError,
)
from ...memory.messages import fenced
from ...memory.questions import Question
from ...memory.record import Record, Tip
from ...memory.settings import Settings, resolve
from ...memory.tokens import fit_end
from ...memory.tools.summary import call_overhead, readable
from ...memory.transcript import transcript
from ...nodes.llm.calls import ask
from ...nodes.turn.arrivals import at_rest, told_apart
from ...nodes.turn.recovery import state_at
from ...nodes.turn.settling import settle
from ...nodes.turn.state import TurnState
from ...nodes.turn.values import sealed, tip_of
from ...prompts.loader import render
from .look import next_context
from .threads import (
    Agent,
    Thread,
    newest_config,
    on_a_thread,
    place_of,
    resting,
    thread_at,
    tip_named,
)

_log = logging.getLogger("ebbtide.anchor")


def restore(agent: Agent, config: RunnableConfig, *, branch: str | None = None) -> RunnableConfig:
    """Rebuild a thread's state from the newest branch of its archive, or the one that is named.

    Returns its new config. A turn that was cut short behind the newest one is archived first. Other
    keys of a graph around the agent stay as they are. Raises `SessionNotFoundError` if the archive
    holds no such session, `SettingsError` if there is no such branch, or no agent of Ebbtide's.
    """
    place, asked = place_of(agent), newest_config(config)
    parts, archive = place.parts, place.parts.archive
    try:
        owner = place.owner(config)
        thread = thread_at(agent, asked)
        # Elsewhere it would become the newest branch, in the place of what is to be restored.
        if thread.unfinished and tip_of(thread.state) == (archive.newest(thread.owner) or Tip()):
            _keep(thread)
    except (StateError, TipNotFoundError):  # what restoring mends
        owner = place.named(config)
    tip = archive.newest(owner)
    if tip is None:
        raise SessionNotFoundError(owner.thread)
    if branch is not None:
        tip = tip_named(archive, owner, branch)
    state = state_at(archive, owner, tip, parts.settings.messages_window + 1)
    written = place.seed(asked, sealed(state, {}, archive))
    return {**written, "configurable": {**asked["configurable"], **written["configurable"]}}


def _changeable(agent: Agent, config: RunnableConfig, context: object = None) -> Thread:
    """Return a thread at rest; raises `SettingsError` if nothing of its memory is kept."""
    if not place_of(agent).has_memory:
        raise SettingsError(
            "the graph around the agent keeps messages alone: mix MemoryState into its state, with "
            "an agent of create_memory_agent in it"
        )
    return resting(agent, config, context)


def set_window(agent: Agent, config: RunnableConfig, turns: int | None) -> None:
    """Set how many ambient turns this thread keeps in its context; 0 is all, None the settings'.

    It wins over settings of the agent and of runs, and is kept in the state alone: it goes back
    with time travel, and is lost where a thread is rebuilt from the archive. Raises `SettingsError`
    if it is out of range, `TurnRunningError` if a turn is not finished.
    """
    window = (
        None if turns is None else resolve({"ambient_window": turns}, Settings()).ambient_window
    )
    _changeable(agent, config).change(window=window)


def undo(agent: Agent, config: RunnableConfig) -> int:
    """Make the state before the last turn the newest of the thread; return its turn, 0 for none.

    The turn stays where it is, in the archive and in the checkpoints; what is said next begins a
    branch beside it. A turn that is not finished is archived as aborted and left behind. Raises
    `CommandError` if there is no turn, or no older checkpoint to go back to.
    """
    thread, older = thread_at(agent, config), agent.get_state(config)
    if not thread.turn:
        raise CommandError("there is no turn to undo")
    while True:
        place = {**config.get("configurable", {}), **older.config["configurable"]}
        before = thread_at(agent, {**config, "configurable": place})
        if older.next or before.unfinished:  # the thread's first state is before any turn
            precedes = older.parent_config is None and not older.values.get("messages")
        else:
            precedes = before.turn < thread.turn
        if precedes:
            break
        newer = older.parent_config
        # A checkpoint that was deleted is named by the one after it, but empty.
        if not newer or (older := agent.get_state(newer)).created_at is None:
            raise CommandError(
                f"turn {thread.turn} cannot be undone: the thread has no checkpoint from before "
                "it, since it was rebuilt from the archive, something was erased, or none was kept"
            )
    _keep(thread)
    thread.place.write(older.config, {})
    return before.state.get("turn", 0)


def _keep(thread: Thread) -> None:
    """Archive what there is of an unfinished turn, so that none of its messages is lost."""
    if at_rest(thread.state):
        return
    state, archive = thread.state, thread.parts.archive
    arrived = told_apart(state)
    settled = settle(state, thread.owner, arrived, archive)
    if arrived.new:
        begun = cast("TurnState", {**state, **settled, "turn": settled["persisted"] + 1})
        unanswered = replace(arrived, last=None, left=arrived.new, new=[])
        settle(begun, thread.owner, unanswered, archive)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The anchor as it is now, and where it is from: "none" if nothing gave one, the old stays."""

    anchor: Mapping[str, str]
    source: Literal["block", "model", "none"]


def rebuild_anchor(
    agent: Agent, config: RunnableConfig, *, model: bool = False, context: object = None
) -> Rebuilt:
    """Set the anchor to the newest complete block in the turns that the context shows.

    With `model` the model is asked for one first; if it fails or answers without a block, the
    newest block is taken. It goes back with time travel; a thread that is rebuilt from the archive
    has the last one that a turn wrote. Raises `CommandError` if anchors are off, `TurnRunningError`
    if a turn is not finished.
    """
    thread = _changeable(agent, config, context)
    if thread.settings.anchor == "off":
        raise CommandError("anchors are off (setting anchor), so there is none to rebuild")
    shown = next_context(thread).parts
    turns = {part.turn for part in shown if part.name == "turns" and part.turn is not None}
    records = thread.view.turns(sorted(turns))
    answer = ""
    if model and records:
        try:
            answer = ask(thread.parts.model, _question(thread, records))
        except Exception as error:  # noqa: BLE001 (any provider's: the old anchor must stay)
            _log.warning("the model gave no anchor: %s", error)
    written = newest(answer)
    answers = (
        m for turn in reversed(records) for m in reversed(turn.messages) if m["type"] == "ai"
    )
    blocks = (newest(message["data"].get("content", "")) for message in answers)
    fields = written or next(filter(None, blocks), None)
    if fields is None:
        return Rebuilt(thread.state.get("anchor", {}), "none")
    anchor = limited(fields, ANCHOR_TOKENS, thread.parts.count)
    thread.change(anchor=anchor, view=None)
    return Rebuilt(anchor, "model" if written else "block")


def _question(thread: Thread, records: Sequence[Record]) -> Question:
    """Return what asks for an anchor of these turns; of a log that is too long the end stays."""
    count, instructions = thread.parts.count, render("rebuild_anchor", limit=ANCHOR_TOKENS)
    overhead = call_overhead(instructions, fenced("conversation", ""), count)
    log = transcript(records)
    log = log[fit_end(log, readable(thread.settings, overhead), count) :]
    return Question("anchor", instructions, fenced("conversation", log))


arestore = on_a_thread(restore)
aset_window = on_a_thread(set_window)
aundo = on_a_thread(undo)
arebuild_anchor = on_a_thread(rebuild_anchor)
